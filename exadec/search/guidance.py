"""Guidance: following the exemplar more strictly than the model would by itself.

In: a batch, and the step function of a model that reads exemplars. Out: the batch twice, with its exemplars and
without them, and a step function that combines the two distributions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from exadec.config import ModelConfig, SearchConfig
from exadec.corpus.vocabulary import NONE, PAD
from exadec.errors import InputError
from exadec.loading.batch import Batch
from exadec.model.copying import Choices
from exadec.search.beam import Known, NextWords, Step

FLOOR = 0.1
"""A word is plausible if its p given the exemplar is at least this fraction of the best word's. The exemplar can raise
p by the inverse of it at most: then a word at the floor just reaches the best one at a weight of 1."""
IMPLAUSIBLE = 1000.0
"""Nats that every other word loses. Such a word is written only where nothing else may be, for example the end symbol
of a text that has become too long."""
LOOKED_AT = 64
"""A plausible word is also among this many likeliest words given the exemplar, or can be copied."""


def refuse_guidance(search: SearchConfig, model: ModelConfig) -> None:
    """Refuse guidance for a model without exemplars."""
    if search.guidance > 0 and not model.reads_exemplars:
        raise InputError(
            f"`search.guidance` is {search.guidance:g}, but this model ({model.variant}) does not read exemplars: "
            "set it to 0, or use a model that does."
        )


def with_and_without(batch: Batch) -> Batch:
    """2B instances: the batch, then the same sources with the exemplar `<none>`. Unknown words keep their ids."""
    absent = torch.full_like(batch.exemplar[:, :1], NONE)
    absent = functional.pad(absent, (0, batch.exemplar.shape[1] - 1), value=PAD)  # (B, Z)
    without = replace(batch, exemplar=absent, exemplar_lengths=torch.ones_like(batch.exemplar_lengths))
    return Batch(*(torch.cat(pair) for pair in zip(vars(batch).values(), vars(without).values(), strict=True)))


@dataclass(frozen=True)
class GuidedState:
    """N hypotheses that see the exemplar, followed by the same N without it, as one state."""

    both: Any
    """The model's state of 2N hypotheses."""
    rows: int
    """N."""

    instances: int
    """B."""

    def select(self, indices: torch.Tensor) -> "GuidedState":
        return replace(self, both=self.both.select(torch.cat([indices, self.rows + indices])), rows=len(indices))

    def keep(self, instances: torch.Tensor) -> "GuidedState":
        both = self.both.keep(torch.cat([instances, self.instances + instances]))
        return GuidedState(both, self.rows // self.instances * len(instances), len(instances))


@dataclass(frozen=True)
class Weighing:
    """How the two distributions of N hypotheses make one: `seen` is log p(y|x,z), given the exemplar z, and `unseen` is
    log p(y|x).

    A plausible word scores log p(y|x,z) + w·(log p(y|x,z) - log p(y|x)), and the softmax over the plausible words makes
    these log p again.
    """

    weight: float
    floor: torch.Tensor
    """(N, 1): the least log p(y|x,z) of a plausible word."""
    total: torch.Tensor
    """(N, 1): log of the sum over the plausible words."""

    @classmethod
    def over(cls, seen: torch.Tensor, unseen: torch.Tensor, weight: float) -> "Weighing":
        """Over these words, (N, C) each, among which all plausible ones are."""
        floor = seen.amax(1, keepdim=True) + math.log(FLOOR)
        scores = _raise(seen, unseen, weight).masked_fill(seen < floor, -torch.inf)
        return cls(weight, floor, scores.logsumexp(1, keepdim=True))

    def combine(self, seen: torch.Tensor, unseen: torch.Tensor) -> torch.Tensor:
        """log p of some words, guided: (N, W) each -> (N, W)."""
        guided = _raise(seen, unseen, self.weight) - self.total
        return torch.where(seen >= self.floor, guided, seen - IMPLAUSIBLE)


def _raise(seen: torch.Tensor, unseen: torch.Tensor, weight: float) -> torch.Tensor:
    # A word that only the exemplar has can never be copied without it: p(y|x) is 0 there, and the gain is infinite.
    return seen + weight * (seen - unseen).clamp_max(-math.log(FLOOR))


@dataclass
class GuidedWords:
    """The next words of N hypotheses that see the exemplar, weighed against those of the same N without it."""

    seen: NextWords
    unseen: NextWords
    weight: float
    weighing: Weighing | None = None
    """Over the likeliest words given the exemplar, since `best` was called."""

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen, words = self.seen.best(max(count, LOOKED_AT), banned)
        unseen = self.unseen.of_words(words)
        # A word that may not be written does not decide which others are plausible.
        self.weighing = Weighing.over(seen, unseen, self.weight)
        return self.weighing.combine(seen, unseen), words

    def of(self, word: int) -> torch.Tensor:
        return self._combine(self.seen.of(word)[:, None], self.unseen.of(word)[:, None])[:, 0]

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        return self._combine(self.seen.of_words(words), self.unseen.of_words(words))

    def _combine(self, seen: torch.Tensor, unseen: torch.Tensor) -> torch.Tensor:
        assert self.weighing is not None, "`best` comes first"
        return self.weighing.combine(seen, unseen)


def guide(choose: Callable[[Any, torch.Tensor], tuple[Choices, Any]], weight: float) -> Step[GuidedState]:
    """A step of both halves at once, for a search that needs only the likeliest words."""

    def guided(state: GuidedState, words: torch.Tensor) -> tuple[GuidedWords, GuidedState]:
        choices, both = choose(state.both, words.repeat(2))
        seen, unseen = choices.take(slice(state.instances)), choices.take(slice(state.instances, None))
        return GuidedWords(seen, unseen, weight), replace(state, both=both)

    return guided


def guide_distributions(
    step: Callable[[Any, torch.Tensor], tuple[torch.Tensor, Any]], weight: float, forbidden: Sequence[int]
) -> Callable[[GuidedState, torch.Tensor], tuple[Known, GuidedState]]:
    """The same with log p of every word, for texts that are drawn. Words in `forbidden` are never written."""

    def guided(state: GuidedState, words: torch.Tensor) -> tuple[Known, GuidedState]:
        log_probs, both = step(state.both, words.repeat(2))  # (2N, X)
        never = torch.tensor(forbidden, device=words.device)
        seen, unseen = log_probs.index_fill(1, never, -torch.inf).chunk(2)
        return Known(Weighing.over(seen, unseen, weight).combine(seen, unseen)), replace(state, both=both)

    return guided
