"""A run with groups and byte-pair encoding, for all tests of bundles."""

from pathlib import Path

import pytest
import torch

from exadec.bundle.packing import export
from exadec.training.checkpoint import Run
from exadec.training.evaluation import evaluate
from exadec.training.trainer import train
from support.tiny_runs import tiny_config
from support.toys import config_for, toy_records, write_splits


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With outputs of the test set; no test may write into it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("bundle") / "secret-folder"
    folder.mkdir()
    write_splits(folder, [{**record, "group": f"g{i % 3}"} for i, record in enumerate(toy_records(60, seed=0))])
    corpus = config_for(folder, vocabulary_size=300, group_in_source=True).corpus
    run = train(tiny_config(folder / "work", "adadec", corpus), folder / "work" / "run")
    evaluate(run.folder)
    return run


@pytest.fixture(scope="session")
def bundle(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in one file, with exemplars."""
    return export(run.folder, tmp_path_factory.mktemp("bundle") / "run.exadec", with_exemplars=True)
