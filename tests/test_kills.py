"""A few kills of each stage that takes little time; `tests/campaign/kills.py` does it as often as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest
from campaign.page import BEGIN, DOCS, END, write_tables

CAMPAIGN = Path(__file__).parent / "campaign" / "kills.py"


@pytest.mark.slow
def test_killed_stages_end_as_if_nothing_had_happened() -> None:
    stages = "prepare,retrieve,train,generate,index,index add,index delete"
    command = [sys.executable, str(CAMPAIGN), "--kills", "3", "--stages", stages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("3 of 3 kills survived") == 7


def test_page_shows_the_last_campaign() -> None:
    page = (DOCS / "reliability.md").read_text("utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0] == write_tables()
