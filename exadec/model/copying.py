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
        ids, weights = self.copied(memory)
        index = ids[:, None].expand(-1, weights.shape[1], -1)
        copied = torch.zeros_like(generated).scatter_add(2, index, weights)  # (B, T, X)
        return torch.logaddexp(
            self.log_generate[:, :, None] + generated,
            self.log_copy[:, :, None] + copied.clamp_min(SMALLEST).log(),
        )

    def copied(self, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """The words that can be copied (B, M), and their probabilities (B, T, M); both 2M if case may change."""
        assert self.weights is not None
        if self.changes_case is None or memory.other_case is None:
            return memory.ids, self.weights
        changed = self.changes_case[:, :, None].to(self.weights.dtype)
        ids = torch.cat([memory.ids, memory.other_case], dim=1)
        return ids, torch.cat([self.weights * (1 - changed), self.weights * changed], dim=2)


@dataclass(frozen=True)
class Choices:
    """The likeliest next words of N = B·K hypotheses, found without log p of all others."""

    mixture: Mixture
    """(B, K, ·). Nobody else uses its tensors."""
    memory: Memory

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
        ids, weights = mixture.copied(self.memory)  # (B, M), (B, K, M)
        same = words[:, :, :, None] == ids[:, None, None]  # (B, K, W, M)
        copied = (same * weights[:, :, None]).sum(3).clamp_min(SMALLEST).log()
        copied = copied.masked_fill((generated == -torch.inf) & (words < size), -torch.inf)
        both = torch.logaddexp(mixture.log_generate[:, :, None] + generated, mixture.log_copy[:, :, None] + copied)
        return both.flatten(0, 1)

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log p and words, (N, C) each: among them the `count` likeliest words that are not banned, (N, W).

        A word is among the `count` likeliest if it is among the `count` that are likeliest to be generated, or if it
        can be copied. No word is there twice with a probability.
        """
        mixture, memory = self.mixture, self.memory
        vocabulary, size = mixture.vocabulary, mixture.vocabulary.shape[2]
        banned = banned.unflatten(0, vocabulary.shape[:2])  # (B, K, W)
        vocabulary.scatter_(2, torch.where(banned < size, banned, PAD), -torch.inf)
        generated, words = vocabulary.topk(min(count, size), dim=2)  # (B, K, C)
        if mixture.log_generate is None or mixture.log_copy is None or mixture.weights is None:
            return generated.flatten(0, 1), words.flatten(0, 1)
        ids, weights = mixture.copied(memory)  # (B, M), (B, K, M)
        same = ids[:, :, None] == ids[:, None]  # (B, M, M)
        weights = torch.bmm(weights, same.to(weights.dtype)).clamp_min(SMALLEST)
        own = vocabulary.gather(2, ids.clamp_max(size - 1)[:, None].expand_as(weights))
        own = own.masked_fill((ids >= size)[:, None], -torch.inf)
        copied = torch.logaddexp(mixture.log_generate[:, :, None] + own, mixture.log_copy[:, :, None] + weights.log())
        repeated = same.tril(-1).any(2)[:, None]  # (B, 1, M)
        copied = copied.masked_fill(repeated | _among(ids[:, None].expand_as(weights), banned), -torch.inf)
        generated = (mixture.log_generate[:, :, None] + generated).masked_fill(
            _among(words, ids[:, None].expand(-1, words.shape[1], -1)), -torch.inf
        )
        ids = ids[:, None].expand_as(copied)
        return torch.cat([generated, copied], 2).flatten(0, 1), torch.cat([words, ids], 2).flatten(0, 1)


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
