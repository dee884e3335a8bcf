"""Rows of logits on a GPU, each read once, compiled by Triton.

In: logits of any floating type. Out: their normalisers, or their gradients in their place.
"""

import torch
import triton
import triton.language as tl

# The fastest of those tried on an H200, with 25,000 words.
_NORMALIZE = {"block": 4096, "num_warps": 8}
_DIFFERENTIATE = {"block": 8192, "num_warps": 16}


def normalize(logits: torch.Tensor) -> torch.Tensor:
    """(rows, V) -> (rows,) float32: log Σ exp."""
    normalizers = logits.new_empty(len(logits), dtype=torch.float32)
    _normalize[(len(logits),)](logits, normalizers, logits.shape[1], **_NORMALIZE)
    return normalizers


def differentiate(logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, grad: torch.Tensor) -> None:
    """In place: grad · (1 at the target, less exp(logit - normaliser))."""
    _differentiate[(len(logits),)](logits, targets, normalizers, grad.contiguous(), logits.shape[1], **_DIFFERENTIATE)


@triton.jit
def _normalize(logits, normalizers, size, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    highest = -1e30
    total = tl.zeros((block,), tl.float32)
    for begin in range(0, size, block):
        inside = begin + columns < size
        values = tl.load(logits + row * size + begin + columns, mask=inside, other=-1e30).to(tl.float32)
        higher = tl.maximum(highest, tl.max(values, axis=0))
        total = total * tl.exp(highest - higher) + tl.exp(values - higher)
        highest = higher
    tl.store(normalizers + row, highest + tl.log(tl.sum(total, axis=0)))


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
