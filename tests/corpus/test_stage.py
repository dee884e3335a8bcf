"""Stages on disk: run again when an input changes, and never left half-written."""

from pathlib import Path

import pytest

from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.stage import hash_file
from exadec.errors import InputError
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
