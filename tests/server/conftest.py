"""A run that was trained in a second, and a server that has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exadec.training.trainer import train
from support.serving import Server, serving
from support.toys import toy_records, variant_config, write_splits


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two groups: `loud` and `calm`."""
    folder = tmp_path_factory.mktemp("server")
    records = toy_records(120, seed=0)
    for record in records:
        record["group"] = "loud" if str(record["target"]).startswith("up") else "calm"
    write_splits(folder, records)
    return train(variant_config(folder, "adadec", epochs=8), folder / "run").folder


@pytest.fixture(scope="module")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(run, "--exemplars", tmp_path_factory.mktemp("accepted")) as server:
        yield server
