"""A toy task, and a run trained on it."""

import json
from pathlib import Path

import pytest

from exadec.config import Config
from exadec.training.trainer import train
from support.toys import make_guidable, toy_config, toy_records, write_splits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command is run: a task, and files with mistakes."""
    folder = tmp_path_factory.mktemp("cli")
    write_splits(folder, toy_records(200, seed=0))
    config = toy_config(folder, epochs=2)
    (folder / "toy.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    good = '{"source": "a", "target": "b"}\n'
    (folder / "bad.jsonl").write_text(good + "{", "utf-8")
    (folder / "empty.jsonl").write_text("", "utf-8")
    (folder / "mute.jsonl").write_text('{"source": "a"}\n', "utf-8")
    (folder / "latin.jsonl").write_bytes(good.encode() + b'{"source": "\xe9", "target": "b"}\n')
    (folder / "one.txt").write_text("a\n", "utf-8")
    (folder / "two.txt").write_text("a\nb\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return make_guidable(train(Config.load(folder / "toy.yaml", variant="adadec"), folder / "run")).folder
