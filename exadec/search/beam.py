"""Batched beam search.

In: a `step` function and an initial state. Search knows nothing else about the model.
Out: n-best hypotheses.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.search.rules import Rule, choose_allowed, propose


class NextWords(Protocol):
    """The distributions of N hypotheses over their next words."""

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (N, C) each: among them the `count` likeliest words that are not banned, (N, W)."""

    def of(self, word: int) -> torch.Tensor:
        """log p of one word that cannot be copied: (N,)."""

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        """log p of some words of each hypothesis: (N, W) -> (N, W). After `best`, that of a banned word is -inf."""


class Searchable(Protocol):
    """A state of N hypotheses, as many for each instance."""

    def select(self, indices: torch.Tensor) -> Any:
        """These hypotheses, each as often as its number is there."""

    def keep(self, instances: torch.Tensor) -> Any:
        """All hypotheses of these instances."""


State = TypeVar("State", bound=Searchable)
Step = Callable[[State, torch.Tensor], tuple[NextWords, State]]
"""(state of N hypotheses, their last words (N,)) -> (their next words, state)."""
Tell = Callable[[int, list[int]], None]
"""Called with an instance's number and the words that its text will begin with, whatever comes."""

SPARE = 32
"""How many more words of each hypothesis are offered if rules may refuse some."""


@dataclass(frozen=True)
class Known:
    """Next words of which log p is known for all."""

    log_probs: torch.Tensor
    """(N, X). Nobody else uses it."""

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.log_probs.scatter_(1, banned, -torch.inf)
        best, words = self.log_probs.topk(min(count, self.log_probs.shape[1]), dim=1)
        return best, words

    def of(self, word: int) -> torch.Tensor:
        return self.log_probs[:, word]

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        return self.log_probs.gather(1, words)


@dataclass(frozen=True)
class Hypothesis:
    """One candidate text."""

    ids: list[int]
    """Words in extended ids, without begin and end symbols."""
    score: float
    """log p divided by the length penalty."""


def length_penalty(length: int, alpha: float) -> float:
    """Wu et al. (2016), equation 14: ((5 + length) / 6)^α, where the length includes the end symbol."""
    return ((5 + length) / 6) ** alpha


def repeating_words(words: torch.Tensor, n: int) -> torch.Tensor:
    """The next words that would repeat an n-gram: (N, t) -> (N, W), padded. N-grams exclude the begin symbol."""
    words = words[:, 1:]
    if words.shape[1] < n:
        return words[:, :0]
    windows = words.unfold(1, n, 1)  # (N, t - n + 1, n)
    prefix = words[:, words.shape[1] - n + 1 :]  # (N, n - 1)
    same = (windows[:, :, :-1] == prefix[:, None]).all(dim=2)  # (N, t - n + 1)
    return torch.where(same, windows[:, :, -1], PAD)


class Finished:
    """The K best finished hypotheses of each instance so far."""

    def __init__(self, instances: int, beam: int, max_length: int, device: torch.device):
        self.scores = torch.full((instances, beam), -torch.inf, device=device)  # (B, K)
        self.words = torch.full((instances, beam, max_length), EOS, device=device)  # (B, K, L)

    def add(self, scores: torch.Tensor, words: torch.Tensor) -> None:
        """Offer hypotheses: scores (B, K') with -inf for none, words (B, K', t)."""
        padding = self.words.shape[2] - words.shape[2]
        words = torch.nn.functional.pad(words, (0, padding), value=EOS)
        scores = torch.cat([self.scores, scores], dim=1)
        self.scores, order = scores.topk(self.scores.shape[1], dim=1)
        every = torch.cat([self.words, words], dim=1)
        self.words = every.gather(1, order[:, :, None].expand(-1, -1, every.shape[2]))

    def is_done(self, alive: torch.Tensor, length: int, config: SearchConfig, n_best: int) -> torch.Tensor:
        """(B,): whether `config.stopping` ends the search, given log p of each instance's best live hypothesis (B,)."""
        # log p only falls and the penalty only grows. So a live hypothesis scores at most what it has now, divided by
        # the largest penalty.
        reached = length if config.stopping == "first" else config.max_length
        done = self.scores[:, n_best - 1] >= alive / length_penalty(reached, config.length_penalty)
        if config.stopping == "full" or config.beam_size == 1:  # greedy search ends with its first text
            done |= self.scores[:, -1] > -torch.inf
        return done

    def keep(self, instances: torch.Tensor) -> None:
        self.scores, self.words = self.scores[instances], self.words[instances]

    def best(self, instances: torch.Tensor, count: int) -> list[list[Hypothesis]]:
        """The best hypotheses of some of the instances."""
        results = []
        for scores, words in zip(self.scores[instances].tolist(), self.words[instances].tolist(), strict=True):
            found = [(score, row) for score, row in zip(scores, words, strict=True) if score > -torch.inf]
            results.append([Hypothesis(row[: row.index(EOS)], score) for score, row in found[:count]])
        return results


@torch.no_grad()
def beam_search(
    step: Step[State],
    state: State,
    instances: int,
    config: SearchConfig,
    forbidden: Sequence[int],
    device: torch.device,
    n_best: int = 1,
    rules: Sequence[Rule] | None = None,
    tell: Tell | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` finished hypotheses of each instance, best first. `state` holds one row for each instance.

    A hypothesis ends when the end symbol is among the K best continuations of its instance. At the last step every
    hypothesis must end, and before `config.min_length` words none may. With beam 1 this is greedy search. Words in
    `forbidden` are never written. With rules, one for each instance, there may be fewer hypotheses, or none.
    """
    if not 1 <= n_best <= config.beam_size:
        raise ValueError(f"`n_best` must be from 1 to the beam size {config.beam_size}, but is {n_best} instead.")
    beam, longest = config.beam_size, config.max_length
    results: list[list[Hypothesis]] = [[] for _ in range(instances)]
    numbers = torch.arange(instances, device=device)  # (B,): which instances are still searched
    words = torch.full((instances, 1), BOS, device=device)  # (N, t)
    alive = torch.zeros(instances, 1, device=device)  # (B, K'): one hypothesis for each, until it has been expanded
    finished = Finished(instances, beam, longest + 1, device)
    never = torch.tensor(forbidden, device=device, dtype=torch.long)  # (W,)
    for length in range(1, longest + 1):
        next_words, state = step(state, words[:, -1])
        obeyed = None if rules is None else [rules[number] for number in numbers.tolist()]
        log_probs, chosen = _offer(next_words, words, length, config, never, obeyed)
        totals, parents, chosen = _expand(alive, log_probs.float(), chosen, None if obeyed else 2 * beam)
        if obeyed is not None:
            totals, parents, chosen = choose_allowed(obeyed, words, totals, parents, chosen, beam)
        first = torch.arange(0, len(words), alive.shape[1], device=device)[:, None]  # (B, 1)
        grown = torch.cat([words[(first + parents).flatten()], chosen.flatten()[:, None]], dim=1)
        grown = grown.unflatten(0, (len(alive), -1))  # (B, 2K, t + 1)
        ends = chosen == EOS
        penalty = length_penalty(length, config.length_penalty)
        finished.add((totals / penalty).masked_fill(~ends, -torch.inf)[:, :beam], grown[:, :beam, 1:])
        alive, kept = totals.masked_fill(ends, -torch.inf).topk(min(beam, totals.shape[1]), dim=1)  # (B, K)
        done = finished.is_done(alive[:, 0], length, config, n_best) | (length == longest)
        state = state.select((first + parents.gather(1, kept)).flatten())
        words = grown.gather(1, kept[:, :, None].expand(-1, -1, grown.shape[2])).flatten(0, 1)
        if tell is not None:
            _tell_settled(tell, numbers, words.unflatten(0, alive.shape), alive, finished)
        if bool(done.any()):
            over, going = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
            for number, found in zip(numbers[over].tolist(), finished.best(over, n_best), strict=True):
                results[number] = found
            if not len(going):
                break
            numbers, alive, state = numbers[going], alive[going], state.keep(going)
            words = words.unflatten(0, (len(done), -1))[going].flatten(0, 1)
            finished.keep(going)
    return results


def find_banned(words: torch.Tensor, length: int, config: SearchConfig, never: torch.Tensor) -> torch.Tensor:
    """The words that may not come next, whatever a rule says: (N, W), padded. `never` (W,) are those that never may."""
    banned = never.expand(len(words), -1)
    if length <= config.min_length:
        banned = torch.cat([banned, torch.full_like(words[:, :1], EOS)], dim=1)
    if config.block_ngram:
        repeating = repeating_words(words, config.block_ngram)
        banned = torch.cat([banned, repeating.masked_fill(repeating == EOS, PAD)], dim=1)
    return banned


def _offer(
    next_words: NextWords,
    words: torch.Tensor,
    length: int,
    config: SearchConfig,
    never: torch.Tensor,
    rules: Sequence[Rule] | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log p and words that may come after each hypothesis, (N, C) each."""
    if length == config.max_length:
        return next_words.of(EOS)[:, None], torch.full_like(words[:, :1], EOS)
    banned = find_banned(words, length, config, never)
    if rules is None:
        return next_words.best(2 * config.beam_size, banned)
    log_probs, chosen = next_words.best(2 * config.beam_size + SPARE, banned)
    proposed = propose(rules, words)  # (N, W)
    return torch.cat([log_probs, next_words.of_words(proposed)], 1), torch.cat([chosen, proposed], 1)


def _expand(
    alive: torch.Tensor, log_probs: torch.Tensor, words: torch.Tensor, count: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best continuations of each instance's hypotheses, of (N, C) each: total, parent, word, (B, count) each.

    Without a count they are all continuations.
    """
    size = log_probs.shape[1]
    totals = (alive[:, :, None] + log_probs.unflatten(0, alive.shape)).flatten(1)  # (B, K·C)
    best, index = totals.topk(min(count or totals.shape[1], totals.shape[1]), dim=1)
    return best, index // size, words.unflatten(0, alive.shape).flatten(1).gather(1, index)


def _tell_settled(
    tell: Tell, numbers: torch.Tensor, words: torch.Tensor, alive: torch.Tensor, finished: Finished
) -> None:
    """Tell the words that all hypotheses of an instance share, and its best finished one: they are there to stay."""
    for place, number in enumerate(numbers.tolist()):
        live = words[place][alive[place] > -torch.inf][:, 1:].tolist()
        [ended] = finished.best(numbers.new_tensor([place]), 1)
        texts = [*live, *(one.ids for one in ended)]
        shared = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False))
        tell(number, [words[0] for words in shared])
