"""The softmax over the vocabulary, of the words of known targets alone.

In: attentional vectors, softmax weights, target words. Out: log p of each, and gradients; never all logits at once.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.corpus.vocabulary import PAD

_BYTES = 1 << 28
"""Of logits that exist at a time. On an H200 half of it takes 1.1 times as long, an eighth 1.3 times."""
_CACHED = 1 << 20
"""Logits that a CPU takes through several operations while its cache holds them."""


def log_probability(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """log softmax(Wx + b) at the targets: (B, T, E), (V, E), (V,), (B, T) -> (B, T); anything at padding."""
    kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    rows = max(1, _BYTES // (kind.itemsize * len(weight)))
    found: torch.Tensor
    if x.is_cuda:  # where shapes must not depend on the texts
        found = _LogProbability.apply(x.flatten(0, 1), weight, bias, targets.flatten(), kind, rows)
        return found.view(targets.shape)
    words = targets != PAD
    found = _LogProbability.apply(x[words], weight, bias, targets[words], kind, rows)
    return found.new_zeros(targets.shape).masked_scatter(words, found)


class _LogProbability(torch.autograd.Function):
    """In chunks of rows. Backward computes the logits of a chunk again, which costs a GPU less than the memory; a CPU
    keeps a single chunk.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,  # (N, E)
        weight: torch.Tensor,  # (V, E)
        bias: torch.Tensor,  # (V,)
        targets: torch.Tensor,  # (N,)
        kind: torch.dtype,
        rows: int,
    ) -> torch.Tensor:  # (N,)
        x_kind, weight_kind, bias_kind = x.to(kind), weight.to(kind), bias.to(kind)
        precise = torch.float64 if kind == torch.float64 else torch.float32
        normalizers, found = x.new_empty(2, len(x), dtype=precise)
        ctx.logits = None
        for begin in range(0, len(x), rows):
            part = slice(begin, begin + rows)
            logits = torch.addmm(bias_kind, x_kind[part], weight_kind.t())  # (rows, V)
            _score(logits, targets[part], normalizers[part], found[part])
            if any(ctx.needs_input_grad) and len(x) <= rows and not x.is_cuda:
                ctx.logits = logits
        ctx.save_for_backward(x_kind, weight_kind, bias_kind, targets, normalizers)
        ctx.rows, ctx.kinds = rows, (x.dtype, weight.dtype, bias.dtype)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, bias, targets, normalizers = ctx.saved_tensors
        x_kind, weight_kind, bias_kind = ctx.kinds
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight, dtype=normalizers.dtype)
        grad_bias = torch.zeros_like(bias, dtype=normalizers.dtype)
        for begin in range(0, len(x), ctx.rows):
            part = slice(begin, begin + ctx.rows)
            logits = torch.addmm(bias, x[part], weight.t()) if ctx.logits is None else ctx.logits
            ctx.logits = None  # it is changed now
            grad_bias += _differentiate(logits, targets[part], normalizers[part], grad[part])
            torch.mm(logits, weight, out=grad_x[part])
            _add_product(grad_weight, logits.t(), x[part])
        return grad_x.to(x_kind), grad_weight.to(weight_kind), grad_bias.to(bias_kind), None, None, None


def _add_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """total += ab, where the total may be of higher precision."""
    if total.is_cuda and total.dtype != a.dtype:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b


def _score(logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, found: torch.Tensor) -> None:
    """Fill the logarithm of the sum of the exponentials of each row, and log p of its target: (rows,) each."""
    if logits.is_cuda and normalizers.dtype == torch.float32:
        from exadec.model.output_kernels import score

        score(logits, targets, normalizers, found)
        return
    for part, normalizer in zip(
        *(tensor.split(_rows_in_cache(logits)) for tensor in (logits, normalizers)), strict=True
    ):
        values = part.to(normalizer.dtype)
        highest = values.amax(1, keepdim=True)
        normalizer.copy_((values - highest).exp_().sum(1).log_() + highest.squeeze(1))
    found.copy_(logits.gather(1, targets[:, None]).squeeze(1) - normalizers)


def _differentiate(
    logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, grad: torch.Tensor
) -> torch.Tensor:
    """Logits become their own gradients, in place: grad · (1 at the target, less the probability).

    Returns the sums of the columns, in the normalizers' precision.
    """
    if logits.is_cuda and normalizers.dtype == torch.float32:
        from exadec.model.output_kernels import differentiate

        return differentiate(logits, targets, normalizers, grad)
    blocks = (tensor.split(_rows_in_cache(logits)) for tensor in (logits, normalizers, grad))
    for part, normalizer, scale in zip(*blocks, strict=True):
        part.copy_((part.to(normalizer.dtype) - normalizer[:, None]).exp_().mul_(-scale[:, None]))
    places = torch.arange(len(targets), device=logits.device)
    logits[places, targets] += grad.to(logits.dtype)
    return logits.sum(0, dtype=normalizers.dtype)


def _rows_in_cache(logits: torch.Tensor) -> int:
    return max(1, _CACHED // logits.shape[1])
