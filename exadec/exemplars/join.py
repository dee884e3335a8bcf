"""Exact top-k cosine join of bag-of-words rows.

In: `Rows` of queries, `Candidates`, and `Allowed`: who may find whom. Out: `Neighbours`: the most similar candidates.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Literal, get_args

import numpy as np

from exadec.cores import available_cores
from exadec.errors import InputError
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import BLOCK, Candidates, Unarranged, query_factors
from exadec.reading.folder import Folder, refuse_links

logger = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda"]

CHUNK = 16_384
"""Queries between two entries in a ledger: a few seconds of work."""
_QUERIES = 64
"""Queries searched together, so that each block of candidates is read from memory once for all of them."""


@dataclass(frozen=True)
class Neighbours:
    """The best candidates of each query, by descending score, then by ascending id."""

    ids: np.ndarray
    """(Q, k) int64; -1 for no more: a candidate that shares no term is never a neighbour"""
    scores: np.ndarray
    """(Q, k) float64: dot² / ‖candidate‖², a correctly rounded quotient of integers, so that ties are exact"""

    @staticmethod
    def none(queries: int, k: int) -> "Neighbours":
        return Neighbours(np.full((queries, k), -1, np.int64), np.zeros((queries, k)))

    @staticmethod
    def merge(parts: Sequence["Neighbours"]) -> "Neighbours":
        """The best of several searches over different candidates, in any order."""
        k = parts[0].ids.shape[1]
        ids = np.concatenate([part.ids for part in parts], axis=1)
        scores = np.concatenate([part.scores for part in parts], axis=1)
        order = np.lexsort((ids, -scores, ids < 0), axis=1)[:, :k]
        return Neighbours(np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1))

    def similarities(self, squares: np.ndarray) -> np.ndarray:
        """(Q, k) float32 cosines; `squares` are the queries' squared norms."""
        return np.sqrt(self.scores / np.maximum(squares, 1)[:, None]).astype(np.float32)


@dataclass(frozen=True)
class Allowed:
    """Which query may find which candidate."""

    query_keys: np.ndarray
    """(rules, Q) int64"""
    candidate_keys: np.ndarray
    """(rules, N) int64: a query does not find a candidate that has the same key under any rule"""
    alive: np.ndarray
    """(N,) bool: False for candidates that no query may find"""
    query_ranges: np.ndarray
    """(Q, 2) int64: the range of candidates, begin to end, that a query may find"""
    query_ceilings: np.ndarray | None = None
    """(Q,) float64: a query does not find a candidate with a higher score; None for no such limit"""

    @property
    def ceilings(self) -> np.ndarray:
        """(Q,) float64"""
        limits = self.query_ceilings
        return np.full(len(self.query_ranges), np.inf) if limits is None else limits

    @staticmethod
    def all(queries: int, candidates: int) -> "Allowed":
        return Allowed(
            query_keys=np.zeros((0, queries), np.int64),
            candidate_keys=np.zeros((0, candidates), np.int64),
            alive=np.ones(candidates, bool),
            query_ranges=np.tile(np.array([0, candidates]), (queries, 1)),
        )

    def take(self, numbers: np.ndarray) -> "Allowed":
        """The same for some of the queries."""
        keys = np.ascontiguousarray(self.query_keys[:, numbers])
        ceilings = None if self.query_ceilings is None else self.query_ceilings[numbers]
        return Allowed(keys, self.candidate_keys, self.alive, self.query_ranges[numbers], ceilings)


class Ledger:
    """The finished part of a join, in a folder: a join that was killed resumes where it stopped."""

    def __init__(self, folder: Path, key: str, queries: int, k: int):
        """Open the ledger of this join, or start one; `key` stands for everything that the results depend on."""
        job = f"{key} {queries} {k}\n"
        files = {
            "ids": (np.int64, (queries, k)),
            "scores": (np.float64, (queries, k)),
            "done": (np.bool_, (-(-queries // CHUNK),)),
        }
        paths = {name: folder / f"{name}.npy" for name in files}
        refuse_links(folder)
        mode = "r+" if _is_sound(folder, job, files) else "w+"
        if mode == "w+":
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "job").unlink(missing_ok=True)
        arrays = {
            name: np.lib.format.open_memmap(paths[name], mode=mode, dtype=dtype, shape=shape)
            for name, (dtype, shape) in files.items()
        }
        if mode == "w+":
            for path in paths.values():
                _reserve(path)
            arrays["ids"][:] = -1
            arrays["ids"].flush()
            (folder / "job").write_text(job)  # last: without it, the folder is ignored
        self.done, self._arrays = arrays["done"], arrays
        self.found = Neighbours(arrays["ids"], arrays["scores"])

    def check_off(self, number: int) -> None:
        """Mark a chunk as done, after flushing its results to disk."""
        self._arrays["ids"].flush()
        self._arrays["scores"].flush()
        self.done[number] = True
        self._arrays["done"].flush()


def _reserve(path: Path) -> None:
    """Take a new file's space on the disk. Otherwise a full disk shows when a mapped page is written, as SIGBUS."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None


def _is_sound(folder: Path, job: str, files: Mapping[str, tuple[type[np.generic], tuple[int, ...]]]) -> bool:
    """Whether a folder holds the ledger of this job, undamaged as far as it shows. Any other is started again."""
    ledger = Folder(folder, "the join starts again")
    try:
        if not (folder / "job").exists() or ledger.read_text("job") != job:
            return False
        ids, scores, _ = (ledger.map_array(f"{name}.npy", *expected) for name, expected in files.items())
    except InputError as error:
        logger.warning("%s", error)
        return False
    return bool((ids >= -1).all() and (scores >= 0).all() and np.isfinite(scores).all())


Finder = Callable[[Rows, Allowed], Neighbours]
"""Searches loaded candidates for some queries. Of `Allowed` it reads the part that concerns queries."""


def join(
    queries: Rows,
    candidates: Candidates | Unarranged,
    k: int,
    allowed: Allowed,
    device: Device = "auto",
    ledger: Ledger | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Neighbours:
    """The `k` best candidates of every query: the same on a CPU, on a GPU, and after an interruption.

    Queries whose results are in the ledger are not searched again. `report` is called with queries done and total.
    """
    return join_by(make_finder(candidates, k, allowed, device), queries, k, allowed, ledger, report)


def make_finder(candidates: Candidates | Unarranged, k: int, allowed: Allowed, device: Device = "auto") -> Finder:
    """Load candidates for searching, with the rules of `allowed` that concern them; several joins may share this."""
    if choose_device(device) == "cuda":
        from exadec.exemplars.cuda import GpuSearch

        return partial(GpuSearch(candidates.rows, candidates.weights, candidates.ids, allowed).search, k=k)
    arranged = candidates if isinstance(candidates, Candidates) else candidates.arranged
    return partial(_search_all, candidates=arranged, k=k)


def join_by(
    find: Finder,
    queries: Rows,
    k: int,
    allowed: Allowed,
    ledger: Ledger | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Neighbours:
    """`join` with candidates that are loaded already."""
    found = Neighbours.none(len(queries), k) if ledger is None else ledger.found
    order = order_by_range(allowed.query_ranges)
    done = 0
    for number, start in enumerate(range(0, len(order), CHUNK)):
        chunk = order[start : start + CHUNK]
        if ledger is None or not ledger.done[number]:
            part = find(queries.take(chunk), allowed.take(chunk))
            found.ids[chunk], found.scores[chunk] = part.ids, part.scores
            if ledger is not None:
                ledger.check_off(number)
        done += len(chunk)
        report(done, len(order))
    return found


def choose_device(device: str) -> Literal["cpu", "cuda"]:
    """`auto` is the GPU if there is one."""
    if device not in get_args(Device):
        raise InputError(f"unknown device {device!r}; the devices are {', '.join(get_args(Device))}.")
    if device == "cpu":
        return "cpu"
    import torch  # takes seconds, which `cpu` does not need

    if not torch.cuda.is_available():
        if device == "cuda":
            raise InputError("there is no GPU to join on; use the device cpu.")
        return "cpu"
    return "cuda"


def wake_gpu(device: str) -> None:
    """Load torch and start the GPU in the background: both take seconds, in which a corpus can be opened."""

    def wake() -> None:
        import torch

        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")

    if device != "cpu" and Path("/dev/nvidiactl").exists():
        Thread(target=wake).start()  # no daemon: a process that ends in the midst of an import may crash


def _search_all(queries: Rows, allowed: Allowed, candidates: Candidates, k: int) -> Neighbours:
    return search(queries, candidates, k, allowed, np.arange(len(queries)))


def search(
    queries: Rows,
    candidates: Candidates,
    k: int,
    allowed: Allowed,
    numbers: np.ndarray,
    report: Callable[[int], None] = lambda done: None,
    threads: int | None = None,
) -> Neighbours:
    """The neighbours of the queries `numbers`, with `threads` threads or all cores. Other queries' rows stay empty."""
    from exadec.exemplars.kernels import search_rows  # numba, which takes a second to load

    found = Neighbours.none(len(queries), k)
    candidate_arrays = candidates.arrays()
    dtype = screening_type(queries, candidates)
    factors = query_factors(queries, candidates.weights)
    ceilings = allowed.ceilings

    def work(block: np.ndarray) -> int:
        begin, end = allowed.query_ranges[block[0]]
        search_rows(
            block, begin, end, queries.offsets, queries.terms, factors, np.empty(BLOCK, dtype), *candidate_arrays,
            allowed.query_keys, allowed.candidate_keys, allowed.alive, ceilings, found.ids, found.scores,
        )  # fmt: skip
        return len(block)

    done = 0
    with ThreadPoolExecutor(threads or available_cores()) as pool:
        for count in pool.map(work, _blocks(numbers, allowed.query_ranges)):
            done += count
            report(done)
    return found


def screening_type(queries: Rows, candidates: Candidates) -> type:
    """The dtype for the sums of a search. 16 bits suffice for word counts of sentences, and are twice as fast."""
    largest = float(queries.squares.max(initial=0)) * candidates.largest_square  # Cauchy-Schwarz
    return np.int16 if largest < 32767**2 else np.float32


def _blocks(numbers: np.ndarray, ranges: np.ndarray) -> Iterator[np.ndarray]:
    """Blocks of queries that search the same range."""
    order = numbers[order_by_range(ranges[numbers])]
    changes = np.flatnonzero((np.diff(ranges[order], axis=0) != 0).any(axis=1)) + 1
    for same in np.split(order, changes):
        for start in range(0, len(same), _QUERIES):
            yield same[start : start + _QUERIES]


def order_by_range(ranges: np.ndarray) -> np.ndarray:
    """(Q,) int64: the queries ordered so that those that search the same candidates are adjacent."""
    return np.lexsort((ranges[:, 1], ranges[:, 0]))
