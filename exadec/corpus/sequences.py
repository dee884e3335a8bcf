"""Many integer sequences in one array, on disk.

In: sequences, a block at a time. Out: `Sequences`, memory-mapped; fingerprints of sequences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from exadec.reading.arrays import require_offsets, require_within
from exadec.reading.folder import Folder

BLOCK = 1 << 20
"""Numbers processed at a time."""
END = 1 << 31
"""Above every number of a sequence"""


@dataclass(frozen=True)
class Sequences:
    """Many sequences in one memory-mapped array."""

    ids: np.ndarray
    """(all numbers,) int32"""
    offsets: np.ndarray
    """(N + 1,) int64; sequence i is ids[offsets[i]:offsets[i + 1]]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        row: np.ndarray = self.ids[self.offsets[index] : self.offsets[index + 1]]
        return row

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @staticmethod
    def open(
        folder: Folder, name: str, count: int | None = None, numbers: int = END, mode: Literal["r", "c"] = "r"
    ) -> "Sequences":
        """Map `count` sequences of numbers from 0 to below `numbers`."""
        within = partial(require_within, low=0, high=numbers - 1)
        ids = folder.map_array(f"{name}.ids.npy", np.int32, (None,), within, mode)
        rows = None if count is None else count + 1
        check = partial(require_offsets, total=len(ids))
        return Sequences(ids, folder.map_array(f"{name}.offsets.npy", np.int64, (rows,), check, mode))

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, int]]:
        """Ranges of whole sequences with about `size` numbers each, or one sequence if it is longer."""
        ends = np.searchsorted(self.offsets, np.arange(0, self.offsets[-1] + size, size))
        return pairwise(np.unique(np.append(ends.clip(max=len(self)), len(self))).tolist())

    def expand(self, parts: "Sequences", begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Sequences `begin` to `end`, each number replaced by its sequence in `parts`: (all parts,), (N,) lengths."""
        offsets = self.offsets[begin : end + 1]
        ids = self.ids[offsets[0] : offsets[-1]]
        lengths = parts.lengths[ids]  # of the parts of each number
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(parts.offsets[ids] - ends[:-1], lengths) + np.arange(ends[-1])
        return parts.ids[places], np.diff(ends[offsets - offsets[0]])


def positions(lengths: np.ndarray) -> np.ndarray:
    """(all numbers,): 0, 1, ... within each sequence."""
    starts: np.ndarray = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(starts, lengths)


def fingerprints(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(N,) int64 hashes; different sequences collide with a probability of 2 ** -64. No sequence may be empty."""
    # splitmix64 hashes each number together with its position; a sequence's hash is the sum.
    bits = (positions(lengths) << 32 | ids).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return np.add.reduceat(bits, np.cumsum(lengths) - lengths).view(np.int64)


class ArrayFile:
    """A one-dimensional .npy file to append to; its size need not be known in advance, nor fit in memory."""

    def __init__(self, path: Path, dtype: type[np.generic]):
        self.dtype, self.size = np.dtype(dtype), 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.size += len(values)

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.seek(0)
        self._write_header()  # numpy pads the header, so that any size fits
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, header)


class OffsetsFile(ArrayFile):
    """Offsets of sequences, computed from their lengths."""

    def __init__(self, path: Path):
        super().__init__(path, np.int64)
        self._end = 0
        super().append(np.zeros(1, np.int64))

    def append(self, lengths: np.ndarray) -> None:
        ends = self._end + np.cumsum(lengths)
        super().append(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

    def __enter__(self) -> "OffsetsFile":
        return self


class SequencesFile:
    """Writes `Sequences` to a folder, block by block."""

    def __init__(self, folder: Path, name: str):
        self.ids = ArrayFile(folder / f"{name}.ids.npy", np.int32)
        self.offsets = OffsetsFile(folder / f"{name}.offsets.npy")

    def append(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        self.ids.append(ids)
        self.offsets.append(lengths)

    def __enter__(self) -> "SequencesFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.ids.__exit__(*error)
        self.offsets.__exit__(*error)
