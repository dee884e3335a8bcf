"""The training instances, to search and to draw from: what all policies share.

In: two `Instances`, the training set and the instances that want exemplars. Out: `Neighbours`, draws, a `Choice`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import Unarranged, query_factors
from exadec.exemplars.cluster import join_on_cluster
from exadec.exemplars.join import Allowed, Device, Ledger, Neighbours, join

ROUNDS = 64
"""A draw that is not allowed is repeated so often; an instance that is still refused gets no exemplar."""


@dataclass(frozen=True)
class Instances:
    """The instances of one split, as retrieval sees them."""

    rows: Rows
    """What is compared: sources or targets, as the policy says"""
    own: np.ndarray
    """(N,) int64: the number of a training instance; -1 for all others"""
    sources: np.ndarray
    """(N,) int64 fingerprints"""
    targets: np.ndarray
    """(N,) int64 fingerprints"""
    groups: np.ndarray
    """(N,) int64; -1 for none"""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Choice:
    """The exemplars of a split."""

    index: np.ndarray
    """(N,) int64: a training instance; -1 for none"""
    similarity: np.ndarray
    """(N,) float32: cosine of what was compared; 0 for none"""
    neighbours: np.ndarray
    """(N, k) int64: the nearest training instances, best first; empty rows where nothing was searched for"""
    neighbour_similarities: np.ndarray
    """(N, k) float32"""


@dataclass(frozen=True)
class Engine:
    """Where the join runs, and how it tells of itself."""

    device: Device = "auto"
    cluster: str | None = None
    """Address of a Ray cluster, which then does all the work; `local` starts one here"""
    unfinished: Path | None = None
    """Folder for what is done of a join, so that it can be killed"""
    key: str = ""
    """Everything that the answers depend on"""
    report: Callable[[int, int], None] = lambda done, total: None


class Pool:
    """The training instances, to search and to draw from."""

    def __init__(self, train: Instances, weights: np.ndarray, config: ExemplarConfig, corpus: Corpus):
        self.train, self.weights, self.config, self.corpus = train, weights, config, corpus

    @cached_property
    def in_order(self) -> Unarranged:
        return Unarranged(self.train.rows, self.weights, np.arange(len(self.train)))

    @cached_property
    def by_group(self) -> Unarranged:
        """Those of one group are neighbours, so that a query searches a range of them and nothing else."""
        order = np.argsort(self.train.groups, kind="stable")
        return Unarranged(self.train.rows.take(order), self.weights, order)

    def random(self, split: str) -> np.random.Generator:
        """Each split has draws of its own."""
        return np.random.default_rng((self.config.seed, *split.encode()))

    def with_similarities(self, side: Instances, index: np.ndarray) -> Choice:
        """A choice that was made without a search, with the similarities it happens to have."""
        from exadec.exemplars.kernels import dot_pairs  # numba, which takes a second to load

        rows, train = side.rows, self.train.rows
        factors = query_factors(rows, self.weights)
        dots = np.zeros(len(side), np.int64)
        dot_pairs(rows.offsets, rows.terms, factors, train.offsets, train.terms, train.counts, index, dots)
        squares = np.maximum(rows.squares, 1).astype(np.float64) * np.maximum(train.squares[index], 1)
        nothing = np.zeros((len(side), 0))
        similarity = (dots / np.sqrt(squares)).astype(np.float32)
        return Choice(index, similarity, nothing.astype(np.int64), nothing.astype(np.float32))

    def forbids(self, side: Instances, index: np.ndarray) -> np.ndarray:
        """(N,) bool: whether the rules refuse this exemplar to this instance."""
        refused = side.own == index
        if self.config.exclude_same_source:
            refused |= side.sources == self.train.sources[index]
        if self.config.exclude_same_target:
            refused |= side.targets == self.train.targets[index]
        return (index >= 0) & refused

    def search(self, side: Instances, engine: Engine) -> Neighbours:
        """The k nearest training instances that the rules allow, of the same group where that is asked for."""
        if self.config.group == "any":
            return self._join(side, self.in_order, np.array([0, len(self.train)]), engine, "all")
        found = self._join(side, self.by_group, self._group_ranges(side), engine, "group")
        if self.config.group == "prefer":
            rest = np.flatnonzero(found.ids[:, 0] < 0)
            others = Instances(side.rows.take(rest), *(array[rest] for array in _arrays(side)))
            more = self._join(others, self.in_order, np.array([0, len(self.train)]), engine, "others")
            found.ids[rest], found.scores[rest] = more.ids, more.scores
        return found

    def _join(
        self, side: Instances, candidates: Unarranged, ranges: np.ndarray, engine: Engine, name: str
    ) -> Neighbours:
        k, order = self.config.neighbours, candidates.ids
        query_keys, candidate_keys = [side.own], [order]
        for wanted, own, theirs in (
            (self.config.exclude_same_source, side.sources, self.train.sources),
            (self.config.exclude_same_target, side.targets, self.train.targets),
        ):
            if wanted:
                query_keys.append(own)
                candidate_keys.append(theirs[order])
        allowed = Allowed(
            query_keys=np.stack(query_keys),
            candidate_keys=np.stack(candidate_keys),
            alive=np.ones(len(order), bool),
            query_ranges=np.broadcast_to(ranges, (len(side), 2)),
        )
        if engine.cluster is not None:
            found = join_on_cluster(
                side.rows, candidates.rows, self.weights, k, allowed, address=engine.cluster, report=engine.report
            )
            return Neighbours(np.where(found.ids < 0, -1, order[found.ids]), found.scores)
        ledger = None
        if engine.unfinished is not None:
            ledger = Ledger(engine.unfinished / name, engine.key, len(side), k)
        return join(side.rows, candidates, k, allowed, engine.device, ledger, engine.report)

    def _group_ranges(self, side: Instances) -> np.ndarray:
        """(N, 2): where the instances of the same group are among `by_group`; nowhere for who has no group."""
        groups = np.sort(self.train.groups, kind="stable")
        begins, ends = np.searchsorted(groups, side.groups), np.searchsorted(groups, side.groups, side="right")
        return np.stack([begins, np.where(side.groups < 0, begins, ends)], axis=1)

    def draw(self, side: Instances, random: np.random.Generator) -> np.ndarray:
        """(N,) int64: any training instance that is allowed, of the same group where that is asked for."""
        order, ranges = np.arange(len(self.train)), np.tile([0, len(self.train)], (len(side), 1))
        if self.config.group != "any":
            order, ranges = np.argsort(self.train.groups, kind="stable"), self._group_ranges(side)
        if self.config.group == "prefer":
            # An instance that is alone in its group draws from all: `order` lists all, so all of it is a range, too.
            alone = np.diff(ranges, axis=1)[:, 0] <= (side.own >= 0)
            ranges[alone] = [0, len(self.train)]
        index = np.full(len(side), -1, np.int64)
        wanting = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        for _ in range(ROUNDS):
            begins, ends = ranges[wanting].T
            index[wanting] = order[begins + (random.random(len(wanting)) * (ends - begins)).astype(np.int64)]
            wanting = np.flatnonzero(self.forbids(side, index))
            if not len(wanting):
                break
        index[wanting] = -1
        return index


def _arrays(side: Instances) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return side.own, side.sources, side.targets, side.groups
