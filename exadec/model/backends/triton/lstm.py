"""LSTMs over all steps of known inputs, adaptive and plain.

In: projected inputs, an initial state, the recurrent weights, λ. Out: the hidden states, and hand-written gradients.

Autograd through `RecurrentCell.step` takes dozens of launches per step. Here a step of the adaptive LSTM takes four
launches forward and four backward, half of them matrix products; a step of the plain LSTM takes two each way. The
gradient of each weight is one product over all steps. All products have the same dtype; sums over steps and the cell
state are float32.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.model.backends.triton.lstm_kernels import (
    lstm_gates_backward,
    lstm_gates_forward,
    scale_back,
    scale_rows,
)


class AdaptiveLstm(torch.autograd.Function):
    """h₁...h_T of the LSTM whose recurrent map is U(λ ⊙ Vᵀh) for each gate."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: torch.Tensor,  # (B, T, 4, D)
        h: torch.Tensor,  # (B, D)
        c: torch.Tensor,  # (B, D)
        V: torch.Tensor,  # noqa: N803 - the paper's name; (4, R, D)
        U: torch.Tensor,  # noqa: N803 - (4, R, D)
        lam: torch.Tensor,  # (B, 1 or 4, R)
        dtype: torch.dtype,
    ) -> torch.Tensor:  # (B, T, D)
        batch, steps, gates, _ = projected.shape
        rank = V.shape[1]
        down, up, lam_scale = V.to(dtype).flatten(0, 1), U.to(dtype), lam.to(dtype).contiguous()  # (4R, D), (4, R, D)
        projected = projected.transpose(0, 1).contiguous()  # (T, B, 4, D)
        states, cells, activations = _allocate(projected, h, c, dtype)
        narrow = states.new_empty(steps, batch, gates, rank)  # Vᵀh
        scaled, recurrent = torch.empty_like(narrow[0]), torch.empty_like(activations[0])
        for t in range(steps):
            torch.mm(states[t], down.t(), out=narrow[t].view(batch, gates * rank))
            scale_rows(narrow[t], lam_scale, scaled)
            torch.bmm(scaled.transpose(0, 1), up, out=recurrent)
            lstm_gates_forward(projected[t], recurrent, cells[t], activations[t], cells[t + 1], states[t + 1])
        ctx.save_for_backward(down, up, lam_scale, states, cells, narrow, activations)
        ctx.dtypes = projected.dtype, h.dtype, c.dtype, V.dtype, U.dtype, lam.dtype
        return states[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        down, up, lam, states, cells, narrow, activations = ctx.saved_tensors
        steps, gates, batch, hidden = activations.shape
        rank = up.shape[1]
        new = activations.new_empty
        grad = grad.transpose(0, 1).contiguous()  # (T, B, D)
        grad_gates = new(steps, gates, batch, hidden)
        grad_scaled = new(steps, gates, batch, rank)
        grad_narrow = new(steps, batch, gates, rank)
        grad_h = torch.zeros_like(states[0])
        grad_c = torch.zeros_like(cells[0])
        for t in reversed(range(steps)):
            lstm_gates_backward(grad[t], grad_h, grad_c, activations[t], cells[t], cells[t + 1], grad_gates[t])
            torch.bmm(grad_gates[t], up.transpose(1, 2), out=grad_scaled[t])
            scale_back(grad_scaled[t], lam, grad_narrow[t])
            torch.mm(grad_narrow[t].view(batch, gates * rank), down, out=grad_h)
        by_gate = grad_gates.transpose(0, 1).flatten(1, 2)  # (4, T·B, D)
        scaled = (narrow * lam).permute(2, 3, 0, 1).flatten(2)  # (4, R, T·B)
        grad_up = torch.bmm(scaled, by_gate)  # (4, R, D)
        grad_down = grad_narrow.flatten(0, 1).flatten(1).t() @ states[:-1].flatten(0, 1)  # (4R, D)
        grad_lam = (grad_scaled.transpose(1, 2) * narrow).sum(0, dtype=torch.float32)  # (B, 4, R)
        if lam.shape[1] == 1:
            grad_lam = grad_lam.sum(1, keepdim=True)
        projected_dtype, h_dtype, c_dtype, v_dtype, u_dtype, lam_dtype = ctx.dtypes
        return (
            grad_gates.permute(2, 0, 1, 3).to(projected_dtype),  # (B, T, 4, D)
            grad_h.to(h_dtype),
            grad_c.to(c_dtype),
            grad_down.unflatten(0, (gates, rank)).to(v_dtype),
            grad_up.to(u_dtype),
            grad_lam.to(lam_dtype),
            None,
        )


class PlainLstms(torch.autograd.Function):
    """N ordinary LSTMs, whose recurrent map is Ph, in bfloat16; all N share each launch."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: torch.Tensor,  # (N, B, T, 4D)
        h: torch.Tensor,  # (N, B, D)
        c: torch.Tensor,  # (N, B, D)
        P: torch.Tensor,  # noqa: N803 - the paper's name; (N, 4D, D)
    ) -> torch.Tensor:  # (N, B, T, D)
        (count, batch, steps, _), hidden = projected.shape, P.shape[2]
        weight = P.to(projected.dtype)
        rows = projected.permute(2, 0, 1, 3).contiguous().view(steps, count * batch, 4, hidden)  # (T, N·B, 4, D)
        states, cells, activations = _allocate(rows, h.flatten(0, 1), c.flatten(0, 1), projected.dtype)
        recurrent = states.new_empty(count, batch, 4 * hidden)
        by_gate = recurrent.view(count * batch, 4, hidden).transpose(0, 1)  # (4, N·B, D)
        for t in range(steps):
            torch.bmm(states[t].view(count, batch, hidden), weight.transpose(1, 2), out=recurrent)
            lstm_gates_forward(rows[t], by_gate, cells[t], activations[t], cells[t + 1], states[t + 1])
        ctx.save_for_backward(weight, states, cells, activations)
        ctx.dtypes = h.dtype, c.dtype, P.dtype
        return states[1:].view(steps, count, batch, hidden).permute(1, 2, 0, 3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, states, cells, activations = ctx.saved_tensors
        (count, _, hidden), steps = weight.shape, len(activations)
        grad = grad.permute(2, 0, 1, 3).contiguous().view(steps, -1, hidden)  # (T, N·B, D)
        grad_gates = torch.empty_like(activations).view(steps, -1, 4, hidden)  # (T, N·B, 4, D)
        grad_h, grad_c = torch.zeros_like(states[0]), torch.zeros_like(cells[0])
        for t in reversed(range(steps)):
            by_gate = grad_gates[t].transpose(0, 1)  # (4, N·B, D)
            lstm_gates_backward(grad[t], grad_h, grad_c, activations[t], cells[t], cells[t + 1], by_gate)
            torch.bmm(grad_gates[t].view(count, -1, 4 * hidden), weight, out=grad_h.view(count, -1, hidden))
        grad_gates = grad_gates.view(steps, count, -1, 4 * hidden).permute(1, 2, 0, 3)  # (N, B, T, 4D)
        before = states[:-1].view(steps, count, -1, hidden).permute(1, 2, 0, 3)  # (N, B, T, D)
        grad_weight = torch.bmm(grad_gates.flatten(1, 2).transpose(1, 2), before.flatten(1, 2))  # (N, 4D, D)
        h_dtype, c_dtype, p_dtype = ctx.dtypes
        grad_h, grad_c = (part.view(count, -1, hidden) for part in (grad_h, grad_c))
        return grad_gates, grad_h.to(h_dtype), grad_c.to(c_dtype), grad_weight.to(p_dtype)


def _allocate(
    projected: torch.Tensor, h: torch.Tensor, c: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Buffers for the hidden states and cells of all steps, with the initial ones filled in, and for activations.

    projected (T, B, 4, D), h and c (B, D) -> (T + 1, B, D), (T + 1, B, D) float32, (T, 4, B, D)
    """
    steps, batch, gates, hidden = projected.shape
    states = projected.new_empty(steps + 1, batch, hidden, dtype=dtype)
    cells = projected.new_empty(steps + 1, batch, hidden, dtype=torch.float32)
    states[0], cells[0] = h, c
    return states, cells, projected.new_empty(steps, gates, batch, hidden, dtype=dtype)
