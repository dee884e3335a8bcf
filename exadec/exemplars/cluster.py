"""The exact join on many machines: Ray tasks join blocks of queries with blocks of candidates.

In: `Rows` of queries and candidates, and `Allowed`. Out: the same `Neighbours` as `join.search`, bit for bit.
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
"""Results merged by one task, which holds all of them in memory."""
_AHEAD = 2
"""Tasks in flight per core: while one runs, Ray fetches the blocks of the next."""
_TASKS_PER_CORE = 8
"""Minimum number of tasks per core in a join, so that no core is idle for more than about an eighth of the time."""
_FEW = 1024
"""With few candidates, this many queries take about as long as starting a task."""
_RETRIES = 20
"""Retries of each task. In a long join machines may die this often; a task that fails more often has a fault itself."""
_PATIENCE = 20
"""Seconds to wait for a cluster to answer."""


@dataclass(frozen=True)
class Blocks:
    """How many rows one task joins: minutes of work for a core, a few hundred megabytes of memory."""

    queries: int = 65_536
    candidates: int = 1_048_576

    def __post_init__(self) -> None:
        for name, size in (("queries", self.queries), ("candidates", self.candidates)):
            if size < 1:
                raise InputError(f"a block of {name} must have at least 1 row, but has {size}")

    @staticmethod
    def for_cores(cores: int, queries: int, candidates: int) -> "Blocks":
        """The largest blocks that still give each core several tasks, but not blocks of only a few queries."""
        fair = queries * -(-candidates // Blocks.candidates) // (_TASKS_PER_CORE * cores)
        return Blocks(queries=min(max(fair, _FEW), Blocks.queries))


@dataclass(frozen=True)
class _QueryBlock:
    rows: Rows
    keys: np.ndarray
    """(rules, q) int64"""
    ranges: np.ndarray
    """(q, 2) int64: ranges of rows, counted over all candidates"""
    ceilings: np.ndarray
    """(q,) float64"""


@dataclass(frozen=True)
class _CandidateBlock:
    """Its arrays have the size of the block, not of the list of all terms, which may be much longer."""

    candidates: Candidates
    """Has one column for each of `terms`"""
    terms: np.ndarray
    """(own terms,) int32: the terms that occur in the block, ascending"""
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

    Uses the Ray that the caller has initialised, else the one at `address`, else starts one here. Blocks do not affect
    the result; by default their size depends on the cluster. Progress is reported in pairs of blocks: done and total.
    Arrays may be memory-mapped files; they are read one block at a time.
    """
    with _connected(address) as ray:
        blocks = blocks or Blocks.for_cores(_cores(ray), len(queries), len(candidates))
        query_begins = range(0, len(queries), blocks.queries)
        candidate_begins = range(0, len(candidates), blocks.candidates)
        arrange = ray.remote(max_retries=_RETRIES, scheduling_strategy="SPREAD")(_arrange)
        match = ray.remote(max_retries=_RETRIES, num_returns=2)(_match)
        merge = ray.remote(max_retries=_RETRIES)(_merge)
        flight = _Flight(ray, Neighbours.none(len(queries), k), len(query_begins) * len(candidate_begins), report)
        # Ray recomputes lost task results, but not objects that were put: those stay on this machine while referenced.
        all_weights = ray.put(weights)
        held: list[Any] = []
        arranged: list[Any] = []
        for begin in query_begins:
            query_block = ray.put(_query_block(queries, allowed, begin, blocks.queries))
            parts: list[Any] = []
            for number, first in enumerate(candidate_begins):
                flight.wait_for_room()
                if number == len(arranged):  # not earlier, so that reading keeps pace with joining
                    held.append(ray.put(_candidate_rows(candidates, allowed, first, blocks.candidates)))
                    arranged.append(arrange.remote(held[-1], all_weights, first))
                finished, part = match.remote(query_block, arranged[number], k)
                flight.add_pair(finished)
                parts = [*parts, part] if len(parts) < _FAN else [merge.remote(*parts), part]
            if parts:
                flight.add_result(merge.remote(*parts), begin, query_block)
        return flight.finish()


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    try:
        import ray
    except ImportError as error:
        raise InputError("a join on a cluster needs Ray: pip install 'exadec[cluster]'") from error
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry, unless the user wants it
    try:
        if address and re.fullmatch(r"[\w.-]+:\d+", address):  # Ray itself would retry for many minutes
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
    """The tasks in flight: never more than a few per core, however many pairs of blocks there are.

    After an error or an interrupt, those few run to their end in the caller's own Ray. Nothing cancels them: Ray 2.60
    aborts the calling process now and then if a task ends while it is being cancelled.
    """

    def __init__(self, ray: Any, found: Neighbours, pairs: int, report: Callable[[int, int], None]):
        self.ray = ray
        self.found = found
        self.pairs = pairs
        self.report = report
        self.done = 0
        self.limit = 0
        self.waiting: dict[Any, tuple[int, Any] | None] = {}
        """For a pair None. For a result its first query and its block: Ray needs the block to recompute lost tasks."""

    def add_pair(self, finished: Any) -> None:
        self.waiting[finished] = None

    def add_result(self, result: Any, begin: int, query_block: Any) -> None:
        self.waiting[result] = (begin, query_block)

    def wait_for_room(self) -> None:
        if len(self.waiting) >= self.limit:  # the limit is refreshed, because a cluster may grow or shrink
            self.limit = _AHEAD * _cores(self.ray)
        while len(self.waiting) >= self.limit:
            self._land_one()

    def finish(self) -> Neighbours:
        while self.waiting:
            self._land_one()
        return self.found

    def _land_one(self) -> None:
        [reference], _ = self.ray.wait(list(self.waiting), num_returns=1, fetch_local=False)
        value = self.ray.get(reference)  # re-raises the task's error
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
    rules = allowed.query_keys[:, begin:end], allowed.query_ranges[begin:end], allowed.ceilings[begin:end]
    return _QueryBlock(_plain(queries.slice(begin, end)), *(np.ascontiguousarray(part) for part in rules))


def _candidate_rows(candidates: Rows, allowed: Allowed, begin: int, size: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows, keys (rules, c) and alive flags (c,) of a block, not yet arranged."""
    end = min(begin + size, len(candidates))
    keys, alive = allowed.candidate_keys[:, begin:end], allowed.alive[begin:end]
    return _plain(candidates.slice(begin, end)), np.ascontiguousarray(keys), np.ascontiguousarray(alive)


def _plain(rows: Rows) -> Rows:
    """Copy rows to ordinary arrays. Ray shares these without copying, but not memory-mapped ones."""
    return Rows(*(np.ascontiguousarray(array) for array in (rows.offsets, rows.terms, rows.counts, rows.squares)))


def _arrange(block: tuple[Rows, np.ndarray, np.ndarray], weights: np.ndarray, begin: int) -> _CandidateBlock:
    """A task: arrange a block of candidates, starting at row `begin`, for all queries."""
    rows, keys, alive = block
    terms, own = over_own_terms(rows)
    ids = np.arange(begin, begin + len(rows), dtype=np.int64)
    return _CandidateBlock(Candidates.arrange(own, weights[terms], ids), terms, keys, alive)


def _match(queries: _QueryBlock, block: _CandidateBlock, k: int) -> tuple[int, Neighbours]:
    """A task: join a block of queries with a block of candidates. The driver fetches only the number."""
    count, candidates = len(queries.rows), len(block.candidates)
    ranges = np.clip(queries.ranges - block.candidates.ids[0], 0, candidates)
    allowed = Allowed(queries.keys, block.keys, block.alive, ranges, queries.ceilings)
    rows = over_terms(block.terms, queries.rows)
    return count, search(rows, block.candidates, k, allowed, np.arange(count), threads=1)


def _merge(*parts: Neighbours) -> Neighbours:
    """A task: merge several results for the same queries."""
    return Neighbours.merge(parts)
