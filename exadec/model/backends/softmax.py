"""The softmax over the vocabulary at known targets, in chunks of rows.

In: attentional vectors, softmax weights, target words. Out: log p of each target, and gradients. The logits of all
rows never exist at once.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

_BYTES = 1 << 28
"""Maximum size of a chunk of logits. On an H200, half the size takes 1.1 times as long, an eighth 1.3 times."""
_CACHED = 1 << 20
"""Logits that a CPU processes at a time, so that they stay in its cache from one operation to the next."""


class Rows:
    """Operations on rows of logits, in plain PyTorch."""

    keeps_logits = True
    """Whether to keep the logits for the backward pass if they fit into one chunk. A GPU is faster to recompute them
    than to allocate the memory."""

    def score(
        self, logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, found: torch.Tensor
    ) -> None:
        """Fill in log Σ exp of each row and log p of its target: (rows, V), (rows,) -> (rows,) each."""
        blocks = (tensor.split(_rows_in_cache(logits)) for tensor in (logits, normalizers))
        for part, normalizer in zip(*blocks, strict=True):
            values = part.to(normalizer.dtype)
            highest = values.amax(1, keepdim=True)
            normalizer.copy_((values - highest).exp_().sum(1).log_() + highest.squeeze(1))
        found.copy_(logits.gather(1, targets[:, None]).squeeze(1) - normalizers)

    def differentiate(
        self, logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, grad: torch.Tensor
    ) -> torch.Tensor:
        """Overwrite logits with their gradients, grad · (1 at the target - probability), and sum the columns (V,)."""
        blocks = (tensor.split(_rows_in_cache(logits)) for tensor in (logits, normalizers, grad))
        for part, normalizer, scale in zip(*blocks, strict=True):
            part.copy_((part.to(normalizer.dtype) - normalizer[:, None]).exp_().mul_(-scale[:, None]))
        places = torch.arange(len(targets), device=logits.device)
        logits[places, targets] += grad.to(logits.dtype)
        return logits.sum(0, dtype=normalizers.dtype)

    def add_product(self, total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        """total += ab, in place; the total may have a higher precision."""
        total += a @ b


def chunked_log_probability(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, rows: Rows
) -> torch.Tensor:
    """log softmax(Wx + b) at the targets: (N, E), (V, E), (V,), (N,) -> (N,)."""
    dtype = autocast_dtype(x)
    size = max(1, _BYTES // (dtype.itemsize * len(weight)))
    found: torch.Tensor = _LogProbability.apply(x, weight, bias, targets, dtype, size, rows)
    return found


def autocast_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype of matrix products with x: autocast's, if it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class _LogProbability(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,  # (N, E)
        weight: torch.Tensor,  # (V, E)
        bias: torch.Tensor,  # (V,)
        targets: torch.Tensor,  # (N,)
        dtype: torch.dtype,
        size: int,
        rows: Rows,
    ) -> torch.Tensor:  # (N,)
        ctx.dtypes, ctx.size, ctx.rows, ctx.logits = (x.dtype, weight.dtype, bias.dtype), size, rows, None
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        precise = torch.float64 if dtype == torch.float64 else torch.float32
        normalizers, found = x.new_empty(2, len(x), dtype=precise)
        for begin in range(0, len(x), size):
            part = slice(begin, begin + size)
            logits = torch.addmm(bias, x[part], weight.t())  # (size, V)
            rows.score(logits, targets[part], normalizers[part], found[part])
            if rows.keeps_logits and any(ctx.needs_input_grad) and len(x) <= size:
                ctx.logits = logits
        ctx.save_for_backward(x, weight, bias, targets, normalizers)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, bias, targets, normalizers = ctx.saved_tensors
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight, dtype=normalizers.dtype)
        grad_bias = torch.zeros_like(bias, dtype=normalizers.dtype)
        for begin in range(0, len(x), ctx.size):
            part = slice(begin, begin + ctx.size)
            logits = torch.addmm(bias, x[part], weight.t()) if ctx.logits is None else ctx.logits
            ctx.logits = None  # the next line overwrites it
            grad_bias += ctx.rows.differentiate(logits, targets[part], normalizers[part], grad[part])
            torch.mm(logits, weight, out=grad_x[part])
            ctx.rows.add_product(grad_weight, logits.t(), x[part])
        return grad_x.to(x_dtype), grad_weight.to(weight_dtype), grad_bias.to(bias_dtype), None, None, None, None


def _rows_in_cache(logits: torch.Tensor) -> int:
    return max(1, _CACHED // logits.shape[1])
