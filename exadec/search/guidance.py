"""Guidance: following the exemplar's form more strictly than the model would by itself.

In: a batch, and the step function of a model that reads exemplars. Out: the batch twice, with its exemplars and
without them, and a step function that combines the two distributions.

Only words of form are guided: function words, punctuation and the end of the text. What the exemplar does to content
words is not what it is for, so their odds stay those of the model.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn import functional

from exadec.corpus.segment import Segmenter
from exadec.corpus.vocabulary import EOS, NONE, PAD, SPECIALS, Vocabulary
from exadec.loading.batch import Batch
from exadec.model.copying import Choices
from exadec.search.beam import Known, NextWords, Step
from exadec.textmetrics.tokens import is_function_word

FLOOR = 0.1
"""A word is plausible if its p given the exemplar is at least this fraction of the best word's. The exemplar can raise
p by the inverse of it at most: then a word at the floor just reaches the best one at a weight of 1."""
IMPLAUSIBLE = 1000.0
"""Nats that every other word loses. Such a word is written only where nothing else may be, for example the end symbol
of a text that has become too long."""
LOOKED_AT = 64
"""A plausible word is also among this many likeliest words given the exemplar, or can be copied."""


_FORMS: "WeakKeyDictionary[Vocabulary, dict[torch.device, torch.Tensor]]" = WeakKeyDictionary()


def find_form(vocabulary: Vocabulary, segmenter: Segmenter, device: torch.device) -> torch.Tensor:
    """(V,) bool: which pieces are function words, punctuation or the end symbol, and so belong to a text's form.

    They are looked for once, and stay where they are on the device, for a search that was recorded with them.
    """
    known = _FORMS.setdefault(vocabulary, {})
    if device not in known:
        known[device] = _look_for_form(vocabulary, segmenter).to(device)
    return known[device]


def _look_for_form(vocabulary: Vocabulary, segmenter: Segmenter) -> torch.Tensor:
    form = torch.zeros(len(vocabulary), dtype=torch.bool)
    form[EOS] = True
    for number, piece in enumerate(vocabulary.pieces[len(SPECIALS) :], len(SPECIALS)):
        text = segmenter.join([piece]).strip()
        whole = segmenter.whole_words or segmenter.starts_word(piece)
        # Bytes that are no character by themselves may belong to a letter.
        punctuation = text.isprintable() and "\ufffd" not in text and not any(map(str.isalnum, text))
        form[number] = punctuation or (whole and is_function_word(text))
    return form


def without_exemplars(batch: Batch) -> Batch:
    """The same sources with the exemplar `<none>`. Unknown words keep their ids."""
    absent = torch.full_like(batch.exemplar[:, :1], NONE)
    absent = functional.pad(absent, (0, batch.exemplar.shape[1] - 1), value=PAD)  # (B, Z)
    return replace(batch, exemplar=absent, exemplar_lengths=torch.ones_like(batch.exemplar_lengths))


def with_and_without(batch: Batch) -> Batch:
    """2B instances: the batch, then the same without exemplars."""
    without = without_exemplars(batch)
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

    def select_into(self, indices: torch.Tensor, other: "GuidedState") -> None:
        self.both.select_into(torch.cat([indices, self.rows + indices]), other.both)

    def keep(self, instances: torch.Tensor) -> "GuidedState":
        both = self.both.keep(torch.cat([instances, self.instances + instances]))
        return GuidedState(both, self.rows // self.instances * len(instances), len(instances))


@dataclass(frozen=True)
class Emphasis:
    """How much the exemplar counts for a word: w if it is a word of form, otherwise nothing."""

    weight: float
    """w"""
    form: torch.Tensor
    """(V,) bool, on the device of the search."""

    def of(self, words: torch.Tensor) -> torch.Tensor:
        """Extended ids (N, W) -> (N, W). A word outside the vocabulary is a content word."""
        size = len(self.form)
        return self.weight * (self.form[words.clamp_max(size - 1)] & (words < size))


@dataclass(frozen=True)
class Weighing:
    """How the two distributions of N hypotheses make one: `seen` is log p(y|x,z), given the exemplar z, and `unseen` is
    log p(y|x).

    A plausible word of form scores log p(y|x,z) + w·(log p(y|x,z) - log p(y|x)), any other plausible word
    log p(y|x,z), and the softmax over the plausible words makes these log p again.
    """

    floor: torch.Tensor
    """(N, 1): the least log p(y|x,z) of a plausible word."""
    total: torch.Tensor
    """(N, 1): log of the sum over the plausible words."""

    @classmethod
    def over(cls, seen: torch.Tensor, unseen: torch.Tensor, weights: torch.Tensor) -> "Weighing":
        """Over these words, (N, C) each, among which all plausible ones are; `weights` are w or 0."""
        floor = seen.amax(1, keepdim=True) + math.log(FLOOR)
        scores = _raise(seen, unseen, weights).masked_fill(seen < floor, -torch.inf)
        return cls(floor, scores.logsumexp(1, keepdim=True))

    def combine(self, seen: torch.Tensor, unseen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """log p of some words, guided: (N, W) each -> (N, W)."""
        guided = _raise(seen, unseen, weights) - self.total
        return torch.where(seen >= self.floor, guided, seen - IMPLAUSIBLE)


def _raise(seen: torch.Tensor, unseen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    # A word that only the exemplar has can never be copied without it: p(y|x) is 0 there, and the gain is infinite. So
    # is that of a word that neither has, and there it is no number.
    gain = (seen - unseen).clamp_max(-math.log(FLOOR)).nan_to_num(0.0)
    return seen + weights * gain


@dataclass
class GuidedWords:
    """The next words of N hypotheses that see the exemplar, weighed against those of the same N without it."""

    seen: NextWords
    unseen: NextWords
    emphasis: Emphasis
    weighing: Weighing | None = None
    """Over the likeliest words given the exemplar, since `best` was called."""

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen, words = self.seen.best(max(count, LOOKED_AT), banned)
        unseen, weights = self.unseen.of_words(words), self.emphasis.of(words)
        # A word that may not be written does not decide which others are plausible.
        self.weighing = Weighing.over(seen, unseen, weights)
        return self.weighing.combine(seen, unseen, weights), words

    def of(self, word: int) -> torch.Tensor:
        seen, unseen = self.seen.of(word)[:, None], self.unseen.of(word)[:, None]
        return self._combine(seen, unseen, torch.full_like(seen, word, dtype=torch.long))[:, 0]

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        return self._combine(self.seen.of_words(words), self.unseen.of_words(words), words)

    def _combine(self, seen: torch.Tensor, unseen: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        assert self.weighing is not None, "`best` comes first"
        return self.weighing.combine(seen, unseen, self.emphasis.of(words))


def guide(choose: Callable[[Any, torch.Tensor], tuple[Choices, Any]], emphasis: Emphasis) -> Step[GuidedState]:
    """A step of both halves at once, for a search that needs only the likeliest words."""

    def guided(state: GuidedState, words: torch.Tensor) -> tuple[GuidedWords, GuidedState]:
        choices, both = choose(state.both, words.repeat(2))
        seen, unseen = choices.take(slice(state.instances)), choices.take(slice(state.instances, None))
        return GuidedWords(seen, unseen, emphasis), replace(state, both=both)

    return guided


def guide_distributions(
    step: Callable[[Any, torch.Tensor], tuple[torch.Tensor, Any]], emphasis: Emphasis, forbidden: Sequence[int]
) -> Callable[[GuidedState, torch.Tensor], tuple[Known, GuidedState]]:
    """The same with log p of every word, for texts that are drawn. Words in `forbidden` are never written."""

    def guided(state: GuidedState, words: torch.Tensor) -> tuple[Known, GuidedState]:
        log_probs, both = step(state.both, words.repeat(2))  # (2N, X)
        never = torch.tensor(forbidden, device=words.device)
        seen, unseen = log_probs.index_fill(1, never, -torch.inf).chunk(2)
        weights = emphasis.of(torch.arange(seen.shape[1], device=words.device)[None])
        return Known(Weighing.over(seen, unseen, weights).combine(seen, unseen, weights)), replace(state, both=both)

    return guided
