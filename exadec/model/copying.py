"""Copying words from the memory (See et al., 2017).

In: a distribution over the vocabulary, attention over the memory, a gate. Out: their mixture over X words.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from exadec.corpus.vocabulary import PAD
from exadec.model.attention import Memory, attend
from exadec.model.backends.reference import SMALLEST
from exadec.model.places import Places


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
        )

    def copied(self) -> torch.Tensor:
        """The probabilities of `Memory.copied_words`, given that one is copied: (B, T, P)."""
        assert self.weights is not None
        return copy_weights(self.weights, self.changes_case)


def copy_weights(weights: torch.Tensor, changes_case: torch.Tensor | None) -> torch.Tensor:
    """Probabilities of positions (B, T, M), and of a change of case (B, T) -> of `Memory.copied_words` (B, T, P)."""
    if changes_case is None:
        return weights
    changed = changes_case[:, :, None].to(weights.dtype)
    return torch.cat([weights * (1 - changed), weights * changed], dim=2)


@dataclass(frozen=True)
class Copies:
    """The words that K hypotheses of each instance can copy."""

    log_generate: torch.Tensor
    """(B, K): log of the gate."""
    log_copy: torch.Tensor
    """(B, K): log of one minus the gate."""
    weights: torch.Tensor
    """(B, K, P): probability of each word, given that one is copied, at its place; see `Places.merge`."""
    places: Places

    def mix(self, generated: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """log p of some words, (B, K, W), from their log p if one is generated."""
        where, is_there = self.places.find(words)
        return self._add(generated, self.weights.gather(2, where) * is_there)

    def offer(
        self, generated: torch.Tensor, words: torch.Tensor, own: torch.Tensor, size: int, banned: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (B, K, C + P) each: those that are likeliest to be generated, then those to be copied.

        `generated` (B, K, C) is log p of the former, if one is generated, and `own` (B, K, P) that of the latter, of
        which those from `size` on are in no vocabulary. A word that is in both has its probability in the second.
        """
        ids = self.places.ids[:, None].expand_as(own)
        copied = self._add(own.masked_fill(ids >= size, -torch.inf), self.weights)
        copied = copied.masked_fill((self.places.counts == 0)[:, None] | among(ids, banned), -torch.inf)
        generated = self.log_generate[:, :, None] + generated
        generated = generated.masked_fill(self.places.find(words)[1], -torch.inf)
        return torch.cat([generated, copied], 2), torch.cat([words, ids], 2)

    def _add(self, generated: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        copied = weights.clamp_min(SMALLEST).log()
        return torch.logaddexp(self.log_generate[:, :, None] + generated, self.log_copy[:, :, None] + copied)


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
        vocabulary, size = self.mixture.vocabulary, self.mixture.vocabulary.shape[2]
        words = words.unflatten(0, vocabulary.shape[:2])  # (B, K, W)
        generated = vocabulary.gather(2, words.clamp_max(size - 1)).masked_fill(words >= size, -torch.inf)
        copies, banned = self._copies(), (generated == -torch.inf) & (words < size)
        if copies is not None:
            generated = copies.mix(generated, words).masked_fill(banned, -torch.inf)
        return generated.flatten(0, 1)

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (N, C) each: among them the `count` likeliest words that are not banned, (N, W).

        A word is among the `count` likeliest if it is among the `count` that are likeliest to be generated, or if it
        can be copied. No word is there twice with a probability.
        """
        vocabulary, size = self.mixture.vocabulary, self.mixture.vocabulary.shape[2]
        banned = banned.unflatten(0, vocabulary.shape[:2])  # (B, K, W)
        vocabulary.scatter_(2, torch.where(banned < size, banned, PAD), -torch.inf)
        generated, words = vocabulary.topk(min(count, size), dim=2)  # (B, K, C)
        copies = self._copies()
        if copies is not None:
            index = copies.places.ids.clamp_max(size - 1)[:, None].expand(-1, words.shape[1], -1)
            generated, words = copies.offer(generated, words, vocabulary.gather(2, index), size, banned)
        return generated.flatten(0, 1), words.flatten(0, 1)

    def _copies(self) -> Copies | None:
        mixture, places = self.mixture, self.memory.places
        if mixture.log_generate is None or mixture.log_copy is None:
            return None
        assert places is not None, "a search starts with `Seq2seq.encode`"
        return Copies(mixture.log_generate, mixture.log_copy, places.merge(mixture.copied()), places)


def among(words: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
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
