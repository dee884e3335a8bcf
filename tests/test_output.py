"""log p of known targets in chunks against the plain softmax."""

import pytest
import torch
from conftest import interpret_kernels
from torch.nn import functional

import exadec.model.output as output
from exadec.corpus.vocabulary import PAD


def losses(
    device: str, kind: torch.dtype, chunked: bool, sizes: tuple[int, int, int, int] = (3, 5, 7, 50)
) -> list[torch.Tensor]:
    """Values and all gradients in float64."""
    torch.manual_seed(0)
    batch, steps, inputs, words = sizes
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    leaves = [
        (factor * torch.randn(shape)).to(device, dtype).requires_grad_()
        for factor, shape in ((1, (batch, steps, inputs)), (0.5, (words, inputs)), (1, (words,)))
    ]
    targets = torch.randint(words, (batch, steps)).to(device)
    scale = torch.randn(batch, steps).to(device, dtype)
    x, weight, bias = leaves
    with torch.autocast(device, torch.bfloat16, enabled=kind == torch.bfloat16):
        if chunked:
            found = output._LogProbability.apply(x.flatten(0, 1), weight, bias, targets.flatten(), kind, 4)
            found = found.view(batch, steps)
        else:
            logits = functional.linear(x, weight, bias)
            found = torch.log_softmax(logits, dim=2).gather(2, targets[:, :, None]).squeeze(2)
    (found * scale).sum().backward()
    return [found.detach().cpu().double()] + [leaf.grad.cpu().double() for leaf in leaves]


def largest_difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def test_chunks_change_nothing() -> None:
    assert largest_difference(losses("cpu", torch.float64, True), losses("cpu", torch.float64, False)) < 1e-12


def test_large_outputs_are_done_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 6, 4).double(), torch.randn(30, 4).double(), torch.randn(30).double()
    targets = torch.randint(30, (2, 6))
    whole = output.log_probability(x, weight, bias, targets)
    monkeypatch.setattr(output, "_BYTES", 800)
    calls = []
    score = output._score
    monkeypatch.setattr(output, "_score", lambda *a: calls.append(len(a[0])) or score(*a))
    torch.testing.assert_close(output.log_probability(x, weight, bias, targets), whole)
    assert calls == [3, 3, 3, 3]


def test_no_word_at_all_has_no_gradient() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    weight, bias = torch.randn(30, 4, requires_grad=True), torch.randn(30, requires_grad=True)
    found = output.log_probability(x, weight, bias, torch.full((2, 3), PAD))
    gradients = torch.autograd.grad(found.sum(), [x, weight, bias])
    assert found.shape == (2, 3)
    assert all((gradient == 0).all() for gradient in gradients)


def test_kept_logits_are_computed_again_when_asked_twice() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 6, 4, requires_grad=True), torch.randn(30, 4), torch.randn(30)
    found = output.log_probability(x, weight, bias, torch.randint(1, 30, (2, 6)))
    first, second = (torch.autograd.grad(found.sum(), x, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second)


INTERPRETED = """
import torch
from exadec.model.output_kernels import differentiate, score
torch.manual_seed(0)
for words in (5000, 4999):  # with rows that begin anywhere, too
    logits, targets, grad = 3 * torch.randn(35, words), torch.randint(words, (35,)), torch.randn(35)
    normalizers, found = torch.empty(2, 35)
    score(logits, targets, normalizers, found)
    expected = logits.double().requires_grad_()
    chosen = torch.log_softmax(expected, 1).gather(1, targets[:, None]).squeeze(1)
    (chosen * grad).sum().backward()
    assert torch.allclose(normalizers.double(), expected.logsumexp(1), atol=1e-5)
    assert torch.allclose(found.double(), chosen, atol=1e-5)
    columns = differentiate(logits, targets, normalizers, grad)
    assert torch.allclose(logits.double(), expected.grad, atol=1e-6)
    assert torch.allclose(columns.double(), expected.grad.sum(0), atol=1e-5)
print("equal")
"""


def test_kernels_are_right_when_triton_interprets_them() -> None:
    assert interpret_kernels(INTERPRETED) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("words", [9000, 9001])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_gpu_is_as_exact_as_the_plain_softmax(kind: torch.dtype, words: int) -> None:
    sizes = (8, 6, 64, words)
    exact = losses("cpu", torch.float64, False, sizes)
    ours = largest_difference(losses("cuda", kind, True, sizes), exact)
    plain = largest_difference(losses("cuda", kind, False, sizes), exact)
    assert ours < 2 * plain
    assert plain < (1e-5 if kind == torch.float32 else 0.05)
