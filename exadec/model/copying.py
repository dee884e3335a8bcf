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
        ids, weights = memory.ids, self.weights
        if self.changes_case is not None and memory.other_case is not None:
            changed = self.changes_case[:, :, None].to(weights.dtype)
            ids = torch.cat([ids, memory.other_case], dim=1)  # (B, 2M)
            weights = torch.cat([weights * (1 - changed), weights * changed], dim=2)  # (B, T, 2M)
        index = ids[:, None].expand(-1, weights.shape[1], -1)
        copied = torch.zeros_like(generated).scatter_add(2, index, weights)  # (B, T, X)
        return torch.logaddexp(
            self.log_generate[:, :, None] + generated,
            self.log_copy[:, :, None] + copied.clamp_min(SMALLEST).log(),
        )


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
