"""Exact top-1 cosine join of bag-of-words rows.

In: count rows of queries and of candidates. Out: for each query the most similar candidate, lowest index on ties.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse

_HEAD = 128
"""The most frequent terms own nearly all the arithmetic of the product: they are multiplied as dense columns."""
_BLOCK_BYTES = 32 * 2**20
"""Of one block of similarities: large enough for the matrix product, small enough for the cache."""


def nearest(
    queries: sparse.csr_array,
    query_squares: np.ndarray,
    candidates: sparse.csr_array,
    exclude_own: bool,
    report: Callable[[int], None] = lambda done: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices (int32, -1 where no candidate shares a word) and cosines (float32) of the nearest candidates.

    Counts are integers, so products are exact in float32 and dot²/‖c‖² is a correctly rounded quotient of integers:
    candidates that are equally similar compare as equal, and the lowest index wins. With `exclude_own` row i of the
    queries is row i of the candidates, and may not find itself.
    """
    count = queries.shape[0]
    best = np.full(count, -1, np.int32)
    similarity = np.zeros(count, np.float32)
    if count == 0 or candidates.shape[0] == 0:
        return best, similarity
    squares = np.maximum(_row_squares(candidates), 1.0)
    head = np.argsort(-np.bincount(candidates.indices, minlength=candidates.shape[1]), kind="stable")[:_HEAD]
    is_head = np.zeros(candidates.shape[1], bool)
    is_head[head] = True
    candidate_head = np.ascontiguousarray(candidates[:, head].toarray().T)  # (head, N)
    candidate_tail = _tail(candidates, is_head).T.tocsr()  # (terms, N)
    query_head, query_tail = queries[:, head], _tail(queries, is_head)

    def search(rows: slice) -> None:
        dots = query_head[rows].toarray() @ candidate_head  # (block, N)
        tail = query_tail[rows] @ candidate_tail
        # scipy's product has no duplicate entries, so adding at its coordinates is a plain scatter.
        dots[np.repeat(np.arange(tail.shape[0]), np.diff(tail.indptr)), tail.indices] += tail.data
        ratios = np.square(dots, dtype=np.float64)
        ratios /= squares
        if exclude_own:
            ratios[np.arange(len(ratios)), np.arange(rows.start, rows.stop)] = -1.0
        winners = ratios.argmax(axis=1)
        top = ratios[np.arange(len(winners)), winners]
        best[rows] = np.where(top > 0, winners, -1)
        similarity[rows] = np.sqrt(np.maximum(top, 0) / np.maximum(query_squares[rows], 1.0))

    step = max(1, _BLOCK_BYTES // (8 * candidates.shape[0]))
    blocks = [slice(start, min(start + step, count)) for start in range(0, count, step)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy and scipy let go of the interpreter's lock
        for rows, _ in zip(blocks, pool.map(search, blocks), strict=True):
            report(rows.stop)
    return best, similarity


def _row_squares(rows: sparse.csr_array) -> np.ndarray:
    return np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()


def _tail(rows: sparse.csr_array, is_head: np.ndarray) -> sparse.csr_array:
    keep = ~is_head[rows.indices]
    offsets = np.concatenate([[0], np.cumsum(keep)])[rows.indptr]
    return sparse.csr_array((rows.data[keep], rows.indices[keep], offsets), shape=rows.shape)
