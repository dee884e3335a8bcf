"""Pretrained word vectors.

In: a vector file (GloVe or word2vec text; plain, .gz, .xz or .zip) and a vocabulary. Out: one row per piece, or NaN.
"""

import logging
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from exadec.corpus.segment import JOINER
from exadec.corpus.vocabulary import SPECIALS, Vocabulary
from exadec.errors import InputError
from exadec.reading.lines import bounded_lines, decode_lines, read_lines

_NUMERIC = b"0123456789+-.eE "
"""The characters that numbers consist of."""

logger = logging.getLogger(__name__)


def read_vectors(path: Path, vocabulary: Vocabulary, dimension: int) -> np.ndarray:
    """(V, E) float32, NaN for pieces without a vector. Logs how many have one.

    A piece with a joiner gets the vector of the bare word. If a word has several vectors, the first one is used.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file (named by `model.glove`).")
    wanted: dict[str, list[int]] = {}
    for number, piece in enumerate(vocabulary.pieces):
        if number >= len(SPECIALS):
            wanted.setdefault(piece.removeprefix(JOINER), []).append(number)
    vectors = np.full((len(vocabulary), dimension), np.nan, np.float32)
    for number, line in _lines(path, dimension):
        where = f"{path}:{number}"
        if number == 1 and _is_header(line, dimension, where):
            continue
        word, numbers = _split(line.rstrip(), dimension, where)
        if rows := wanted.pop(word, None):
            vectors[rows] = _parse(numbers, where)
    _log_coverage(path, vectors)
    return vectors


def _log_coverage(path: Path, vectors: np.ndarray) -> None:
    pieces = len(vectors) - len(SPECIALS)
    found = int((~np.isnan(vectors[:, 0])).sum())
    level = logging.INFO if found else logging.WARNING
    logger.log(level, "%s: vectors for %d of %d pieces (%.1f%%).", path, found, pieces, 100 * found / max(1, pieces))


def _is_header(line: str, dimension: int, where: str) -> bool:
    """Whether the first line is a word2vec header: the number of vectors and their size."""
    fields = line.split()
    # With vectors of size 1, `400 1` is a word and its vector.
    if dimension == 1 or len(fields) != 2 or not all(field.isdecimal() for field in fields):
        return False
    if int(fields[1]) != dimension:
        message = f"the vectors have {fields[1]} numbers, but `model.embedding` is {dimension}."
        raise InputError(f"{where}: {message}")
    return True


def _split(line: str, dimension: int, where: str) -> tuple[str, str]:
    """The word of a line and its numbers. Lines of words that are not needed get only cheap checks."""
    surplus = line.count(" ") - dimension
    if surplus < 0:
        raise InputError(f"{where}: expected a word and {dimension} numbers (`model.embedding`).")
    if surplus == 0:
        word, _, numbers = line.partition(" ")
    else:
        # The word itself contains spaces (the 840B file has such lines), so count the numbers from the right.
        word = line.rsplit(" ", dimension)[0]
        numbers = line[len(word) + 1 :]
        # A number inside the word means too many numbers: the vectors are longer, or two lines were joined.
        if any(_is_number(part) for part in word.split(" ")[1:]):
            raise InputError(f"{where}: expected a word and {dimension} numbers (`model.embedding`), but found more.")
    # Millions of lines are read for a few thousand words, and deleting characters is far cheaper than parsing.
    if numbers.encode().translate(None, _NUMERIC):
        raise InputError(f"{where}: expected {dimension} numbers after the word.")
    return word, numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(numbers: str, where: str) -> np.ndarray:
    fields = numbers.split(" ")
    try:
        with np.errstate(over="ignore"):  # infinite values are refused below
            vector = np.array(fields, np.float32)
    except ValueError:
        raise InputError(f"{where}: expected {len(fields)} numbers after the word.") from None
    if not np.isfinite(vector).all():
        raise InputError(f"{where}: a number of the vector is too large.")
    return vector


def _lines(path: Path, dimension: int) -> Iterator[tuple[int, str]]:
    if path.suffix != ".zip":
        yield from read_lines(path)
        return
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_choose_member(path, archive, dimension)) as file:
            yield from decode_lines(bounded_lines(cast(BinaryIO, file), str(path)), str(path))
    # RuntimeError: it needs a password, or a method of packing that is not there
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError) as error:
        raise InputError(f"{path}: the zip file cannot be read ({error}).") from None


def _choose_member(path: Path, archive: zipfile.ZipFile, dimension: int) -> str:
    """The only text file, else the one named like the archive, else the one for this dimension (glove.6B.zip)."""
    names = [name for name in archive.namelist() if name.endswith(".txt") and not name.startswith("__MACOSX/")]
    endings = ("", f"{path.stem}.txt", f".{dimension}d.txt")
    for ending in endings:
        fitting = [name for name in names if name.endswith(ending)]
        if len(fitting) == 1:
            return fitting[0]
    found = ", ".join(names) or "none"
    raise InputError(f"{path}: expected one .txt file of {dimension} numbers a word, but found {found}.")
