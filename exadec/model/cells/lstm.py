"""The LSTM (Hochreiter and Schmidhuber, 1997), with its gates in torch's order: input, forget, candidate, output.

In: both halves of its gates, h and c. Out: h and c.
"""

import torch

from exadec.model.cells.cell import Cell, State


def _update(projected: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    _, c = state
    enter, forget, candidate, leave = (projected + recurrent).unbind(1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(c), c


# The forget gate starts out open, so the cell remembers from the first training step.
LSTM = Cell("lstm", offsets=(0.0, 1.0, 0.0, 0.0), states=("h", "c"), update=_update)
