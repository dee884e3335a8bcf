"""Run Triton's kernels on a CPU, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


def interpret_kernels(script: str) -> str:
    """What a script prints in a process in which Triton's kernels run on the CPU; it may import from `support`."""
    if torch.cuda.is_available():
        pytest.skip("the tests marked `cuda` run the kernels themselves")
    pytest.importorskip("triton", reason="Triton is not installed")
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
