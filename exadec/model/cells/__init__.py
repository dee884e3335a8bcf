"""The decoder's recurrent cells. To add one, add a file to this folder and a line to `CELLS`."""

from exadec.model.cells.cell import Cell, State
from exadec.model.cells.elman import ELMAN
from exadec.model.cells.gru import GRU
from exadec.model.cells.lstm import LSTM

CELLS = {cell.name: cell for cell in (LSTM, GRU, ELMAN)}

__all__ = ["CELLS", "ELMAN", "GRU", "LSTM", "Cell", "State"]
