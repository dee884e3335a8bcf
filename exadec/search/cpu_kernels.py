"""The parts of a search step on a CPU that read a logit for each word of the vocabulary, compiled by numba.

In: the product of each hypothesis with each word, exact or of rounded numbers. Out: the log of the sum over all words,
and the likeliest words. Logits are made where they are read, and never stored.
"""

import numpy as np

from exadec.compiled import compiled

GROUP = 32
"""Words that share one largest logit."""
_BLOCK = 512
"""Words whose logits are made at once: few enough for the fastest cache."""
_LOWEST = np.float32(-1e30)
_SLACK = np.float32(1e-3)
"""How far a logit may be off if it is computed once more. If it is off by more, a little time is lost."""
_A, _B, _C, _D, _E, _F = map(
    np.float32, (0.9999999251, 0.6931530727, 0.2401536192, 0.05582631524, 0.008989340581, 0.001877577405)
)
"""2^x = A + Bx + … + Fx⁵ for x from 0 to 1, wrong by less than 8e-8 of it"""


@compiled(fastmath=True)
def _make_logits(products, word_scales, bias, scale, logits):
    for j in range(len(logits)):
        logits[j] = np.float32(products[j]) * (word_scales[j] * scale) + bias[j]


@compiled(fastmath=True)
def _find_largest(logits, largest):
    highest = _LOWEST
    for group in range(len(largest)):
        top = _LOWEST
        if (group + 1) * GROUP <= len(logits):
            for j in range(GROUP):  # a number of words that the compiler knows
                top = max(top, logits[group * GROUP + j])
        else:
            for j in range(group * GROUP, len(logits)):
                top = max(top, logits[j])
        largest[group] = top
        highest = max(highest, top)
    return highest


@compiled(fastmath=True)
def _sum_exponentials(logits, highest, bits, powers):
    """The sum of e^(logit - highest). `powers` are the same bytes as `bits`. The logits are overwritten."""
    for j in range(len(logits)):
        x = max((logits[j] - highest) * np.float32(1.4426950408889634), np.float32(-126))
        whole = np.floor(x)
        rest = x - whole
        logits[j] = _A + rest * (_B + rest * (_C + rest * (_D + rest * (_E + rest * _F))))
        bits[j] = (np.int32(whole) + np.int32(127)) << np.int32(23)  # 2^whole, as the bytes of a float
    total = np.float32(0)
    for j in range(len(logits)):
        total += logits[j] * powers[j]
    return total


@compiled()
def summarize(products, scales, word_scales, bias, largest, totals):
    """Fill in the largest logit of each group of words, (N, V) -> (N, G), and the log of the sum of exponentials (N,).

    A logit is a product times the scales of its hypothesis (N,) and its word (V,), plus the word's bias.
    """
    size = products.shape[1]
    logits, bits = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.int32)
    powers = bits.view(np.float32)
    for row in range(len(products)):
        highest, total = _LOWEST, np.float32(0)
        for begin in range(0, size, _BLOCK):
            end = min(begin + _BLOCK, size)
            some = logits[: end - begin]
            _make_logits(products[row, begin:end], word_scales[begin:end], bias[begin:end], scales[row], some)
            top = _find_largest(some, largest[row, begin // GROUP : (end + GROUP - 1) // GROUP])
            if top > highest:
                total *= np.exp(highest - top)
                highest = top
            total += _sum_exponentials(some, highest, bits, powers)
        totals[row] = highest + np.log(total)


@compiled()
def _insert(value, number, values, numbers):
    """Keep the highest values, best first, and their numbers."""
    place = len(values) - 1
    if value <= values[place]:
        return
    while place > 0 and values[place - 1] < value:
        values[place], numbers[place] = values[place - 1], numbers[place - 1]
        place -= 1
    values[place], numbers[place] = value, number


@compiled()
def pick(products, scales, word_scales, bias, largest, words, logits):
    """Fill in the C likeliest words and their logits, (N, C) each, best first. They are in the C best groups."""
    size, count = products.shape[1], words.shape[1]
    groups, tops = np.empty(count, np.int64), np.empty(count, np.float32)
    for row in range(len(products)):
        groups[:], tops[:] = 0, -np.inf
        for group in range(largest.shape[1]):
            _insert(largest[row, group], group, tops, groups)
        # Each of the C groups has a word that is as likely as the last one's, but for rounding.
        for lowest in (tops[count - 1] - _SLACK, _LOWEST):
            words[row], logits[row] = 0, -np.inf
            for place in range(min(count, largest.shape[1])):
                begin = groups[place] * GROUP
                for word in range(begin, min(begin + GROUP, size)):
                    value = np.float32(products[row, word]) * (word_scales[word] * scales[row]) + bias[word]
                    if value >= lowest:
                        _insert(value, word, logits[row], words[row])
            if logits[row, count - 1] >= _LOWEST:
                break


@compiled(fastmath=True)
def multiply_chosen(vectors, weight, bias, words, logits):
    """Fill in the exact logits of a few words for each hypothesis: (N, E), (V, E), (V,), (N, C) -> (N, C)."""
    for row in range(len(words)):
        for place in range(words.shape[1]):
            word, total = words[row, place], np.float32(0)
            for j in range(vectors.shape[1]):
                total += vectors[row, j] * weight[word, j]
            logits[row, place] = total + bias[word]
