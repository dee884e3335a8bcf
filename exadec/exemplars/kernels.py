"""The inner loops of the join on a CPU, compiled by numba.

In: arrays of `Rows` and `Candidates`. Out: the best candidates of some queries, written into arrays.
"""

import numpy as np

from exadec.compiled import compiled

_ALMOST_NOTHING = np.float32(1e-30)
_PART = 256
"""If a block of candidates may reach the threshold, it is checked in parts of this size."""


@compiled(fastmath=True)
def _set_eight(sums, columns, skip, which, factors):
    """sums = eight head columns, each times its factor. Unrolled by hand, so that it compiles to vector code."""
    a, b, c, d = columns[which[0]][skip:], columns[which[1]][skip:], columns[which[2]][skip:], columns[which[3]][skip:]
    e, f, g, h = columns[which[4]][skip:], columns[which[5]][skip:], columns[which[6]][skip:], columns[which[7]][skip:]
    fa, fb, fc, fd = factors[0], factors[1], factors[2], factors[3]
    fe, ff, fg, fh = factors[4], factors[5], factors[6], factors[7]
    narrow = sums.dtype.type  # 16-bit products run sixteen at a time, but numba would widen them to 64 bits
    for i in range(sums.shape[0]):
        left = narrow(fa * a[i]) + narrow(fb * b[i]) + narrow(fc * c[i]) + narrow(fd * d[i])
        right = narrow(fe * e[i]) + narrow(ff * f[i]) + narrow(fg * g[i]) + narrow(fh * h[i])
        sums[i] = narrow(left + right)


@compiled(fastmath=True)
def _add_four(sums, columns, skip, which, factors):
    a, b, c, d = columns[which[0]][skip:], columns[which[1]][skip:], columns[which[2]][skip:], columns[which[3]][skip:]
    fa, fb, fc, fd = factors[0], factors[1], factors[2], factors[3]
    narrow = sums.dtype.type
    for i in range(sums.shape[0]):
        more = narrow(fa * a[i]) + narrow(fb * b[i]) + narrow(fc * c[i]) + narrow(fd * d[i])
        sums[i] = narrow(sums[i] + more)


@compiled(fastmath=True)
def _any_reaches(sums, norms, threshold):
    hits = np.float32(0)  # a float sum compiles to vector code; `any` and `max` do not
    for i in range(sums.shape[0]):
        hits += np.float32(np.float32(sums[i]) >= threshold * norms[i])
    return hits > 0


@compiled()
def _dot(a_terms, a_factors, b_terms, b_counts):
    """Exact dot product of two rows with ascending terms."""
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


@compiled()
def _insert(ids, scores, number, score):
    """Insert a candidate into a list ordered by descending score, then by ascending id."""
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


@compiled()
def _settle(
    sums, low, n, threshold, margin, query_offsets, query_terms, query_factors,
    offsets, terms, counts, squares, norms, candidate_ids, query_keys, candidate_keys, alive, ceilings, ids, scores,
):  # fmt: skip
    """Score exactly the candidates from `low` on that reach the threshold; returns the new threshold."""
    first, last = query_offsets[n], query_offsets[n + 1]
    for i in range(sums.shape[0]):
        c = low + i
        if np.float32(sums[i]) < threshold * norms[c] or not alive[c]:
            continue
        allowed = True
        for rule in range(query_keys.shape[0]):
            allowed = allowed and query_keys[rule, n] != candidate_keys[rule, c]
        if allowed:
            a, b = offsets[c], offsets[c + 1]
            dot = _dot(query_terms[first:last], query_factors[first:last], terms[a:b], counts[a:b])
            score = np.float64(dot) * np.float64(dot) / squares[c]
            if score > ceilings[n]:
                continue
            _insert(ids[n], scores[n], candidate_ids[c], score)
            if ids[n, -1] >= 0:
                threshold = np.float32(np.sqrt(scores[n, -1]) * margin)
    return threshold


@compiled()
def search_rows(
    numbers, begin, end, query_offsets, query_terms, query_factors, buffer,
    offsets, terms, counts, squares, norms, head_of, head, tail_offsets, tail_rows, candidate_ids, longest,
    query_keys, candidate_keys, alive, ceilings, ids, scores,
):  # fmt: skip
    """Fill ids[n], scores[n] for each query n of `numbers` with the best of the candidates `begin` to `end`.

    Candidates are first screened with sums in the dtype of `buffer`, which holds one block. Those that reach the
    threshold, less a margin for rounding, are scored again in integers. So the result is exact however the screening
    rounds, and nearly all the work is the screening.
    """
    count, heads, size = numbers.shape[0], head.shape[1] - 1, head.shape[2]  # the last head column is all zero
    which = np.full((count, heads + 12), heads, np.int64)
    factors = np.zeros((count, heads + 12), buffer.dtype)
    used = np.zeros(count, np.int64)
    bounds = np.zeros(count + 1, np.int64)
    entries = 0
    for n in numbers:
        entries += query_offsets[n + 1] - query_offsets[n]
    cursors, next_rows = np.zeros(entries, np.int64), np.zeros(entries, np.int32)
    tail_factors = np.zeros(entries, buffer.dtype)
    thresholds, margins = np.full(count, _ALMOST_NOTHING), np.zeros(count)
    place = 0
    for q in range(count):
        first, last = query_offsets[numbers[q]], query_offsets[numbers[q] + 1]
        # Each rounding of a sum of positive numbers loses at most 2 ** -24 of it. A head column is one addition. A term
        # of the tail is added as often as the candidate has it: `longest` times at most. The threshold is rounded, too.
        margins[q] = 1 - (last - first + longest + 16) * 2.0**-23
        for entry in range(first, last):
            term = query_terms[entry]
            if head_of[term] >= 0:
                which[q, used[q]] = head_of[term]
                factors[q, used[q]] = query_factors[entry]
                used[q] += 1
            else:
                cursors[place] = tail_offsets[term]
                if begin > 0:
                    cursors[place] += np.searchsorted(tail_rows[cursors[place] : tail_offsets[term + 1]], begin)
                next_rows[place] = tail_rows[cursors[place]]
                tail_factors[place] = query_factors[entry]
                place += 1
        bounds[q + 1] = place
    for block in range(begin // size, (end + size - 1) // size):
        low, high = max(begin, block * size), min(end, (block + 1) * size)
        sums, columns, skip = buffer[: high - low], head[block], low - block * size
        for q in range(count):
            _set_eight(sums, columns, skip, which[q], factors[q])
            for more in range(8, used[q], 4):
                _add_four(sums, columns, skip, which[q, more:], factors[q, more:])
            for entry in range(bounds[q], bounds[q + 1]):
                row = next_rows[entry]  # most lists have nothing in a block; this checks without touching the list
                if row < high:
                    cursor, factor = cursors[entry], tail_factors[entry]
                    while row < high:
                        sums[row - low] += factor
                        cursor += 1
                        row = tail_rows[cursor]
                    cursors[entry] = cursor
                    next_rows[entry] = row
            if not _any_reaches(sums, norms[low:high], thresholds[q]):
                continue
            for i in range(0, high - low, _PART):
                part = sums[i : i + _PART]
                if _any_reaches(part, norms[low + i : high], thresholds[q]):
                    thresholds[q] = _settle(
                        part, low + i, numbers[q], thresholds[q], margins[q], query_offsets, query_terms, query_factors,
                        offsets, terms, counts, squares, norms, candidate_ids, query_keys, candidate_keys, alive,
                        ceilings, ids, scores,
                    )  # fmt: skip


@compiled()
def dot_pairs(query_offsets, query_terms, query_factors, offsets, terms, counts, chosen, dots):
    """dots[i] = dot product of query i with row chosen[i]; 0 if chosen[i] is negative."""
    for i in range(chosen.shape[0]):
        if chosen[i] >= 0:
            a, b = query_offsets[i], query_offsets[i + 1]
            c, d = offsets[chosen[i]], offsets[chosen[i] + 1]
            dots[i] = _dot(query_terms[a:b], query_factors[a:b], terms[c:d], counts[c:d])
