"""The decoder's LSTM over all steps of known targets, on a GPU.

In: projected inputs, a first state, the recurrent weights and λ. Out: the hidden states, and gradients by hand.

Autograd of `RecurrentCell.step` makes dozens of launches a step. Here a step is four forward and four backward, two of
each matrix products, and the gradients of the weights are one product over all steps. Products are done in `kind`, sums
over steps and the cell's state in float32.
"""

from functools import partial
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.model.recurrence_kernels import (
    close_gates,
    open_gates,
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
        kind: torch.dtype,
    ) -> torch.Tensor:  # (B, T, D)
        batch, steps, gates, hidden = projected.shape
        rank = V.shape[1]
        down, up, lam_kind = V.to(kind).flatten(0, 1), U.to(kind), lam.to(kind).contiguous()  # (4R, D), (4, R, D)
        projected = projected.transpose(0, 1).contiguous()  # (T, B, 4, D)
        new = partial(projected.new_empty, dtype=kind)
        states, cells = new((steps + 1, batch, hidden)), new((steps + 1, batch, hidden), dtype=torch.float32)
        states[0], cells[0] = h, c
        narrow = new((steps, batch, gates, rank))  # Vᵀh
        activations = new((steps, gates, batch, hidden))
        scaled, recurrent = new((batch, gates, rank)), new((gates, batch, hidden))
        for t in range(steps):
            torch.mm(states[t], down.t(), out=narrow[t].view(batch, gates * rank))
            scale_rows(narrow[t], lam_kind, scaled)
            torch.bmm(scaled.transpose(0, 1), up, out=recurrent)
            close_gates(projected[t], recurrent, cells[t], activations[t], cells[t + 1], states[t + 1])
        ctx.save_for_backward(down, up, lam_kind, states, cells, narrow, activations)
        ctx.kinds = projected.dtype, h.dtype, c.dtype, V.dtype, U.dtype, lam.dtype
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
            open_gates(grad[t], grad_h, grad_c, activations[t], cells[t], cells[t + 1], grad_gates[t])
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
        projected_kind, h_kind, c_kind, v_kind, u_kind, lam_kind = ctx.kinds
        return (
            grad_gates.permute(2, 0, 1, 3).to(projected_kind),  # (B, T, 4, D)
            grad_h.to(h_kind),
            grad_c.to(c_kind),
            grad_down.unflatten(0, (gates, rank)).to(v_kind),
            grad_up.to(u_kind),
            grad_lam.to(lam_kind),
            None,
        )


class PlainLstm(torch.autograd.Function):
    """The same for an ordinary LSTM, whose recurrent map is Ph."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: torch.Tensor,  # (B, T, 4, D)
        h: torch.Tensor,  # (B, D)
        c: torch.Tensor,  # (B, D)
        P: torch.Tensor,  # noqa: N803 - the paper's name; (4, D, D)
        kind: torch.dtype,
    ) -> torch.Tensor:  # (B, T, D)
        batch, steps, gates, hidden = projected.shape
        weight = P.to(kind).flatten(0, 1)  # (4D, D)
        projected = projected.transpose(0, 1).contiguous()  # (T, B, 4, D)
        new = partial(projected.new_empty, dtype=kind)
        states, cells = new((steps + 1, batch, hidden)), new((steps + 1, batch, hidden), dtype=torch.float32)
        states[0], cells[0] = h, c
        activations = new((steps, gates, batch, hidden))
        recurrent = new((batch, gates, hidden))
        for t in range(steps):
            torch.mm(states[t], weight.t(), out=recurrent.view(batch, gates * hidden))
            close_gates(projected[t], recurrent.transpose(0, 1), cells[t], activations[t], cells[t + 1], states[t + 1])
        ctx.save_for_backward(weight, states, cells, activations)
        ctx.kinds = projected.dtype, h.dtype, c.dtype, P.dtype
        return states[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, states, cells, activations = ctx.saved_tensors
        steps, gates, batch, hidden = activations.shape
        grad = grad.transpose(0, 1).contiguous()  # (T, B, D)
        grad_gates = activations.new_empty(steps, batch, gates, hidden)
        grad_h = torch.zeros_like(states[0])
        grad_c = torch.zeros_like(cells[0])
        for t in reversed(range(steps)):
            by_gate = grad_gates[t].transpose(0, 1)  # (4, B, D)
            open_gates(grad[t], grad_h, grad_c, activations[t], cells[t], cells[t + 1], by_gate)
            torch.mm(grad_gates[t].view(batch, gates * hidden), weight, out=grad_h)
        grad_weight = grad_gates.flatten(0, 1).flatten(1).t() @ states[:-1].flatten(0, 1)  # (4D, D)
        projected_kind, h_kind, c_kind, p_kind = ctx.kinds
        return (
            grad_gates.transpose(0, 1).to(projected_kind),  # (B, T, 4, D)
            grad_h.to(h_kind),
            grad_c.to(c_kind),
            grad_weight.unflatten(0, (gates, hidden)).to(p_kind),
            None,
        )
