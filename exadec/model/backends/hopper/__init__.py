"""The Hopper backend: H100 and H200, bfloat16, LSTMs of up to 320 units.

In: the calls of `Backend`. Out: the same results, with one kernel launch for all time steps of an LSTM.
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from exadec.model.adaptive import FactoredLinear, FixedLinear, RecurrentCell
from exadec.model.backends.hopper.launch import UNITS
from exadec.model.backends.hopper.lstm import AdaptiveInputs, AdaptiveLstm, PlainLayer
from exadec.model.backends.reference import Unrolled, plain_weights
from exadec.model.backends.triton import TritonBackend
from exadec.model.cells import LSTM, State


class HopperBackend(TritonBackend):
    """LSTMs in CUDA C++; everything else comes from the Triton backend."""

    name = "hopper"

    def bilstm_layer(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor,
        weights: Sequence[Sequence[torch.Tensor]],
        *,
        mask: torch.Tensor | None,
        residual: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = weights[0][1].shape[1]
        spare = -hidden % UNITS
        if spare:
            assert not residual  # x would need the spare units, too
            weights = [_widen(own, hidden, spare) for own in weights]
        states, last = PlainLayer.apply(x, mask, residual, lengths.int(), None, None, *weights[0], *weights[1])
        return states[..., :hidden], last[..., :hidden]

    def unroll(self, cell: RecurrentCell, x: torch.Tensor, lam: torch.Tensor | None) -> Unrolled:
        Q, P = cell.Q, cell.P  # noqa: N806 - the paper's names
        if cell.cell == LSTM and isinstance(Q, FixedLinear):
            return lambda state: _read_plain(cell, x, state)
        if cell.cell == LSTM and isinstance(Q, FactoredLinear) and isinstance(P, FactoredLinear):
            given, bias = AdaptiveInputs.apply(x, lam, Q.V, Q.U, cell.B, cell.offset)
            return lambda state: AdaptiveLstm.apply(given, bias, *state, lam, P.V, P.U)
        return super().unroll(cell, x, lam)


def _widen(weights: Sequence[torch.Tensor], hidden: int, spare: int) -> list[torch.Tensor]:
    """An LSTM with more units, whose weights are zero: their states stay zero, so that the others do not change."""
    of_inputs, of_states, *biases = (part.unflatten(0, (4, hidden)) for part in weights)
    wider = [
        pad(of_inputs, (0, 0, 0, spare)),
        pad(of_states, (0, spare, 0, spare)),
        *(pad(b, (0, spare)) for b in biases),
    ]
    return [part.flatten(0, 1) for part in wider]


def _read_plain(cell: RecurrentCell, x: torch.Tensor, state: State) -> torch.Tensor:
    lengths = torch.full((len(x),), x.shape[1], dtype=torch.int32, device=x.device)
    states: torch.Tensor = PlainLayer.apply(x[None], None, False, lengths, *state, *plain_weights(cell))[0]
    return states[0]
