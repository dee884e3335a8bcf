"""Which training instance becomes an instance's exemplar.

In: two `Instances`, the training set and the instances that want exemplars. Out: a `Choice` for each of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from exadec.config import ExemplarConfig
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.cluster import join_on_cluster
from exadec.exemplars.join import Allowed, Device, Ledger, Neighbours, join

_ROUNDS = 64
"""How often a draw that is not allowed is repeated; what is refused so often is refused for good."""


@dataclass(frozen=True)
class Instances:
    """The instances of one split, as retrieval sees them."""

    rows: Rows
    """What is compared: sources, or targets for the oracle"""
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

    def __init__(self, train: Instances, weights: np.ndarray, config: ExemplarConfig):
        self.train, self.weights, self.config = train, weights, config

    @cached_property
    def in_order(self) -> Candidates:
        return Candidates.arrange(self.train.rows, self.weights)

    @cached_property
    def by_group(self) -> Candidates:
        """Those of one group are neighbours, so that a query searches a range of them and nothing else."""
        order = np.argsort(self.train.groups, kind="stable")
        return Candidates.arrange(self.train.rows.take(order), self.weights, order)

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        """Exemplars by the policy of the configuration, except `given`, which needs no pool."""
        config = self.config
        random = np.random.default_rng((config.seed, *split.encode()))
        if config.policy == "random":
            return self.with_similarities(side, self._draw(side, random))
        found = self._search(side, engine)
        similarities = found.similarities(side.rows.squares)
        if config.policy == "shuffled":
            chosen = self.with_similarities(side, self._shuffle(side, found.ids[:, 0], random))
            return Choice(chosen.index, chosen.similarity, found.ids, similarities)
        column = np.zeros(len(side), np.int64)
        if config.policy == "sample":
            column = (random.random(len(side)) * np.maximum((found.ids >= 0).sum(axis=1), 1)).astype(np.int64)
        rows = np.arange(len(side))
        return Choice(found.ids[rows, column], similarities[rows, column], found.ids, similarities)

    def with_similarities(self, side: Instances, index: np.ndarray) -> Choice:
        """A choice that was made without a search, with the similarities it happens to have."""
        from exadec.exemplars.kernels import dot_pairs  # numba, which takes a second to load

        rows, train = side.rows, self.train.rows
        factors = rows.counts * self.weights[rows.terms] ** 2
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

    def _search(self, side: Instances, engine: Engine) -> Neighbours:
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
        self, side: Instances, candidates: Candidates, ranges: np.ndarray, engine: Engine, name: str
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

    def _draw(self, side: Instances, random: np.random.Generator) -> np.ndarray:
        """(N,) int64: any training instance that is allowed, of the same group where that is asked for."""
        order, ranges = np.arange(len(self.train)), np.tile([0, len(self.train)], (len(side), 1))
        if self.config.group != "any":
            order, ranges = np.argsort(self.train.groups, kind="stable"), self._group_ranges(side)
        if self.config.group == "prefer":
            # Who is alone in a group has nobody there; `order` lists all, so that all of it is a range, too.
            alone = np.diff(ranges, axis=1)[:, 0] <= (side.own >= 0)
            ranges[alone] = [0, len(self.train)]
        index = np.full(len(side), -1, np.int64)
        wanting = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        for _ in range(_ROUNDS):
            begins, ends = ranges[wanting].T
            index[wanting] = order[begins + (random.random(len(wanting)) * (ends - begins)).astype(np.int64)]
            wanting = np.flatnonzero(self.forbids(side, index))
            if not len(wanting):
                break
        index[wanting] = -1
        return index

    def _shuffle(self, side: Instances, nearest: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """(N,) int64: the same exemplars in another order; within groups where these are asked for."""
        groups = np.zeros(len(side), np.int64) if self.config.group == "any" else side.groups
        index = np.empty_like(nearest)
        index[np.argsort(groups, kind="stable")] = nearest[np.lexsort((random.random(len(side)), groups))]
        for _ in range(_ROUNDS):
            wrong = np.flatnonzero(self.forbids(side, index))
            if not len(wrong):
                return index
            for i in wrong:
                j = random.integers(len(side))
                if groups[i] == groups[j]:
                    index[i], index[j] = index[j], index[i]
        index[self.forbids(side, index)] = -1
        return index


def _arrays(side: Instances) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return side.own, side.sources, side.targets, side.groups
