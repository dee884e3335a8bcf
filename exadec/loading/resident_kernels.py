"""A batch put together on a GPU by one kernel, compiled by Triton.

In: ids of whole corpora in the GPU's memory, the numbers of a batch's instances. Out: its padded tensors.
"""

import torch
import triton
import triton.language as tl

from exadec.corpus.vocabulary import BOS, EOS, PAD, UNK

Texts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Ids one text after another, and where each instance's text begins and how long it is."""


def gather(
    indices: torch.Tensor,
    source: Texts,
    exemplar: Texts,
    target: Texts,
    sizes: tuple[int, int, int],
    vocabulary_size: int,
    copy_exemplar: bool,
) -> tuple[torch.Tensor, ...]:
    """Sources, exemplars, inputs and outputs (B, ·) padded to their sizes, then lengths of sources and exemplars (B,).

    The last of `sizes` is that of inputs and outputs; `vocabulary_size` and `copy_exemplar` say which words of a target
    can be written at all.
    """
    batch, (source_size, exemplar_size, target_size) = len(indices), sizes
    new = indices.new_empty
    sources, exemplars = new(batch, source_size), new(batch, exemplar_size)
    inputs, outputs = new(batch, target_size), new(batch, target_size)
    lengths = new(2, batch)
    _gather[(batch,)](
        indices, *source, *exemplar, *target, sources, exemplars, inputs, outputs, lengths, batch,
        source_size, exemplar_size, target_size, vocabulary_size, copy_exemplar, PAD, BOS, EOS, UNK,
        *(triton.next_power_of_2(size) for size in sizes),
    )  # fmt: skip
    return sources, exemplars, inputs, outputs, *lengths


@triton.jit
def _take(ids, begins, lengths, index, out, size, row, pad, block: tl.constexpr):
    """One text, cut to the room there is and padded: the words, and how many there are."""
    places = tl.arange(0, block)
    begin, length = tl.load(begins + index), tl.minimum(tl.load(lengths + index), size)
    words = tl.load(ids + begin + places, mask=places < length, other=pad).to(tl.int64)
    tl.store(out + row * size + places, words, mask=places < size)
    return words, length


@triton.jit
def _gather(
    indices, source_ids, source_begins, source_lengths, exemplar_ids, exemplar_begins, exemplar_lengths,
    target_ids, target_begins, target_lengths, sources, exemplars, inputs, outputs, lengths, batch,
    source_size, exemplar_size, target_size, vocabulary_size, copy_exemplar: tl.constexpr,
    pad: tl.constexpr, bos: tl.constexpr, eos: tl.constexpr, unk: tl.constexpr,
    source_block: tl.constexpr, exemplar_block: tl.constexpr, target_block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(indices + row)
    index = tl.maximum(number, 0)
    source, source_length = _take(
        source_ids, source_begins, source_lengths, index, sources, source_size, row, pad, source_block
    )
    exemplar, exemplar_length = _take(
        exemplar_ids, exemplar_begins, exemplar_lengths, index, exemplars, exemplar_size, row, pad, exemplar_block
    )
    tl.store(lengths + row, source_length)
    tl.store(lengths + batch + row, exemplar_length)
    places = tl.arange(0, target_block)
    begin, length = tl.load(target_begins + index), tl.minimum(tl.load(target_lengths + index), target_size - 1)
    words = tl.load(target_ids + begin + places, mask=places < length, other=pad).to(tl.int64)
    words = tl.where(places == length, eos, words)
    # Unknown words keep their number of the whole corpus; one that cannot be copied can only be UNK.
    found = tl.max((words[:, None] == source[None, :]).to(tl.int32), axis=1)
    if copy_exemplar:
        found = tl.maximum(found, tl.max((words[:, None] == exemplar[None, :]).to(tl.int32), axis=1))
    words = tl.where((words >= vocabulary_size) & (found == 0), unk, words)
    written = (places <= length) & (number >= 0)
    tl.store(outputs + row * target_size + places, tl.where(written, words, pad), mask=places < target_size)
    follows = (places > 0) & (places <= length)
    before = tl.load(target_ids + begin + places - 1, mask=follows, other=pad).to(tl.int64)
    before = tl.where(places == 0, bos, before)
    tl.store(inputs + row * target_size + places, before, mask=places < target_size)
