"""log p of known targets in chunks against the plain softmax."""

import pytest
import torch

from exadec.corpus.vocabulary import PAD
from exadec.model.backends import softmax
from exadec.model.backends.reference import REFERENCE
from support.backend_runs import largest_error, losses


def test_chunks_change_nothing() -> None:
    assert largest_error(losses("cpu", torch.float64, softmax.Rows()), losses("cpu", torch.float64, None)) < 1e-12


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


def test_padding_alone_has_no_gradient() -> None:
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
