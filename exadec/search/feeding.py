"""The instances of a batch as numbers that a recording can be given, some at a time.

In: a batch, and coefficients that take the place of λ. Out: parts of it, and how a recording reads their numbers.

numpy does such small things at once, where torch would start threads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from exadec.loading.batch import Batch

POSITIONS = 16
"""Lengths of sources and exemplars are rounded up to multiples of this, so that few recordings serve all batches."""


@dataclass(frozen=True)
class Part:
    """Instances that are read together."""

    first: int
    """The number of the first one."""
    count: int
    rows: int
    """As many as there are instances, or more."""
    numbers: np.ndarray
    """Their ids and lengths, one after the other. The last instance stands there again and again to fill the rows."""
    coefficients: torch.Tensor | None

    def lay_out(self, places: np.ndarray) -> torch.Tensor:
        """All that a recording needs to know to read the instances into these places: see `Feed.view`."""
        return torch.from_numpy(np.concatenate([self.numbers, places, [self.count]]))


class Feed:
    """A batch, padded to more positions, in parts."""

    def __init__(self, batch: Batch, coefficients: torch.Tensor | None, device: torch.device):
        parts = batch.source, batch.source_lengths, batch.exemplar, batch.exemplar_lengths
        self.size = batch.size
        self._arrays = [_widen(part.numpy()) for part in parts]
        self._coefficients = None if coefficients is None else coefficients.to(device)
        self._shapes = [(len(one) // self.size, *one.shape[1:]) for one in self._arrays]  # of one instance
        self.shapes = *self._shapes, None if coefficients is None else coefficients.shape[1:]
        """What a recording depends on, besides its number of rows."""

    def cut(self, places: int, refilled: int) -> Iterator[Part]:
        """All instances: as many as there are places first, then so many as are refilled at once."""
        yield self.take(0, places)
        yield from (self.take(first, refilled) for first in range(places, self.size, refilled))

    def take(self, first: int, rows: int) -> Part:
        """So many instances from the first one on, or all that are left."""
        count, numbers = min(rows, self.size - first), []
        for array, (each, *_) in zip(self._arrays, self._shapes, strict=True):
            some = array[first * each : (first + count) * each]
            numbers.append(some.ravel())
            if count < rows:
                numbers.append(np.tile(some[-each:].ravel(), rows - count))
        coefficients = self._coefficients
        if coefficients is not None:
            instances = first + torch.arange(rows, device=coefficients.device).clamp_max(count - 1)
            coefficients = coefficients[instances]
        return Part(first, count, rows, np.concatenate(numbers), coefficients)

    def view(self, laid_out: torch.Tensor, rows: int) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        """What `Part.lay_out` made, as a batch, its places (rows,), and how many of its rows are instances (1,).

        Targets and unknown words are not read.
        """
        shapes = [(rows * each, *width) for each, *width in self._shapes]
        *parts, places, count = laid_out.split([*(int(np.prod(shape)) for shape in shapes), rows, 1])
        source, lengths, exemplar, exemplar_lengths = (
            part.view(shape) for part, shape in zip(parts, shapes, strict=True)
        )
        nothing = source[:, :0]
        return Batch(source, lengths, exemplar, exemplar_lengths, nothing, nothing, nothing), places, count


def _widen(part: np.ndarray) -> np.ndarray:
    missing = -part.shape[-1] % POSITIONS if part.ndim == 2 else 0
    return np.pad(part, ((0, 0), (0, missing))) if missing else part  # with PAD, which is 0
