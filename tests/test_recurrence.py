"""The LSTM with gradients by hand against autograd through single steps."""

import pytest
import torch
from conftest import interpret_kernels

from exadec.model.adaptive import RecurrentCell

SHAPES = [("factored", 1, 5), ("factored", 4, 5), ("fixed", 1, 0)]


def run(
    cell: RecurrentCell, values: list[torch.Tensor], wanted: torch.Tensor, kind: torch.dtype, by_hand: bool
) -> list[torch.Tensor]:
    """Hidden states and all gradients, in float64 on the CPU; `kind` is the type of products."""
    from exadec.model.recurrence import AdaptiveLstm, PlainLstm

    device, dtype = cell.B.device, cell.B.dtype
    x, h, c, *rest = leaves = [value.to(device, dtype).requires_grad_() for value in values]
    lam = rest[0] if rest else None
    cell.zero_grad()
    with torch.autocast(device.type, torch.bfloat16, enabled=kind == torch.bfloat16):
        projected = cell.project(x, lam)
        if not by_hand:
            cell.has_kernels = False
            hidden = cell.unroll(projected, h, c, lam)
        elif lam is None:
            hidden = PlainLstm.apply(projected, h, c, cell.P.weight, kind)
        else:
            hidden = AdaptiveLstm.apply(projected, h, c, cell.P.V, cell.P.U, lam, kind)
    (hidden.to(dtype) * wanted.to(device, dtype)).sum().backward()
    return [hidden.detach().cpu().double()] + [leaf.grad.cpu().double() for leaf in (*leaves, *cell.parameters())]


def errors(
    shape: tuple[str, int, int], device: str, kind: torch.dtype, sizes: tuple[int, int, int]
) -> tuple[float, float]:
    """Largest relative errors, by hand and step by step, against single steps in float64; each worst tensor."""
    (linear, groups, rank), (batch, steps, hidden) = shape, sizes
    torch.manual_seed(0)
    reference = RecurrentCell("lstm", hidden, hidden, linear, rank, groups).double()
    with torch.no_grad():
        reference.B.normal_(std=0.1)
    values = [torch.randn(batch, steps, hidden), torch.randn(batch, hidden), torch.randn(batch, hidden)]
    if linear != "fixed":
        values.append(torch.randn(batch, groups, rank))
    wanted = torch.randn(batch, steps, hidden)
    cell = RecurrentCell("lstm", hidden, hidden, linear, rank, groups).to(device)
    cell.load_state_dict(reference.state_dict())
    exact = run(reference, values, wanted, torch.float64, by_hand=False)
    worst = []
    for by_hand in (True, False):
        found = run(cell, values, wanted, kind, by_hand)
        worst.append(max(float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)))
    return worst[0], worst[1]


INTERPRETED = """
import torch
from test_recurrence import SHAPES, errors
print(max(errors(shape, "cpu", torch.float32, (3, 4, 6))[0] for shape in SHAPES))
"""


def test_values_and_gradients_are_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(INTERPRETED)) < 2e-6


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(64, 30, 256), (7, 5, 300)])
def test_gpu_is_as_exact_by_hand_as_step_by_step(
    shape: tuple[str, int, int], kind: torch.dtype, sizes: tuple[int, int, int]
) -> None:
    """Errors grow over thirty steps, and with λ: what single steps in the same precision err is the measure."""
    linear, groups, rank = shape
    by_hand, step_by_step = errors((linear, groups, rank and sizes[2] - 7), "cuda", kind, sizes)
    assert by_hand < 2 * step_by_step
    assert step_by_step < (1e-3 if kind == torch.float32 else 0.2)
