"""The inner loops of the join on a GPU, compiled by Triton.

In: tensors on the GPU. Out: upper bounds of tiles of candidates, and the exact scores inside tiles.
"""

from typing import Any

import torch
import triton
import triton.language as tl

TILE = 128
"""Candidates that share one bound."""
_CHUNK = 32
"""Terms of a query compared at once with one term of each candidate of a tile."""


def tile_bounds(
    queries: torch.Tensor,
    candidates: torch.Tensor,
    inverse: torch.Tensor,
    start: int,
    stop: int,
    first_tile: int,
    tiles: int,
) -> torch.Tensor:
    """(queries, tiles) float32: the largest dot product of each query with a candidate of the tile, times `inverse`."""
    bounds = torch.empty(stop - start, tiles, device=queries.device)

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(stop - start, meta["rows"]) * tiles,)

    _tile_bounds[grid](
        queries[start:], candidates[first_tile * TILE :], inverse[first_tile * TILE :], bounds, stop - start, tiles,
        queries.shape[1], tile=TILE, rows=128, depth=128, together=16, num_warps=8, num_stages=3,
    )  # fmt: skip
    return bounds


def scores_in_tiles(rows: torch.Tensor, tiles: torch.Tensor, *exact: Any) -> torch.Tensor:
    """(queries, tiles, TILE) float64: exact scores of query rows[i] with the candidates of tiles[i, j].

    A score is 0 if the query may not find the candidate. A tile of -1 is skipped: its scores are 0.
    """
    scores = torch.zeros(*tiles.shape, TILE, dtype=torch.float64, device=rows.device)
    if tiles.numel():
        *arrays, rules = exact
        _scores[(tiles.numel(),)](
            rows, tiles, scores, tiles.shape[1], *arrays, rules=rules, tile=TILE, chunk=_CHUNK, num_warps=4
        )
    return scores


@triton.jit
def _tile_bounds(
    queries, candidates, inverse, bounds, query_count, tiles, columns,
    tile: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, together: tl.constexpr,
):  # fmt: skip
    # Programs that run at the same time share queries and candidates, so that both are read from the cache.
    program = tl.program_id(0)
    row_blocks = tl.cdiv(query_count, rows)
    width = together * row_blocks
    first = (program // width) * together
    size = tl.minimum(tiles - first, together)
    tile_number = first + (program % width) % size
    row_block = (program % width) // size
    row_numbers = row_block * rows + tl.arange(0, rows)
    candidate_numbers = tile_number * tile + tl.arange(0, tile)
    inner = tl.arange(0, depth)
    row_offsets = tl.minimum(row_numbers, query_count - 1).to(tl.int64)[:, None] * columns + inner[None, :]
    candidate_offsets = candidate_numbers.to(tl.int64)[None, :] * columns + inner[:, None]
    sums = tl.zeros((rows, tile), tl.int32)
    for k in range(0, columns, depth):
        left = tl.load(queries + row_offsets + k)
        right = tl.load(candidates + candidate_offsets + k)
        sums = tl.dot(left, right, sums, out_dtype=tl.int32)
    scaled = sums.to(tl.float32) * tl.load(inverse + candidate_numbers)[None, :]
    best = tl.max(scaled, axis=1)
    tl.store(bounds + row_numbers.to(tl.int64) * tiles + tile_number, best, mask=row_numbers < query_count)


@triton.jit
def _tile_scores(
    row, tile_number, query_offsets, query_terms, query_factors, offsets, terms, counts, squares, alive,
    query_ranges, query_keys, ceilings, candidate_keys, query_count, candidate_count,
    rules: tl.constexpr, tile: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    numbers = tile_number * tile + tl.arange(0, tile).to(tl.int64)
    exists = numbers < candidate_count
    begins = tl.load(offsets + numbers, mask=exists, other=0)
    lengths = tl.load(offsets + numbers + 1, mask=exists, other=0) - begins
    longest = tl.max(lengths, axis=0)
    query_begin, query_end = tl.load(query_offsets + row), tl.load(query_offsets + row + 1)
    dots = tl.zeros((tile,), tl.int64)
    for chunk_begin in range(query_begin, query_end, chunk):
        places = chunk_begin + tl.arange(0, chunk)
        wanted = tl.load(query_terms + places, mask=places < query_end, other=-1)
        factors = tl.load(query_factors + places, mask=places < query_end, other=0)
        for entry in range(0, longest):
            inside = entry < lengths
            term = tl.load(terms + begins + entry, mask=inside, other=-2)
            count = tl.load(counts + begins + entry, mask=inside, other=0)
            factor = tl.sum(tl.where(term[:, None] == wanted[None, :], factors[None, :], 0), axis=1)
            dots += factor.to(tl.int64) * count
    allowed = exists & (tl.load(alive + numbers, mask=exists, other=0) != 0)
    allowed &= (numbers >= tl.load(query_ranges + 2 * row)) & (numbers < tl.load(query_ranges + 2 * row + 1))
    for rule in tl.static_range(rules):
        own = tl.load(query_keys + rule * query_count + row)
        allowed &= tl.load(candidate_keys + rule * candidate_count + numbers, mask=exists, other=0) != own
    square = tl.load(squares + numbers, mask=exists, other=1)
    square = tl.maximum(square, 1).to(tl.float64)
    product = dots.to(tl.float64)
    score = product * product / square
    return tl.where(allowed & (score <= tl.load(ceilings + row)), score, 0.0)


@triton.jit
def _scores(
    query_rows, tiles, scores, tiles_of_query,
    query_offsets, query_terms, query_factors, offsets, terms, counts, squares, alive,
    query_ranges, query_keys, ceilings, candidate_keys, query_count, candidate_count,
    rules: tl.constexpr, tile: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0).to(tl.int64)
    tile_number = tl.load(tiles + pair)
    if tile_number >= 0:
        exact = _tile_scores(
            tl.load(query_rows + pair // tiles_of_query), tile_number, query_offsets, query_terms, query_factors,
            offsets, terms, counts, squares, alive, query_ranges, query_keys, ceilings, candidate_keys, query_count,
            candidate_count, rules, tile, chunk,
        )  # fmt: skip
        tl.store(scores + pair * tile + tl.arange(0, tile), exact)
