"""Operations on rows of logits, in Triton.

In: logits of any floating dtype. Out: log p of one word per row, or gradients, written in place of the logits.

If the length of a row is a multiple of 8, it is passed in units of 8 values. This tells the compiler how rows are
aligned, so it reads 8 values at a time. Otherwise it reads one at a time, unless the length is a multiple of 16.
"""

import torch
import triton
import triton.language as tl

from exadec.model.backends.softmax import Rows

# On an H200, at most a tenth slower than the fastest sizes we tried, for 671 and for 1,024 rows of 25,000 words.
_SCORE = {"block": 4096, "num_warps": 4}
_DIFFERENTIATE = {"tile": 8, "block": 512, "num_warps": 4}
_ROWS = 32
"""Rows whose gradients one program sums."""


class TritonRows(Rows):
    """`Rows` in Triton: each row is read once in the forward pass and once in the backward pass."""

    keeps_logits = False

    def score(
        self, logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, found: torch.Tensor
    ) -> None:
        _score[(len(logits),)](logits, targets, normalizers, found, *_in_units(logits.shape[1]), **_SCORE)

    def differentiate(
        self, logits: torch.Tensor, targets: torch.Tensor, normalizers: torch.Tensor, grad: torch.Tensor
    ) -> torch.Tensor:
        rows, size = logits.shape
        groups = triton.cdiv(rows, _ROWS)
        sums = logits.new_empty(groups, size, dtype=torch.float32)
        _differentiate[(triton.cdiv(size, _DIFFERENTIATE["block"]), groups)](
            logits, targets, normalizers, grad.contiguous(), sums, rows, *_in_units(size), group=_ROWS, **_DIFFERENTIATE
        )
        return sums.sum(0)

    def add_product(self, total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        if total.dtype == a.dtype:
            total.addmm_(a, b)
        else:
            torch.addmm(total, a, b, out_dtype=total.dtype, out=total)


def _in_units(size: int) -> tuple[int, int]:
    return (size // 8, 8) if size % 8 == 0 else (size, 1)


@triton.jit
def _score(logits, targets, normalizers, found, units, unit: tl.constexpr, block: tl.constexpr):
    row, size = tl.program_id(0).to(tl.int64), units * unit
    columns = tl.arange(0, block)
    chosen = tl.load(logits + row * size + tl.load(targets + row)).to(tl.float32)
    highest = -1e30
    total = tl.zeros((block,), tl.float32)
    for begin in range(0, size, block):
        inside = begin + columns < size
        values = tl.load(logits + row * size + begin + columns, mask=inside, other=-1e30).to(tl.float32)
        higher = tl.maximum(highest, tl.max(values, axis=0))
        total = total * tl.exp(highest - higher) + tl.exp(values - higher)
        highest = higher
    normalizer = highest + tl.log(tl.sum(total, axis=0))
    tl.store(normalizers + row, normalizer)
    tl.store(found + row, chosen - normalizer)


@triton.jit
def _differentiate(
    logits, targets, normalizers, grad, sums, rows, units, unit: tl.constexpr, group: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    size = units * unit
    columns = tl.program_id(0) * block + tl.arange(0, block)
    total = tl.zeros((tile, block), tl.float32)
    for begin in tl.static_range(0, group, tile):
        some = tl.program_id(1) * group + begin + tl.arange(0, tile)
        real = some < rows
        target = tl.load(targets + some, mask=real, other=0)
        normalizer = tl.load(normalizers + some, mask=real, other=0.0)
        scale = tl.load(grad + some, mask=real, other=0.0)
        inside = real[:, None] & (columns < size)[None, :]
        place = logits + some[:, None].to(tl.int64) * size + columns[None, :]
        values = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        hit = tl.where(columns[None, :] == target[:, None], 1.0, 0.0)
        change = scale[:, None] * (hit - tl.exp(values - normalizer[:, None]))
        tl.store(place, change, mask=inside)
        total += change
    place = sums + tl.program_id(1).to(tl.int64) * size + columns
    tl.store(place, tl.sum(total, axis=0), mask=columns < size)
