"""The gradient of an embedding table, in Triton.

In: gradients of looked-up rows, sorted by word. Out: the sum for each word, deterministic.
"""

import torch
import triton
import triton.language as tl

_CHUNK = 16
"""Rows that one program sums sequentially."""
_SEARCHED = tl.constexpr(256)
"""Chunks that a program checks at a time."""


def sum_rows(grad: torch.Tensor, ids: torch.Tensor, order: torch.Tensor, size: int) -> torch.Tensor:
    """(N, E) with sorted ids (N,) and the position of each before sorting (N,) -> (size, E).

    A chunk writes the sum of each word whose rows all lie inside it. If a word continues past the end of its first
    chunk, that chunk writes its partial sum to `tails`, and later chunks write theirs to `heads`. A second kernel adds
    the partial sums up.
    """
    count, width = grad.shape
    chunks = triton.cdiv(count, _CHUNK)
    table = grad.new_zeros(size, width)
    heads, tails = grad.new_empty(2, chunks, width)
    block = triton.next_power_of_2(width)
    _sum_chunks[(chunks,)](grad, ids, order, table, heads, tails, count, width, _CHUNK, block, num_warps=2)
    _join_chunks[(chunks,)](ids, table, heads, tails, count, chunks, width, _CHUNK, block, num_warps=2)
    return table


@triton.jit
def _sum_chunks(
    grad, ids, order, table, heads, tails, count, width, chunk: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    number = tl.program_id(0).to(tl.int64)
    begin = number * chunk
    columns = tl.arange(0, block)
    word = tl.load(ids + begin).to(tl.int64)
    goes_on = (begin > 0) & (tl.load(ids + begin - 1, mask=begin > 0, other=-1) == word)  # from the previous chunk
    sums = tl.zeros((block,), tl.float32)
    for i in tl.static_range(chunk):
        real = begin + i < count
        following = tl.load(ids + begin + i, mask=real, other=-1).to(tl.int64)
        row = tl.load(order + begin + i, mask=real, other=0)
        values = tl.load(grad + row * width + columns, mask=columns < tl.where(real, width, 0), other=0.0)
        ends = following != word
        tl.store(heads + number * width + columns, sums, mask=columns < tl.where(ends & goes_on, width, 0))
        complete = ends & (goes_on == 0) & (word >= 0)
        tl.store(table + word * width + columns, sums, mask=columns < tl.where(complete, width, 0))
        sums = tl.where(ends, 0.0, sums) + values
        goes_on = goes_on & (ends == 0)
        word = following
    after = begin + chunk
    continues = (after < count) & (tl.load(ids + after, mask=after < count, other=-1) == word)
    tl.store(heads + number * width + columns, sums, mask=columns < tl.where(goes_on, width, 0))
    begins = (goes_on == 0) & continues
    tl.store(tails + number * width + columns, sums, mask=columns < tl.where(begins, width, 0))
    complete = (goes_on == 0) & (continues == 0) & (word >= 0)
    tl.store(table + word * width + columns, sums, mask=columns < tl.where(complete, width, 0))


@triton.jit
def _join_chunks(ids, table, heads, tails, count, chunks, width, chunk: tl.constexpr, block: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    begin, after = number * chunk, number * chunk + chunk
    columns = tl.arange(0, block)
    inside = columns < width
    word = tl.load(ids + tl.minimum(after, count) - 1).to(tl.int64)
    continues = (after < count) & (tl.load(ids + after, mask=after < count, other=-1) == word)
    before = (begin > 0) & (tl.load(ids + begin - 1, mask=begin > 0, other=-1) == word)
    if continues & (before == 0):  # the word's first chunk
        # Ids are sorted, so the chunks that begin with this word are consecutive.
        begins = tl.zeros((_SEARCHED,), tl.int32)
        for some in range(number + 1, chunks, _SEARCHED):
            others = some + tl.arange(0, _SEARCHED)
            firsts = tl.load(ids + others * chunk, mask=others < chunks, other=-1)
            begins += (firsts == word).to(tl.int32)
        sums = tl.load(tails + number * width + columns, mask=inside, other=0.0)
        for other in range(number + 1, number + 1 + tl.sum(begins, axis=0)):
            sums += tl.load(heads + other * width + columns, mask=inside, other=0.0)
        tl.store(table + word * width + columns, sums, mask=inside)
