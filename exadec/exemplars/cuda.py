"""The join on a GPU.

In: the same rows and rules as `join.search`. Out: the same `Neighbours`, bit for bit.

Each row is folded into a short dense row of bytes: frequent terms have their own columns, the others share columns.
Counts are never negative, so the dot product of two folded rows is at least that of the rows themselves, and one dense
matrix product bounds every pair from above. Tiles of candidates are then scored exactly in the order of their bounds,
a few at first and twice as many in each round, until no other tile can reach the k-th best score so far.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from exadec.errors import InputError
from exadec.exemplars.bow import Rows
from exadec.exemplars.candidates import query_factors
from exadec.exemplars.gpu_kernels import TILE, scores_in_tiles, tile_bounds
from exadec.exemplars.join import Allowed, Neighbours

_COLUMNS = 1024
"""Width of a folded row if all terms weigh the same. More columns leave fewer tiles to score, but the dense product is
most of the work."""
_WEIGHTED_COLUMNS = 2048
"""Width of a folded row with tf-idf. Rare terms share columns but weigh most, so sharing loosens the bounds more."""
_EXACT_PART = 16
"""One in this many columns belongs to a single term. In simulations on news it hardly matters for raw counts, and more
such columns hurt tf-idf."""
_FIRST_TILES = 8
"""Tiles per query in the first round. Raw counts seldom need more."""
_SCORE_BYTES = 1 << 27
"""Maximum size of the scores computed at once."""
_MARGIN = 1 - 2.0**-20
"""Bounds are float32; rounding loses less than 2 ** -21 of a bound."""
_BOUND_BYTES = 1 << 30
"""Maximum size of the bounds for one chunk of queries; more would not be faster."""
_TOGETHER = 1 << 13
"""Neighbouring ranges are searched together if they have this many candidates at most. With a search for each of
thousands of small groups, a GPU would mostly wait."""


@dataclass(frozen=True)
class _Folded:
    """Rows on the GPU."""

    offsets: torch.Tensor
    """(N + 1,) int64"""
    terms: torch.Tensor
    """(entries,) int32"""
    counts: torch.Tensor
    """(entries,) int32"""
    codes: torch.Tensor
    """(N rounded up to tiles, columns) int8: folded rows, divided by the row's scale and rounded up"""
    scales: torch.Tensor
    """(N rounded up to tiles,) float32"""


class GpuSearch:
    """Searches candidates on a GPU, in as few blocks as its free memory allows."""

    def __init__(
        self,
        rows: Rows,
        weights: np.ndarray,
        ids: np.ndarray,
        allowed: Allowed,
        device: torch.device | None = None,
        block: int | None = None,
    ):
        """Takes the rows that `Candidates` takes, not arranged. Only the candidates' part of `allowed` is used."""
        self.rows, self.weights, self.ids, self.allowed = rows, weights, ids, allowed
        self.device = device or torch.device("cuda")
        self.width = _COLUMNS if len(np.unique(weights)) <= 1 else _WEIGHTED_COLUMNS
        self.columns = _fold_columns(rows, len(weights), self.width)
        self.block = block or self._rows_that_fit()
        self._only_block = self._load(0) if len(rows) <= self.block else None

    def search(self, queries: Rows, allowed: Allowed, k: int) -> Neighbours:
        """The best k candidates of each query. Queries that search the same candidates should be adjacent."""
        if len(queries) == 0 or len(self.rows) == 0:
            return Neighbours.none(len(queries), k)
        if self._only_block is not None:
            return self._only_block.search(queries, allowed, k)
        parts = []
        for begin in range(0, len(self.rows), self.block):
            # One block in memory at a time: each is loaded again for every chunk of queries, and freed before the next.
            block = self._load(begin)
            ranges = np.clip(allowed.query_ranges - begin, 0, len(block.rows))
            parts.append(block.search(queries, replace(allowed, query_ranges=ranges), k))
            del block
        return Neighbours.merge(parts)

    def _load(self, begin: int) -> "_Block":
        end = min(begin + self.block, len(self.rows))
        keys, alive = self.allowed.candidate_keys[:, begin:end], self.allowed.alive[begin:end]
        rows = self.rows.slice(begin, end)
        return _Block(rows, self.weights, self.columns, self.width, self.ids[begin:end], keys, alive, self.device)

    def _rows_that_fit(self) -> int:
        """Candidates may use half of the free memory; queries, bounds and exact scores share the other half."""
        if self.device.type != "cuda":
            return max(1, len(self.rows))
        free, _ = torch.cuda.mem_get_info(self.device)
        keys = 8 * len(self.allowed.candidate_keys)
        bytes_per_row = self.width + 40 + keys + 8 * len(self.rows.terms) / max(1, len(self.rows))
        return max(TILE, int(free / 2 / bytes_per_row) // TILE * TILE)


class _Block:
    """Candidates in GPU memory."""

    def __init__(
        self,
        rows: Rows,
        weights: np.ndarray,
        columns: np.ndarray,
        width: int,
        ids: np.ndarray,
        keys: np.ndarray,
        alive: np.ndarray,
        device: torch.device,
    ):
        self.rows, self.weights, self.columns, self.width, self.device = rows, weights, columns, width, device
        self.ids = self._load(ids)
        self.folded = self._fold(rows)
        self.squares, self.alive, self.keys = self._load(rows.squares), self._load(alive), self._load(keys)
        # The factor for each bound; 0 for candidates that may not be found.
        self.inverse = torch.zeros(len(self.folded.codes), device=self.device)
        norms = self.squares.clamp(min=1).sqrt().float()
        self.inverse[: len(rows)] = self.alive * self.folded.scales[: len(rows)] / norms

    def search(self, queries: Rows, allowed: Allowed, k: int) -> Neighbours:
        found = Neighbours.none(len(queries), k)
        folded = self._fold(queries)
        factors = query_factors(queries, self.weights)
        if factors.max(initial=0) >= 2**31:
            raise InputError("a count times its squared weight does not fit into 32 bits; join on the CPU instead.")
        ranges = self._load(allowed.query_ranges)
        exact = (
            folded.offsets, folded.terms, self._load(factors.astype(np.int32)),
            self.folded.offsets, self.folded.terms, self.folded.counts, self.squares, self.alive,
            ranges, self._load(allowed.query_keys), self._load(allowed.ceilings), self.keys,
            len(queries), len(self.rows), len(allowed.query_keys),
        )  # fmt: skip
        for begin, end, first, last in _runs(allowed.query_ranges):
            tiles = (first // TILE, -(-last // TILE))
            if last <= first:
                continue
            step = max(TILE, _bound_bytes(self.device) // (4 * (tiles[1] - tiles[0])))
            for start in range(begin, end, step):
                stop = min(start + step, end)
                ids, scores = self._search_chunk(folded, exact, ranges[start:stop], start, tiles, k)
                found.ids[start:stop], found.scores[start:stop] = ids, scores
        return found

    def _search_chunk(
        self, queries: _Folded, exact: Any, ranges: torch.Tensor, start: int, tiles: tuple[int, int], k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(queries, k) ids and scores of the queries from `start` on, as many as have `ranges` (queries, 2)."""
        first_tile, count, stop = tiles[0], tiles[1] - tiles[0], start + len(ranges)
        bounds = tile_bounds(queries.codes, self.folded.codes, self.inverse, start, stop, first_tile, count)
        if count <= _TOGETHER // TILE + 1:  # there may be tiles in which a query has no candidates
            numbers = torch.arange(*tiles, device=self.device)
            bounds.masked_fill_((numbers < ranges[:, :1] // TILE) | (numbers * TILE >= ranges[:, 1:]), -1.0)
        scales = queries.scales[start:stop]
        top = torch.zeros(stop - start, k, dtype=torch.float64, device=self.device)  # best scores so far, descending
        hits = []
        pending = torch.arange(stop - start, device=self.device)  # queries that may find more
        size = _FIRST_TILES
        while len(pending):
            values, chosen = (bounds if len(pending) == len(bounds) else bounds[pending]).topk(min(size, count))
            wanted = values >= _least(top[pending], scales[pending])
            numbers = torch.where(wanted, chosen + first_tile, -1)  # (pending, tiles)
            step = max(1, _SCORE_BYTES // (8 * TILE * numbers.shape[1]))
            for rows, some in zip(pending.split(step), numbers.split(step), strict=True):
                hits.append(_improve(top, rows, scores_in_tiles(rows + start, some, *exact), some))
            bounds[pending[:, None], chosen] = -1.0
            # No remaining tile has a higher bound than the last chosen one.
            pending = pending[(values[:, -1:] >= _least(top[pending], scales[pending]))[:, 0] & (size < count)]
            size *= 2
        rows, scores, positions = (torch.cat(parts) for parts in zip(*hits, strict=True))
        return _best(rows, scores, self.ids[positions], stop - start, k)

    def _load(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _fold(self, rows: Rows) -> _Folded:
        device, width = self.device, self.width
        offsets = self._load(rows.offsets)
        terms = self._load(rows.terms)
        counts = self._load(rows.counts)
        column_of, weight_of = self._load(self.columns), self._load(self.weights)
        padded = -(-len(rows) // TILE) * TILE
        codes = torch.zeros(padded, width, dtype=torch.int8, device=device)
        scales = torch.ones(padded, device=device)
        step = (1 << 27) // width  # half a gigabyte as int32
        for begin in range(0, len(rows), step):
            end = min(begin + step, len(rows))
            first, last = int(rows.offsets[begin]), int(rows.offsets[end])
            lengths = offsets[begin + 1 : end + 1] - offsets[begin:end]
            numbers = torch.arange(end - begin, device=device).repeat_interleave(lengths)
            part = terms[first:last]
            values = counts[first:last] * weight_of[part]
            if len(values) and _largest_sum(values, lengths) >= 2**30:
                raise InputError("the weighted counts of a row do not fit into 30 bits; join on the CPU instead.")
            dense = torch.zeros((end - begin) * width, dtype=torch.int32, device=device)
            dense.index_add_(0, numbers * width + column_of[part], values.int())
            dense = dense.view(end - begin, width)
            scale = ((dense.amax(dim=1) + 126) // 127).clamp(min=1)
            codes[begin:end] = ((dense + (scale - 1)[:, None]) // scale[:, None]).to(torch.int8)
            scales[begin:end] = scale.float()
        return _Folded(offsets, terms, counts, codes, scales)


def _largest_sum(values: torch.Tensor, lengths: torch.Tensor) -> int:
    """The largest sum of a row's values, for rows of these lengths."""
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    ends = lengths.cumsum(0)
    return int((sums[ends] - sums[ends - lengths]).max())


def _bound_bytes(device: torch.device) -> int:
    """At most an eighth of the free memory."""
    return min(_BOUND_BYTES, torch.cuda.mem_get_info(device)[0] // 8) if device.type == "cuda" else _BOUND_BYTES


def _least(top: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(queries, 1) float32: tiles with lower bounds cannot reach the k-th best score, nor tie with it."""
    return (top[:, -1].sqrt().float() * _MARGIN / scales).clamp(min=1e-30)[:, None]


def _improve(
    top: torch.Tensor, rows: torch.Tensor, scores: torch.Tensor, tiles: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Merge the scores (rows, tiles, TILE) of some rows into `top`; returns each hit's row, score, position: (hits,).

    Every candidate among the final best, ties included, is a hit in its round.
    """
    k, scores = top.shape[1], scores.flatten(1)
    new = scores.topk(min(k, scores.shape[1])).values
    top[rows] = torch.cat([top[rows], new], dim=1).topk(k).values
    row, place = torch.nonzero((scores > 0) & (scores >= top[rows, -1:]), as_tuple=True)
    positions = tiles[row, place // TILE] * TILE + place % TILE
    return rows[row], scores[row, place], positions


def _best(
    rows: torch.Tensor, scores: torch.Tensor, ids: torch.Tensor, queries: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first k hits of each query, by descending score, then by ascending id."""
    order = ids.argsort(stable=True)
    order = order[scores[order].argsort(descending=True, stable=True)]
    order = order[rows[order].argsort(stable=True)]
    rows, scores, ids = rows[order], scores[order], ids[order]
    begins = torch.searchsorted(rows, torch.arange(queries, device=rows.device))
    rank = torch.arange(len(rows), device=rows.device) - begins[rows]
    kept = rank < k
    best = torch.full((queries, k), -1, dtype=torch.int64, device=rows.device)
    top = torch.zeros((queries, k), dtype=torch.float64, device=rows.device)
    best[rows[kept], rank[kept]] = ids[kept]
    top[rows[kept], rank[kept]] = scores[kept]
    return best.cpu().numpy(), top.cpu().numpy()


def _fold_columns(rows: Rows, terms: int, width: int) -> np.ndarray:
    """(terms,) int64: the column of each term. Rare terms are dealt out in turn, so that columns are balanced."""
    order = np.argsort(-np.bincount(rows.terms, minlength=terms), kind="stable")
    columns, exact = np.empty(terms, np.int64), width // _EXACT_PART
    columns[order[:exact]] = np.arange(min(exact, terms))
    shared = width - exact
    turn, place = np.divmod(np.arange(max(0, terms - exact)), shared)
    columns[order[exact:]] = exact + np.where(turn % 2 == 0, place, shared - 1 - place)
    return columns


def _runs(query_ranges: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Runs of queries that search the same candidates, or few in all: first query, end, first candidate, end."""
    changes = np.flatnonzero((np.diff(query_ranges, axis=0) != 0).any(axis=1)) + 1
    runs: list[tuple[int, int, int, int]] = []
    for begin, end in pairwise([0, *changes.tolist(), len(query_ranges)]):
        first, last = query_ranges[begin].tolist()
        if runs:
            start, _, lowest, highest = runs[-1]
            lowest, highest = min(lowest, first), max(highest, last)
            if highest - lowest <= _TOGETHER:
                runs[-1] = start, end, lowest, highest
                continue
        runs.append((begin, end, first, last))
    return runs
