"""Residual bidirectional LSTM encoders (section 4.1, appendix A).

In: embedded text, padded on the right. Out: one vector per position, and the final state of both directions.
"""

import torch
from torch import nn

from exadec.model.backends.reference import REFERENCE, Backend


def sequence_dropout(x: torch.Tensor, rate: float) -> torch.Tensor:
    """Variational dropout, one mask per sequence: (..., S, E) -> (..., 1, E), zeros and 1 / (1 - rate)."""
    # In bfloat16 the factor 1 / (1 - rate) would be rounded.
    kept = torch.empty_like(x[..., :1, :], dtype=torch.promote_types(x.dtype, torch.float32))
    return kept.bernoulli_(1 - rate) / (1 - rate)


class Direction(nn.Module):
    """The layers that read in one direction."""

    def __init__(self, inputs: int, hidden: int, layers: int):
        super().__init__()
        sizes = [inputs] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes)


class BiLstmEncoder(nn.Module):
    """Two independent stacks, one for each direction, concatenated at the top.

    Layer l of a direction: x ← LSTM_l(dropout(x)) + x. The residual is left out where input and output sizes differ.
    """

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float):
        super().__init__()
        self.forwards = Direction(inputs, hidden, layers)
        self.backwards = Direction(inputs, hidden, layers)
        self.hidden, self.dropout = hidden, dropout

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, backend: Backend = REFERENCE
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, S, E) -> positions (B, S, 2D), and the top layer's final hidden states without the residual (B, 2D)."""
        x = x[None]  # both directions read it
        for layers in zip(self.forwards.layers, self.backwards.layers, strict=True):
            mask = None
            if self.training and self.dropout > 0:
                mask = sequence_dropout(x.expand(2, -1, -1, -1), self.dropout)  # (2, B, 1, E)
            weights = [list(layer.parameters()) for layer in layers]
            residual = x.shape[3] == self.hidden
            x, last = backend.bilstm_layer(x, lengths, weights, mask=mask, residual=residual)  # (2, B, S, D), (2, B, D)
        return x.permute(1, 2, 0, 3).flatten(2), last.transpose(0, 1).flatten(1)
