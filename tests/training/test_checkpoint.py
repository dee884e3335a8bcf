"""Runs on disk: what does not fit together is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exadec.api import load
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError
from exadec.training.checkpoint import BEST, Run, open_corpus
from exadec.training.trainer import train
from support.toys import variant_config


@pytest.fixture(scope="module")
def run(toy: Path) -> Run:
    return train(variant_config(toy, "seq2seq", epochs=1), toy / "run")


def test_checkpoint_from_another_vocabulary_is_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for path in run.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    Vocabulary(["other", "words"]).save(folder / "vocabulary.json")
    with pytest.raises(InputError, match="trained with another vocabulary"):
        load(folder)
    save_file({"x": torch.zeros(1)}, folder / BEST)
    with pytest.raises(InputError, match="not a checkpoint of exadec, or damaged"):
        load(folder)
    (folder / BEST).write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not a checkpoint of exadec, or damaged"):
        load(folder)
    (folder / BEST).unlink()
    with pytest.raises(InputError, match="no such checkpoint"):
        load(folder)
    with pytest.raises(InputError, match="not a run folder"):
        load(tmp_path)


def test_corpus_that_has_changed_is_refused(run: Run) -> None:
    assert open_corpus(run).hash == run.facts["corpus"]
    changed = run.facts | {"corpus": "0" * 64}
    with pytest.raises(InputError, match="has changed since"):
        open_corpus(type(run)(run.folder, run.config, changed, run.vocabulary, run.segmenter))
