"""Batched beam search.

In: a `step` function and an initial state. Search knows nothing else about the model.
Out: n-best hypotheses.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.search.rules import Rule, choose_allowed, propose


class NextWords(Protocol):
    """The distributions of N hypotheses over their next words. `best` is called first."""

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (N, C) each: among them the `count` likeliest words that are not banned, (N, W)."""

    def of(self, word: int) -> torch.Tensor:
        """log p of one word that cannot be copied: (N,)."""

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        """log p of some words of each hypothesis: (N, W) -> (N, W); -inf for a banned word."""


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


Length = TypeVar("Length", float, torch.Tensor)


def length_penalty(length: Length, alpha: float) -> Length:
    """Wu et al. (2016), equation 14: ((5 + length) / 6)^α, where the length includes the end symbol."""
    return ((5 + length) / 6) ** alpha


def repeating_words(words: torch.Tensor, lengths: torch.Tensor, n: int) -> torch.Tensor:
    """The next words that would repeat an n-gram: (N, t) -> (N, W), padded. N-grams exclude the begin symbol.

    Each row has a begin symbol, as many words as `lengths` (N,) says, and whatever else.
    """
    words = words[:, 1:]
    if words.shape[1] < n:
        return words[:, :0]
    windows = words.unfold(1, n, 1)  # (N, t - n, n)
    starts = torch.arange(windows.shape[1], device=words.device)
    before = torch.arange(1 - n, 0, device=words.device)
    prefix = words.gather(1, (lengths[:, None] + before).clamp_min(0))  # (N, n - 1)
    same = (windows[:, :, :-1] == prefix[:, None]).all(dim=2) & (starts + n <= lengths[:, None])  # (N, t - n)
    return torch.where(same, windows[:, :, -1], PAD)


@dataclass(frozen=True)
class Beams(Generic[State]):
    """The live hypotheses of B instances, K for each, and the best finished ones. One instance may be ahead of another.

    Before its first word an instance may have a single hypothesis, or K of which all but one have a log p of -inf.
    """

    state: State
    words: torch.Tensor
    """(B, K, t): the begin symbol and the words; then room for more, as far as its columns go."""
    log_p: torch.Tensor
    """(B, K)"""
    lengths: torch.Tensor
    """(B,): how many words the live hypotheses of an instance have."""
    scores: torch.Tensor
    """(B, K): those of the finished hypotheses, best first; -inf for none."""
    texts: torch.Tensor
    """(B, K, L): their words, then end symbols."""
    done: torch.Tensor
    """(B,) bool: the search of these instances has ended. Nothing changes their finished hypotheses any more."""

    @classmethod
    def start(cls, state: State, instances: int, config: SearchConfig, device: torch.device) -> "Beams[State]":
        """One hypothesis for each instance, with nothing but the begin symbol."""
        return cls(
            state,
            torch.full((instances, 1, 1), BOS, device=device),
            torch.zeros(instances, 1, device=device),
            torch.zeros(instances, dtype=torch.long, device=device),
            torch.full((instances, config.beam_size), -torch.inf, device=device),
            torch.full((instances, config.beam_size, config.max_length), EOS, device=device),
            torch.zeros(instances, dtype=torch.bool, device=device),
        )

    def make_room(self) -> "Beams[State]":
        """The same with another column for words."""
        return replace(self, words=functional.pad(self.words, (0, 1), value=EOS))

    def keep(self, instances: torch.Tensor) -> "Beams[State]":
        """The same for some of the instances."""
        return Beams(self.state.keep(instances), *(part[instances] for part in self.tensors()))

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All but the state."""
        return self.words, self.log_p, self.lengths, self.scores, self.texts, self.done

    def best(self, instances: torch.Tensor, count: int) -> list[list[Hypothesis]]:
        """The best finished hypotheses of some of the instances."""
        return to_hypotheses(self.scores[instances, :count], self.texts[instances, :count])


def to_hypotheses(scores: torch.Tensor, texts: torch.Tensor) -> list[list[Hypothesis]]:
    """Finished hypotheses of some instances: scores (B, n), -inf for none, and words, then end symbols, (B, n, L)."""
    words, none = texts.cpu().numpy(), -torch.inf
    lengths = (words == EOS).argmax(2).tolist()  # up to the first end symbol
    return [
        [Hypothesis(text[:length].tolist(), score) for text, length, score in zip(*row, strict=True) if score > none]
        for row in zip(words, lengths, scores.tolist(), strict=True)
    ]


class Advance(Protocol):
    """`beam.advance` without rules. It may change its beams in place."""

    def __call__(
        self, step: Step[Any], beams: Beams[Any], config: SearchConfig, never: torch.Tensor, n_best: int
    ) -> Beams[Any]: ...


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
    advance_freely: Advance | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` finished hypotheses of each instance, best first. `state` holds one row for each instance.

    A hypothesis ends when the end symbol is among the K best continuations of its instance. At the last step every
    hypothesis must end, and before `config.min_length` words none may. With beam 1 this is greedy search. Words in
    `forbidden` are never written. With rules, one for each instance, there may be fewer hypotheses, or none. Without
    rules, `advance_freely` may do what `advance` does.
    """
    if not 1 <= n_best <= config.beam_size:
        raise ValueError(f"`n_best` must be from 1 to the beam size {config.beam_size}, but is {n_best} instead.")
    results: list[list[Hypothesis]] = [[] for _ in range(instances)]
    numbers = torch.arange(instances, device=device)  # (B,): which instances are still searched
    beams = Beams.start(state, instances, config, device)
    never = torch.tensor(forbidden, device=device, dtype=torch.long)  # (W,)
    while True:
        obeyed = None if rules is None else [rules[number] for number in numbers.tolist()]
        if obeyed is None:
            beams = (advance_freely or advance)(step, beams.make_room(), config, never, n_best)
        else:
            beams = advance(step, beams.make_room(), config, never, n_best, obeyed)
        if tell is not None:
            _tell_settled(tell, numbers, beams)
        if bool(beams.done.any()):
            over, going = beams.done.nonzero()[:, 0], (~beams.done).nonzero()[:, 0]
            for number, found in zip(numbers[over].tolist(), beams.best(over, n_best), strict=True):
                results[number] = found
            if not len(going):
                return results
            numbers, beams = numbers[going], beams.keep(going)


def advance(
    step: Step[State],
    beams: Beams[State],
    config: SearchConfig,
    never: torch.Tensor,
    n_best: int,
    rules: Sequence[Rule] | None = None,
) -> Beams[State]:
    """One more word for every live hypothesis, with room for it. Shapes depend on those of `beams` alone.

    Nothing here asks the device for a value, so that a GPU can be given the next step before this one is done; except
    for `rules`, which are for instances of the same length.
    """
    beam, each = config.beam_size, beams.log_p.shape[1]
    places = beams.lengths[:, None, None]  # (B, 1, 1)
    last = beams.words.gather(2, places.expand(-1, each, 1)).flatten()  # (N,)
    next_words, state = step(beams.state, last)
    final = beams.lengths + 1 == config.max_length  # (B,)
    log_probs, chosen = _offer(next_words, beams, config, never, final, rules)
    totals, parents, chosen = _expand(beams.log_p, log_probs.float(), chosen, None if rules else 2 * beam)
    if rules is not None:
        written = beams.words[:, :, :-1].flatten(0, 1)
        totals, parents, chosen = choose_allowed(rules, written, totals, parents, chosen, beam)
    wide = beams.words.shape[2]
    grown = beams.words.gather(1, parents[:, :, None].expand(-1, -1, wide))  # (B, 2K, t)
    grown = grown.scatter(2, (places + 1).expand(-1, grown.shape[1], 1), chosen[:, :, None])
    ends = chosen == EOS
    lengths = beams.lengths + 1  # the end symbol is counted
    penalty = length_penalty(lengths.double(), config.length_penalty).float()  # (B,)
    offered = (totals / penalty[:, None]).masked_fill(~ends | beams.done[:, None], -torch.inf)
    scores, order = torch.cat([beams.scores, offered[:, :beam]], 1).topk(beam, dim=1)
    texts = functional.pad(grown[:, :beam, 1:], (0, beams.texts.shape[2] - wide + 1), value=EOS)
    texts = torch.cat([beams.texts, texts], 1)
    texts = texts.gather(1, order[:, :, None].expand(-1, -1, texts.shape[2]))
    log_p, kept = totals.masked_fill(ends, -torch.inf).topk(min(beam, totals.shape[1]), dim=1)  # (B, K)
    first = torch.arange(0, len(last), each, device=last.device)[:, None]  # (B, 1)
    return Beams(
        state.select((first + parents.gather(1, kept)).flatten()),
        grown.gather(1, kept[:, :, None].expand(-1, -1, wide)),
        log_p,
        lengths.clamp_max(config.max_length - 1),  # those that are done have no room for more
        scores,
        texts,
        beams.done | final | _is_over(scores, log_p[:, 0], penalty, config, n_best),
    )


def find_banned(words: torch.Tensor, lengths: torch.Tensor, config: SearchConfig, never: torch.Tensor) -> torch.Tensor:
    """The words that may not come next, whatever a rule says: (N, W), padded. `never` (W,) are those that never may.

    `words` (N, t) and `lengths` (N,) are those of `repeating_words`.
    """
    banned = [never.expand(len(words), -1)]
    if config.min_length:
        banned.append((EOS * (lengths < config.min_length))[:, None])  # or PAD, which is 0
    if config.block_ngram:
        repeating = repeating_words(words, lengths, config.block_ngram)
        banned.append(repeating.masked_fill(repeating == EOS, PAD))
    return torch.cat(banned, dim=1)


def _offer(
    next_words: NextWords,
    beams: Beams[Any],
    config: SearchConfig,
    never: torch.Tensor,
    final: torch.Tensor,
    rules: Sequence[Rule] | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log p and words that may come after each hypothesis, (N, C) each; the end symbol alone if `final` (B,)."""
    words, each = beams.words.flatten(0, 1), beams.log_p.shape[1]
    final = final.repeat_interleave(each, output_size=len(words))[:, None]  # (N, 1)
    banned = find_banned(words, beams.lengths.repeat_interleave(each, output_size=len(words)), config, never)
    log_probs, chosen = next_words.best(2 * config.beam_size + (SPARE if rules else 0), banned)
    may_end = final
    if rules is not None:  # if they refuse all words that are offered, a text can still end
        written = beams.lengths.repeat_interleave(each, output_size=len(words))[:, None]
        may_end = final | (written >= config.min_length)
    ending = torch.where(may_end, next_words.of(EOS)[:, None], -torch.inf)
    if rules is not None:
        proposed = propose(rules, words[:, :-1])  # (N, W)
        log_probs = torch.cat([log_probs, next_words.of_words(proposed)], 1)
        chosen = torch.cat([chosen, proposed], 1)
    log_probs = torch.cat([log_probs.masked_fill(final, -torch.inf), ending], 1)
    return log_probs, functional.pad(chosen, (0, 1), value=EOS)


def _expand(
    log_p: torch.Tensor, log_probs: torch.Tensor, words: torch.Tensor, count: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best continuations of each instance's hypotheses, of (N, C) each: total, parent, word, (B, count) each.

    Without a count they are all continuations.
    """
    size = log_probs.shape[1]
    totals = (log_p[:, :, None] + log_probs.unflatten(0, log_p.shape)).flatten(1)  # (B, K·C)
    best, index = totals.topk(min(count or totals.shape[1], totals.shape[1]), dim=1)
    return best, index // size, words.unflatten(0, log_p.shape).flatten(1).gather(1, index)


def _is_over(
    scores: torch.Tensor, alive: torch.Tensor, penalty: torch.Tensor, config: SearchConfig, n_best: int
) -> torch.Tensor:
    """(B,): whether `config.stopping` ends the search, given log p of each instance's best live hypothesis (B,)."""
    # log p only falls and the penalty only grows. So a live hypothesis scores at most what it has now, divided by the
    # largest penalty.
    reached = penalty if config.stopping == "first" else length_penalty(config.max_length, config.length_penalty)
    done = scores[:, n_best - 1] >= alive / reached
    if config.stopping == "full" or config.beam_size == 1:  # greedy search ends with its first text
        done |= scores[:, -1] > -torch.inf
    return done


def _tell_settled(tell: Tell, numbers: torch.Tensor, beams: Beams[Any]) -> None:
    """Tell the words that all hypotheses of an instance begin with, its best finished one included: they are final."""
    for place, number in enumerate(numbers.tolist()):
        live = beams.words[place][beams.log_p[place] > -torch.inf][:, 1:].tolist()
        [ended] = beams.best(numbers.new_tensor([place]), 1)
        texts = [*live, *(one.ids for one in ended)]
        shared = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False))
        tell(number, [words[0] for words in shared])
