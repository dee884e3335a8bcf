"""The gated recurrent unit (Cho et al., 2014), with its gates in torch's order: reset, update, candidate.

In: both halves of its gates, h. Out: h.
"""

import torch

from exadec.model.cells.cell import Cell, State


def _update(projected: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    (h,) = state
    reset, update = torch.sigmoid(projected[:, :2] + recurrent[:, :2]).unbind(1)
    candidate = torch.tanh(projected[:, 2] + reset * recurrent[:, 2])
    return (candidate + update * (h - candidate),)


GRU = Cell("gru", offsets=(0.0, 0.0, 0.0), states=("h",), update=_update)
