"""Two tiny runs on the wire, for all tests of views."""

import shutil
from pathlib import Path

import pytest
import torch

from exadec.api import Writer, load
from exadec.config import CorpusConfig
from exadec.training.evaluation import evaluate
from exadec.training.trainer import train
from exadec.views.results import Results, compare_runs
from support.tiny_runs import tiny_config


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A seq2seq and an adaptive run on the smallest of wires; no test may write into them."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("views")
    corpus = CorpusConfig(
        format="wire", segmentation="words", vocabulary_size=400, wire_train=300, wire_outlets=30, wire_heldout=40
    )
    paths = []
    for variant in ("adadec", "seq2seq"):
        train(tiny_config(folder, variant, corpus), folder / variant)
        evaluate(folder / variant)
        paths.append(folder / variant)
    return paths


@pytest.fixture(scope="session")
def results(runs: list[Path]) -> Results:
    return compare_runs(runs)


@pytest.fixture(scope="session")
def writer(runs: list[Path]) -> Writer:
    return load(runs[0])


@pytest.fixture
def copies(runs: list[Path], tmp_path: Path) -> list[Path]:
    """The same runs, for a test to change."""
    return [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs]
