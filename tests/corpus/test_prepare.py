"""Prepared corpora: texts come back, and many processes make the same corpus as one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import exadec.corpus.record as recording
import exadec.corpus.workers as working
from exadec.config import Config, ConfigError
from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.record import fingerprint
from exadec.errors import InputError
from support.toys import TWO_RECORDS, config_for, write_splits


@pytest.mark.parametrize("corpus", [{"segmentation": "words", "vocabulary_size": 8}, {"vocabulary_size": 300}])
def test_corpus_gives_the_texts_back(tmp_path: Path, corpus: dict[str, object]) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    prepared = prepare(config_for(tmp_path, **corpus))
    for split in ("train", "valid", "test"):
        assert prepared.size(split) == 2
        for i, record in enumerate(prepared.records(split)):
            assert prepared.text(prepared.sources(split)[i]) == record.source == TWO_RECORDS[i]["source"]
            assert prepared.text(prepared.targets(split)[i]) == record.target
    assert next(prepared.records("test")).uid == "test-0"


@pytest.mark.parametrize("corpus", [{"segmentation": "words", "vocabulary_size": 40}, {"vocabulary_size": 300}])
def test_many_processes_make_the_same_corpus_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: dict[str, object]
) -> None:
    random = np.random.default_rng(0)
    records: list[dict[str, object]] = [
        {"source": " ".join(f"w{n}" for n in random.integers(0, 99, 9)), "target": f"t{i} 東京", "group": f"g{i % 3}"}
        for i in range(200)
    ]
    write_splits(tmp_path, records)
    monkeypatch.setattr(recording, "_CHUNK_LENGTH", 1000)
    manifests = []
    for cores in (1, 3):
        monkeypatch.setattr(working, "cores", lambda cores=cores: cores)
        prepared = prepare(config_for(tmp_path, **corpus))
        manifests.append(prepared.manifest)
        shutil.rmtree(prepared.folder)
    assert manifests[0] == manifests[1]  # with the hashes of all files


def test_what_a_corpus_keeps_is_what_its_records_hold(tmp_path: Path) -> None:
    groups = ["b", None, "a", "b"]
    records = [
        {"source": f"X  y{i % 2}", "target": f"Y {i}"} | ({"group": g} if g else {}) for i, g in enumerate(groups)
    ]
    write_splits(tmp_path, records)
    prepared = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    words = prepared.word_list()
    for split in ("train", "valid", "test"):
        texts = prepared.words(split, "source")
        kept = [" ".join(words[number] for number in texts[i]) for i in range(4)]
        assert kept == [record.source for record in prepared.records(split)] == ["X y0", "X y1", "X y0", "X y1"]
        names = [*prepared.group_names, None]
        assert [names[number] for number in prepared.groups(split)] == groups
        assert prepared.uids(split).tolist() == [fingerprint(f"{split}-{i}") for i in range(4)]
        same = prepared.fingerprints(split, "source")
        assert same.tolist() == prepared.fingerprints("train", "source").tolist()
        assert (same[:2] == same[2:]).all()
        assert same[0] != same[1]
        assert prepared.contents(split) == {"tables": 0, "several_references": 0, "groups": 2}
    assert [prepared.target(i) for i in range(4)] == [f"Y {i}" for i in range(4)]


def test_corpus_of_an_earlier_version_is_made_again_with_the_same_key(tmp_path: Path) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words")
    before = prepare(config)
    manifest = json.loads((before.folder / "manifest.json").read_text("utf-8"))
    del manifest["contents"]
    manifest["files"] = {name: facts for name, facts in manifest["files"].items() if "words" not in name}
    (before.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match=r"made by an earlier version of exadec; run `exadec prepare` again"):
        Corpus(before.folder).groups("train")
    assert prepare(config).manifest == before.manifest


def test_long_texts_are_cut_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    prepared = prepare(config_for(tmp_path, segmentation="words", max_source=6))
    assert prepared.manifest["truncated"]["train sources"] == 1
    assert prepared.sources("train").lengths.tolist() == [6, 6]
    assert "train sources: 1 were longer than the limit and were cut." in caplog.text


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`corpus.train` is missing"):
        prepare(Config.from_dict({"folder": str(tmp_path)}))
    with pytest.raises(InputError, match=r"train.jsonl: no such file \(named by `corpus.train`\)"):
        prepare(config_for(tmp_path))
