"""The parts of a search step on a CPU that read a logit for each word of the vocabulary, compiled by numba.

In: the products of hypotheses with some of the words, exact or of rounded numbers. Out: the log of the sum over all
words, and the likeliest words. Logits are made where they are read, and never stored.
"""

import numpy as np

from exadec.compiled import compiled

BLOCK = 2048
"""Words whose logits are made at once: few enough for the fastest cache."""
_QUARTER, _GROUPS = BLOCK // 4, BLOCK // 32
"""The words of a block are in groups of 32. Those of a group are as far apart as possible: so a processor can look for
the largest of many groups at once."""
LOWEST = np.float32(-1e30)
"""Below all logits."""
_A, _B, _C, _D, _E, _F = map(
    np.float32, (0.9999999251, 0.6931530727, 0.2401536192, 0.05582631524, 0.008989340581, 0.001877577405)
)
"""2^x = A + Bx + … + Fx⁵ for x from 0 to 1, wrong by less than 8e-8 of it"""


@compiled(fastmath=True)
def _make_logits(products, word_scales, bias, scale, logits):
    for j in range(len(products)):
        logits[j] = np.float32(products[j]) * (word_scales[j] * scale) + bias[j]


@compiled(fastmath=True)
def _find_largest(logits, fours, largest):
    """The largest of each four logits, (BLOCK / 4,), of each group, (G,), and of all."""
    for j in range(_QUARTER):
        low, high = max(logits[j], logits[j + _QUARTER]), max(logits[j + 2 * _QUARTER], logits[j + 3 * _QUARTER])
        fours[j] = max(low, high)
    largest[:] = fours[:_GROUPS]
    for first in range(_GROUPS, _QUARTER, _GROUPS):
        for group in range(_GROUPS):
            largest[group] = max(largest[group], fours[first + group])
    highest = LOWEST
    for group in range(_GROUPS):
        highest = max(highest, largest[group])
    return highest


@compiled(fastmath=True)
def _sum_exponentials(logits, highest):
    """The sum of e^(logit - highest)."""
    total = np.float32(0)
    for j in range(len(logits)):
        x = max((logits[j] - highest) * np.float32(1.4426950408889634), np.float32(-126))
        whole = np.floor(x)
        rest = x - whole
        power = _A + rest * (_B + rest * (_C + rest * (_D + rest * (_E + rest * _F))))
        # Times 2^whole: the bits of a float's exponent begin at the 23rd.
        total += np.int32(np.float32(power).view(np.int32) + (np.int32(whole) << 23)).view(np.float32)
    return total


@compiled(fastmath=True)
def _find_bound(largest, count):
    """A number that at least so many of the groups exceed, and not many more.

    The likeliest words of a hypothesis exceed it, too. So of its first words, few have to be sorted.
    """
    low, high = np.float32(np.inf), LOWEST
    for j in range(len(largest)):
        low, high = min(low, largest[j]), max(high, largest[j])
    bound = LOWEST
    for _ in range(10):
        exceeding = 0
        for j in range(len(largest)):
            exceeding += largest[j] > low
        if exceeding >= count:
            bound = low
        else:
            high = low
        low = (bound + high) * np.float32(0.5)
    return bound


@compiled()
def _insert(value, number, values, numbers):
    """Keep the highest values, best first, and their numbers."""
    place = len(values) - 1
    while place > 0 and values[place - 1] < value:
        values[place], numbers[place] = values[place - 1], numbers[place - 1]
        place -= 1
    values[place], numbers[place] = value, number


@compiled()
def read_products(products, scales, word_scales, bias, first, highest, totals, words, best):
    """Read the products of N hypotheses with W words, (N, W), of which `first` is the number of the first word.

    A logit is a product times the scales of its hypothesis (N,) and its word (V,), plus the word's bias (V,). What was
    read so far changes: the largest logit of each hypothesis (N,), the sum of exponentials relative to it (N,), and the
    C likeliest words with their logits, (N, C) each, best first.
    """
    logits, fours, largest = np.empty(BLOCK, np.float32), np.empty(_QUARTER, np.float32), np.empty(_GROUPS, np.float32)
    for row in range(len(products)):
        values, numbers = best[row], words[row]
        for begin in range(0, products.shape[1], BLOCK):
            end = min(begin + BLOCK, products.shape[1])
            ours = slice(first + begin, first + end)
            _make_logits(products[row, begin:end], word_scales[ours], bias[ours], scales[row], logits)
            logits[end - begin :] = LOWEST
            top = _find_largest(logits, fours, largest)
            if top > highest[row]:
                totals[row] *= np.exp(highest[row] - top)
                highest[row] = top
            totals[row] += _sum_exponentials(logits, highest[row])
            bound = values[-1]
            if top <= bound:
                continue
            if bound < LOWEST:
                bound = _find_bound(largest, len(values))
            for group in range(_GROUPS):
                if largest[group] > bound:
                    for four in range(group, _QUARTER, _GROUPS):
                        if fours[four] > bound:
                            for j in range(four, BLOCK, _QUARTER):
                                if logits[j] > bound:
                                    _insert(logits[j], first + begin + j, values, numbers)
                                    bound = max(bound, values[-1])


@compiled(fastmath=True)
def multiply_chosen(vectors, words, weight, bias, logits):
    """Fill in the exact logits of a few words for each hypothesis: (N, E), (N, C), (V, E), (V,) -> (N, C)."""
    for row in range(len(words)):
        for place in range(words.shape[1]):
            word, total = words[row, place], np.float32(0)
            for j in range(vectors.shape[1]):
                total += vectors[row, j] * weight[word, j]
            logits[row, place] = total + bias[word]
