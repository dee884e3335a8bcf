"""log p of known targets in chunks against the plain softmax."""

import pytest
import torch
from torch.nn import functional

from exadec.corpus.vocabulary import PAD
from exadec.model.backends import softmax
from exadec.model.backends.reference import REFERENCE


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


def largest_difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def test_chunks_change_nothing() -> None:
    assert largest_difference(losses("cpu", torch.float64, softmax.Rows()), losses("cpu", torch.float64, None)) < 1e-12


def test_large_outputs_are_done_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 6, 4).double(), torch.randn(30, 4).double(), torch.randn(30).double()
    targets = torch.randint(1, 30, (2, 6))
    whole = REFERENCE.log_probability(x, weight, bias, targets)
    monkeypatch.setattr(softmax, "_BYTES", 800)
    calls = []
    score = softmax.Rows.score
    monkeypatch.setattr(softmax.Rows, "score", lambda self, *a: calls.append(len(a[0])) or score(self, *a))
    torch.testing.assert_close(REFERENCE.log_probability(x, weight, bias, targets), whole)
    assert calls == [3, 3, 3, 3]


def test_no_word_at_all_has_no_gradient() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    weight, bias = torch.randn(30, 4, requires_grad=True), torch.randn(30, requires_grad=True)
    found = REFERENCE.log_probability(x, weight, bias, torch.full((2, 3), PAD))
    gradients = torch.autograd.grad(found.sum(), [x, weight, bias])
    assert found.shape == (2, 3)
    assert all((gradient == 0).all() for gradient in gradients)


def test_kept_logits_are_computed_again_when_asked_twice() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 6, 4, requires_grad=True), torch.randn(30, 4), torch.randn(30)
    found = REFERENCE.log_probability(x, weight, bias, torch.randint(1, 30, (2, 6)))
    first, second = (torch.autograd.grad(found.sum(), x, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second)
