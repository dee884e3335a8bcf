"""Where real corpora lie, if they are there."""

from pathlib import Path

DATA = Path(__file__).parents[3] / "shared" / "data"
