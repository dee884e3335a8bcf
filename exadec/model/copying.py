"""Copying words from the memory (See et al., 2017).

In: a distribution over the vocabulary, attention over the memory, a gate. Out: their mixture over X words.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from exadec.corpus.vocabulary import PAD
from exadec.model.attention import Memory, attend
from exadec.model.backends.reference import SMALLEST
from exadec.model.places import Places

_SPARE = 16
"""Rounding may have cost a word its place among the likeliest, so more of them are looked at."""


@dataclass(frozen=True)
class Refinement:
    """Makes log p of some words exact, where those of all words were computed with rounded weights."""

    attentional: torch.Tensor
    """(B, K, E)"""
    weight: torch.Tensor
    """(V, E)"""
    bias: torch.Tensor
    """(V,)"""
    total: torch.Tensor
    """(B, K, 1): log of the sum over all words, as computed with rounded weights."""

    def of_each(self, words: torch.Tensor) -> torch.Tensor:
        """log p of some words of each hypothesis, with the rounded total: (B, K, C) -> (B, K, C)."""
        logits = torch.matmul(self.weight[words], self.attentional[:, :, :, None])[..., 0]
        return logits + self.bias[words] - self.total

    def of_shared(self, words: torch.Tensor) -> torch.Tensor:
        """log p of the same words for all hypotheses of an instance, with the rounded total: (B, M) -> (B, K, M)."""
        logits = torch.bmm(self.attentional, self.weight[words].transpose(1, 2))
        return logits + self.bias[words][:, None] - self.total

    def take(self, instances: slice) -> "Refinement":
        """The same for some of the instances."""
        return replace(self, attentional=self.attentional[instances], total=self.total[instances])


@dataclass(frozen=True)
class Mixture:
    """The parts of next-word distributions, for T time steps, or for K hypotheses while searching."""

    vocabulary: torch.Tensor
    """(B, T, V): log-probabilities of generating."""
    log_generate: torch.Tensor | None
    """(B, T): log of the gate; None without copying."""
    log_copy: torch.Tensor | None
    """(B, T): log of one minus the gate."""
    weights: torch.Tensor | None
    """(B, T, M): probability of each position, given that a word is copied."""
    changes_case: torch.Tensor | None = None
    """(B, T): probability that a copied word changes the case of its first letter; None if it cannot."""
    refinement: Refinement | None = None
    """If `vocabulary` was computed with rounded weights. `Choices.best` makes exact what it gives."""

    def of_all(self, memory: Memory) -> torch.Tensor:
        """log p of every word: (B, T, X)."""
        size = self.vocabulary.shape[2]
        generated = functional.pad(self.vocabulary, (0, memory.extended - size), value=-torch.inf)  # (B, T, X)
        if self.log_generate is None or self.log_copy is None or self.weights is None:
            return generated
        weights = self.copied()
        index = memory.copied_words()[:, None].expand_as(weights)
        copied = torch.zeros_like(generated).scatter_add(2, index, weights)  # (B, T, X)
        return torch.logaddexp(
            self.log_generate[:, :, None] + generated,
            self.log_copy[:, :, None] + copied.clamp_min(SMALLEST).log(),
        )

    def take(self, instances: slice) -> "Mixture":
        """The same for some of the instances, without a copy."""

        def part(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor[instances]

        return Mixture(
            self.vocabulary[instances],
            part(self.log_generate),
            part(self.log_copy),
            part(self.weights),
            part(self.changes_case),
            None if self.refinement is None else self.refinement.take(instances),
        )

    def copied(self) -> torch.Tensor:
        """The probabilities of `Memory.copied_words`: (B, T, P)."""
        assert self.weights is not None
        if self.changes_case is None:
            return self.weights
        changed = self.changes_case[:, :, None].to(self.weights.dtype)
        return torch.cat([self.weights * (1 - changed), self.weights * changed], dim=2)


@dataclass(frozen=True)
class Choices:
    """The likeliest next words of N = B·K hypotheses, found without log p of all others."""

    mixture: Mixture
    """(B, K, ·). Nobody else uses its tensors."""
    memory: Memory

    def take(self, instances: slice) -> "Choices":
        """The same for all hypotheses of some of the instances, without a copy."""
        return Choices(self.mixture.take(instances), self.memory.map(lambda part: part[instances]))

    def of(self, word: int) -> torch.Tensor:
        """log p of a word that cannot be copied: (N,)."""
        generated = self.mixture.vocabulary[:, :, word]
        if self.mixture.log_generate is not None:
            generated = generated + self.mixture.log_generate
        return generated.flatten()

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        """log p of some words of each hypothesis: (N, W) -> (N, W). After `best`, that of a banned word is -inf."""
        mixture = self.mixture
        vocabulary, size = mixture.vocabulary, mixture.vocabulary.shape[2]
        words = words.unflatten(0, vocabulary.shape[:2])  # (B, K, W)
        generated = vocabulary.gather(2, words.clamp_max(size - 1)).masked_fill(words >= size, -torch.inf)
        if mixture.log_generate is None or mixture.log_copy is None or mixture.weights is None:
            return generated.flatten(0, 1)
        where, is_there = self._places.find(words)
        copied = (self._places.merge(mixture.copied()).gather(2, where) * is_there).clamp_min(SMALLEST).log()
        copied = copied.masked_fill((generated == -torch.inf) & (words < size), -torch.inf)
        both = torch.logaddexp(mixture.log_generate[:, :, None] + generated, mixture.log_copy[:, :, None] + copied)
        return both.flatten(0, 1)

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (N, C) each: among them the `count` likeliest words that are not banned, (N, W).

        A word is among the `count` likeliest if it is among the `count` that are likeliest to be generated, or if it
        can be copied. No word is there twice with a probability.
        """
        mixture = self.mixture
        vocabulary, size = mixture.vocabulary, mixture.vocabulary.shape[2]
        banned = banned.unflatten(0, vocabulary.shape[:2])  # (B, K, W)
        known_banned = torch.where(banned < size, banned, PAD)
        refinement, rough_banned = mixture.refinement, vocabulary.gather(2, known_banned)
        vocabulary.scatter_(2, known_banned, -torch.inf)
        change: torch.Tensor | float = 0.0
        if refinement is None:
            generated, words = vocabulary.topk(min(count, size), dim=2)  # (B, K, C)
        else:
            rough, words = vocabulary.topk(min(count + _SPARE, size), dim=2)
            generated = refinement.of_each(words).masked_fill(rough == -torch.inf, -torch.inf)
            # The total changes with the likeliest words, which have most of it, banned or not.
            gained = (generated.exp() - rough.exp()).sum(2, keepdim=True)  # (B, K, 1)
            once = ~_among_earlier(known_banned)
            gained += (once * (refinement.of_each(known_banned).exp() - rough_banned.exp())).sum(2, keepdim=True)
            change = torch.log1p(gained)
            generated = generated - change
        if mixture.log_generate is None or mixture.log_copy is None or mixture.weights is None:
            return generated.flatten(0, 1), words.flatten(0, 1)
        places, ids = self._places, self._places.ids  # (B, P)
        weights = places.merge(mixture.copied()).clamp_min(SMALLEST)  # (B, K, P)
        known = ids.clamp_max(size - 1)
        own = vocabulary.gather(2, known[:, None].expand_as(weights))
        if refinement is not None:
            own = (refinement.of_shared(known) - change).masked_fill(own == -torch.inf, -torch.inf)
        own = own.masked_fill((ids >= size)[:, None], -torch.inf)
        copied = torch.logaddexp(mixture.log_generate[:, :, None] + own, mixture.log_copy[:, :, None] + weights.log())
        repeated = places.counts == 0  # (B, P)
        copied = copied.masked_fill(repeated[:, None] | _among(ids[:, None].expand_as(weights), banned), -torch.inf)
        generated = (mixture.log_generate[:, :, None] + generated).masked_fill(places.find(words)[1], -torch.inf)
        ids = ids[:, None].expand_as(copied)
        return torch.cat([generated, copied], 2).flatten(0, 1), torch.cat([words, ids], 2).flatten(0, 1)

    @property
    def _places(self) -> Places:
        assert self.memory.places is not None, "a search starts with `Seq2seq.encode`"
        return self.memory.places


def _among_earlier(words: torch.Tensor) -> torch.Tensor:
    """Which words are there a second time: (B, K, W) -> (B, K, W)."""
    return (words[:, :, :, None] == words[:, :, None]).tril(-1).any(3)


def _among(words: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Which words are among the others: (B, K, C), (B, K, W) -> (B, K, C)."""
    return (words[:, :, :, None] == others[:, :, None]).any(3)


class AttentionCopy(nn.Module):
    """See et al.: p_gen = σ(w·[context; state; input] + b); the attention weights also choose the word to copy."""

    def __init__(self, context: int, hidden: int, inputs: int):
        super().__init__()
        self.gate = nn.Linear(context + hidden + inputs, 1)

    def forward(self, context: torch.Tensor, h: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """(B, T, ·) -> the gate's logit (B, T)."""
        logit: torch.Tensor = self.gate(torch.cat([context, h, inputs], dim=2)).squeeze(2)
        return logit


class SeparateCopy(nn.Module):
    """The released code: p_gen = σ(w·h̃ + b) from the attentional vector, and a copy attention with its own weights."""

    def __init__(self, values: int, hidden: int, attentional: int):
        super().__init__()
        self.gate = nn.Linear(attentional, 1)
        self.key = nn.Linear(values, hidden, bias=False)

    def forward(self, attentional: torch.Tensor, h: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T, ·) -> the gate's logit (B, T) and copy weights (B, T, M)."""
        assert memory.copy_keys is not None
        return self.gate(attentional).squeeze(2), attend(h, memory.copy_keys, memory.mask)[0]
