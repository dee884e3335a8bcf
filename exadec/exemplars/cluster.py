"""The exact join on many machines: blocks of queries meet blocks of candidates in tasks of Ray.

In: `Rows` of queries and candidates, and who may find whom. Out: the `Neighbours` of `join.search`, bit for bit.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from exadec.errors import InputError
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import Candidates, over_own_terms, over_terms
from exadec.exemplars.join import Allowed, Neighbours, search

_FAN = 16
"""Results merged by one task, which has to hold all of them."""
_AHEAD = 2
"""Tasks in flight for each core: while one runs, the blocks of the next are fetched."""
_TASKS_PER_CORE = 8
"""In all, at least: no core is then idle for more than about an eighth of the time."""
_FEW = 1024
"""Queries that take about as long, with few candidates, as it takes to start a task."""
_RETRIES = 20
"""Of each task. Machines may die that often in a long join; what fails more often dies of itself."""
_PATIENCE = 20
"""Seconds in which a cluster has to answer."""


@dataclass(frozen=True)
class Blocks:
    """How many rows one task joins: minutes of work for a core, some hundred megabytes for a machine."""

    queries: int = 65_536
    candidates: int = 1_048_576

    def __post_init__(self) -> None:
        for name, size in (("queries", self.queries), ("candidates", self.candidates)):
            if size < 1:
                raise InputError(f"a block of {name} must have at least 1 row, but has {size}")

    @staticmethod
    def for_cores(cores: int, queries: int, candidates: int) -> "Blocks":
        """The largest ones that leave each core some tasks; but not of a few queries alone."""
        fair = queries * -(-candidates // Blocks.candidates) // (_TASKS_PER_CORE * cores)
        return Blocks(queries=min(max(fair, _FEW), Blocks.queries))


@dataclass(frozen=True)
class _QueryBlock:
    rows: Rows
    keys: np.ndarray
    """(rules, q) int64"""
    ranges: np.ndarray
    """(q, 2) int64: rows of all candidates"""


@dataclass(frozen=True)
class _CandidateBlock:
    """Its arrays grow with the block, not with the list of all terms, which may be much longer than the block."""

    candidates: Candidates
    """with one column for each of `terms`"""
    terms: np.ndarray
    """(own terms,) int32: those that occur in the block, ascending"""
    keys: np.ndarray
    """(rules, c) int64"""
    alive: np.ndarray
    """(c,) bool"""


def join_on_cluster(
    queries: Rows,
    candidates: Rows,
    weights: np.ndarray,
    k: int,
    allowed: Allowed,
    blocks: Blocks | None = None,
    address: str | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Neighbours:
    """The `k` best candidates of each query, as row numbers of `candidates`; `weights` are (terms,).

    Works on the Ray that the caller has initialised, or else on the one at `address`, or else starts one here.
    Blocks make no difference to what is found; unless given, they are cut to the size of the cluster. Progress is
    reported as pairs of blocks: done, and in all. Arrays may be memory-mapped files, read a block at a time.
    """
    with _connected(address) as ray:
        blocks = blocks or Blocks.for_cores(_cores(ray), len(queries), len(candidates))
        query_begins = range(0, len(queries), blocks.queries)
        candidate_begins = range(0, len(candidates), blocks.candidates)
        arrange = ray.remote(max_retries=_RETRIES, scheduling_strategy="SPREAD")(_arrange)
        match = ray.remote(max_retries=_RETRIES, num_returns=2)(_match)
        merge = ray.remote(max_retries=_RETRIES)(_merge)
        flight = _Flight(ray, Neighbours.none(len(queries), k), len(query_begins) * len(candidate_begins), report)
        # Ray computes lost results of tasks again, but not what was put: that lives on this machine while it is held.
        all_weights = ray.put(weights)
        held: list[Any] = []
        arranged: list[Any] = []
        try:
            for begin in query_begins:
                query_block = ray.put(_query_block(queries, allowed, begin, blocks.queries))
                parts: list[Any] = []
                for number, first in enumerate(candidate_begins):
                    flight.wait_for_room()
                    if number == len(arranged):  # only now, so that reading keeps pace with joining
                        held.append(ray.put(_candidate_rows(candidates, allowed, first, blocks.candidates)))
                        arranged.append(arrange.remote(held[-1], all_weights, first))
                    finished, part = match.remote(query_block, arranged[number], k)
                    flight.add_pair(finished)
                    parts = [*parts, part] if len(parts) < _FAN else [merge.remote(*parts), part]
                if parts:
                    flight.add_result(merge.remote(*parts), begin, query_block)
            return flight.finish()
        finally:
            flight.cancel()


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    try:
        import ray
    except ImportError as error:
        raise InputError("a join on a cluster needs Ray: pip install 'exadec[cluster]'") from error
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a join, unless the user wants it
    try:
        if address and re.fullmatch(r"[\w.-]+:\d+", address):  # Ray itself would knock for many minutes
            host, port = address.split(":")
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise InputError(f"no Ray cluster answers at {address or 'the address found in the environment'}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class _Flight:
    """The tasks on their way: never more than a few for each core, however many pairs there are."""

    def __init__(self, ray: Any, found: Neighbours, pairs: int, report: Callable[[int, int], None]):
        self.ray = ray
        self.found = found
        self.pairs = pairs
        self.report = report
        self.done = 0
        self.limit = 0
        self.waiting: dict[Any, tuple[int, Any] | None] = {}
        """Of a pair nothing; of a result its first query, and the block, without which nothing of it can be redone."""

    def add_pair(self, finished: Any) -> None:
        self.waiting[finished] = None

    def add_result(self, result: Any, begin: int, query_block: Any) -> None:
        self.waiting[result] = (begin, query_block)

    def wait_for_room(self) -> None:
        if len(self.waiting) >= self.limit:  # asked again and again, as a cluster grows and shrinks
            self.limit = _AHEAD * _cores(self.ray)
        while len(self.waiting) >= self.limit:
            self._land_one()

    def finish(self) -> Neighbours:
        while self.waiting:
            self._land_one()
        return self.found

    def cancel(self) -> None:
        """After an error, or an interrupt: what still runs in a Ray of the caller's would run on."""
        for reference in self.waiting:
            self.ray.cancel(reference)

    def _land_one(self) -> None:
        [reference], _ = self.ray.wait(list(self.waiting), num_returns=1, fetch_local=False)
        value = self.ray.get(reference)  # raises what the task has raised
        result = self.waiting.pop(reference)
        if result is None:
            self.done += 1
            self.report(self.done, self.pairs)
        else:
            begin, _ = result
            self.found.ids[begin : begin + len(value.ids)] = value.ids
            self.found.scores[begin : begin + len(value.ids)] = value.scores


def _query_block(queries: Rows, allowed: Allowed, begin: int, size: int) -> _QueryBlock:
    end = min(begin + size, len(queries))
    keys, ranges = allowed.query_keys[:, begin:end], allowed.query_ranges[begin:end]
    return _QueryBlock(_plain(queries.slice(begin, end)), np.ascontiguousarray(keys), np.ascontiguousarray(ranges))


def _candidate_rows(candidates: Rows, allowed: Allowed, begin: int, size: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows, keys (rules, c) and who is alive (c,) of a block, as they are."""
    end = min(begin + size, len(candidates))
    keys, alive = allowed.candidate_keys[:, begin:end], allowed.alive[begin:end]
    return _plain(candidates.slice(begin, end)), np.ascontiguousarray(keys), np.ascontiguousarray(alive)


def _plain(rows: Rows) -> Rows:
    """In arrays that Ray shares without a copy; memory-mapped ones are not."""
    return Rows(*(np.ascontiguousarray(array) for array in (rows.offsets, rows.terms, rows.counts, rows.squares)))


def _arrange(block: tuple[Rows, np.ndarray, np.ndarray], weights: np.ndarray, begin: int) -> _CandidateBlock:
    """A task: a block of candidates, from row `begin` on, made ready for all queries."""
    rows, keys, alive = block
    terms, own = over_own_terms(rows)
    ids = np.arange(begin, begin + len(rows), dtype=np.int64)
    return _CandidateBlock(Candidates.arrange(own, weights[terms], ids), terms, keys, alive)


def _match(queries: _QueryBlock, block: _CandidateBlock, k: int) -> tuple[int, Neighbours]:
    """A task: one block of queries against one of candidates. The number tells the driver, who never sees the rest."""
    count, candidates = len(queries.rows), len(block.candidates)
    ranges = np.clip(queries.ranges - block.candidates.ids[0], 0, candidates)
    allowed = Allowed(queries.keys, block.keys, block.alive, ranges)
    rows = over_terms(block.terms, queries.rows)
    return count, search(rows, block.candidates, k, allowed, np.arange(count), threads=1)


def _merge(*parts: Neighbours) -> Neighbours:
    """A task: the best of some results for the same queries."""
    return Neighbours.merge(parts)
