"""Arrays in .npy files, mapped into memory.

In: an open file. Out: an array whose type, shape and values have been checked, or a `ValueError` that says why not.

numpy's own reader evaluates the header, and maps whatever the header asks for. This one reads only what `np.save`
writes for plain numbers, and never unpickles.
"""

import math
import os
import re
from typing import BinaryIO, Literal

import numpy as np

from exadec.reading.content import Part

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': (True|False), 'shape': \((\d{0,15}(?:, ?\d{1,15}){0,3},?)\), \} *\n"
)

Shape = tuple[int | None, ...]
"""None for a length that the file decides."""


def map_array(file: BinaryIO, dtype: type[np.generic], shape: Shape, mode: Literal["r", "c", "r+"] = "r") -> np.ndarray:
    """The array of a file that must have this dtype and this shape. `c` makes a writable array, but keeps the file."""
    opening = file.read(10)
    header = file.read(int.from_bytes(opening[8:10], "little")) if opening[:8] == _MAGIC else b""
    parsed = _HEADER.fullmatch(header)
    if parsed is None:
        raise ValueError("it is not an array of numbers")
    described, in_columns, lengths = parsed[1].decode(), parsed[2] == b"True", parsed[3].decode()
    expected = np.dtype(dtype)
    if described != np.lib.format.dtype_to_descr(expected):
        raise ValueError(f"its numbers are {described}, not {expected.str}")
    found = tuple(int(length) for length in lengths.split(",") if length.strip())
    if len(found) != len(shape) or any(b is not None and a != b for a, b in zip(found, shape, strict=True)):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"its shape is {found}, not ({wanted})")
    begin, end = file.tell(), file.seek(0, os.SEEK_END)
    if begin + math.prod(found) * expected.itemsize != end:
        raise ValueError("its size is not what its header says")
    if not math.prod(found):
        return np.empty(found, expected)
    order: Literal["C", "F"] = "F" if in_columns else "C"
    whole, start = (file.file, file.begin) if isinstance(file, Part) else (file, 0)
    array = np.asarray(np.memmap(whole, expected, mode, start + begin, found, order))
    if expected == np.bool_:
        require_within(array.view(np.uint8), 0, 1)  # another byte would be both true and false
    return array


def require_within(values: np.ndarray, low: float, high: float) -> None:
    """Refuse NaN, and numbers below `low` or above `high`."""
    if values.size and not (low <= values.min() and values.max() <= high):
        raise ValueError(f"a number in it is not from {low} to {high}")


def require_offsets(offsets: np.ndarray, total: int) -> None:
    """Refuse offsets that do not lead from 0 to `total` without a step back."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != total or not (offsets[1:] >= offsets[:-1]).all():
        raise ValueError(f"its offsets do not ascend from 0 to {total}")


def require_ascending(values: np.ndarray, offsets: np.ndarray) -> None:
    """Refuse sequences, `offsets` apart, in which a number is not above the one before it."""
    rises = values[1:] > values[:-1]
    starts = offsets[1:-1]
    rises[starts[(starts > 0) & (starts < len(values))] - 1] = True
    if not rises.all():
        raise ValueError("its numbers do not ascend")
