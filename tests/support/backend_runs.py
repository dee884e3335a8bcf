"""What a backend computes, in small: values and all gradients, on any device."""

import copy

import torch
from torch.nn import functional

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import PAD
from exadec.model.adaptive import RecurrentCell
from exadec.model.backends import softmax
from exadec.model.backends.reference import REFERENCE, Backend
from support.small_models import batch_for, build_small_model


def whole_model(backend: Backend, variant: str, device: str, **shape: object) -> list[torch.Tensor]:
    """log p of all targets and all gradients of a small model, in what precision the backend has."""
    sizes = {"hidden": 16, "embedding": 16, "exemplar_hidden": 8}
    model = build_small_model(**{**sizes, **VARIANTS[variant], **shape}).train()
    if backend is not REFERENCE or device != "cpu":
        model = copy.deepcopy(model).to(device, torch.float32)
    model.backend = backend
    batch = batch_for(model.config, 9).to(torch.device(device))
    words = batch.target_output != PAD
    with torch.autocast(device, torch.bfloat16, enabled=backend.name == "hopper"):
        log_probs = model(batch)[words]
    log_probs.sum().backward()
    gradients = [part for module in model.modules() for part in _gradients(module)]
    return [tensor.detach().cpu().double() for tensor in (log_probs, *gradients)]


def _gradients(module: torch.nn.Module) -> list[torch.Tensor]:
    """Of a module's own parameters. A single number comes with all of them: as a sum of large terms it may be so close
    to zero that its relative error says nothing."""
    found = [parameter.grad for parameter in module.parameters(recurse=False) if parameter.grad is not None]
    if any(gradient.numel() == 1 for gradient in found):
        return [torch.cat([gradient.flatten() for gradient in found])]
    return found


def largest_error(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The relative error of the worst tensor. NaN is refused first: `max` may pass over it."""
    assert all(tensor.isfinite().all() for tensor in (*found, *exact))
    return max(float((a - b).norm() / b.norm().clamp_min(1e-9)) for a, b in zip(found, exact, strict=True))


def losses(
    device: str, dtype: torch.dtype, rows: softmax.Rows | None, sizes: tuple[int, int, int, int] = (3, 5, 7, 50)
) -> list[torch.Tensor]:
    """Values and all gradients, in chunks of four rows, or by the plain softmax; then in float64."""
    torch.manual_seed(0)
    batch, steps, inputs, words = sizes
    leaf_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    leaves = [
        (factor * torch.randn(shape)).to(device, leaf_dtype).requires_grad_()
        for factor, shape in ((1, (batch, steps, inputs)), (0.5, (words, inputs)), (1, (words,)))
    ]
    targets = torch.randint(words, (batch, steps)).to(device)
    scale = torch.randn(batch, steps).to(device, leaf_dtype)
    x, weight, bias = leaves
    with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
        if rows is not None:
            found = softmax._LogProbability.apply(x.flatten(0, 1), weight, bias, targets.flatten(), dtype, 4, rows)
            found = found.view(batch, steps)
        else:
            logits = functional.linear(x, weight, bias)
            found = torch.log_softmax(logits, dim=2).gather(2, targets[:, :, None]).squeeze(2)
    (found * scale).sum().backward()
    return [found.detach().cpu().double()] + [leaf.grad.cpu().double() for leaf in leaves]


GROUPS = [1, 4]
"""One λ for all gates, or one for each."""


def run(
    cell: RecurrentCell, values: list[torch.Tensor], wanted: torch.Tensor, dtype: torch.dtype, backend: Backend
) -> list[torch.Tensor]:
    """Hidden states and all gradients, in float64 on the CPU; products are done in `dtype`."""
    device = cell.B.device
    x, h, c, lam = leaves = [value.to(device, cell.B.dtype).requires_grad_() for value in values]
    cell.zero_grad()
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden = backend.unroll(cell, x, lam)((h, c))
    (hidden.to(cell.B.dtype) * wanted.to(device, cell.B.dtype)).sum().backward()
    return [hidden.detach().cpu().double()] + [leaf.grad.cpu().double() for leaf in (*leaves, *cell.parameters())]


def lstm_errors(
    groups: int, rank: int, device: str, dtype: torch.dtype, sizes: tuple[int, int, int]
) -> tuple[float, float]:
    """Largest relative errors of the kernels and of single steps, against single steps in float64."""
    from exadec.model.backends.triton import TritonBackend

    batch, steps, hidden = sizes
    torch.manual_seed(0)
    reference = RecurrentCell("lstm", hidden, hidden, "factored", rank).double()
    with torch.no_grad():
        reference.B.normal_(std=0.1)
    values = [torch.randn(batch, steps, hidden), torch.randn(batch, hidden), torch.randn(batch, hidden)]
    values.append(torch.randn(batch, groups, rank))
    wanted = torch.randn(batch, steps, hidden)
    cell = RecurrentCell("lstm", hidden, hidden, "factored", rank).to(device)
    cell.load_state_dict(reference.state_dict())
    exact = run(reference, values, wanted, torch.float64, REFERENCE)
    errors = []
    for backend in (TritonBackend(torch.device(device)), REFERENCE):
        found = run(cell, values, wanted, dtype, backend)
        errors.append(largest_error(found, exact))
    return errors[0], errors[1]


def plain_errors(device: str, sizes: tuple[int, int, int]) -> float:
    """Largest relative error of two LSTMs side by side in bfloat16, against torch's in float64; each worst tensor."""
    from exadec.model.backends.triton import TritonBackend

    torch.manual_seed(0)
    batch, steps, hidden = sizes
    inputs = hidden + 3
    x, wanted = torch.randn(2, batch, steps, inputs), torch.randn(2, batch, steps, hidden)
    h, c = torch.randn(2, 2, batch, hidden)
    modules = [torch.nn.LSTM(inputs, hidden, batch_first=True) for _ in range(2)]
    results = []
    for backend, place, dtype in (
        (REFERENCE, "cpu", torch.float64),
        (TritonBackend(torch.device(device)), device, torch.float32),
    ):
        leaves = [value.to(place, dtype).requires_grad_() for value in (x, h, c)]
        weights = [[w.detach().to(place, dtype).requires_grad_() for w in module.parameters()] for module in modules]
        first = list(zip(leaves[1], leaves[2], strict=True))
        with torch.autocast(place, torch.bfloat16, enabled=backend is not REFERENCE):
            states = torch.stack(list(backend.lstms(list(leaves[0]), first, weights)))
        assert (states.dtype == torch.bfloat16) == (backend is not REFERENCE)
        gradients = torch.autograd.grad(
            (states.to(dtype) * wanted.to(place, dtype)).sum(), [*leaves, *weights[0], *weights[1]]
        )
        results.append([tensor.detach().cpu().double() for tensor in (states, *gradients)])
    return largest_error(results[1], results[0])


def mixture_and_gradients(backend: Backend = REFERENCE, device: str = "cpu", cased: bool = False) -> list[torch.Tensor]:
    """log p of targets of which some can only be copied, some only generated, and some neither; and gradients.

    If `cased`, copied words may change their case, and every third word has one case only.
    """
    torch.manual_seed(0)
    batch, steps, places, size = 3, 5, 11, 8
    ids = torch.randint(size + 4, (batch, places)).to(device)
    targets = torch.randint(size + 4, (batch, steps)).to(device)
    targets[:, 0] = size + 9
    leaves = [
        -torch.rand(batch, steps) * 5,
        torch.randn(batch, steps) * 3,
        torch.randn(batch, steps, places).softmax(2),
        torch.randn(batch, steps),
    ]
    leaves = [leaf.to(device).requires_grad_() for leaf in leaves[: 4 if cased else 3]]
    other_case = (torch.where(ids % 3 == 0, ids, ids ^ 1), leaves[3]) if cased else None
    mixed = backend.mix_targets(*leaves[:3], targets, ids, size, other_case)
    scale = torch.linspace(-1, 2, steps).to(device)
    found = [mixed, *torch.autograd.grad((mixed * scale).sum(), leaves)]
    return [tensor.detach().cpu() for tensor in found]


def attention_and_gradients(
    backend: Backend = REFERENCE, device: str = "cpu", dtype: torch.dtype = torch.float32, used: str = "both"
) -> list[torch.Tensor]:
    """Both kinds of weights over texts of different lengths, and the scores' gradient where one or both are used."""
    torch.manual_seed(0)
    scores = (4 * torch.randn(3, 5, 11)).to(device, dtype).requires_grad_()
    mask = torch.arange(11, device=device) < torch.tensor([11, 1, 6], device=device)[:, None]
    both = backend.attention(scores, mask)
    factors = torch.randn(2, 3, 5, 11).to(device)
    parts = [
        (weights.float() * factor).sum()
        for name, weights, factor in zip(("copied", "averaged"), both, factors, strict=True)
        if used in (name, "both")
    ]
    gradient = torch.autograd.grad(torch.stack(parts).sum(), scores)[0]
    return [tensor.detach().cpu().double() for tensor in (*both, gradient)]
