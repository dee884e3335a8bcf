"""The notebook: its cells run in order, on a smaller wire, and it is stored without outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.small_wire import SMALL

NOTEBOOK = Path(__file__).parent.parent / "docs" / "tour.ipynb"
CELLS: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def test_outputs_are_cleared() -> None:
    assert len(CODE) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CODE)
    assert len({cell["id"] for cell in CELLS}) == len(CELLS)


@pytest.mark.slow
def test_cells_run(tmp_path: Path) -> None:
    program = []
    for cell in CODE:
        program.append("".join(cell["source"]))
        if "parameters" in cell["metadata"].get("tags", ()):
            program.append(f"SIZES = {SMALL!r}")
    assert len(program) == len(CODE) + 1
    command = [sys.executable, "-W", "error", "-c", "\n".join(program)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for shown in ("adadec tour/adadec", "in the manner of:", "-> ", "λ: ", "Seq2seq    ROUGE-L", "AdaDec     ROUGE-L"):
        assert shown in done.stdout
