"""Bag-of-words rows.

In: texts. Out: a sparse matrix of word counts, one row a text, exact in integers.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scipy import sparse

_TERM = re.compile(r"\w+(?:[.'’-]\w+)*")


def terms(text: str) -> list[str]:
    """The lower-cased words of a text, punctuation left out. There is no stop-word list."""
    return _TERM.findall(text.lower())


class BagOfWords:
    """Counts words over a fixed list of terms: those of the texts that can be retrieved."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}

    def fit(self, texts: Iterable[str]) -> sparse.csr_array:
        """Count the texts to be retrieved; every term of theirs gets a column."""
        return self._count(texts, grow=True)[0]

    def count(self, texts: Iterable[str]) -> tuple[sparse.csr_array, np.ndarray]:
        """Count other texts. Returns rows over the known terms, and each text's squared norm over *all* its terms."""
        return self._count(texts, grow=False)

    def _count(self, texts: Iterable[str], grow: bool) -> tuple[sparse.csr_array, np.ndarray]:
        indices, data, offsets, squares = array("i"), array("i"), array("q", [0]), array("q")
        for text in texts:
            counts = Counter(terms(text))
            for term, count in counts.items():
                column = self.columns.setdefault(term, len(self.columns)) if grow else self.columns.get(term)
                if column is not None:
                    indices.append(column)
                    data.append(count)
            offsets.append(len(indices))
            squares.append(sum(count * count for count in counts.values()))
        parts = (np.array(data, np.float32), np.array(indices, np.int32), np.array(offsets, np.int64))
        return sparse.csr_array(parts, shape=(len(squares), len(self.columns))), np.array(squares, np.float64)
