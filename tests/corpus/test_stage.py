"""Stages on disk: run again when an input changes, and never left half-written."""

import errno
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.stage import hash_file
from exadec.errors import InputError
from exadec.files import locked_for_reading
from support.toys import TWO_RECORDS, config_for, write_splits


def test_stage_is_run_again_only_when_its_inputs_change(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    first = prepare(config)
    made = (first.folder / "manifest.json").stat().st_mtime_ns
    assert prepare(config).hash == first.hash
    assert (first.folder / "manifest.json").stat().st_mtime_ns == made
    write_splits(tmp_path, [*TWO_RECORDS, TWO_RECORDS[0]])
    assert prepare(config).size("train") == 3
    assert prepare(config_for(tmp_path, segmentation="words", lower_case=True)).hash != first.hash


def test_manifest_holds_the_hashes_of_inputs_and_files(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    assert corpus.manifest["inputs"]["train"] == hash_file(tmp_path / "train.jsonl")
    for name, facts in corpus.manifest["files"].items():
        assert facts["sha256"] == hash_file(corpus.folder / name)
    assert {"vocabulary.json", "train.source.ids.npy", "test.target.offsets.npy"} <= corpus.manifest["files"].keys()


def test_damaged_stage_is_made_again(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    ids = prepare(config).folder / "train.source.ids.npy"
    whole = ids.read_bytes()
    for damaged in (whole[:-4], whole[:-4] + b"\1\0\0\0", bytes(len(whole))):  # also of the same size
        ids.write_bytes(damaged)
        with pytest.raises(
            InputError, match=r"train.source.ids.npy: the file is damaged: .*; run `exadec prepare` again"
        ):
            Corpus(ids.parent).sources("train")
        prepare(config)
        assert ids.read_bytes() == whole
    assert prepare(config).text(prepare(config).sources("train")[1]) == TWO_RECORDS[1]["source"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("{", r"manifest.json: not JSON .*; without it nobody knows what exadec wrote there, so delete the folder"),
        (None, r"corpus: written by another version of exadec; delete it and run the stage again"),
    ],
)
def test_stage_with_a_damaged_manifest_says_how_to_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str | None, message: str
) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    manifest = prepare(config).folder / "manifest.json"
    content = json.loads(manifest.read_text("utf-8"))
    assert content["stage_format"] == 1
    manifest.write_text(json.dumps(content | {"stage_format": 99}) if damage is None else damage, "utf-8")
    with pytest.raises(InputError, match=message):
        prepare(config)
    assert caplog.messages == []
    shutil.rmtree(manifest.parent)
    assert prepare(config).size("train") == 2


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    before = prepare(config)
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write("not json\n")
    with pytest.raises(InputError, match=r"test.jsonl:3: not JSON"):
        prepare(config)
    assert Corpus(before.folder).hash == before.hash
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["corpus"]


def test_folder_that_no_stage_has_made_is_left_alone(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    thesis = tmp_path / "work" / "corpus" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work", "utf-8")
    with pytest.raises(InputError, match=r"corpus/thesis.tex: exadec did not write this, and would delete it"):
        prepare(config)
    thesis.rename(tmp_path / "thesis.tex")
    corpus = prepare(config)
    (tmp_path / "thesis.tex").rename(thesis)
    write_splits(tmp_path, TWO_RECORDS[:1])  # so that the corpus has to be made again
    with pytest.raises(InputError, match=r"corpus/thesis.tex: exadec did not write this"):
        prepare(config)
    assert thesis.read_text("utf-8") == "years of work"
    assert Corpus(corpus.folder).hash == corpus.hash


def test_drafts_and_half_deleted_stages_of_killed_processes_are_replaced(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    corpus = prepare(config)
    before = {path.name: path.read_bytes() for path in corpus.folder.iterdir()}
    (corpus.folder / "vocabulary.json").unlink()
    (tmp_path / "work" / ".corpus.draft").mkdir()
    (tmp_path / "work" / ".corpus.draft" / "half").touch()
    (tmp_path / "work" / ".corpus.lock").write_text("half a li", "utf-8")
    again = prepare(config)
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == before
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["corpus"]


def test_corpus_in_use_is_not_replaced(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    other = config_for(tmp_path, segmentation="words", lower_case=True)
    with locked_for_reading(corpus.folder), pytest.raises(InputError, match=r"has been reading it since"):
        prepare(other)
    assert Corpus(corpus.folder).hash == corpus.hash
    assert prepare(other).hash != corpus.hash


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device: '.*work/corpus'"),
        (
            OSError("3000 requested and 992 written"),
            r"is the disk full\? \(3000 requested and 992 written\): '.*/corpus'",
        ),
    ],
)
def test_full_disk_names_the_folder_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    before = prepare(config_for(tmp_path, segmentation="words"))

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("exadec.corpus.prepare._encode_splits", fail)
    with pytest.raises(OSError, match=message):
        prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    assert Corpus(before.folder).hash == before.hash
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["corpus"]


MAKE = """
import sys, time
from pathlib import Path
from exadec.corpus.stage import make

def build(draft):
    time.sleep(1)
    (draft / "made").write_text(sys.argv[2])
    print("made")

make(Path(sys.argv[1]), "key", {}, build)
"""


def test_processes_that_make_the_same_stage_at_once_make_it_once(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    processes = [
        subprocess.Popen([sys.executable, "-c", MAKE, str(folder), str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(said) == ["", "", "", "made\n"]
    assert (folder / "made").read_text("utf-8") == str(said.index("made\n"))
    assert list(tmp_path.iterdir()) == [folder]


def test_a_stage_whose_maker_fails_is_made_by_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    failing = MAKE.replace('print("made")', "sys.exit(3)")
    first = subprocess.Popen([sys.executable, "-c", failing, str(folder), "1"])
    while first.poll() is None and not (tmp_path / ".stage.lock").exists():
        time.sleep(0.01)
    second = subprocess.run([sys.executable, "-c", MAKE, str(folder), "2"], timeout=60, check=False)
    assert (first.wait(timeout=60), second.returncode) == (3, 0)
    assert (folder / "made").read_text("utf-8") == "2"
