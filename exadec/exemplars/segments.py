"""The parts of an index: texts that were added or merged together.

In: counted rows and their ids; queries. Out: `Segment`s to search, merged when there are too many, and a `State`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from exadec.exemplars.bow import BagOfWords, Rows
from exadec.exemplars.candidates import BLOCK, Candidates, over_own_terms, over_terms, query_factors
from exadec.exemplars.join import Allowed, Neighbours, screening_type, search

_RATIO = 4
"""A segment has more than this many times the texts of the next one: segments stay few, and texts are seldom copied."""


@dataclass(frozen=True)
class Segment:
    """Texts that were added or merged together. It numbers its own terms, so that a segment of few texts is small."""

    first_column: int
    """The index's columns from here to the next segment's first belong to words that this segment introduced"""
    columns: np.ndarray
    """(terms,) int32, ascending: the index's column of each term of this segment"""
    candidates: Candidates
    """Their ids ascend, and are above those of earlier segments"""
    alive: np.ndarray
    """(N,) bool: False for deleted texts"""
    name: str = ""
    """Prefix of its file names; empty if it has no files"""

    @staticmethod
    def arrange(bag: BagOfWords, rows: Rows, ids: np.ndarray, first_column: int) -> "Segment":
        """A segment of rows over the columns of the bag."""
        columns, own = over_own_terms(rows)
        candidates = Candidates.arrange(own, bag.weights[columns], ids)
        return Segment(first_column, columns, candidates, np.ones(len(rows), bool))

    def without(self, ids: np.ndarray) -> "Segment":
        return replace(self, alive=self.alive & ~np.isin(self.candidates.ids, ids))

    def search(self, queries: Rows, k: int, among: np.ndarray | None) -> Neighbours:
        """The k best texts, of all or `among` some (ids,), for queries over the columns of the index."""
        if not len(self.columns):
            return Neighbours.none(len(queries), k)
        alive = self.alive if among is None else self.alive & among[self.candidates.ids]
        queries = over_terms(self.columns, queries)
        if len(queries) == 1:
            return self._search_one(queries, k, alive)
        allowed = replace(Allowed.all(len(queries), len(self.candidates)), alive=alive)
        return search(queries, self.candidates, k, allowed, np.flatnonzero(np.diff(queries.offsets)))

    def _search_one(self, query: Rows, k: int, alive: np.ndarray) -> Neighbours:
        """Search in this thread: for one query, the preparations of `join.search` would take longer than the search."""
        from exadec.exemplars.kernels import search_rows  # numba, which takes a second to load

        found, candidates = Neighbours.none(1, k), self.candidates
        if len(query.terms):
            factors = query_factors(query, candidates.weights)
            keys = np.zeros((0, 1), np.int64), np.zeros((0, len(candidates)), np.int64)
            allowed = *keys, alive, np.full(1, np.inf)
            search_rows(
                np.zeros(1, np.int64), 0, len(candidates), query.offsets, query.terms, factors,
                np.empty(BLOCK, screening_type(query, candidates)),
                *(*candidates.arrays(), *allowed, found.ids, found.scores),
            )  # fmt: skip
        return found


@dataclass(frozen=True)
class State:
    """Everything that a search reads. A change creates a new state, so that a search never sees half a change."""

    bag: BagOfWords
    segments: tuple[Segment, ...]
    next_id: int


def live_rows(segments: Sequence[Segment]) -> tuple[Rows, np.ndarray]:
    """The rows that are not deleted, over the columns of the index, and (N,) their ids."""
    parts = [segment.candidates.rows.take(np.flatnonzero(segment.alive)) for segment in segments]
    rows = Rows(
        offsets=np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.offsets) for part in parts]))]),
        terms=np.concatenate([segment.columns[part.terms] for segment, part in zip(segments, parts, strict=True)]),
        counts=np.concatenate([part.counts for part in parts]),
        squares=np.concatenate([part.squares for part in parts]),
    )
    return rows, np.concatenate([segment.candidates.ids[segment.alive] for segment in segments])


def merge_small(bag: BagOfWords, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Merge the last segment with those before it that are not much larger."""
    first, size = len(segments) - 1, len(segments[-1].candidates)
    while first > 0 and len(segments[first - 1].candidates) <= _RATIO * size:
        first -= 1
        size += len(segments[first].candidates)
    if first == len(segments) - 1:
        return segments
    return (*segments[:first], Segment.arrange(bag, *live_rows(segments[first:]), segments[first].first_column))
