# ruff: noqa: N803, N806 - the paper's names
"""What the Hopper backend's kernels (*.cu) compute, in torch.

Where there is no such GPU, as in CI, they stand in for the kernels, so that the autograd functions around these are
tested. They take the arguments of the kernels, fill the same outputs, and round where the kernels round; the kernels'
comments describe the shapes.
"""

from typing import Any

import pytest
import torch

DTYPE = torch.bfloat16


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Hopper backend call these."""
    from exadec.model.backends.hopper import launch as real
    from exadec.model.backends.hopper import lstm

    monkeypatch.setattr(lstm, "launch", launch)
    monkeypatch.setattr(lstm, "lay_out", lambda *sizes: real.Layout(8, 0, 1, 16))


def launch(kernel: str, layout: Any, grid: tuple[int, int, int], arguments: list[Any]) -> None:
    """In place of the real `launch`."""
    STAND_INS[kernel](*arguments)


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.to(DTYPE).float()


def lstm_gates_forward(gates: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(B, 4, D) and cells (B, D) -> activations, cells, h."""
    enter, forget, candidate, leave = gates.unbind(1)
    enter, forget, leave = (torch.sigmoid(gate) for gate in (enter, forget, leave))
    c = forget * c + enter * torch.tanh(candidate)
    return torch.stack([enter, forget, torch.tanh(candidate), leave], 1), c, rounded(leave * torch.tanh(c))


def lstm_gates_backward(
    activations: torch.Tensor, grad: torch.Tensor, grad_c: torch.Tensor, before: torch.Tensor, after: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of gates (B, 4, D) and of the cells before (B, D)."""
    enter, forget, candidate, leave = activations.float().unbind(1)
    squashed = torch.tanh(after)
    dc = grad_c + grad * leave * (1 - squashed**2)
    gates = [
        dc * candidate * enter * (1 - enter),
        dc * before * forget * (1 - forget),
        dc * enter * (1 - candidate**2),
        grad * squashed * leave * (1 - leave),
    ]
    return rounded(torch.stack(gates, 1)), dc * forget


def positions(t: int, lengths: torch.Tensor, direction: int) -> torch.Tensor:
    """Where the word of step t stands, (B,): the second direction reads from the last word to the first."""
    return torch.where((lengths > t) & bool(direction), lengths - 1 - t, t).long()


def plain_forward(
    given, P_0, bias_0, more_bias_0, P_1, bias_1, more_bias_1, first_h, first_c, started, lengths, batch, steps,
    x, x_stride, residual, states, previous, activations, cells, last,
):  # fmt: skip
    rows, hidden = torch.arange(batch), states.shape[3]
    given = given.view(-1, batch, steps, 4, hidden)
    previous = previous.view(-1, batch, steps, hidden + 8)
    for n in range(len(states)):
        P, bias = ((P_0, bias_0 + more_bias_0), (P_1, bias_1 + more_bias_1))[n]
        h = rounded(first_h) if started else torch.zeros(batch, hidden)
        c = first_c if started else torch.zeros(batch, hidden)
        for t in range(steps):
            at, active = positions(t, lengths, n), (lengths > t)[:, None]
            gates = given[n, rows, at].float() + (h @ rounded(P).t() + bias).view(batch, 4, hidden)
            before = h
            activated, c, h = lstm_gates_forward(gates, c)
            # Without a word the kernel writes nothing there, and anything may be in it.
            activations[n, :, t] = torch.where(active[:, None], activated, torch.nan).to(DTYPE)
            cells[n, :, t], h = torch.where(active, c, torch.nan), h * active
            x_here = x[n if x_stride else 0, rows, at].float() if residual else 0
            states[n, rows, at] = (h + x_here).to(DTYPE)
            previous[n, rows, at, :hidden] = (before * active).to(DTYPE)
            previous[n, rows, at, hidden:] = torch.tensor([1.0] + [0.0] * 7, dtype=DTYPE)
            ends = lengths == t + 1
            last[n, ends] = h[ends].to(DTYPE)


def plain_backward(
    grads, grad_last, has_last, P_0, P_1, first_c, started, lengths, batch, steps, activations, cells,
    grad_gates, grad_h, grad_c,
):  # fmt: skip
    rows, hidden = torch.arange(batch), grads.shape[3]
    for n in range(len(grads)):
        P = (P_0, P_1)[n]
        carried, dc = torch.zeros(2, batch, hidden)
        for t in reversed(range(steps)):
            at, active = positions(t, lengths, n), (lengths > t)[:, None]
            grad = carried + grads[n, rows, at].float()
            if has_last:
                grad = grad + grad_last[n].float() * (lengths == t + 1)[:, None]
            first = first_c if started else torch.zeros(batch, hidden)
            gates, dc_before = lstm_gates_backward(
                activations[n, :, t], grad, dc, cells[n, :, t - 1] if t else first, cells[n, :, t]
            )
            gates, dc = torch.where(active[:, None], gates, 0.0), torch.where(active, dc_before, 0.0)
            grad_gates[n, rows, at] = gates.to(DTYPE)
            carried = gates.flatten(1) @ rounded(P)
        if started:
            grad_h.copy_(carried)
            grad_c.copy_(dc)


def mask_inputs(x, x_stride, mask, batch, steps, width, masked):
    masked.copy_(x.float() * mask)


def unmask_gradients(grad, mask, more, residual, shared, batch, steps, width, result):
    total = grad.float() * mask + (more.float() if residual else 0)
    result.copy_(total.sum(0, keepdim=True) if shared else total)


def adaptive_forward(
    given, bias, first_h, first_c, V, U, lam, groups, batch, steps,
    states, previous, narrow, scaled, activations, cells,
):  # fmt: skip
    h, c = rounded(first_h), first_c
    for t in range(steps):
        z = torch.einsum("bd,grd->bgr", h, rounded(V))
        narrow[:, t], scaled[:, t], previous[:, t] = z.to(DTYPE), (z * lam).to(DTYPE), h.to(DTYPE)
        recurrent = torch.einsum("bgr,grd->bgd", rounded(z * lam), rounded(U))
        gates = (given[:, :, t] + bias).transpose(0, 1).float() + recurrent
        activations[:, t], c, h = lstm_gates_forward(gates, c)
        cells[:, t], states[:, t] = c, h.to(DTYPE)


def adaptive_backward(
    grads, first_c, V, U, lam, groups, batch, steps, narrow, activations, cells,
    grad_gates, grad_narrow, grad_lam, grad_h, grad_c,
):  # fmt: skip
    carried, dc = torch.zeros(2, batch, grads.shape[2])
    grad_lam.zero_()
    for t in reversed(range(steps)):
        before = cells[:, t - 1] if t else first_c
        gates, dc = lstm_gates_backward(activations[:, t], carried + grads[:, t].float(), dc, before, cells[:, t])
        dz = torch.einsum("bgd,grd->bgr", gates, rounded(U))
        grad_lam += dz * narrow[:, t].float()
        grad_gates[:, t], grad_narrow[:, t] = gates.to(DTYPE), (dz * lam).to(DTYPE)
        carried = torch.einsum("bgr,grd->bd", rounded(dz * lam), rounded(V))
    grad_h.copy_(carried)
    grad_c.copy_(dc)


def unscale(grad_scaled, narrow, lam, groups, batch, steps, grad_narrow, grad_lam):
    grad = grad_scaled.float().unflatten(1, (batch, steps)).permute(1, 2, 0, 3)  # (B, T, 4, R)
    grad_narrow.copy_(grad * lam[:, None])
    grad_lam.copy_((grad * narrow.float()).sum(1))


STAND_INS = {
    function.__name__: function
    for function in (
        plain_forward, plain_backward, mask_inputs, unmask_gradients, adaptive_forward, adaptive_backward, unscale
    )
}  # fmt: skip
