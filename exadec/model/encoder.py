"""Residual bidirectional LSTM encoders (section 4.1, appendix A).

In: embedded text, padded on the right. Out: one vector a position, and the last state of both directions.
"""

import torch
from torch import nn

from exadec.model.fused import PlainLayer, plain_fits


class SequenceDropout(nn.Module):
    """Variational dropout: one mask a sequence, the same at every position."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., S, E)
        mask = self.mask(x)
        return x if mask is None else x * mask

    def mask(self, x: torch.Tensor) -> torch.Tensor | None:
        """(..., 1, E): zeros, and elsewhere what keeps the mean; in no less than single precision."""
        if not self.training or self.rate == 0:
            return None
        kept = torch.empty_like(x[..., :1, :], dtype=torch.promote_types(x.dtype, torch.float32))
        return kept.bernoulli_(1 - self.rate) / (1 - self.rate)


def reverse_padded(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Each sequence back to front, its padding left where it is."""
    positions = torch.arange(x.shape[1], device=x.device)  # (S,)
    mirrored = lengths[:, None] - 1 - positions  # (B, S)
    index = torch.where(mirrored >= 0, mirrored, positions)
    return x.gather(1, index[:, :, None].expand_as(x))


class Direction(nn.Module):
    """A stack of LSTM layers reading left to right, each layer's input added to its output where sizes agree."""

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float):
        super().__init__()
        sizes = [inputs] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes)
        self.dropout = SequenceDropout(dropout)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, S, E) -> the stack's output, and the top layer's own states without what was added; (B, S, D) each."""
        states = x
        for layer in self.layers:
            states, _ = layer(self.dropout(x))
            x = states + x if states.shape == x.shape else states
        return x, states


class BiLstmEncoder(nn.Module):
    """Two independent stacks, one for each direction, concatenated at the top.

    Sequences are padded on the right and reversed within their lengths, so padding is only ever read after the last
    word and changes nothing before it: no packing, and every shape is static.
    """

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float):
        super().__init__()
        self.forwards = Direction(inputs, hidden, layers, dropout)
        self.backwards = Direction(inputs, hidden, layers, dropout)
        self.hidden = hidden

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, S, E) -> positions (B, S, 2D) and the top layer's last hidden states (B, 2D)."""
        if plain_fits(x, self.hidden):
            return self._read_at_once(x, lengths)
        ahead, ahead_states = self.forwards(x)  # (B, S, D)
        back, back_states = self.backwards(reverse_padded(x, lengths))  # (B, S, D), last word first
        last = (lengths - 1)[:, None, None].expand(-1, 1, ahead.shape[2])  # (B, 1, D)
        state = torch.cat([ahead_states.gather(1, last), back_states.gather(1, last)], dim=2).squeeze(1)  # (B, 2D)
        return torch.cat([ahead, reverse_padded(back, lengths)], dim=2), state

    def _read_at_once(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The same by kernels that read both directions of a layer at a time; no text has to be reversed."""
        x, lengths = x[None], lengths.int()
        for ahead, back in zip(self.forwards.layers, self.backwards.layers, strict=True):
            weights = [*ahead.parameters(), *back.parameters()]  # of inputs, of states, and two biases
            mask = self.forwards.dropout.mask(x.expand(2, -1, -1, -1))
            x, last = PlainLayer.apply(
                x, mask, x.shape[3] == self.hidden, lengths, None, None, *weights
            )  # (2, B, S, D)
        return x.permute(1, 2, 0, 3).flatten(2), last.transpose(0, 1).flatten(1)
