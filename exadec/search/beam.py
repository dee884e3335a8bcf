"""Batched beam search.

In: a `step` function and an initial state with `select`. Search knows nothing else about the model. Out: n-best
hypotheses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import BOS, EOS


class Selectable(Protocol):
    """A state of N hypotheses."""

    def select(self, indices: torch.Tensor) -> Any: ...


State = TypeVar("State", bound=Selectable)
Step = Callable[[State, torch.Tensor], tuple[torch.Tensor, State]]
"""(state of N hypotheses, their last words (N,)) -> (log p of each next word (N, X), state)."""


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


def repeats_ngram(words: torch.Tensor, n: int, size: int) -> torch.Tensor:
    """Which next words would repeat an n-gram: (N, t) -> (N, size) bool. N-grams exclude the begin symbol."""
    banned = torch.zeros(len(words), size, dtype=torch.bool, device=words.device)
    words = words[:, 1:]
    if words.shape[1] < n:
        return banned
    windows = words.unfold(1, n, 1)  # (N, t - n + 1, n)
    prefix = words[:, words.shape[1] - n + 1 :]  # (N, n - 1)
    same = (windows[:, :, :-1] == prefix[:, None]).all(dim=2)  # (N, t - n + 1)
    # Several windows may end in the same word. A sum keeps every hit; an assignment could overwrite one.
    hits = torch.zeros(banned.shape, device=words.device).scatter_add(1, windows[:, :, -1], same.float())
    return hits > 0


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

    def best(self, count: int) -> list[list[Hypothesis]]:
        results = []
        for scores, words in zip(self.scores.tolist(), self.words.tolist(), strict=True):
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
) -> list[list[Hypothesis]]:
    """The `n_best` finished hypotheses of each instance, best first. `state` holds one row for each instance.

    A hypothesis ends when the end symbol is among the K best continuations of its instance; at the last step every
    hypothesis must end. With beam 1 this is greedy search. Words in `forbidden` are never written.
    """
    if not 1 <= n_best <= config.beam_size:
        raise ValueError(f"`n_best` must be from 1 to the beam size {config.beam_size}, but is {n_best} instead.")
    beam, longest = config.beam_size, config.max_length
    state = state.select(torch.arange(instances, device=device).repeat_interleave(beam))
    words = torch.full((instances * beam, 1), BOS, device=device)  # (N, t)
    # All hypotheses of an instance start out the same, so only the first may be expanded.
    alive = torch.full((instances, beam), -torch.inf, device=device)
    alive[:, 0] = 0.0
    offsets = torch.arange(0, instances * beam, beam, device=device)[:, None]  # (B, 1)
    finished = Finished(instances, beam, longest + 1, device)
    for length in range(1, longest + 1):
        log_probs, state = step(state, words[:, -1])
        allowed = _allow(log_probs.float(), words, forbidden, config.block_ngram, must_end=length == longest)
        totals, parents, chosen = _expand(alive, allowed, 2 * beam)  # (B, 2K) each
        grown = torch.cat([words[(offsets + parents).flatten()], chosen.flatten()[:, None]], dim=1)
        grown = grown.unflatten(0, (instances, -1))  # (B, 2K, t + 1)
        ends = chosen == EOS
        penalty = length_penalty(length, config.length_penalty)
        finished.add((totals / penalty).masked_fill(~ends, -torch.inf)[:, :beam], grown[:, :beam, 1:])
        alive, kept = totals.masked_fill(ends, -torch.inf).topk(beam, dim=1)  # (B, K)
        done = finished.is_done(alive[:, 0], length, config, n_best)
        if bool(done.all()):
            break
        alive = alive.masked_fill(done[:, None], -torch.inf)
        state = state.select((offsets + parents.gather(1, kept)).flatten())
        words = grown.gather(1, kept[:, :, None].expand(-1, -1, grown.shape[2])).flatten(0, 1)
    return finished.best(n_best)


def _allow(
    log_probs: torch.Tensor, words: torch.Tensor, forbidden: Sequence[int], block_ngram: int, must_end: bool
) -> torch.Tensor:
    """log p with -inf on every word that may not be written: (N, X)."""
    if must_end:
        ending = torch.full_like(log_probs, -torch.inf)
        ending[:, EOS] = log_probs[:, EOS]
        return ending
    log_probs = log_probs.clone()
    log_probs[:, list(forbidden)] = -torch.inf
    if block_ngram:
        banned = repeats_ngram(words, block_ngram, log_probs.shape[1])
        banned[:, EOS] = False
        log_probs = log_probs.masked_fill(banned, -torch.inf)
    return log_probs


def _expand(
    alive: torch.Tensor, log_probs: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best continuations of each instance's hypotheses: total, parent, word, (B, count) each."""
    size = log_probs.shape[1]
    totals = alive[:, :, None] + log_probs.unflatten(0, alive.shape)  # (B, K, X)
    flat = totals.flatten(1)
    best, index = flat.topk(min(count, flat.shape[1]), dim=1)
    return best, index // size, index % size
