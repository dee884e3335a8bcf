"""Real corpora, where they lie beside the checkout: prepared, retrieved for, trained on, written for."""

import itertools
import json
import lzma
import math
import shutil
from pathlib import Path

import pytest

from exadec.api import load
from exadec.config import Config
from exadec.corpus.prepare import prepare
from exadec.exemplars.retrieve import retrieve
from exadec.training.evaluation import evaluate
from exadec.training.events import LossLine
from exadec.training.trainer import train
from support.corpora import DATA

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not beside the checkout"),
]
TINY = {
    "model": {"hidden": 16, "embedding": 16, "encoder_layers": 1, "exemplar_hidden": 8},
    "search": {"beam_size": 2, "max_length": 15},
}


def cut(split: str, count: int, folder: Path) -> str:
    with lzma.open(DATA / "news" / f"{split}.jsonl.xz", "rt", encoding="utf-8") as file:
        path = folder / f"{split}.jsonl"
        path.write_text("".join(itertools.islice(file, count)), "utf-8")
    return str(path)


def test_twenty_thousand_news_pairs_end_to_end(tmp_path: Path) -> None:
    sizes = {"train": 20_000, "valid": 40, "test": 40}
    files = {split: cut(split, size, tmp_path) for split, size in sizes.items()}
    training = {"epochs": 1, "batch_size": 512, "evaluation_size": 20}
    corpus_values = {**files, "vocabulary_size": 4_000, "max_source": 60, "max_target": 20}
    config = Config.from_dict({"folder": str(tmp_path / "work"), "corpus": corpus_values, "training": training, **TINY})
    corpus = prepare(config)
    assert corpus.manifest["records"] == sizes
    assert corpus.manifest["vocabulary"]["unknown_types"] == 0  # BPE over bytes
    first = json.loads(Path(files["train"]).read_text("utf-8").splitlines()[0])
    assert next(corpus.records("train")).source == " ".join(first["source"].split())
    exemplars = retrieve(corpus)
    assert 0.3 < exemplars.manifest["train"]["mean_similarity"] < 0.8
    run = train(config, tmp_path / "run")
    losses = [event.loss for event in run.metrics() if isinstance(event, LossLine)]
    assert losses[-1] < math.log(4_000)  # what guessing evenly among the types would give
    assert len(evaluate(run.folder)) == 40
    assert -100 < load(run.folder).write(first["source"], exemplar="Storm hits coast").score < 0  # and not NaN


def test_three_hundred_wikibio_boxes_end_to_end(tmp_path: Path) -> None:
    shutil.copytree(DATA / "wikibio_100", tmp_path / "wikibio")
    corpus_values = {
        "format": "wikibio",
        "source_folder": str(tmp_path / "wikibio"),
        "segmentation": "words",
        "pretokenized": True,
        "vocabulary_size": 500,
    }
    training = {"epochs": 1, "batch_size": 10, "evaluation_size": 10, "metric": "rouge4"}
    config = Config.from_dict({"folder": str(tmp_path / "work"), "corpus": corpus_values, "training": training, **TINY})
    corpus = prepare(config)
    assert corpus.manifest["records"] == {"train": 100, "valid": 100, "test": 100}
    for split in ("train", "valid", "test"):
        for record in corpus.records(split):
            assert record.table
            assert all(value and value != "<none>" for _, value in record.table)
    run = train(config, tmp_path / "run")
    outputs = evaluate(run.folder)
    assert len(outputs) == 100
    assert all("<unk>" not in output.text for output in outputs)
