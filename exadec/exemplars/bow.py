"""Bag-of-words rows.

In: texts. Out: `Rows`: sparse integer vectors, one per text. Integers keep everything that follows exact.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

_TERM = re.compile(r"\w+(?:[.'’-]\w+)*")
_SHADES = 64
"""Tf-idf weights are multiples of 1/64. Integers keep the join exact, and the same on every machine."""

Weighting = Literal["raw", "binary", "tfidf"]


def terms(text: str) -> list[str]:
    """The lower-cased words of a text, without punctuation. There is no stop-word list."""
    return _TERM.findall(text.lower())


@dataclass(frozen=True)
class Rows:
    """Sparse vectors, one per text."""

    offsets: np.ndarray
    """(N + 1,) int64; row i is terms[offsets[i]:offsets[i + 1]], and the same slice of counts."""
    terms: np.ndarray
    """(entries,) int32, ascending within a row"""
    counts: np.ndarray
    """(entries,) int32, at least 1"""
    squares: np.ndarray
    """(N,) int64: squared Euclidean norms after weighting, over all terms of a text, known or not"""

    def __len__(self) -> int:
        return len(self.squares)

    def take(self, numbers: np.ndarray) -> "Rows":
        """Some rows, in the order given."""
        lengths = np.diff(self.offsets)[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self.offsets[numbers] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Rows(offsets, self.terms[entries], self.counts[entries], self.squares[numbers])

    def slice(self, begin: int, end: int) -> "Rows":
        """Rows `begin` to `end`, without copying their entries."""
        first, last = self.offsets[begin], self.offsets[end]
        offsets = self.offsets[begin : end + 1] - first
        return Rows(offsets, self.terms[first:last], self.counts[first:last], self.squares[begin:end])


@dataclass(frozen=True)
class Counted:
    """Term counts of texts, before any weighting."""

    offsets: np.ndarray
    """(N + 1,) int64"""
    terms: np.ndarray
    """(entries,) int32, ascending within a text: known terms"""
    counts: np.ndarray
    """(entries,) int32"""
    unknown_terms: np.ndarray
    """(N,) int64: the number of different unknown terms in a text"""
    unknown_squares: np.ndarray
    """(N,) int64: the sum of their squared counts"""


class BagOfWords:
    """Turns texts into rows. The columns are the terms of the indexed texts."""

    def __init__(self, weighting: Weighting = "raw", split: Callable[[str], list[str]] = terms):
        self.weighting = weighting
        self.split = split
        self.columns: dict[str, int] = {}
        self.weights = np.zeros(0, np.int64)
        """(terms,): the factor for each count; 1 unless the weighting is tf-idf"""
        self.unseen_weight = 1
        """The weight of terms that no indexed text had when the weights were computed."""

    def fit(self, texts: Iterable[str]) -> Rows:
        """Count the texts to index; each of their terms gets a column and a weight."""
        counted = self._count(texts, grow=True)
        self._weigh_terms(counted.terms, len(counted.offsets) - 1)
        return self._rows(counted)

    def fit_counted(self, names: Iterable[str], counted: Counted) -> Rows:
        """`fit` for texts that are already counted; `names` are their terms."""
        self.columns = {name: column for column, name in enumerate(names)}
        self._extend_weights()
        self._weigh_terms(counted.terms, len(counted.offsets) - 1)
        return self._rows(counted)

    def grow(self, texts: Iterable[str]) -> Rows:
        """Count more texts to index. New terms get columns; existing weights stay."""
        return self._rows(self._count(texts, grow=True))

    def count(self, texts: Iterable[str]) -> Rows:
        """Count queries over the known terms; their norms include *all* their terms."""
        return self._rows(self._count(texts, grow=False))

    def take_counted(self, counted: Counted) -> Rows:
        """`count` for texts that are already counted over the known terms."""
        return self._rows(counted)

    def weigh(self, rows: Rows) -> Rows:
        """Recompute the weights from the rows of all indexed texts; returns the rows with their new norms."""
        self._weigh_terms(rows.terms, len(rows))
        return replace(rows, squares=self._squares(rows.offsets, rows.terms, rows.counts))

    def _weigh_terms(self, terms: np.ndarray, texts: int) -> None:
        """Compute the weights from the terms of so many indexed texts, each listed once a text."""
        if self.weighting == "tfidf":
            frequencies = np.bincount(terms, minlength=len(self.columns))
            # The usual smoothed inverse document frequency, ln((1 + N) / (1 + df)) + 1, in steps of 1/64.
            inverse = np.log((1 + texts) / (1 + np.append(frequencies, 0))) + 1
            *weights, self.unseen_weight = np.rint(inverse * _SHADES).astype(np.int64).tolist()
            self.weights = np.array(weights, np.int64)

    def _count(self, texts: Iterable[str], grow: bool) -> Counted:
        columns, counts, offsets = array("i"), array("i"), array("q", [0])
        unknown_terms, unknown_squares = array("q"), array("q")
        for text in texts:
            row, unknown = [], []
            for term, count in Counter(self.split(text)).items():
                column = self.columns.setdefault(term, len(self.columns)) if grow else self.columns.get(term, -1)
                if column >= 0:
                    row.append((column, count))
                else:
                    unknown.append(count)
            row.sort()
            for column, count in row:
                columns.append(column)
                counts.append(count)
            offsets.append(len(columns))
            unknown_terms.append(len(unknown))
            unknown_squares.append(sum(count**2 for count in unknown))
        if grow:
            self._extend_weights()
        return Counted(
            offsets=np.array(offsets, np.int64),
            terms=np.array(columns, np.int32),
            counts=np.array(counts, np.int32),
            unknown_terms=np.array(unknown_terms, np.int64),
            unknown_squares=np.array(unknown_squares, np.int64),
        )

    def _extend_weights(self) -> None:
        """Give new columns the weight of unseen terms."""
        new = np.full(len(self.columns) - len(self.weights), self.unseen_weight, np.int64)
        self.weights = np.concatenate([self.weights, new])

    def _rows(self, counted: Counted) -> Rows:
        is_binary = self.weighting == "binary"
        counts = np.ones_like(counted.counts) if is_binary else counted.counts
        unknown = (counted.unknown_terms if is_binary else counted.unknown_squares) * self.unseen_weight**2
        squares = self._squares(counted.offsets, counted.terms, counts) + unknown
        return Rows(counted.offsets, counted.terms, counts, squares)

    def _squares(self, offsets: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(N,) int64: the squared norms of rows over their known terms."""
        values = (counts * self.weights[columns]) ** 2
        squares: np.ndarray = np.diff(np.concatenate([[0], np.cumsum(values)])[offsets])
        return squares
