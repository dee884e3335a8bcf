"""Batches that are put together on a GPU.

In: a `Loader`. Out: the same `Batch`es, padded to few different shapes, from ids that lie in the GPU's memory.
"""

from typing import NamedTuple

import numpy as np
import torch

from exadec.corpus.vocabulary import BOS, EOS, NONE, PAD, UNK
from exadec.loading.batch import Batch
from exadec.loading.loader import Loader

_ROUND = 8
"""Lengths are rounded up to a multiple of this: some padding, but few shapes."""


class Shape(NamedTuple):
    """The sizes of a padded batch."""

    batch: int
    source: int
    exemplar: int
    target: int


class ResidentLoader:
    """All instances of a split on a device; a news corpus of 750,000 pairs takes 150 MB there."""

    def __init__(self, loader: Loader, device: torch.device):
        self.vocabulary_size, self.copy_exemplar = loader.vocabulary_size, loader.copy_exemplar
        self.source_lengths = loader.sources.lengths
        self.target_lengths = loader.targets.lengths
        # Behind all training targets lies the exemplar of instances that have none.
        shown = loader.exemplar_targets
        number = np.where(loader.exemplar_index < 0, len(shown), loader.exemplar_index)
        self.exemplar_lengths = np.append(shown.lengths, 1)[number]

        def load(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.array(array)).to(device)

        self._source_ids, self._source_begins = load(loader.sources.ids), load(loader.sources.offsets[:-1])
        self._target_ids, self._target_begins = load(loader.targets.ids), load(loader.targets.offsets[:-1])
        self._shown_ids = load(np.append(shown.ids, NONE))
        self._shown_begins = load(shown.offsets[number])
        lengths = (self.source_lengths, self.exemplar_lengths, self.target_lengths)
        self._lengths = tuple(load(part.astype(np.int64)) for part in lengths)

    def shape(self, indices: np.ndarray, batch_size: int) -> Shape:
        """Room for these instances, and for as many more as a full batch has."""
        longest = (
            self.source_lengths[indices].max(),
            self.exemplar_lengths[indices].max(),
            self.target_lengths[indices].max() + 1,  # the end symbol
        )
        return Shape(batch_size, *(-(-int(length) // _ROUND) * _ROUND for length in longest))

    def gather(self, indices: torch.Tensor, shape: Shape) -> Batch:
        """(B,) int64 on the device -> a batch; an index of -1 stands for a row without a single word to write."""
        if indices.is_cuda:
            return self.gather_at_once(indices, shape)
        is_there = indices >= 0
        rows = indices.clamp_min(0)
        # The first instance stands in where there is none, cut to the room there is.
        room = (shape.source, shape.exemplar, shape.target - 1)
        source_lengths, exemplar_lengths, target_lengths = (
            lengths[rows].clamp_max(size) for lengths, size in zip(self._lengths, room, strict=True)
        )
        source = _take(self._source_ids, self._source_begins[rows], source_lengths, shape.source)
        exemplar = _take(self._shown_ids, self._shown_begins[rows], exemplar_lengths, shape.exemplar)
        target = _take(self._target_ids, self._target_begins[rows], target_lengths, shape.target)
        ends = target_lengths[:, None]
        positions = torch.arange(shape.target, device=rows.device)
        output = torch.where(positions == ends, EOS, target)
        # Unknown words keep their number of the whole corpus; one that cannot be copied can only be UNK.
        memory = torch.cat([source, exemplar], dim=1) if self.copy_exemplar else source
        copyable = (output[:, :, None] == memory[:, None]).any(dim=2)
        output = torch.where((output >= self.vocabulary_size) & ~copyable, UNK, output)
        begin = torch.full_like(output[:, :1], BOS)
        return Batch(
            source=source,
            source_lengths=source_lengths,
            exemplar=exemplar,
            exemplar_lengths=exemplar_lengths,
            target_input=torch.where(positions <= ends, torch.cat([begin, target[:, :-1]], dim=1), PAD),
            target_output=torch.where((positions <= ends) & is_there[:, None], output, PAD),
            unknown=np.zeros((shape.batch, 0), np.int64),
        )

    def gather_at_once(self, indices: torch.Tensor, shape: Shape) -> Batch:
        """The same by one kernel instead of fifty."""
        from exadec.loading.resident_kernels import gather  # Triton comes with torch where there is a GPU

        source_lengths, exemplar_lengths, target_lengths = self._lengths
        source, exemplar, inputs, outputs, *lengths = gather(
            indices,
            (self._source_ids, self._source_begins, source_lengths),
            (self._shown_ids, self._shown_begins, exemplar_lengths),
            (self._target_ids, self._target_begins, target_lengths),
            shape[1:],
            self.vocabulary_size,
            self.copy_exemplar,
        )
        unknown = np.zeros((shape.batch, 0), np.int64)
        return Batch(source, lengths[0], exemplar, lengths[1], inputs, outputs, unknown)


def _take(ids: torch.Tensor, begins: torch.Tensor, lengths: torch.Tensor, size: int) -> torch.Tensor:
    """(B, size) int64: the sequences that begin there, padded."""
    positions = torch.arange(size, device=ids.device)
    places = (begins[:, None] + positions).clamp_max(len(ids) - 1)
    return torch.where(positions < lengths[:, None], ids[places].long(), PAD)
