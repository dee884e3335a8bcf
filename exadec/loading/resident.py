"""Batches collated on a GPU, from ids that stay in its memory.

In: a `Loader`. Out: the same `Batch`es, with more padding, so that there are only a few shapes.
"""

from typing import NamedTuple

import numpy as np
import torch

from exadec.corpus.prepare import Sequences
from exadec.corpus.vocabulary import BOS, NONE
from exadec.loading.batch import Batch
from exadec.loading.loader import Loader
from exadec.loading.unknown import LocalWords

_ROUND = 8
"""Lengths are rounded up to a multiple of this: some padding, but few shapes."""


class Texts(NamedTuple):
    """Id sequences in GPU memory."""

    ids: torch.Tensor
    """All texts, concatenated."""
    begins: torch.Tensor
    """(N,): where each instance's text begins."""
    lengths: torch.Tensor
    """(N,)"""

    @staticmethod
    def load(ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray, device: torch.device) -> "Texts":
        return Texts(*(torch.from_numpy(np.array(part)).to(device) for part in (ids, begins, lengths)))


class Shape(NamedTuple):
    """The sizes of a padded batch."""

    batch: int
    source: int
    exemplar: int
    target: int


class ResidentLoader:
    """All instances of a split in GPU memory. A news corpus of 750,000 pairs takes 150 MB."""

    def __init__(self, loader: Loader, device: torch.device):
        shown, targets, self.draw = loader.exemplar_targets, loader.targets, loader.draw
        self.exemplars_each, self.exemplars_drawn = loader.exemplar_index.shape[1], loader.exemplars_drawn
        # After the last training target comes the exemplar of the instances that have none.
        number = np.where(loader.exemplar_index < 0, len(shown), loader.exemplar_index).ravel()  # (N·k,)
        lengths, begins = np.append(shown.lengths, 1)[number], shown.offsets[number]
        ids, sources = np.append(shown.ids, NONE), loader.sources
        if loader.exemplar_marked.any():
            # Each text behind a begin symbol of its own, where a marked exemplar begins.
            ids, begins = np.insert(ids, shown.offsets, BOS), begins + number + 1
            marked = np.repeat(loader.exemplar_marked, self.exemplars_each)
            lengths, begins = lengths + marked, begins - marked
        unknown = Sequences(np.zeros(0, np.int64), np.zeros(len(sources) + 1, np.int64))
        if max(part.max(initial=0) for part in (sources.ids, ids, targets.ids)) >= loader.vocabulary_size:
            # Each instance numbers unknown words separately, so each needs its own copy of its exemplar.
            ids, offsets = _take_rows(ids, begins, lengths)
            together = Sequences(ids, offsets[:: self.exemplars_each])
            local = LocalWords.find([sources, together] if loader.copy_exemplar else [sources], loader.vocabulary_size)
            sources, together, targets = (local.relabel(text) for text in (sources, together, targets))
            ids, begins, unknown = together.ids, offsets[:-1], local.words
        self.source_lengths, self.target_lengths = sources.lengths, targets.lengths
        self.exemplar_lengths = lengths.reshape(len(sources), -1).max(axis=1)
        """(N,): the longest of each instance's exemplars"""
        self.most_unknown = int(unknown.lengths.max(initial=0))
        self._sources, self._targets, self._unknown = (
            Texts.load(text.ids, text.offsets[:-1], text.lengths, device) for text in (sources, targets, unknown)
        )
        self._exemplars = Texts.load(ids, begins, lengths, device)

    def shape(self, indices: np.ndarray, batch_size: int) -> Shape:
        """The shape that fits these instances, padded to a full batch."""
        longest = (
            self.source_lengths[indices].max(),
            self.exemplar_lengths[indices].max(),
            self.target_lengths[indices].max() + 1,  # the end symbol
        )
        return Shape(batch_size, *(-(-int(length) // _ROUND) * _ROUND for length in longest))

    def address(self, indices: np.ndarray, batch_size: int) -> np.ndarray:
        """What `gather` needs to know of these instances: (B + exemplars drawn,) int64.

        The instances, padded to a full batch with -1, which gives rows without target words; then the columns drawn.
        """
        padding = np.full(batch_size - len(indices), -1)
        return np.concatenate([indices, padding, self.draw(indices)])

    def gather(self, address: torch.Tensor, shape: Shape) -> Batch:
        """An `address` on the device -> a batch, with one kernel."""
        from exadec.loading.resident_kernels import gather  # imported late: only CUDA builds of torch have Triton

        sizes = (*shape[1:], self.most_unknown)
        texts = (self._sources, self._exemplars, self._targets, self._unknown)
        indices, columns = address.split([shape.batch, self.exemplars_drawn])
        return gather(indices, columns, *texts, sizes, self.exemplars_each)


def _take_rows(ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sequences given by their begins and lengths, concatenated, and their offsets."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return ids[np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets
