"""LSTMs whose time steps are one kernel launch. The kernel (*.cu) keeps the recurrent weights on the chip.

In: inputs of all steps, initial states, weights, λ. Out: the hidden states, and hand-written gradients.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.model.backends.hopper.launch import THREADS, Layout, grid_of, launch, lay_out

_DTYPE = torch.bfloat16


class AdaptiveInputs(torch.autograd.Function):
    """The input half of the gates for all steps: Qx with Q = U·diag(λ)·Vᵀ, and the bias Bλ, for each gate.

    The bias is returned separately because `AdaptiveLstm` adds it to Qx. Its gradient is part of the gradient of Qx.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,  # (B, T, E)
        lam: torch.Tensor,  # (B, 1 or 4, R)
        V: torch.Tensor,  # noqa: N803 - the paper's names; (4, R, E)
        U: torch.Tensor,  # noqa: N803 - (4, R, D)
        B: torch.Tensor,  # noqa: N803 - (4, D, R)
        offset: torch.Tensor,  # (4, D): added to the bias, not learned
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (B, T, 4, D) and (4, B, D)
        (batch, steps, _), (gates, rank, hidden) = x.shape, U.shape
        inputs = x.to(_DTYPE).flatten(0, 1)  # (B·T, E)
        down, up, to_bias = V.to(_DTYPE).flatten(0, 1), U.to(_DTYPE), B.to(_DTYPE)
        scale = lam.to(_DTYPE)
        by_gate = scale.expand(-1, gates, -1).transpose(0, 1)  # (4, B, R)
        narrow = (inputs @ down.t()).view(batch, steps, gates, rank)
        scaled = narrow * scale[:, None]
        given = torch.bmm(scaled.flatten(0, 1).transpose(0, 1), up)  # (4, B·T, D)
        bias = torch.baddbmm(offset.to(_DTYPE)[:, None], by_gate, to_bias.transpose(1, 2))  # (4, B, D)
        ctx.save_for_backward(inputs, lam, down, up, to_bias, by_gate, narrow, scaled)
        ctx.mark_non_differentiable(bias)
        ctx.dtype = x.dtype
        return given.view(gates, batch, steps, hidden).permute(1, 2, 0, 3), bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, lam, down, up, to_bias, by_gate, narrow, scaled = ctx.saved_tensors
        (batch, steps, gates, rank), hidden = narrow.shape, up.shape[2]
        by_row = grad.flatten(0, 1).transpose(0, 1)  # (4, B·T, D)
        grad_scaled, grad_narrow = torch.bmm(by_row, up.transpose(1, 2)), torch.empty_like(narrow)
        grad_lam = lam.new_empty(batch, gates, rank, dtype=torch.float32)
        layout = lay_out(hidden, rank, batch, 1, grad.device)
        factors = lam.float().contiguous()
        launch(
            "unscale", layout, (4 * batch, 1, 1),
            [grad_scaled, narrow, factors, lam.shape[1], batch, steps, grad_narrow, grad_lam],
        )  # fmt: skip
        columns = grad_narrow.view(batch * steps, gates * rank)
        grad_bias = grad.sum(1, dtype=_DTYPE).transpose(0, 1)  # (4, B, D)
        grad_lam += torch.bmm(grad_bias, to_bias).transpose(0, 1)
        return (
            (columns @ down).view(batch, steps, -1).to(ctx.dtype),
            _sum_groups(grad_lam, lam),
            _multiply(columns.t(), inputs).view(gates, rank, -1),
            _multiply(scaled.flatten(0, 1).permute(1, 2, 0), by_row),
            _multiply(grad_bias.transpose(1, 2), by_gate),
            None,
        )


class AdaptiveLstm(torch.autograd.Function):
    """h₁...h_T of the LSTM with the recurrent map P = U·diag(λ)·Vᵀ for each gate, from `AdaptiveInputs`' results."""

    @staticmethod
    def forward(
        ctx: Any,
        given: torch.Tensor,  # (B, T, 4, D)
        bias: torch.Tensor,  # (4, B, D)
        h: torch.Tensor,  # (B, D)
        c: torch.Tensor,  # (B, D)
        lam: torch.Tensor,  # (B, 1 or 4, R)
        V: torch.Tensor,  # noqa: N803 - (4, R, D)
        U: torch.Tensor,  # noqa: N803 - (4, R, D)
    ) -> torch.Tensor:  # (B, T, D)
        (batch, steps, gates, hidden), rank = given.shape, V.shape[1]
        by_gate = given.permute(2, 0, 1, 3).contiguous()  # the layout `AdaptiveInputs` computed: no copy
        first_h, first_c, factors = (tensor.float().contiguous() for tensor in (h, c, lam))
        states, previous = given.new_empty(2, batch, steps, hidden)
        narrow, scaled = given.new_empty(2, batch, steps, gates, rank)
        activations = given.new_empty(batch, steps, gates, hidden)
        cells = given.new_empty(batch, steps, hidden, dtype=torch.float32)
        layout = lay_out(hidden, rank, batch, 1, given.device)
        launch(
            "adaptive_forward", layout, grid_of(layout, batch),
            [by_gate, bias, first_h, first_c, V, U, factors, lam.shape[1], batch, steps,
             states, previous, narrow, scaled, activations, cells],
        )  # fmt: skip
        ctx.save_for_backward(first_c, factors, V, U, previous, narrow, scaled, activations, cells)
        ctx.dtypes = h.dtype, c.dtype
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        first_c, lam, V, U, previous, narrow, scaled, activations, cells = ctx.saved_tensors  # noqa: N806
        (batch, steps, gates, hidden), rank = activations.shape, V.shape[1]
        grad = grad.to(_DTYPE).contiguous()
        grad_gates, grad_narrow = torch.empty_like(activations), torch.empty_like(narrow)
        grad_lam = cells.new_empty(batch, gates, rank)
        grad_h, grad_c = cells.new_empty(2, batch, hidden)
        layout = lay_out(hidden, rank, batch, 1, grad.device)
        launch(
            "adaptive_backward", layout, grid_of(layout, batch),
            [grad, first_c, V, U, lam, lam.shape[1], batch, steps, narrow, activations, cells,
             grad_gates, grad_narrow, grad_lam, grad_h, grad_c],
        )  # fmt: skip
        by_row = grad_gates.flatten(0, 1).transpose(0, 1)  # (4, B·T, D)
        grad_down = _multiply(grad_narrow.view(batch * steps, gates * rank).t(), previous.flatten(0, 1))  # (4R, D)
        grad_up = _multiply(scaled.flatten(0, 1).permute(1, 2, 0), by_row)  # (4, R, D)
        h_dtype, c_dtype = ctx.dtypes
        of_states = grad_h.to(h_dtype), grad_c.to(c_dtype), _sum_groups(grad_lam, lam)
        return grad_gates, None, *of_states, grad_down.view(V.shape), grad_up


def _sum_groups(grad: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
    """Gradient of λ: (B, 4, R) -> (B, 1 or 4, R)."""
    return grad.sum(1, keepdim=True) if lam.shape[1] == 1 else grad


class PlainLayer(torch.autograd.Function):
    """N ordinary LSTMs (1 or 2) in one launch. The second one reads each text from its last word to its first.

    `mask` is the scaled dropout mask, if any. With `residual`, inputs are added to outputs. The two weights and two
    biases of the first LSTM come before those of the second. States are zero at padding.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,  # (N, B, T, E), or (1, B, T, E) shared by all
        mask: torch.Tensor | None,  # (N, B, 1, E)
        residual: bool,
        lengths: torch.Tensor,  # (B,) int32
        h: torch.Tensor | None,  # (B, D); None for zeros
        c: torch.Tensor | None,  # (B, D)
        *weights: torch.Tensor,  # (4D, E), (4D, D), (4D), (4D), for each LSTM
    ) -> tuple[torch.Tensor, torch.Tensor]:  # (N, B, T, D) and, after the last word, (N, B, D)
        ctx.set_materialize_grads(False)
        directions, (copies, batch, steps, width), hidden = len(weights) // 4, x.shape, weights[1].shape[1]
        ctx.dtypes = x.dtype, None if h is None else h.dtype, None if c is None else c.dtype
        ctx.residual, ctx.copies = residual, copies
        x = x.to(_DTYPE).contiguous()
        x_stride = x.stride(0) if copies > 1 else 0
        layout = lay_out(hidden, 0, batch, directions, x.device)
        inputs = x.expand(directions, -1, -1, -1)
        if mask is not None:
            inputs = x.new_empty(directions, batch, steps, width)
            grid = (-(-batch * steps * width // (4 * THREADS)), directions, 1)
            launch("mask_inputs", layout, grid, [x, x_stride, mask, batch, steps, width, inputs])
        inputs = inputs.flatten(1, 2)  # (N, B·T, E)
        Q = torch.stack(weights[::4]).to(_DTYPE)  # noqa: N806 - (N, 4D, E)
        given = torch.bmm(inputs, Q.transpose(1, 2))  # (N, B·T, 4D)
        states = x.new_empty(directions, batch, steps, hidden)
        previous = x.new_empty(directions, batch * steps, hidden + 8)
        activations = x.new_empty(directions, batch, steps, 4, hidden)
        cells = x.new_empty(directions, batch, steps, hidden, dtype=torch.float32)
        last = x.new_empty(directions, batch, hidden)
        first_h, first_c = (cells if tensor is None else tensor.float().contiguous() for tensor in (h, c))
        launch(
            "plain_forward", layout, grid_of(layout, batch, directions),
            [given, *weights[1:4], *weights[-3:], first_h, first_c, int(h is not None), lengths, batch, steps,
             x, x_stride, int(residual), states, previous, activations, cells, last],
        )  # fmt: skip
        ctx.save_for_backward(inputs, mask, lengths, first_c, Q, weights[1], weights[-3], previous, activations, cells)
        return states, last

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: torch.Tensor | None, grad_last: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        inputs, mask, lengths, first_c, Q, P, P_last, previous, activations, cells = ctx.saved_tensors  # noqa: N806
        directions, batch, steps, _, hidden = activations.shape
        x_dtype, h_dtype, c_dtype = ctx.dtypes
        if grad is None:  # only the last states were used
            grad = inputs.new_zeros(directions, batch, steps, hidden)
        grad = grad.to(_DTYPE).contiguous()
        last = grad if grad_last is None else grad_last.to(_DTYPE).contiguous()
        grad_gates = torch.empty_like(activations)
        grad_h, grad_c = cells.new_empty(2, batch, hidden)
        layout = lay_out(hidden, 0, batch, directions, cells.device)
        launch(
            "plain_backward", layout, grid_of(layout, batch, directions),
            [grad, last, int(grad_last is not None), P, P_last, first_c, int(h_dtype is not None), lengths,
             batch, steps, activations, cells, grad_gates, grad_h, grad_c],
        )  # fmt: skip
        by_row = grad_gates.view(directions, batch * steps, 4 * hidden)
        columns = by_row.transpose(1, 2)
        grad_x = torch.bmm(by_row, Q).view(directions, batch, steps, -1)
        grad_x = _gather_gradients(grad_x, mask, grad if ctx.residual else None, ctx.copies, layout)
        grad_Q = _multiply(columns, inputs)  # noqa: N806 - (N, 4D, E)
        recurrent = _multiply(columns, previous)  # (N, 4D, D + 8), the bias's gradient in column D
        grad_P = recurrent[..., :hidden].contiguous()  # noqa: N806
        # A copy for each of the two biases: clipping scales gradients in place, so they must not share memory.
        biases = recurrent[..., hidden].expand(2, -1, -1).contiguous()  # (2, N, 4D)
        of_weights = [part for i in range(directions) for part in (grad_Q[i], grad_P[i], biases[0, i], biases[1, i])]
        of_states = (None, None) if h_dtype is None else (grad_h.to(h_dtype), grad_c.to(c_dtype))
        return grad_x.to(x_dtype), None, None, None, *of_states, *of_weights


def _multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrix product, or batched matrix product, with a float32 result: gradients of weights."""
    product = torch.mm if a.dim() == 2 else torch.bmm
    if a.is_cuda:
        return product(a, b, out_dtype=torch.float32)
    return product(a.float(), b.float())


def _gather_gradients(
    grad: torch.Tensor, mask: torch.Tensor | None, more: torch.Tensor | None, copies: int, layout: Layout
) -> torch.Tensor:
    """grad ⊙ mask + more, (N, B, T, E); summed over N if all LSTMs share their input."""
    directions, batch, steps, width = grad.shape
    if mask is None:
        grad = grad if more is None else grad + more
        return grad.sum(0, keepdim=True) if copies < directions else grad
    result = grad.new_empty(copies, batch, steps, width)
    launch(
        "unmask_gradients", layout, (-(-batch * steps * width // (4 * THREADS)), copies, 1),
        [grad, mask, grad if more is None else more, int(more is not None), int(copies < directions),
         batch, steps, width, result],
    )  # fmt: skip
    return result
