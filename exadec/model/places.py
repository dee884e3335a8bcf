"""Where each word is in the memory that a search copies from.

In: the words of all positions. Out: how to sum over the positions of a word, and how to find it. A search sorts the
positions once. To compare all pairs of them in each step would take most of its time where sources are long.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from exadec.corpus.vocabulary import PAD


@dataclass(frozen=True)
class Places:
    """The positions of B memories, sorted by their words. Of neighbours that are equal, the first stands for all."""

    ids: torch.Tensor
    """(B, P): the words, in rising order."""
    order: torch.Tensor
    """(B, P), int32: the position of each."""
    counts: torch.Tensor
    """(B, P), int32: how many neighbours have this word, at the first of them; 0 at the others and at padding."""
    slots: torch.Tensor
    """(B, P): for each position, in the order of the text, the place of its word."""

    @classmethod
    def of(cls, words: torch.Tensor) -> "Places":
        """(B, P) extended ids."""
        ids, order = words.sort(dim=1, stable=True)
        numbers = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        is_first = functional.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True)
        firsts = torch.where(is_first, numbers, 0).cummax(1).values
        counts = torch.zeros_like(ids).scatter_add_(1, firsts, torch.ones_like(ids)).masked_fill(ids == PAD, 0)
        slots = torch.empty_like(order).scatter_(1, order, firsts)
        return cls(ids, order.int(), counts.int(), slots)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Places":
        """The same with every tensor changed."""
        return Places(change(self.ids), change(self.order), change(self.counts), change(self.slots))

    def merge(self, weights: torch.Tensor) -> torch.Tensor:
        """Weights of positions, summed for each word; 0 where a word is not the first: (B, K, P) -> (B, K, P)."""
        return torch.zeros_like(weights).scatter_add_(2, self.slots[:, None].expand_as(weights), weights)

    def find(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The place of each word, and whether it is there at all: (B, K, W) -> (B, K, W) each."""
        flat = words.flatten(1).contiguous()
        places = torch.searchsorted(self.ids, flat).clamp_max(self.ids.shape[1] - 1)
        return places.view_as(words), (self.ids.gather(1, places) == flat).view_as(words)
