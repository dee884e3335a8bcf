"""Copying words from the memory (See et al., 2017).

In: a distribution over the vocabulary, attention over the memory, a gate. Out: their mixture over X words.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

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
        ids, weights = copyable(memory, self.weights, self.changes_case)
        index = ids[:, None].expand(-1, weights.shape[1], -1)  # (B, T, M or 2M)
        copied = torch.zeros_like(generated).scatter_add(2, index, weights)  # (B, T, X)
        return torch.logaddexp(
            self.log_generate[:, :, None] + generated,
            self.log_copy[:, :, None] + copied.clamp_min(SMALLEST).log(),
        )


def copyable(
    memory: Memory, weights: torch.Tensor, changes_case: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The words that can be copied (B, M), and their probabilities (B, T, M); 2M with those in the other case."""
    if changes_case is None or memory.other_case is None:
        return memory.ids, weights
    changed = changes_case[:, :, None].to(weights.dtype)
    both = torch.cat([weights * (1 - changed), weights * changed], dim=2)
    return torch.cat([memory.ids, memory.other_case], dim=1), both


class AttentionCopy(nn.Module):
    """See et al.: p_gen = σ(w·[context; state; input] + b); the attention weights also choose the word to copy.

    With a rank, λ moves the gate, too.
    """

    def __init__(self, context: int, hidden: int, inputs: int, rank: int | None = None):
        super().__init__()
        self.gate = nn.Linear(context + hidden + inputs, 1)
        self.of_exemplar = None if rank is None else nn.Parameter(torch.zeros(1, rank))

    def forward(
        self, context: torch.Tensor, h: torch.Tensor, inputs: torch.Tensor, lam: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(B, T, ·) and λ (B, 1, R) -> the gate's logit (B, T)."""
        logit: torch.Tensor = self.gate(torch.cat([context, h, inputs], dim=2)).squeeze(2)
        if self.of_exemplar is not None and lam is not None:
            logit = logit + functional.linear(lam, self.of_exemplar)[:, :, 0]  # (B, 1)
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
        return self.gate(attentional).squeeze(2), attend(h, memory.copy_keys, memory.mask)
