"""Rows of logits on a GPU, each read once, compiled by Triton.

In: logits of any floating type. Out: their normalisers, or their gradients in their place.
"""

import torch
import triton
import triton.language as tl

_BLOCK = 4096


def normalize(logits: torch.Tensor) -> torch.Tensor:
    """(rows, V) -> (rows,) float32: log Σ exp."""
    normalizers = logits.new_empty(len(logits), dtype=torch.float32)
    _normalize[(len(logits),)](logits, normalizers, logits.shape[1], block=_BLOCK, num_warps=8)
    return normalizers


def differentiate(logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, grad: torch.Tensor) -> None:
    """In place: grad · (1 at the target, less exp(logit - normaliser))."""
    _differentiate[(len(logits),)](
        logits, targets, normalizers, grad.contiguous(), logits.shape[1], block=_BLOCK, num_warps=8
    )


@triton.jit
def _normalize(logits, normalizers, size, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    highest = tl.full((block,), -1e30, tl.float32)
    total = tl.zeros((block,), tl.float32)
    for begin in range(0, size, block):
        inside = begin + columns < size
        values = tl.load(logits + row * size + begin + columns, mask=inside, other=-1e30).to(tl.float32)
        higher = tl.maximum(highest, values)
        # What is masked adds nothing: exp(0) would be 1 in lanes that have seen no logit yet.
        total = total * tl.exp(highest - higher) + tl.where(inside, tl.exp(values - higher), 0.0)
        highest = higher
    top = tl.max(highest, axis=0)
    tl.store(normalizers + row, top + tl.log(tl.sum(total * tl.exp(highest - top), axis=0)))


@triton.jit
def _differentiate(logits, targets, normalizers, grad, size, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target, normalizer, scale = tl.load(targets + row), tl.load(normalizers + row), tl.load(grad + row)
    for begin in range(0, size, block):
        columns = begin + tl.arange(0, block)
        inside = columns < size
        place = logits + row * size + columns
        values = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        hit = tl.where(columns == target, 1.0, 0.0)
        tl.store(place, scale * (hit - tl.exp(values - normalizer)), mask=inside)
