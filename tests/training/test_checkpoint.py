"""Runs on disk: what does not fit together is refused."""

import json
import os
import shutil
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exadec.api import load
from exadec.corpus.prepare import FORMAT
from exadec.corpus.stage import hash_value
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError
from exadec.training.checkpoint import BEST, Run, delete_run, open_corpus, open_run, read_checkpoint
from exadec.training.evaluation import evaluate
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


def test_run_records_when_it_was_created(run: Run) -> None:
    created = datetime.fromisoformat(run.facts["created"])
    assert timedelta(0) <= datetime.now(UTC) - created < timedelta(hours=1)
    assert run.created_on == created.date()


def test_damaged_checkpoints_are_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    tensors, notes = read_checkpoint(folder / BEST)
    name, bare = "model.decoder.embedding.weight", {key: notes[key] for key in ("vocabulary", "position")}
    broken = tensors[name].clone()
    broken[0, 0] = torch.nan
    for changed, said, message in (
        ({"x": torch.zeros(1)}, bare, "it has fewer weights than the model"),
        ({**tensors, "model.x": torch.zeros(1)}, bare, "are missing, or belong to another model"),
        ({**tensors, name: tensors[name][1:].clone()}, bare, "has another shape than the model's"),
        ({**tensors, name: tensors[name].double()}, bare, "has another dtype than the model's"),
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


@pytest.fixture
def project(run: Run, tmp_path: Path) -> Path:
    """A corpus and a run beside it, copied to another place."""
    place = tmp_path / "first" / "project"
    shutil.copytree(open_corpus(run).folder, place / "corpus")
    shutil.copytree(run.folder, place / "run")
    set_fact(place / "run", "corpus_folder", "../corpus")
    return place


def set_fact(folder: Path, name: str, value: str) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), name: value}), "utf-8")


def test_a_run_names_its_corpus_by_the_way_there(run: Run) -> None:
    assert run.facts["corpus_folder"] == "../work/corpus"
    assert open_corpus(run).folder == run.folder.parent / "work" / "corpus"


def test_a_project_that_was_moved_works_at_once(project: Path, tmp_path: Path) -> None:
    moved = project.rename(tmp_path / "second")
    assert open_corpus(open_run(moved / "run")).folder == moved / "corpus"
    (tmp_path / "link").symlink_to(moved / "run")
    assert open_corpus(open_run(tmp_path / "link")).folder == moved / "corpus"


def test_a_project_that_was_copied_reads_its_own_corpus(project: Path, tmp_path: Path) -> None:
    """Even if its run is of an earlier version, which has the old place's absolute path."""
    copied = shutil.copytree(project, tmp_path / "second")
    set_fact(copied / "run", "corpus_folder", str(project / "corpus"))
    assert open_corpus(open_run(copied / "run")).folder == copied / "corpus"


def test_a_run_of_an_earlier_version_finds_its_corpus_elsewhere(project: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(project / "run", tmp_path / "alone" / "run")
    set_fact(copied, "corpus_folder", str(project / "corpus"))
    assert open_corpus(open_run(copied)).folder == project / "corpus"
    shutil.copytree(project / "corpus", tmp_path / "alone" / "corpus")
    change_corpus(tmp_path / "alone" / "corpus")  # a neighbour, but not the run's
    assert open_corpus(open_run(copied)).folder == project / "corpus"


def change_corpus(folder: Path) -> None:
    """Make it the corpus of other data."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["inputs"] = {"train": "0" * 64}
    facts = {name: manifest[name] for name in ("config", "inputs")}
    path.write_text(json.dumps({**manifest, "key": hash_value({"format": FORMAT, **facts})}), "utf-8")


def test_a_run_that_was_copied_alone_says_where_it_looked(project: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(project / "run", tmp_path / "alone" / "run")
    expected = rf"alone/run: the corpus of this run is not in {tmp_path}/alone/corpus; say where .* `corpus=FOLDER`"
    with pytest.raises(InputError, match=expected):
        open_corpus(open_run(copied))
    assert open_corpus(open_run(copied, corpus=project / "corpus")).folder == project / "corpus"
    assert load(copied, corpus=str(project / "corpus")).retrieve(["house1 n1 k1"])[0][0] is not None


def test_another_corpus_is_refused_by_name(project: Path, tmp_path: Path) -> None:
    other = shutil.copytree(project / "corpus", tmp_path / "other")
    change_corpus(other)
    with pytest.raises(InputError, match=rf"{other}: not the corpus that run {project / 'run'} was trained on"):
        open_corpus(open_run(project / "run", corpus=other))
    with pytest.raises(InputError, match=rf"{project}: not a prepared corpus \(there is no manifest.json\)"):
        open_corpus(open_run(project / "run", corpus=project))
    change_corpus(project / "corpus")
    with pytest.raises(InputError, match=r"corpus has changed since run .*; if the run's own is elsewhere, say where"):
        open_corpus(open_run(project / "run"))


def test_what_a_kill_leaves_in_a_run_does_not_keep_it_from_being_replaced(run: Run, tmp_path: Path) -> None:
    """A killed command that built an index for new text in the run's folder."""
    folder = shutil.copytree(run.folder, tmp_path / "run")
    left = [".terms-words-source.lock", ".terms-words-source.draft/terms.json", "index-words-raw/000001.0.ids.npy"]
    for name in [*left, "index-words-raw/.lock", "index-words-raw/.manifest.json.draft", ".test.outputs.jsonl.draft"]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("half", "utf-8")
    (folder / "index-words-raw" / ".notes").write_text("years of work", "utf-8")
    with pytest.raises(InputError, match=r"index-words-raw/.notes: not part of a run of exadec"):
        delete_run(folder)
    (folder / "index-words-raw" / ".notes").unlink()
    delete_run(folder)
    assert not folder.exists()


@pytest.mark.parametrize(("umask", "mode", "of_folders"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_files_have_the_permissions_of_the_umask(
    toy: Path, tmp_path: Path, umask: int, mode: int, of_folders: int
) -> None:
    before = os.umask(umask)
    try:
        config = replace(variant_config(toy, "adadec", epochs=1), folder=str(tmp_path / "work"))
        folder = train(config, tmp_path / "work" / "run").folder
        evaluate(folder)
        load(folder).write("house1 n1 k1")
    finally:
        os.umask(before)
    written = list((tmp_path / "work").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in written if path.is_file()} == {mode}
    assert {stat.S_IMODE(path.stat().st_mode) for path in written if path.is_dir()} == {of_folders}
    assert {path.name for path in written} >= {"best.safetensors", "test.outputs.jsonl", "index-words-raw", "exemplars"}
