"""The parts of a search step on a CPU that are not products of matrices, compiled by numba.

In: the products of hypotheses with some of the words, exact or of rounded numbers. Out: the log of the sum over all
words and the likeliest words; the likeliest next words, copied ones among them; and the beams after them. Logits are
made where they are read, and never stored.
"""

import numpy as np

from exadec.compiled import compiled
from exadec.corpus.vocabulary import EOS, PAD
from exadec.model.backends.reference import SMALLEST

BLOCK = 2048
"""Words whose logits are made at once: few enough for the fastest cache."""
_QUARTER, _GROUPS = BLOCK // 4, BLOCK // 32
"""The words of a block are in groups of 32. Those of a group are as far apart as possible: so a processor can look for
the largest of many groups at once."""
LOWEST = np.float32(-1e30)
"""Below all logits."""
_ABOVE = np.float32(20)
"""So far above the number that exponentials are relative to, a logit may be: then the sum is still exact."""
_LEAST = np.float32(SMALLEST)
_A, _B, _C, _D, _E, _F = map(
    np.float32, (0.9999999251, 0.6931530727, 0.2401536192, 0.05582631524, 0.008989340581, 0.001877577405)
)
"""2^x = A + Bx + … + Fx⁵ for x from 0 to 1, wrong by less than 8e-8 of it"""


@compiled(fastmath=True)
def _exponential(x):
    """e^x, as exact as float32, for x below 69; otherwise some number."""
    x = min(max(x * np.float32(1.4426950408889634), np.float32(-126)), np.float32(100))
    whole = np.floor(x)
    rest = x - whole
    power = _A + rest * (_B + rest * (_C + rest * (_D + rest * (_E + rest * _F))))
    # Times 2^whole: the bits of a float's exponent begin at the 23rd.
    return np.int32(np.float32(power).view(np.int32) + (np.int32(whole) << 23)).view(np.float32)


@compiled(fastmath=True)
def _make_logits(products, word_scales, bias, scale, reference, logits):
    """Fill in logits, and return the sum of e^(logit - reference)."""
    total = np.float32(0)
    for j in range(len(products)):
        logits[j] = np.float32(products[j]) * (word_scales[j] * scale) + bias[j]
        total += _exponential(logits[j] - reference)
    return total


@compiled(fastmath=True)
def _sum_exponentials(logits, reference):
    """The same sum of logits that are there."""
    total = np.float32(0)
    for j in range(len(logits)):
        total += _exponential(logits[j] - reference)
    return total


@compiled(fastmath=True)
def _find_largest(logits, fours, largest):
    """The largest of each four logits, (BLOCK / 4,), of each group, (G,), and of all."""
    for j in range(_QUARTER):
        low, high = max(logits[j], logits[j + _QUARTER]), max(logits[j + 2 * _QUARTER], logits[j + 3 * _QUARTER])
        fours[j] = max(low, high)
    highest = LOWEST
    for group in range(_GROUPS):
        top = fours[group]
        for other in range(1, _QUARTER // _GROUPS):
            top = max(top, fours[other * _GROUPS + group])
        largest[group] = top
        highest = max(highest, top)
    return highest


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
def read_products(products, scales, word_scales, bias, first, references, totals, words, best):
    """Read the products of N hypotheses with W words, (N, W), of which `first` is the number of the first word.

    A logit is a product times the scales of its hypothesis (N,) and its word (V,), plus the word's bias (V,). What was
    read so far changes: the sum of exponentials of each hypothesis (N,), relative to a number near its largest logit
    (N,), at first LOWEST, and the C likeliest words with their logits, (N, C) each, best first.
    """
    logits, fours, largest = np.empty(BLOCK, np.float32), np.empty(_QUARTER, np.float32), np.empty(_GROUPS, np.float32)
    for row in range(len(products)):
        values, numbers = best[row], words[row]
        for begin in range(0, products.shape[1], BLOCK):
            end = min(begin + BLOCK, products.shape[1])
            ours = slice(first + begin, first + end)
            total = _make_logits(
                products[row, begin:end], word_scales[ours], bias[ours], scales[row], references[row], logits
            )
            logits[end - begin :] = LOWEST
            top = _find_largest(logits, fours, largest)
            if top > references[row] + _ABOVE:
                totals[row] *= np.exp(references[row] - top)
                references[row] = top
                total = _sum_exponentials(logits, top)
            totals[row] += total
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
def _multiply(first, second):
    total = np.float32(0)
    for j in range(len(first)):
        total += first[j] * second[j]
    return total


@compiled(fastmath=True)
def multiply_chosen(vectors, words, weight, bias, logits):
    """Fill in the exact logits of a few words for each hypothesis: (N, E), (N, C), (V, E), (V,) -> (N, C)."""
    for row in range(len(words)):
        for place in range(words.shape[1]):
            word = words[row, place]
            logits[row, place] = _multiply(vectors[row], weight[word]) + bias[word]


@compiled()
def make_exact(vectors, words, weight, bias, logits, totals):
    """Put exact logits in the place of rounded ones, (N, C), and into the log of the sum over all words, (N,)."""
    for row in range(len(words)):
        change = np.float32(0)
        for place in range(words.shape[1]):
            word = words[row, place]
            exact = _multiply(vectors[row], weight[word]) + bias[word]
            change += np.exp(exact - totals[row]) - np.exp(logits[row, place] - totals[row])
            logits[row, place] = exact
        totals[row] += np.log1p(change)  # the likeliest words have most of the sum


@compiled()
def fill_codes(vectors, codes, scales):
    """See `round_rows`."""
    for row in range(len(vectors)):
        largest = np.float32(1e-30)
        for j in range(vectors.shape[1]):
            largest = max(largest, abs(vectors[row, j]))
        scales[row] = largest / np.float32(127)
        for j in range(vectors.shape[1]):
            codes[row, j] = np.int8(np.rint(vectors[row, j] / scales[row]))


@compiled()
def _log_sigmoid(x):
    return min(x, np.float32(0)) - np.log1p(np.exp(-abs(x)))


@compiled()
def _is_among(word, words):
    found = False
    for other in words:
        found |= word == other
    return found


@compiled()
def _has(rising, word):
    """Whether a word is among others in rising order."""
    low, high = 0, len(rising)
    while low < high:
        middle = (low + high) // 2
        if rising[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low < len(rising) and rising[low] == word


@compiled()
def choose(vectors, words, logits, totals, gates, weights, changes, instances, banned, shared, scores, chosen):
    """Fill in log p and words, (N, C + P) each: C that are likeliest to be generated, then those that can be copied.

    A word that is in both has its probability in the second. Of each hypothesis there are: its attentional vector
    (N, E), the likeliest words with their logits (N, C), the log of the sum over all words (N,), the logit of
    generating rather than copying (N,), attention (N, M), the logit of changing the case of a copied word (N,), its
    instance (N,) and the words that may not come (N, W). Without copying, M and P are 0; if no case can change, M is P.
    """
    weight, bias, ids, counts, slots = shared  # (V, E), (V,), and (B, P) each, as in `Places`
    count, memory, positions, size = words.shape[1], weights.shape[1], ids.shape[1], len(weight)
    merged = np.empty(positions, np.float32)
    for row in range(len(words)):
        instance, generate = instances[row], np.float32(0)
        if positions:
            generate = _log_sigmoid(gates[row])
        for place in range(count):
            word = words[row, place]
            chosen[row, place] = word
            scores[row, place] = generate + (logits[row, place] - totals[row])
            if _is_among(word, banned[row]) or (positions and _has(ids[instance], word)):
                scores[row, place] = -np.inf
        if not positions:
            continue
        changed = np.float32(0)
        if positions > memory:
            changed = np.float32(1) / (np.float32(1) + np.exp(-changes[row]))
        merged[:] = 0
        for position in range(memory):
            merged[slots[instance, position]] += weights[row, position] * (np.float32(1) - changed)
        for position in range(memory, positions):
            merged[slots[instance, position]] += weights[row, position - memory] * changed
        copy = _log_sigmoid(-gates[row])
        for place in range(positions):
            word = ids[instance, place]
            chosen[row, count + place] = word
            if counts[instance, place] == 0 or _is_among(word, banned[row]):
                scores[row, count + place] = -np.inf
                continue
            one = copy + np.log(max(merged[place], _LEAST))
            if word < size:
                other = generate + (_multiply(vectors[row], weight[word]) + bias[word] - totals[row])
                high = max(one, other)
                one = high + np.log1p(np.exp(min(one, other) - high))
            scores[row, count + place] = one


@compiled(fastmath=True)
def _sigmoid(x):
    return np.float32(1) / (np.float32(1) + _exponential(-x))


@compiled(fastmath=True)
def _tanh(x):
    return np.float32(2) * _sigmoid(np.float32(2) * x) - np.float32(1)


@compiled(fastmath=True)
def _add_bfloat16(first, second, total):
    """The second are the bits of bfloat16: the first half of those of a float32."""
    for j in range(len(total)):
        total[j] = first[j] + np.int32(np.int32(second[j]) << 16).view(np.float32)


@compiled(fastmath=True)
def _update_cells(enter, forget, candidate, cells, new_cells):
    for j in range(len(cells)):
        new_cells[j] = _sigmoid(forget[j]) * cells[j] + _sigmoid(enter[j]) * _tanh(candidate[j])


@compiled(fastmath=True)
def _leave_cells(leave, cells, hidden):
    for j in range(len(cells)):
        hidden[j] = _sigmoid(leave[j]) * _tanh(cells[j])


@compiled()
def step_lstm(projected, recurrent, strides, cells, hidden, new_cells):
    """An LSTM's step: both halves of its gates (N, 4, D), the second as bits of bfloat16, and c -> h and c, (N, D).

    The gates come as flat memory. `strides` are the steps from one row to the next, and from one gate to the next, of
    either half.
    """
    size = cells.shape[1]
    gates = np.empty((4, size), np.float32)
    for row in range(len(cells)):
        for gate in range(4):
            one, other = row * strides[0] + gate * strides[1], row * strides[2] + gate * strides[3]
            _add_bfloat16(projected[one : one + size], recurrent[other : other + size], gates[gate])
        _update_cells(gates[0], gates[1], gates[2], cells[row], new_cells[row])
        _leave_cells(gates[3], new_cells[row], hidden[row])


@compiled()
def _copy(source, target):
    for j in range(len(source)):
        target[j] = source[j]


@compiled()
def _keep_best(value, parent, word, values, parents, words):
    """Keep the best continuations, best first."""
    place = len(values) - 1
    if not value > values[place]:
        return
    while place > 0 and values[place - 1] < value:
        values[place], parents[place], words[place] = values[place - 1], parents[place - 1], words[place - 1]
        place -= 1
    values[place], parents[place], words[place] = value, parent, word


@compiled()
def _finish(score, written, scores, texts):
    """Keep the best finished texts, (K, L), with their scores (K,), best first."""
    place = len(scores) - 1
    if not score > scores[place]:
        return
    while place > 0 and scores[place - 1] < score:
        scores[place] = scores[place - 1]
        _copy(texts[place - 1], texts[place])
        place -= 1
    scores[place] = score
    _copy(written, texts[place])
    for j in range(len(written), texts.shape[1]):
        texts[place, j] = EOS


@compiled()
def settle(scores, choices, ending, before, after, parents, alpha, reached, n_best, full):
    """What `beam.advance` does after it knows the next words: log p and words (N, C), and log p of ending (N,).

    Fills in the `Beams` after this step: words, log p, lengths, scores, texts, done; and the parent of each new
    hypothesis, (B·K,). `alpha` is that of the length penalty, and `reached` the penalty of the longest text, or 0 for
    that of the present one.
    """
    words, log_p, lengths, finished, texts, done = before
    new_words, new_log_p, new_lengths, new_finished, new_texts, new_done = after
    each, beam, longest, end = log_p.shape[1], finished.shape[1], texts.shape[2], np.int64(EOS)
    totals, origins = np.empty(2 * beam, np.float32), np.empty(2 * beam, np.int64)
    nexts = np.empty(2 * beam, np.int64)
    for one in range(len(log_p)):
        length = lengths[one] + 1  # the end symbol is counted
        penalty = np.float32(((5 + length) / 6) ** alpha)
        final = length == longest
        for rank in range(2 * beam):
            totals[rank], origins[rank], nexts[rank] = -np.inf, 0, PAD
        for mine in range(each):
            row, so_far = one * each + mine, log_p[one, mine]
            if final:
                _keep_best(so_far + ending[row], mine, end, totals, origins, nexts)
                continue
            for place in range(scores.shape[1]):
                _keep_best(so_far + scores[row, place], mine, choices[row, place], totals, origins, nexts)
        for place in range(beam):
            new_finished[one, place] = finished[one, place]
            _copy(texts[one, place], new_texts[one, place])
        kept = 0
        for rank in range(2 * beam):
            parent, word = origins[rank], nexts[rank]
            if word == EOS:
                if rank < beam and not done[one]:
                    written = words[one, parent, 1:length]
                    _finish(totals[rank] / penalty, written, new_finished[one], new_texts[one])
            elif kept < beam:
                _copy(words[one, parent], new_words[one, kept])
                new_words[one, kept, length], new_log_p[one, kept] = word, totals[rank]
                parents[one * beam + kept] = one * each + parent
                kept += 1
        new_lengths[one] = min(length, longest - 1)
        # log p only falls and the penalty only grows: see `beam._is_over`.
        bound = new_log_p[one, 0] / (reached if reached > 0 else penalty)
        over = new_finished[one, n_best - 1] >= bound or (full and new_finished[one, -1] > -np.inf)
        new_done[one] = done[one] or final or over
