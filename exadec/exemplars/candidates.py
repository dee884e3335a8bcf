"""Rows arranged for search.

In: the `Rows` to search. Out: `Candidates`: frequent terms as dense columns, all others as inverted lists.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from exadec.exemplars.bow import Rows

BLOCK = 8192
"""Candidates screened at once: their sums stay in the L1 cache, their head columns in L2."""
HEAD = 64
"""Frequent terms stored as dense columns. A few terms make nearly all the work (on news, 16 make 88%, 64 make 96%)."""


END = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Unarranged:
    """What can be found, before it is arranged: a GPU searches it as it is."""

    rows: Rows
    weights: np.ndarray
    """(terms,) int64"""
    ids: np.ndarray
    """(N,) int64: what a search answers"""

    @cached_property
    def arranged(self) -> "Candidates":
        return Candidates.arrange(self.rows, self.weights, self.ids)


@dataclass(frozen=True)
class Candidates:
    """The rows to search, in any order."""

    rows: Rows
    ids: np.ndarray
    """(N,) int64: the ids that a search returns"""
    weights: np.ndarray
    """(terms,) int64"""
    head_of: np.ndarray
    """(terms,) int16: the dense column of a frequent term, or -1"""
    head: np.ndarray
    """(blocks, columns + 1, at most BLOCK) uint8: counts of the frequent terms; the last column is zero padding"""
    tail_offsets: np.ndarray
    """(terms + 1,) int64"""
    tail_rows: np.ndarray
    """(postings,) int32: the candidates that have a term, ascending, repeated by count; each list ends in END"""

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def norms(self) -> np.ndarray:
        """(N,) float32; 1 for a row without terms, which matches nothing"""
        return np.sqrt(np.maximum(self.rows.squares, 1)).astype(np.float32)

    @cached_property
    def largest_square(self) -> float:
        return float(self.rows.squares.max(initial=1))

    @cached_property
    def longest(self) -> int:
        """The most words that a candidate has, repeated ones included."""
        sums = np.concatenate([[0], np.cumsum(self.rows.counts, dtype=np.int64)])
        return int(np.diff(sums[self.rows.offsets]).max(initial=0))

    def arrays(self) -> tuple[np.ndarray | int, ...]:
        """The arguments of a kernel, in its order."""
        rows = self.rows
        return (
            rows.offsets, rows.terms, rows.counts, rows.squares, self.norms, self.head_of, self.head,
            self.tail_offsets, self.tail_rows, self.ids, self.longest,
        )  # fmt: skip

    @staticmethod
    def arrange(rows: Rows, weights: np.ndarray, ids: np.ndarray | None = None, head: int = HEAD) -> "Candidates":
        """Arrange rows over as many terms as there are weights."""
        if ids is None:
            ids = np.arange(len(rows), dtype=np.int64)
        terms = len(weights)
        numbers = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(rows.offsets))
        frequencies = np.bincount(rows.terms, minlength=terms)
        # Counts that do not fit into a byte are rare. Terms that have them stay in the tail, where any count fits.
        tall = np.unique(rows.terms[rows.counts > 255])
        rank = frequencies.copy()
        rank[tall] = 0
        chosen = np.argsort(-rank, kind="stable")[:head]
        chosen = chosen[rank[chosen] > 0]
        head_of = np.full(terms, -1, np.int16)
        head_of[chosen] = np.arange(len(chosen))
        width = min(BLOCK, max(1, len(rows)))
        columns = np.zeros((-(-len(rows) // width), len(chosen) + 1, width), np.uint8)
        column = head_of[rows.terms]
        in_head = column >= 0
        columns[numbers[in_head] // width, column[in_head], numbers[in_head] % width] = rows.counts[in_head]
        tail_offsets, tail_rows = _invert(rows.terms[~in_head], numbers[~in_head], rows.counts[~in_head], terms)
        return Candidates(rows, ids, weights, head_of, columns, tail_offsets, tail_rows)


def query_factors(queries: Rows, weights: np.ndarray) -> np.ndarray:
    """(entries,) int64: qₜ wₜ². Times a candidate's count of the term, this is the term's share of the dot product."""
    weight = weights[queries.terms]
    factors: np.ndarray = queries.counts * weight * weight
    return factors


def over_own_terms(rows: Rows) -> tuple[np.ndarray, Rows]:
    """(own terms,) int32: the terms that occur, ascending; and the rows with one column for each of them."""
    present = np.bincount(rows.terms) > 0
    numbers = (np.cumsum(present) - 1).astype(np.int32)
    return np.flatnonzero(present).astype(np.int32), replace(rows, terms=numbers[rows.terms])


def over_terms(terms: np.ndarray, rows: Rows) -> Rows:
    """Rows restricted to these ascending terms. Dot products with rows that have no other terms stay the same."""
    columns = np.searchsorted(terms, rows.terms)  # (entries,)
    known = columns < len(terms)
    known[known] = terms[columns[known]] == rows.terms[known]
    offsets = np.concatenate([[0], np.cumsum(known)])[rows.offsets]
    return Rows(offsets, columns[known].astype(np.int32), rows.counts[known], rows.squares)


def _invert(columns: np.ndarray, numbers: np.ndarray, counts: np.ndarray, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Inverted lists, the rows that have each term: where each list begins, and all lists concatenated."""
    from scipy.sparse import csr_array  # takes a quarter of a second to load

    lengths = np.bincount(columns, counts, minlength=terms).astype(np.int64) + 1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lists = np.full(offsets[-1], END, np.int32)
    size = int(numbers[-1]) + 1 if len(numbers) else 0
    by_row = csr_array((counts, columns, np.searchsorted(numbers, np.arange(size + 1))), shape=(size, terms))
    by_term = by_row.tocsc()  # six times as fast as sorting
    postings = np.repeat(by_term.indices, by_term.data)  # in the order of the lists, without END
    is_posting = np.ones(len(lists), bool)
    is_posting[offsets[1:] - 1] = False
    lists[is_posting] = postings
    return offsets, lists
