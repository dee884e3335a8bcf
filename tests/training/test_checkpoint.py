"""Runs on disk: what does not fit together is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exadec.api import load
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError
from exadec.training.checkpoint import BEST, Run, open_corpus, read_checkpoint
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
    other = Vocabulary(["other", "words"])
    other.save(folder / "vocabulary.json")
    with pytest.raises(InputError, match=r"vocabulary.json: .* not the vocabulary of run.json"):
        load(folder)
    facts = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps({**facts, "vocabulary": other.hash()}), "utf-8")
    with pytest.raises(InputError, match=r"best.safetensors: the checkpoint was trained with another vocabulary"):
        load(folder)


def test_damaged_checkpoints_are_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    tensors, notes = read_checkpoint(folder / BEST)
    name, bare = "model.decoder.embedding.weight", {key: notes[key] for key in ("vocabulary", "position")}
    broken = tensors[name].clone()
    broken[0, 0] = torch.nan
    for changed, said, message in (
        ({"x": torch.zeros(1)}, bare, "it has fewer weights than the model"),
        ({**tensors, "model.x": torch.zeros(1)}, bare, "the model has no weights"),
        ({**tensors, name: tensors[name][1:].clone()}, bare, "has another shape than the model's"),
        ({**tensors, name: tensors[name].double()}, bare, "of another type than the model's"),
        ({**tensors, name: tensors[name] + 1}, notes, "it is not what was written"),
        ({**tensors, name: broken}, {**notes, "sha256": None}, "not what was written"),
        ({**tensors, name: broken}, bare, "not finite"),
        (tensors, {"vocabulary": 5}, "it has no notes of exadec's"),
        (tensors, {**notes, "vocabulary": "other"}, "trained with another vocabulary"),
    ):
        save_file(changed, folder / BEST, metadata={"notes": json.dumps(said)})
        with pytest.raises(InputError, match=f"best.safetensors: .*{message}"):
            load(folder)
    for content in (b"rubbish", (1 << 60).to_bytes(8, "little") + b"{", b""):
        (folder / BEST).write_bytes(content)
        with pytest.raises(InputError, match=r"best.safetensors: .* not a checkpoint of exadec"):
            load(folder)


def test_checkpoint_of_an_earlier_version_has_no_hash(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    tensors, notes = read_checkpoint(folder / BEST)
    save_file(tensors, folder / BEST, metadata={"notes": json.dumps({k: notes[k] for k in ("vocabulary", "position")})})
    assert load(folder).write("house1 n1 k1").text == load(run.folder).write("house1 n1 k1").text


def test_settings_cannot_ask_for_more_than_the_checkpoint_has(run: Run, tmp_path: Path) -> None:
    """A model of this size would take 100 GB. It is refused by its shapes, before there is one."""
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    path = folder / "config.yaml"
    path.write_text(path.read_text("utf-8").replace("hidden: 16", "hidden: 65000", 1), "utf-8")
    with pytest.raises(InputError, match=r"best.safetensors: .* it has fewer weights than the model"):
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
