"""The element-wise parts of an LSTM step, in Triton.

In: tensors of one time step. Out: results, written to tensors that the caller has allocated.
"""

import torch
import triton
import triton.language as tl

_BLOCK = 512


def scale_rows(narrow: torch.Tensor, lam: torch.Tensor, scaled: torch.Tensor) -> None:
    """scaled = narrow ⊙ λ; (B, 4, R), and λ (B, 1 or 4, R)."""
    _, gates, rank = narrow.shape
    _scale_rows[_grid(narrow)](narrow, lam, scaled, narrow.numel(), gates, lam.shape[1], rank, block=_BLOCK)


def scale_back(grad_scaled: torch.Tensor, lam: torch.Tensor, grad_narrow: torch.Tensor) -> None:
    """grad_narrow (B, 4, R) = grad_scaled (4, B, R) ⊙ λ."""
    batch, gates, rank = grad_narrow.shape
    _scale_back[_grid(grad_narrow)](
        grad_scaled, lam, grad_narrow, grad_narrow.numel(), batch, gates, lam.shape[1], rank, block=_BLOCK
    )


def lstm_gates_forward(
    projected: torch.Tensor,
    recurrent: torch.Tensor,
    cell: torch.Tensor,
    activations: torch.Tensor,
    next_cell: torch.Tensor,
    state: torch.Tensor,
) -> None:
    """projected (B, 4, D) + recurrent (4, B, D, any strides) and c (B, D) -> gates (4, B, D), next c and h (B, D)."""
    batch, hidden = cell.shape
    _lstm_gates_forward[_grid(cell)](
        projected, recurrent, cell, activations, next_cell, state, batch * hidden, hidden,
        recurrent.stride(0), recurrent.stride(1), block=_BLOCK,
    )  # fmt: skip


def lstm_gates_backward(
    grad: torch.Tensor,
    grad_h: torch.Tensor,
    grad_c: torch.Tensor,
    activations: torch.Tensor,
    cell: torch.Tensor,
    next_cell: torch.Tensor,
    grad_gates: torch.Tensor,
) -> None:
    """Gradients of h, from the output and from the next step, and of c (updated in place) -> of gates (4, B, D)."""
    batch, hidden = cell.shape
    _lstm_gates_backward[_grid(cell)](
        grad, grad_h, grad_c, activations, cell, next_cell, grad_gates, batch * hidden, hidden,
        grad_gates.stride(0), grad_gates.stride(1), block=_BLOCK,
    )  # fmt: skip


def _grid(tensor: torch.Tensor) -> tuple[int]:
    return (triton.cdiv(tensor.numel(), _BLOCK),)


@triton.jit
def _scale_rows(narrow, lam, scaled, size, gates, groups, rank, block: tl.constexpr):
    places = tl.program_id(0) * block + tl.arange(0, block)
    inside = places < size
    row, column = places // (gates * rank), places % rank
    group = tl.where(groups == 1, 0, (places // rank) % gates)
    factor = tl.load(lam + (row * groups + group) * rank + column, mask=inside).to(tl.float32)
    value = tl.load(narrow + places, mask=inside).to(tl.float32)
    tl.store(scaled + places, value * factor, mask=inside)


@triton.jit
def _scale_back(grad_scaled, lam, grad_narrow, size, batch, gates, groups, rank, block: tl.constexpr):
    places = tl.program_id(0) * block + tl.arange(0, block)
    inside = places < size
    row, gate, column = places // (gates * rank), (places // rank) % gates, places % rank
    group = tl.where(groups == 1, 0, gate)
    factor = tl.load(lam + (row * groups + group) * rank + column, mask=inside).to(tl.float32)
    value = tl.load(grad_scaled + (gate * batch + row) * rank + column, mask=inside).to(tl.float32)
    tl.store(grad_narrow + places, value * factor, mask=inside)


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 2 * _sigmoid(2 * x) - 1


@triton.jit
def _lstm_gates_forward(
    projected, recurrent, cell, activations, next_cell, state, size, hidden, gate_stride, row_stride,
    block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0) * block + tl.arange(0, block)
    inside = places < size
    row, column = places // hidden, places % hidden
    given = projected + row * 4 * hidden + column
    recurring = recurrent + row * row_stride + column
    enter = tl.load(given, mask=inside).to(tl.float32) + tl.load(recurring, mask=inside).to(tl.float32)
    given, recurring = given + hidden, recurring + gate_stride
    forget = tl.load(given, mask=inside).to(tl.float32) + tl.load(recurring, mask=inside).to(tl.float32)
    given, recurring = given + hidden, recurring + gate_stride
    candidate = tl.load(given, mask=inside).to(tl.float32) + tl.load(recurring, mask=inside).to(tl.float32)
    given, recurring = given + hidden, recurring + gate_stride
    leave = tl.load(given, mask=inside).to(tl.float32) + tl.load(recurring, mask=inside).to(tl.float32)
    enter, forget, candidate, leave = _sigmoid(enter), _sigmoid(forget), _tanh(candidate), _sigmoid(leave)
    c = forget * tl.load(cell + places, mask=inside) + enter * candidate
    tl.store(activations + places, enter, mask=inside)
    tl.store(activations + size + places, forget, mask=inside)
    tl.store(activations + 2 * size + places, candidate, mask=inside)
    tl.store(activations + 3 * size + places, leave, mask=inside)
    tl.store(next_cell + places, c, mask=inside)
    tl.store(state + places, leave * _tanh(c), mask=inside)


@triton.jit
def _lstm_gates_backward(
    grad, grad_h, grad_c, activations, cell, next_cell, grad_gates, size, hidden, gate_stride, row_stride,
    block: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0) * block + tl.arange(0, block)
    inside = places < size
    row, column = places // hidden, places % hidden
    enter = tl.load(activations + places, mask=inside).to(tl.float32)
    forget = tl.load(activations + size + places, mask=inside).to(tl.float32)
    candidate = tl.load(activations + 2 * size + places, mask=inside).to(tl.float32)
    leave = tl.load(activations + 3 * size + places, mask=inside).to(tl.float32)
    dh = tl.load(grad + places, mask=inside).to(tl.float32) + tl.load(grad_h + places, mask=inside).to(tl.float32)
    squashed = _tanh(tl.load(next_cell + places, mask=inside))
    dc = tl.load(grad_c + places, mask=inside) + dh * leave * (1 - squashed * squashed)
    tl.store(grad_c + places, dc * forget, mask=inside)
    out = grad_gates + row * row_stride + column
    tl.store(out, dc * candidate * enter * (1 - enter), mask=inside)
    before = tl.load(cell + places, mask=inside)
    tl.store(out + gate_stride, dc * before * forget * (1 - forget), mask=inside)
    tl.store(out + 2 * gate_stride, dc * enter * (1 - candidate * candidate), mask=inside)
    tl.store(out + 3 * gate_stride, dh * squashed * leave * (1 - leave), mask=inside)
