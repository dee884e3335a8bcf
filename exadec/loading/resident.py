"""Batches that are put together on a GPU, from ids that lie in its memory.

In: a `Loader`. Out: the same `Batch`es, with more padding, so that there are few different shapes.
"""

from typing import NamedTuple

import numpy as np
import torch

from exadec.corpus.prepare import Sequences
from exadec.corpus.vocabulary import NONE
from exadec.loading.batch import Batch
from exadec.loading.loader import Loader
from exadec.loading.unknown import LocalWords

_ROUND = 8
"""Lengths are rounded up to a multiple of this: some padding, but few shapes."""


class Texts(NamedTuple):
    """Sequences of ids in a GPU's memory."""

    ids: torch.Tensor
    """One text after another."""
    begins: torch.Tensor
    """(N,): where the text of each instance begins."""
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
    """All instances of a split on a GPU; a news corpus of 750,000 pairs takes 150 MB there."""

    def __init__(self, loader: Loader, device: torch.device):
        shown, targets = loader.exemplar_targets, loader.targets
        # Behind all training targets lies the exemplar of instances that have none.
        number = np.where(loader.exemplar_index < 0, len(shown), loader.exemplar_index)
        lengths, begins = np.append(shown.lengths, 1)[number], shown.offsets[number]
        ids, sources = np.append(shown.ids, NONE), loader.sources
        unknown = Sequences(np.zeros(0, np.int64), np.zeros(len(sources) + 1, np.int64))
        if max(part.max(initial=0) for part in (sources.ids, ids, targets.ids)) >= loader.vocabulary_size:
            # Each instance numbers unknown words for itself, so it needs an exemplar of its own.
            exemplars = _take_rows(ids, begins, lengths)
            local = LocalWords.find([sources, exemplars] if loader.copy_exemplar else [sources], loader.vocabulary_size)
            sources, exemplars, targets = (local.relabel(text) for text in (sources, exemplars, targets))
            ids, begins, unknown = exemplars.ids, exemplars.offsets[:-1], local.words
        self.source_lengths, self.exemplar_lengths, self.target_lengths = sources.lengths, lengths, targets.lengths
        self.most_unknown = int(unknown.lengths.max(initial=0))
        self._sources, self._targets, self._unknown = (
            Texts.load(text.ids, text.offsets[:-1], text.lengths, device) for text in (sources, targets, unknown)
        )
        self._exemplars = Texts.load(ids, begins, lengths, device)

    def shape(self, indices: np.ndarray, batch_size: int) -> Shape:
        """Room for these instances, and for as many more as a full batch has."""
        longest = (
            self.source_lengths[indices].max(),
            self.exemplar_lengths[indices].max(),
            self.target_lengths[indices].max() + 1,  # the end symbol
        )
        return Shape(batch_size, *(-(-int(length) // _ROUND) * _ROUND for length in longest))

    def gather(self, indices: torch.Tensor, shape: Shape) -> Batch:
        """(B,) int64 on the device -> a batch, by one kernel. An index of -1 gives a row without a word to write."""
        from exadec.loading.resident_kernels import gather  # Triton comes with torch where there is a GPU

        sizes = (*shape[1:], self.most_unknown)
        return gather(indices, self._sources, self._exemplars, self._targets, self._unknown, sizes)


def _take_rows(ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> Sequences:
    """The sequences that begin there, one after another."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Sequences(ids[np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets)
