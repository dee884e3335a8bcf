"""The Hopper backend: H100 and H200, bfloat16, LSTMs of up to 320 units.

In: the calls of `Backend`. Out: the same results, with one kernel launch for all time steps of an LSTM.
"""

from collections.abc import Sequence

import torch

from exadec.model.adaptive import FactoredLinear, FixedLinear, RecurrentCell
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
        states, last = PlainLayer.apply(x, mask, residual, lengths.int(), None, None, *weights[0], *weights[1])
        return states, last

    def unroll(self, cell: RecurrentCell, x: torch.Tensor, lam: torch.Tensor | None) -> Unrolled:
        Q, P = cell.Q, cell.P  # noqa: N806 - the paper's names
        if cell.cell == LSTM and isinstance(Q, FixedLinear):
            return lambda state: _read_plain(cell, x, state)
        if cell.cell == LSTM and isinstance(Q, FactoredLinear) and isinstance(P, FactoredLinear):
            given, bias = AdaptiveInputs.apply(x, lam, Q.V, Q.U, cell.B, cell.offset)
            return lambda state: AdaptiveLstm.apply(given, bias, *state, lam, P.V, P.U)
        return super().unroll(cell, x, lam)


def _read_plain(cell: RecurrentCell, x: torch.Tensor, state: State) -> torch.Tensor:
    lengths = torch.full((len(x),), x.shape[1], dtype=torch.int32, device=x.device)
    states: torch.Tensor = PlainLayer.apply(x[None], None, False, lengths, *state, *plain_weights(cell))[0]
    return states[0]
