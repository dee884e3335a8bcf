"""Pretrained word vectors.

In: a text file of vectors (GloVe's format) and a vocabulary. Out: one row a piece, NaN where there is no vector.
"""

from pathlib import Path

import numpy as np

from exadec.corpus.record import read_lines
from exadec.corpus.segment import JOINER
from exadec.corpus.vocabulary import SPECIALS, Vocabulary
from exadec.errors import InputError


def read_vectors(path: Path, vocabulary: Vocabulary, dimension: int) -> np.ndarray:
    """(V, E) float32. A piece that joins its neighbour takes the vector of the bare word."""
    if not path.is_file():
        raise InputError(f"{path}: no such file (named by `model.glove`).")
    wanted: dict[str, list[int]] = {}
    for number, piece in enumerate(vocabulary.pieces):
        if number >= len(SPECIALS):
            wanted.setdefault(piece.removeprefix(JOINER), []).append(number)
    vectors = np.full((len(vocabulary), dimension), np.nan, np.float32)
    for number, line in read_lines(path):
        # The word may itself contain spaces (the 840B file has such lines): the numbers are counted from the right.
        parts = line.rstrip().rsplit(" ", dimension)
        if len(parts) != dimension + 1:
            raise InputError(f"{path}:{number}: expected a word and {dimension} numbers (`model.embedding`).")
        if parts[0] in wanted:
            try:
                vectors[wanted[parts[0]]] = np.array(parts[1:], np.float32)
            except ValueError:
                raise InputError(f"{path}:{number}: expected {dimension} numbers after the word.") from None
    return vectors
