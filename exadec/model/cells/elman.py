"""The Elman network (equation 4).

In: both halves of its one gate. Out: h.
"""

import torch

from exadec.model.cells.cell import Cell, State


def _update(projected: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    return (torch.tanh(projected + recurrent)[:, 0],)


ELMAN = Cell("elman", offsets=(0.0,), states=("h",), update=_update)
