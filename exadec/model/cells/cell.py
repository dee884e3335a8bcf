"""A recurrent cell without its weights.

In: the input half and the recurrent half of the gates. Out: the next state.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

State = tuple[torch.Tensor, ...]
"""The recurrent state, (N, D) each; the hidden state h comes first."""

Update = Callable[[torch.Tensor, torch.Tensor, State], State]
"""(input half of the gates (N, G, D), recurrent half (N, G, D), state) -> next state."""


@dataclass(frozen=True)
class Cell:
    """One type of cell. The weights around it, adaptive or fixed, have the same form for every type."""

    name: str
    offsets: tuple[float, ...]
    """A constant for each gate, added to its bias; as many as there are gates."""
    states: tuple[str, ...]
    """Names of the vectors of its state; h is the first."""
    update: Update

    @property
    def gates(self) -> int:
        return len(self.offsets)
