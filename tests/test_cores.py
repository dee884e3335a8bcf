"""Every part asks for the cores of this process, not for those of the machine."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import torch
from exadec.cores import available_cores
from exadec.corpus.workers import Workers
from exadec.training.side_by_side import choose_at_once
os.cpu_count = lambda: 64
print(available_cores(), Workers()._count, choose_at_once(10, torch.device("cpu")))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux keeps a process to some cores")
def test_a_process_that_is_kept_to_one_core_counts_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1"]
