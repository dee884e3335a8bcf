"""Collating a batch with one kernel, in Triton.

In: the ids of a whole split in GPU memory, and the indices of a batch's instances. Out: a `Batch`.
"""

import torch
import triton
import triton.language as tl

from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.loading.batch import Batch
from exadec.loading.resident import Texts


def gather(
    indices: torch.Tensor,
    columns: torch.Tensor,
    source: Texts,
    exemplar: Texts,
    target: Texts,
    unknown: Texts,
    sizes: tuple[int, ...],
    exemplars_each: int,
) -> Batch:
    """(B,) int64, -1 for rows without target words -> a batch whose texts are padded to `sizes`.

    The sizes are for sources, exemplars, targets with their end symbol, and unknown words. `columns` says which of
    each instance's exemplars to take.
    """
    batch, new, drawn = len(indices), indices.new_empty, len(columns)
    rows = (batch, batch * drawn, batch, batch)
    sources, exemplars, outputs, words = (new(count, size) for count, size in zip(rows, sizes, strict=True))
    inputs, lengths, of_exemplars = torch.empty_like(outputs), new(batch), new(batch * drawn)
    _gather[(batch,)](
        indices, columns, *source, *exemplar, *target, *unknown, sources, exemplars, inputs, outputs, words, lengths,
        of_exemplars, *sizes, PAD, BOS, EOS, exemplars_each, drawn,
        *(triton.next_power_of_2(max(1, size)) for size in sizes),
    )  # fmt: skip
    return Batch(sources, lengths, exemplars, of_exemplars, inputs, outputs, words)


@triton.jit
def _take(ids, begins, lengths, index, out, size, row, pad, block: tl.constexpr):
    """Copy one text, truncated or padded to `size`; returns its length."""
    places = tl.arange(0, block)
    begin, length = tl.load(begins + index), tl.minimum(tl.load(lengths + index), size)
    words = tl.load(ids + begin + places, mask=places < length, other=pad).to(tl.int64)
    tl.store(out + row * size + places, words, mask=places < size)
    return length


@triton.jit
def _gather(
    indices, columns, source_ids, source_begins, source_lengths, exemplar_ids, exemplar_begins, exemplar_lengths,
    target_ids, target_begins, target_lengths, unknown_ids, unknown_begins, unknown_lengths,
    sources, exemplars, inputs, outputs, unknown, lengths, of_exemplars,
    source_size, exemplar_size, target_size, unknown_size, pad: tl.constexpr, bos: tl.constexpr, eos: tl.constexpr,
    exemplars_each: tl.constexpr, drawn: tl.constexpr,
    source_block: tl.constexpr, exemplar_block: tl.constexpr, target_block: tl.constexpr, unknown_block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(indices + row)
    index = tl.maximum(number, 0)
    source_length = _take(
        source_ids, source_begins, source_lengths, index, sources, source_size, row, pad, source_block
    )
    for i in tl.static_range(drawn):
        text, place = index * exemplars_each + tl.load(columns + i), row * drawn + i
        exemplar_length = _take(
            exemplar_ids, exemplar_begins, exemplar_lengths, text, exemplars, exemplar_size, place, pad, exemplar_block
        )
        tl.store(of_exemplars + place, exemplar_length)
    _take(unknown_ids, unknown_begins, unknown_lengths, index, unknown, unknown_size, row, 0, unknown_block)
    tl.store(lengths + row, source_length)
    places = tl.arange(0, target_block)
    begin, length = tl.load(target_begins + index), tl.minimum(tl.load(target_lengths + index), target_size - 1)
    words = tl.load(target_ids + begin + places, mask=places < length, other=pad).to(tl.int64)
    words = tl.where((places == length) & (number >= 0), eos, words)
    tl.store(outputs + row * target_size + places, tl.where(number >= 0, words, pad), mask=places < target_size)
    follows = (places > 0) & (places <= length)
    before = tl.load(target_ids + begin + places - 1, mask=follows, other=pad).to(tl.int64)
    tl.store(inputs + row * target_size + places, tl.where(places == 0, bos, before), mask=places < target_size)
