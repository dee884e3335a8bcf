"""Luong's "general" attention (Luong et al., 2015).

In: decoder states and a `Memory` of encoded positions. Out: one softmax over the memory, and the context it averages.
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Memory:
    """What the decoder attends over and copies from: the source, followed by the exemplar with AttExp."""

    values: torch.Tensor
    """(B, M, C): encoded positions."""
    keys: torch.Tensor
    """(B, M, D): `values` projected for attention."""
    copy_keys: torch.Tensor | None
    """(B, M, D): `values` projected for a separate copy attention; None without one."""
    mask: torch.Tensor
    """(B, M) bool: true at words, false at padding."""
    ids: torch.Tensor
    """(B, M): the words, in extended ids."""
    extended: int
    """X."""


def attend(query: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """softmax over M of queryᵀ·key, unscaled: (B, T, D), (B, M, D), (B, M) -> (B, T, M)."""
    scores = torch.bmm(query, keys.transpose(1, 2)).masked_fill(~mask[:, None], -torch.inf)  # (B, T, M)
    return torch.softmax(scores, dim=2)


class AttentionLayer(nn.Module):
    """Context and attentional vector: a_t = softmax(h_tᵀ W m), h̃_t = tanh(W_c [c_t; h_t])."""

    def __init__(self, hidden: int, values: int, outputs: int, linear: bool):
        super().__init__()
        self.key = nn.Linear(values, hidden, bias=False)
        self.combine = nn.Linear(values + hidden, outputs, bias=False)
        self.linear = linear

    def forward(self, h: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, T, D) -> attentional vectors (B, T, outputs), contexts (B, T, C), weights (B, T, M)."""
        weights = attend(h, memory.keys, memory.mask)  # (B, T, M)
        context = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, T, C)
        combined = self.combine(torch.cat([context, h], dim=2))
        return combined if self.linear else torch.tanh(combined), context, weights
