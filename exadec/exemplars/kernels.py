"""The inner loops of the join on a CPU, compiled by numba.

In: arrays of `Rows` and `Candidates`. Out: the best candidates of some queries, written into arrays.
"""

import numba
import numpy as np

from exadec.exemplars.candidates import BLOCK

_ALMOST_NOTHING = np.float32(1e-30)


@numba.njit(nogil=True, cache=True, fastmath=True)
def _set_eight(sums, columns, skip, which, factors):
    """sums = eight head columns, each times its factor. Written out, so that it becomes vector code."""
    a, b, c, d = columns[which[0]][skip:], columns[which[1]][skip:], columns[which[2]][skip:], columns[which[3]][skip:]
    e, f, g, h = columns[which[4]][skip:], columns[which[5]][skip:], columns[which[6]][skip:], columns[which[7]][skip:]
    fa, fb, fc, fd = factors[0], factors[1], factors[2], factors[3]
    fe, ff, fg, fh = factors[4], factors[5], factors[6], factors[7]
    for i in range(sums.shape[0]):
        left = fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i]
        sums[i] = left + fe * e[i] + ff * f[i] + fg * g[i] + fh * h[i]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _add_four(sums, columns, skip, which, factors):
    a, b, c, d = columns[which[0]][skip:], columns[which[1]][skip:], columns[which[2]][skip:], columns[which[3]][skip:]
    fa, fb, fc, fd = factors[0], factors[1], factors[2], factors[3]
    for i in range(sums.shape[0]):
        sums[i] += fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _any_reaches(sums, norms, threshold):
    hits = np.float32(0)  # a sum of floats becomes vector code where `any` does not
    for i in range(sums.shape[0]):
        hits += np.float32(sums[i] >= threshold * norms[i])
    return hits > 0


@numba.njit(nogil=True, cache=True)
def _dot(a_terms, a_factors, b_terms, b_counts):
    """Exact product of two rows whose terms ascend."""
    i, j, dot = 0, 0, np.int64(0)
    while i < a_terms.shape[0] and j < b_terms.shape[0]:
        if a_terms[i] == b_terms[j]:
            dot += a_factors[i] * b_counts[j]
            i += 1
            j += 1
        elif a_terms[i] < b_terms[j]:
            i += 1
        else:
            j += 1
    return dot


@numba.njit(nogil=True, cache=True)
def _insert(ids, scores, number, score):
    """Put a candidate into a list that is ordered by falling score, then by rising id."""
    place = ids.shape[0] - 1
    if ids[place] >= 0 and (scores[place] > score or (scores[place] == score and ids[place] < number)):
        return
    while place > 0 and (
        ids[place - 1] < 0 or scores[place - 1] < score or (scores[place - 1] == score and ids[place - 1] > number)
    ):
        ids[place] = ids[place - 1]
        scores[place] = scores[place - 1]
        place -= 1
    ids[place] = number
    scores[place] = score


@numba.njit(nogil=True, cache=True)
def search_rows(
    numbers, begin, end, query_offsets, query_terms, query_factors,
    offsets, terms, counts, squares, norms, head_of, head, tail_offsets, tail_rows, tail_counts, candidate_ids,
    query_keys, candidate_keys, alive, ids, scores,
):  # fmt: skip
    """Fill ids[n], scores[n] for each query n of `numbers` with the best of the candidates begin to end.

    Sums are screened in float32: what reaches the threshold, less a margin for rounding, is computed again in whole
    numbers. So the result is exact whatever the screening rounds, and nearly all the work is the screening.
    """
    count, heads = numbers.shape[0], head.shape[1] - 1  # the last head column is all zero
    which = np.full((count, heads + 12), heads, np.int64)
    factors = np.zeros((count, heads + 12), np.float32)
    used = np.zeros(count, np.int64)
    bounds = np.zeros(count + 1, np.int64)
    entries = 0
    for n in numbers:
        entries += query_offsets[n + 1] - query_offsets[n]
    cursors, stops = np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    tail_factors = np.zeros(entries, np.float32)
    thresholds, margins = np.full(count, _ALMOST_NOTHING), np.zeros(count)
    place = 0
    for q in range(count):
        first, last = query_offsets[numbers[q]], query_offsets[numbers[q] + 1]
        # Each of n roundings of a sum of positive numbers loses at most 2 ** -24 of it; the threshold is rounded, too.
        margins[q] = 1 - (last - first + 16) * 2.0**-23
        for entry in range(first, last):
            term = query_terms[entry]
            if head_of[term] >= 0:
                which[q, used[q]] = head_of[term]
                factors[q, used[q]] = query_factors[entry]
                used[q] += 1
            elif tail_offsets[term + 1] > tail_offsets[term]:
                cursors[place] = tail_offsets[term]
                stops[place] = tail_offsets[term + 1]
                if begin > 0:
                    cursors[place] += np.searchsorted(tail_rows[cursors[place] : stops[place]], begin)
                tail_factors[place] = query_factors[entry]
                place += 1
        bounds[q + 1] = place
    buffer = np.zeros(BLOCK, np.float32)
    for block in range(begin // BLOCK, (end + BLOCK - 1) // BLOCK):
        low, high = max(begin, block * BLOCK), min(end, (block + 1) * BLOCK)
        sums, columns, skip = buffer[: high - low], head[block], low - block * BLOCK
        for q in range(count):
            _set_eight(sums, columns, skip, which[q], factors[q])
            for more in range(8, used[q], 4):
                _add_four(sums, columns, skip, which[q, more:], factors[q, more:])
            for entry in range(bounds[q], bounds[q + 1]):
                cursor, stop, factor = cursors[entry], stops[entry], tail_factors[entry]
                while cursor < stop and tail_rows[cursor] < high:
                    sums[tail_rows[cursor] - low] += factor * tail_counts[cursor]
                    cursor += 1
                cursors[entry] = cursor
            if not _any_reaches(sums, norms[low:high], thresholds[q]):
                continue
            n = numbers[q]
            first, last = query_offsets[n], query_offsets[n + 1]
            for i in range(high - low):
                if sums[i] < thresholds[q] * norms[low + i]:
                    continue
                c = low + i
                allowed = alive[c]
                for key in range(query_keys.shape[0]):
                    allowed = allowed and query_keys[key, n] != candidate_keys[key, c]
                if not allowed:
                    continue
                a, b = offsets[c], offsets[c + 1]
                dot = _dot(query_terms[first:last], query_factors[first:last], terms[a:b], counts[a:b])
                _insert(ids[n], scores[n], candidate_ids[c], np.float64(dot) * np.float64(dot) / squares[c])
                if ids[n, -1] >= 0:
                    thresholds[q] = np.float32(np.sqrt(scores[n, -1]) * margins[q])


@numba.njit(nogil=True, cache=True)
def dot_pairs(query_offsets, query_terms, query_factors, offsets, terms, counts, chosen, dots):
    """dots[i] = the product of query i with row chosen[i]; 0 where that is negative."""
    for i in range(chosen.shape[0]):
        if chosen[i] >= 0:
            a, b = query_offsets[i], query_offsets[i + 1]
            c, d = offsets[chosen[i]], offsets[chosen[i] + 1]
            dots[i] = _dot(query_terms[a:b], query_factors[a:b], terms[c:d], counts[c:d])
