"""A task that can be learnt in seconds, for the tests of training."""

import json
from pathlib import Path

import pytest

from support.toys import toy_records, write_splits


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 records to train on, and 60 others for development and test."""
    folder = tmp_path_factory.mktemp("toy")
    write_splits(folder, toy_records(600, seed=0))
    lines = [json.dumps({**record, "uid": str(i)}) for i, record in enumerate(toy_records(60, seed=1))]
    for split in ("valid", "test"):
        (folder / f"{split}.jsonl").write_text("\n".join(lines), "utf-8")
    return folder
