"""Luong's "general" attention (Luong et al., 2015).

In: decoder states and a `Memory` of encoded positions. Out: one softmax over the memory, and the context it averages.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from exadec.model.adaptive import Extension
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.places import Places


@dataclass(frozen=True)
class Positions:
    """What the decoder attends over without copying from it: the exemplars."""

    values: torch.Tensor
    """(B, k·Z, A): encoded positions."""
    keys: torch.Tensor
    """(B, k·Z, D): `values` projected for attention."""
    mask: torch.Tensor
    """(B, k·Z) bool: true at words, false at padding."""

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Positions":
        """The same with every tensor changed."""
        return Positions(change(self.values), change(self.keys), change(self.mask))


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
    other_case: torch.Tensor | None = None
    """(B, M): the words with the case of their first letter changed; None if copying cannot change it."""
    exemplars: Positions | None = None
    """The exemplars, where they have an attention of their own."""
    places: Places | None = None
    """Of `copied_words`; None outside of a search."""

    @property
    def instances(self) -> int:
        """B."""
        return self.ids.shape[0]  # `len` is a constant where the model is traced

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Memory":
        """The same with every tensor changed."""
        return Memory(
            change(self.values),
            change(self.keys),
            None if self.copy_keys is None else change(self.copy_keys),
            change(self.mask),
            change(self.ids),
            self.extended,
            None if self.other_case is None else change(self.other_case),
            None if self.exemplars is None else self.exemplars.map(change),
            None if self.places is None else self.places.map(change),
        )

    def copied_words(self) -> torch.Tensor:
        """(B, M), or (B, 2M) if copying can change case."""
        return self.ids if self.other_case is None else torch.cat([self.ids, self.other_case], 1)

    def keep(self, instances: torch.Tensor) -> "Memory":
        """The same for some of the instances."""
        return self.map(lambda part: part[instances])


def attend(
    query: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor, backend: Backend = REFERENCE
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax over M of queryᵀ·key, unscaled: (B, T, D), (B, M, D), (B, M) -> (B, T, M), to copy and to average by."""
    return backend.attention(torch.bmm(query, keys.transpose(1, 2)), mask)


class AttentionLayer(nn.Module):
    """Context and attentional vector: a_t = softmax(h_tᵀ W m), h̃_t = tanh(W_c [c_t; h_t]).

    With a rank, W_c depends on λ, through an `Extension`. With exemplars, h̃_t = tanh(W_c [c_t; h_t; z_t]), where z_t
    is the context of a second attention, over the exemplars alone.
    """

    def __init__(
        self, hidden: int, values: int, outputs: int, linear: bool, rank: int | None = None, exemplar_values: int = 0
    ):
        super().__init__()
        self.key = nn.Linear(values, hidden, bias=False)
        self.exemplar_key = nn.Linear(exemplar_values, hidden, bias=False) if exemplar_values else None
        inputs = values + hidden + exemplar_values
        self.combine = nn.Linear(inputs, outputs, bias=False)
        self.extension = None if rank is None else Extension(inputs, rank)
        if self.extension is not None:
            self.combine.weight = nn.Parameter(self.extension.widen(self.combine.weight.detach()))
        self.outputs, self.linear = outputs, linear

    def forward(
        self, h: torch.Tensor, memory: Memory, lam: torch.Tensor | None = None, backend: Backend = REFERENCE
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, T, D) -> attentional vectors (B, T, outputs), contexts (B, T, C), weights (B, T, M)."""
        weights, shares = attend(h, memory.keys, memory.mask, backend)  # (B, T, M)
        context = torch.bmm(shares, memory.values)  # (B, T, C)
        parts = [context, h]
        if memory.exemplars is not None:
            shown = memory.exemplars
            _, chosen = attend(h, shown.keys, shown.mask, backend)  # (B, T, k·Z)
            parts.append(torch.bmm(chosen, shown.values))
        joined = torch.cat(parts, dim=2)
        if self.extension is not None:
            assert lam is not None
            joined = self.extension(joined, lam)
        combined = self.combine(joined)
        return combined if self.linear else torch.tanh(combined), context, weights
