"""The training instances that all policies search and draw from.

In: two `Instances`, the training set and the instances that need exemplars. Out: `Neighbours`, draws, a `Choice`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.errors import InputError
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import Unarranged, query_factors
from exadec.exemplars.cluster import join_on_cluster
from exadec.exemplars.join import Allowed, Device, Finder, Ledger, Neighbours, join_by, make_finder

ROUNDS = 64
"""Attempts at a draw that the rules allow; after that, an instance gets no exemplar."""


@dataclass(frozen=True)
class Instances:
    """The instances of one split, prepared for retrieval."""

    rows: Rows
    """Sources or targets, whichever the policy compares"""
    own: np.ndarray
    """(N,) int64: the number of a training instance; -1 for all others"""
    sources: np.ndarray
    """(N,) int64 fingerprints"""
    targets: np.ndarray
    """(N,) int64 fingerprints"""
    groups: np.ndarray
    """(N,) int64; -1 for none"""
    ceilings: np.ndarray | None = None
    """(N,) float64: an instance does not find one that is more similar; None for no such limit"""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, numbers: np.ndarray) -> "Instances":
        """Some of the instances."""
        own, sources, targets, groups = (
            array[numbers] for array in (self.own, self.sources, self.targets, self.groups)
        )
        ceilings = None if self.ceilings is None else self.ceilings[numbers]
        return Instances(self.rows.take(numbers), own, sources, targets, groups, ceilings)


@dataclass(frozen=True)
class Choice:
    """The exemplars of a split."""

    index: np.ndarray
    """(N,) int64: a training instance; -1 for none"""
    similarity: np.ndarray
    """(N,) float32: cosine of the compared sides; 0 for none"""
    neighbours: np.ndarray
    """(N, k) int64: the nearest training instances, best first; k = 0 if nothing was searched"""
    neighbour_similarities: np.ndarray
    """(N, k) float32"""


@dataclass(frozen=True)
class Engine:
    """Where the join runs, and how it reports progress."""

    device: Device = "auto"
    cluster: str | None = None
    """Address of a Ray cluster that runs the join; `local` starts one here"""
    unfinished: Path | None = None
    """Folder for the finished part of a join, so that a killed one can resume"""
    key: str = ""
    """Hash of everything that the results depend on"""
    report: Callable[[int, int], None] = lambda done, total: None


class Pool:
    """The training instances, to search and to draw from."""

    def __init__(self, train: Instances, weights: np.ndarray, config: ExemplarConfig, corpus: Corpus):
        self.train, self.weights, self.config, self.corpus = train, weights, config, corpus
        self._finders: dict[int, Finder] = {}
        """By the identity of `in_order` or `by_group`: candidates that are loaded for searching."""

    @cached_property
    def in_order(self) -> Unarranged:
        return Unarranged(self.train.rows, self.weights, np.arange(len(self.train)))

    @cached_property
    def by_group(self) -> Unarranged:
        """Sorted by group, so that a query within a group searches one range."""
        order = np.argsort(self.train.groups, kind="stable")
        return Unarranged(self.train.rows.take(order), self.weights, order)

    def random(self, split: str) -> np.random.Generator:
        """A random generator for each split."""
        return np.random.default_rng((self.config.seed, *split.encode()))

    def with_similarities(self, side: Instances, index: np.ndarray) -> Choice:
        """A choice made without a search, with its similarities computed afterwards."""
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
        """(N,) bool: whether the rules forbid each instance its exemplar."""
        refused = side.own == index
        if self.config.exclude_same_source:
            refused |= side.sources == self.train.sources[index]
        if self.config.exclude_same_target:
            refused |= side.targets == self.train.targets[index]
        return (index >= 0) & refused

    def search(self, side: Instances, engine: Engine) -> Neighbours:
        """The k nearest training instances that the rules allow; from the same group, if `group` says so."""
        if self.config.group == "any":
            return self._join(side, self.in_order, np.array([0, len(self.train)]), engine, "all")
        found = self._join(side, self.by_group, self._group_ranges(side), engine, "group")
        if self.config.group == "prefer":
            rest = np.flatnonzero(found.ids[:, 0] < 0)
            more = self._join(side.take(rest), self.in_order, np.array([0, len(self.train)]), engine, "others")
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
            # A score is a squared cosine times the query's squared norm. What is as similar as the limit may be found.
            query_ceilings=None if side.ceilings is None else side.ceilings**2 * side.rows.squares * (1 + 1e-6),
        )
        if engine.cluster is not None:
            found = join_on_cluster(
                side.rows, candidates.rows, self.weights, k, allowed, address=engine.cluster, report=engine.report
            )
            return Neighbours(np.where(found.ids < 0, -1, order[found.ids]), found.scores)
        ledger = None
        if engine.unfinished is not None:
            ledger = Ledger(engine.unfinished / name, engine.key, len(side), k)
            if ledger.found.ids.max(initial=-1) >= len(order):
                raise InputError(f"{engine.unfinished}: the unfinished join is damaged; delete this folder.")
        if id(candidates) not in self._finders:  # the splits share it
            self._finders[id(candidates)] = make_finder(candidates, k, allowed, engine.device)
        return join_by(self._finders[id(candidates)], side.rows, k, allowed, ledger, engine.report)

    def _group_ranges(self, side: Instances) -> np.ndarray:
        """(N, 2): the range of each instance's group in `by_group`; empty for instances without a group."""
        groups = np.sort(self.train.groups, kind="stable")
        begins, ends = np.searchsorted(groups, side.groups), np.searchsorted(groups, side.groups, side="right")
        return np.stack([begins, np.where(side.groups < 0, begins, ends)], axis=1)

    def draw(self, side: Instances, random: np.random.Generator) -> np.ndarray:
        """(N,) int64: a random training instance that is allowed; from the same group, if `group` says so."""
        order, ranges = np.arange(len(self.train)), np.tile([0, len(self.train)], (len(side), 1))
        if self.config.group != "any":
            order, ranges = np.argsort(self.train.groups, kind="stable"), self._group_ranges(side)
        if self.config.group == "prefer":
            # An instance that is alone in its group draws from all instances: the whole of `order` is a range, too.
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
