"""The parts of a search step that are not matrix products, in Triton: three launches instead of a hundred.

In: logits, gates and attention weights of all hypotheses. Out: their likeliest next words, and the beams after them.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from exadec.corpus.vocabulary import EOS
from exadec.model.backends.reference import SMALLEST
from exadec.model.places import Places

_LARGEST = 1024
"""Into how many groups a vocabulary is divided at most."""
_FEW = 512
"""Of so many numbers, a single warp finds the largest one sooner than several."""
_SMALLEST: tl.constexpr = tl.constexpr(SMALLEST)
_EOS: tl.constexpr = tl.constexpr(EOS)


def summarize(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logit of each group of words, (N, V) -> (N, G), and the log of the sum of all exponentials, (N,)."""
    rows, size = logits.shape
    group = group_size(size)
    groups = triton.cdiv(size, group)
    largest = logits.new_empty(rows, groups, dtype=torch.float32)
    totals = logits.new_empty(rows, dtype=torch.float32)
    units = (size // 8, 8) if size % 8 == 0 else (size, 1)  # tells the compiler how rows are aligned
    _summarize[(rows,)](logits, largest, totals, *units, groups, group=group, block=max(1, 4096 // group), num_warps=8)
    return largest, totals


def group_size(words: int) -> int:
    """How many words of a vocabulary are one group: a power of 2."""
    return max(32, triton.next_power_of_2(triton.cdiv(words, _LARGEST)))


@dataclass(frozen=True)
class Copying:
    """How likely N hypotheses are to copy each word."""

    gates: torch.Tensor
    """(N,): the logits of generating rather than copying."""
    weights: torch.Tensor
    """(N, M): probability of each position, given that a word is copied."""
    changes: torch.Tensor | None
    """(N,): the logits of changing a copied word's case; None if it cannot."""
    places: Places
    """(B, P): P is M, or 2M if the words in their other case follow."""


def merge(copying: Copying) -> torch.Tensor:
    """`Places.merge`, which would add up in any order on a GPU: (N, P)."""
    (rows, memory), (instances, positions) = copying.weights.shape, copying.places.ids.shape
    merged = torch.empty(rows, positions, dtype=torch.float32, device=copying.weights.device)
    block = triton.next_power_of_2(min(positions, _LARGEST))
    _merge_positions[(rows, triton.cdiv(positions, block))](
        copying.weights, copying.changes, copying.places.order, copying.places.counts, merged,
        rows // instances, positions, memory, cases=copying.changes is not None, block=block, num_warps=4,
    )  # fmt: skip
    return merged


def choose(
    logits: torch.Tensor,  # (N, V)
    largest: torch.Tensor,  # (N, G) and (N,), from `summarize`
    totals: torch.Tensor,
    copying: Copying | None,
    banned: torch.Tensor,  # (N, W)
    count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`Choices.best`: log p and words, (N, count + positions) each."""
    rows, size = logits.shape
    if copying is None:
        gates = weights = changes = ids = order = counts = None
        (instances, positions), memory = (rows, 0), 0
    else:
        gates, weights, changes, places = copying.gates, copying.weights, copying.changes, copying.places
        ids, order, counts = places.ids, places.order, places.counts
        (instances, positions), memory = ids.shape, weights.shape[1]
    count = min(count, size)
    scores = logits.new_empty(rows, count + positions, dtype=torch.float32)
    words = torch.empty_like(scores, dtype=torch.long)
    looked_at = min(count + banned.shape[1], largest.shape[1])  # each banned word may hide another one
    block = triton.next_power_of_2(max(1, positions))
    _choose[(rows,)](
        logits, largest, totals, gates, weights, changes, ids, order, counts, banned, scores, words,
        size, largest.shape[1], rows // instances, count, positions, memory,
        banned.shape[1], banned.stride(0), banned.stride(1), looked_at,
        copies=copying is not None, cases=changes is not None, group=group_size(size),
        groups_block=triton.next_power_of_2(largest.shape[1]), block=block,
        found_block=triton.next_power_of_2(looked_at), num_warps=_warps_for(block),
    )  # fmt: skip
    return scores, words


def _warps_for(block: int) -> int:
    """To find the best of so many again and again: one warp need not wait for others."""
    return 1 if block <= _FEW else 4 if block <= _LARGEST else 8


def settle(
    scores: torch.Tensor,  # (N, C): log p of the next words
    choices: torch.Tensor,  # (N, C): the words
    ending: torch.Tensor,  # (N,): log p of ending
    beams: tuple[torch.Tensor, ...],  # words, log_p, lengths, scores, texts, done, as in `Beams`; changed in place
    alpha: float,  # of the length penalty
    reached: float,  # the length penalty of the longest text; 0 for that of the present one
    n_best: int,
    full: bool,
) -> torch.Tensor:
    """What `advance` does after it knows the next words. Returns each new hypothesis's parent: (N,) row numbers."""
    words, log_p, lengths, finished, texts, done = beams
    instances, beam = log_p.shape
    block = triton.next_power_of_2(beam * (scores.shape[1] + 1))
    parents = torch.empty(instances * beam, dtype=torch.long, device=scores.device)
    _settle[(instances,)](
        scores, choices, ending, words, log_p, lengths, finished, texts, done, parents,
        alpha, reached, scores.shape[1], beam, words.shape[2], texts.shape[2], n_best,
        full=full, beam_block=triton.next_power_of_2(beam), block=block,
        words_block=triton.next_power_of_2(words.shape[2]), texts_block=triton.next_power_of_2(texts.shape[2]),
        num_warps=_warps_for(block),
    )  # fmt: skip
    return parents


@triton.jit
def _summarize(logits, largest, totals, units, unit: tl.constexpr, groups, group: tl.constexpr, block: tl.constexpr):
    row, size = tl.program_id(0).to(tl.int64), units * unit
    numbers, inside_group = tl.arange(0, block), tl.arange(0, group)
    high = -float("inf")
    total = 0.0
    for begin in range(0, groups, block):
        places = (begin + numbers)[:, None] * group + inside_group[None, :]
        values = tl.load(logits + row * size + places, mask=places < size, other=-float("inf")).to(tl.float32)
        tops = tl.max(values, axis=1)
        tl.store(largest + row * groups + begin + numbers, tops, mask=begin + numbers < groups)
        higher = tl.maximum(high, tl.max(tops, axis=0))
        total = total * tl.exp(high - higher) + tl.sum(tl.sum(tl.exp(values - higher), axis=1), axis=0)
        high = higher
    tl.store(totals + row, high + tl.log(total))


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def _merged(
    weights, changes, order, counts, row, begin, places, positions, memory, cases: tl.constexpr, block: tl.constexpr
):
    """The sum over all positions of a word, and whether another place stands for it."""
    changed = 0.0
    if cases:
        changed = tl.sigmoid(tl.load(changes + row).to(tl.float32))
    own_counts = tl.load(counts + begin + places, mask=places < positions, other=0)
    merged = tl.zeros((block,), tl.float32)
    for number in range(tl.max(own_counts, axis=0)):
        there = number < own_counts
        position = tl.load(order + begin + places + number, mask=there, other=0)
        share = tl.load(weights + row * memory + position % memory, mask=there, other=0.0).to(tl.float32)
        merged += share * tl.where(position < memory, 1 - changed, changed)
    return merged, own_counts == 0


@triton.jit
def _merge_positions(
    weights, changes, order, counts, merged, hypotheses, positions, memory, cases: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * block + tl.arange(0, block)
    begin = row // hypotheses * positions
    sums, _ = _merged(weights, changes, order, counts, row, begin, places, positions, memory, cases, block)
    tl.store(merged + row * positions + places, sums, mask=places < positions)


@triton.jit
def _choose(
    logits, largest, totals, gates, weights, changes, ids, order, counts, banned, scores, words,
    size, groups, hypotheses, count, positions, memory, bans, ban_row, ban_column, looked_at,
    copies: tl.constexpr, cases: tl.constexpr, group: tl.constexpr, groups_block: tl.constexpr, block: tl.constexpr,
    found_block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, out = logits + row * size, row * (count + positions)
    total = tl.load(totals + row)
    generate = 0.0
    places = tl.arange(0, block)
    mine = tl.full((block,), -1, tl.int64)
    if copies:
        gate = tl.load(gates + row).to(tl.float32)
        generate = _log_sigmoid(gate)
        begin = row // hypotheses * positions
        mine = tl.load(ids + begin + places, mask=places < positions, other=-1)
        merged, dead = _merged(weights, changes, order, counts, row, begin, places, positions, memory, cases, block)
        for number in range(bans):
            dead = dead | (mine == tl.load(banned + row * ban_row + number * ban_column))
        known = (mine < size) & (mine >= 0)
        own_logits = tl.load(start + tl.where(known, mine, 0), mask=known, other=-float("inf")).to(tl.float32)
        one, other = generate + own_logits - total, _log_sigmoid(-gate) + tl.log(tl.maximum(merged, _SMALLEST))
        high = tl.maximum(one, other)
        both = high + tl.log(tl.exp(one - high) + tl.exp(other - high))
        tl.store(scores + out + count + places, tl.where(dead, -float("inf"), both), mask=places < positions)
        tl.store(words + out + count + places, mine, mask=places < positions)
    # The likeliest words are in the groups with the largest logits: as many groups as words.
    numbers, slots = tl.arange(0, groups_block), tl.arange(0, found_block)
    tops = tl.load(largest + row * groups + numbers, mask=numbers < groups, other=-float("inf"))
    chosen = tl.full((found_block,), groups, tl.int32)
    for slot in range(looked_at):
        best = tl.argmax(tops, axis=0)
        chosen = tl.where(slots == slot, best, chosen)
        tops = tl.where(numbers == best, -float("inf"), tops)
    candidates = chosen[:, None] * group + tl.arange(0, group)[None, :]
    values = tl.load(start + candidates, mask=candidates < size, other=-float("inf")).to(tl.float32)
    for number in range(bans):
        values = tl.where(candidates == tl.load(banned + row * ban_row + number * ban_column), -float("inf"), values)
    flat, flat_words = tl.reshape(values, (found_block * group,)), tl.reshape(candidates, (found_block * group,))
    flat_places = tl.arange(0, found_block * group)
    for slot in range(count):
        best = tl.argmax(flat, axis=0)
        here = flat_places == best
        word = tl.sum(tl.where(here, flat_words, 0), axis=0)
        score = generate + tl.max(flat, axis=0) - total
        if copies:  # a word that can be copied has its whole probability among the positions
            score = tl.where(tl.max((mine == word).to(tl.int32), axis=0) > 0, -float("inf"), score)
        tl.store(scores + out + slot, score)
        tl.store(words + out + slot, word.to(tl.int64))
        flat = tl.where(here, -float("inf"), flat)


@triton.jit
def _best_continuations(
    totals, choices, places, slots, width, beam, most_ended, block: tl.constexpr, beam_block: tl.constexpr
):
    """Of 2K continuations, the best K that go on: log p, parents, words; and those that end: log p and parents.

    Nothing changes the texts of an instance that is done: then `most_ended` is 0.
    """
    alive = tl.full((beam_block,), -float("inf"), tl.float32)
    ended = tl.full((beam_block,), -float("inf"), tl.float32)
    alive_parents, ended_parents = tl.zeros((beam_block,), tl.int32), tl.zeros((beam_block,), tl.int32)
    alive_words = tl.full((beam_block,), _EOS, tl.int64)
    kept = 0
    for rank in range(2 * beam):
        best = tl.argmax(totals, axis=0)
        value = tl.max(totals, axis=0)
        parent, column = best // (width + 1), best % (width + 1)
        word = tl.load(choices + parent * width + column, mask=column < width, other=_EOS)
        totals = tl.where(places == best, -float("inf"), totals)
        there = (slots == tl.where(word == _EOS, rank, -1)) & (slots < most_ended)
        ended = tl.where(there, value, ended)
        ended_parents = tl.where(there, parent, ended_parents)
        there = (slots == tl.where(word == _EOS, -1, kept)) & (slots < beam)
        alive = tl.where(there, value, alive)
        alive_parents = tl.where(there, parent, alive_parents)
        alive_words = tl.where(there, word, alive_words)
        kept += tl.where(word == _EOS, 0, 1)
    return alive, alive_parents, alive_words, ended, ended_parents


@triton.jit
def _merge(old, new, slots, beam, beam_block: tl.constexpr):
    """The best scores of old and new finished texts, best first, and their numbers: those of new ones come after."""
    scores = tl.full((beam_block,), -float("inf"), tl.float32)
    numbers = slots
    for rank in range(beam):
        of_old, of_new = tl.max(old, axis=0), tl.max(new, axis=0)
        takes_old = of_old >= of_new
        number = tl.where(takes_old, tl.argmax(old, axis=0), tl.argmax(new, axis=0))
        scores = tl.where(slots == rank, tl.maximum(of_old, of_new), scores)
        numbers = tl.where(slots == rank, tl.where(takes_old, number, number + beam_block), numbers)
        old = tl.where(slots == tl.where(takes_old, number, -1), -float("inf"), old)
        new = tl.where(slots == tl.where(takes_old, -1, number), -float("inf"), new)
    return scores, numbers


@triton.jit
def _settle(
    scores, choices, ending, words, log_p, lengths, finished, texts, done, parents,
    alpha, reached, width, beam, room, longest, n_best,
    full: tl.constexpr, beam_block: tl.constexpr, block: tl.constexpr, words_block: tl.constexpr,
    texts_block: tl.constexpr,
):  # fmt: skip
    instance = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + instance)
    penalty = tl.exp(alpha * tl.log((length + 6) / 6.0))  # the end symbol is counted: see `beam.length_penalty`
    goes_on = length + 1 != longest
    searched = tl.load(done + instance) == 0
    first = instance * beam
    # All continuations: the last one of each hypothesis is its forced end.
    places = tl.arange(0, block)
    inside = places < beam * (width + 1)
    parent, choice = places // (width + 1), places % (width + 1)
    before = tl.load(log_p + first + parent, mask=inside, other=-float("inf"))
    allowed = tl.where(goes_on, width, 0)  # in the last step, every hypothesis has to end
    free = tl.load(scores + (first + parent) * width + choice, mask=inside & (choice < allowed), other=-float("inf"))
    forced = tl.load(ending + first + parent, mask=inside & (choice == width + allowed), other=-float("inf")).to(
        tl.float32
    )
    totals = before + tl.maximum(free, forced)
    slots = tl.arange(0, beam_block)
    alive, alive_parents, alive_words, ended, ended_parents = _best_continuations(
        totals, choices + first * width, places, slots, width, beam, tl.where(searched, beam, 0), block, beam_block
    )
    ended = ended / penalty
    old = tl.load(finished + first + slots, mask=slots < beam, other=-float("inf"))
    best_scores, sources = _merge(old, ended, slots, beam, beam_block)
    # Everything is read before anything is written: rows change places.
    columns = tl.arange(0, words_block)[None, :]
    rows = (slots < beam)[:, None] & (columns < room)
    grown = tl.load(words + (first + alive_parents)[:, None] * room + columns, mask=rows, other=0)
    grown = tl.where(columns == length + 1, alive_words[:, None], grown)
    text_columns = tl.arange(0, texts_block)[None, :]
    text_rows = (slots < beam)[:, None] & (text_columns < longest)
    is_new, is_old = (sources >= beam_block)[:, None], (sources < beam_block)[:, None]
    wanted = tl.where(sources >= beam_block, sources - beam_block, sources)
    picked = tl.sum(
        tl.where(wanted[:, None] == slots[None, :], ended_parents[None, :], 0), axis=1
    )  # the parents of new texts
    old_texts = tl.load(texts + (first + wanted)[:, None] * longest + text_columns, mask=text_rows & is_old, other=_EOS)
    new_texts = tl.load(
        words + (first + picked)[:, None] * room + 1 + text_columns,
        mask=text_rows & is_new & (text_columns < length), other=_EOS,
    )  # fmt: skip
    kept_texts = tl.where(is_new, new_texts, old_texts)
    tl.debug_barrier()
    tl.store(words + (first + slots)[:, None] * room + columns, grown, mask=rows)
    tl.store(texts + (first + slots)[:, None] * longest + text_columns, kept_texts, mask=text_rows)
    tl.store(log_p + first + slots, alive, mask=slots < beam)
    tl.store(finished + first + slots, best_scores, mask=slots < beam)
    tl.store(parents + first + slots, first + alive_parents, mask=slots < beam)
    tl.store(lengths + instance, tl.minimum(length + 1, longest - 1))
    # log p only falls and the penalty only grows: see `beam._is_over`.
    bound = tl.max(alive, axis=0) / tl.where(reached > 0, reached, penalty)
    worst = tl.max(tl.where(slots == n_best - 1, best_scores, -float("inf")), axis=0)
    over = tl.where(searched, tl.where(goes_on, tl.where(worst < bound, 0, 1), 1), 1)
    if full:
        last = tl.max(tl.where(slots == beam - 1, best_scores, -float("inf")), axis=0)
        over = tl.where(last > -float("inf"), 1, over)
    tl.store(done + instance, over != 0)
