"""The decoder's recurrent cells. A new one is a file beside these and a line in `CELLS`."""

from exadec.model.cells.cell import Cell, State
from exadec.model.cells.elman import ELMAN
from exadec.model.cells.gru import GRU
from exadec.model.cells.lstm import LSTM

CELLS = {cell.name: cell for cell in (LSTM, GRU, ELMAN)}

__all__ = ["CELLS", "ELMAN", "GRU", "LSTM", "Cell", "State"]
