"""Prepared corpora: texts come back, and many processes make the same corpus as one."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exadec.corpus.record as recording
import exadec.corpus.workers as working
from exadec.config import Config, ConfigError
from exadec.corpus.prepare import Corpus, _prepend, prepare
from exadec.corpus.record import SPLITS, fingerprint
from exadec.corpus.sequences import Sequences
from exadec.corpus.stage import hash_value
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from support.toys import TWO_RECORDS, config_for, write_splits

EITHER_CASE = {"segmentation": "bpe_either_case", "vocabulary_size": 300}


@pytest.mark.parametrize(
    "corpus", [{"segmentation": "words", "vocabulary_size": 8}, {"vocabulary_size": 300}, EITHER_CASE]
)
def test_corpus_gives_the_texts_back(tmp_path: Path, corpus: dict[str, object]) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    prepared = prepare(config_for(tmp_path, **corpus))
    for split in ("train", "valid", "test"):
        assert prepared.size(split) == 2
        for i, record in enumerate(prepared.records(split)):
            assert prepared.text(prepared.sources(split)[i]) == record.source == TWO_RECORDS[i]["source"]
            assert prepared.text(prepared.targets(split)[i]) == record.target
    assert next(prepared.records("test")).uid == "test-0"


@pytest.mark.parametrize(
    "corpus", [{"segmentation": "words", "vocabulary_size": 40}, {"vocabulary_size": 300}, EITHER_CASE]
)
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
        monkeypatch.setattr(working, "available_cores", lambda cores=cores: cores)
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
    for name in [name for name in manifest["files"] if "words" in name]:
        del manifest["files"][name]
        (before.folder / name).unlink()
    (before.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match=r"made by an earlier version of exadec; run `exadec prepare` again"):
        Corpus(before.folder).groups("train")
    assert prepare(config).manifest == before.manifest


def test_long_texts_are_cut_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config = config_for(tmp_path, segmentation="words", max_source=6)
    prepared = prepare(config)
    assert prepared.manifest["truncated"]["train sources"] == 1
    assert prepared.sources("train").lengths.tolist() == [6, 6]
    (message,) = caplog.messages
    assert message.endswith("were cut: 1 train sources, 1 valid sources, 1 test sources.")
    prepare(config)  # opens it
    assert len(caplog.messages) == 1


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`corpus.train` is missing"):
        prepare(Config.from_dict({"folder": str(tmp_path)}))
    with pytest.raises(InputError, match=r"train.jsonl: no such file \(named by `corpus.train`\)"):
        prepare(config_for(tmp_path))


TOLD: list[dict[str, object]] = [
    {"source": "the cat sat on the mat", "target": "cat sits", "group": "The  Oak Gazette"},
    {"source": "the mat sat on the cat", "target": "mat sits"},
    {"source": "the cat sat on a hat", "target": "hat", "group": "elm"},
]


@pytest.mark.parametrize(
    "corpus", [{"segmentation": "words", "vocabulary_size": 30}, {"vocabulary_size": 300}, EITHER_CASE]
)
def test_told_model_reads_the_group_before_the_source_and_nothing_else_changes(
    tmp_path: Path, corpus: dict[str, object]
) -> None:
    write_splits(tmp_path, TOLD)
    config = config_for(tmp_path, **corpus)
    plain, told = (
        prepare(replace(config, folder=str(tmp_path / name)).replace("corpus", group_in_source=name == "told"))
        for name in ("plain", "told")
    )
    for split in ("train", "valid", "test"):
        openings = ["The Oak Gazette | ", "", "elm | "]
        read = [told.text(told.sources(split)[i]) for i in range(3)]
        assert read == [f"{opening}{record['source']}" for opening, record in zip(openings, TOLD, strict=True)]
        assert list(told.records(split)) == list(plain.records(split))
        for side in ("source", "target"):
            np.testing.assert_array_equal(told.words(split, side).ids, plain.words(split, side).ids)
        sources = told.fingerprints(split, "source")
        np.testing.assert_array_equal(
            sources[:, None] == sources, np.equal.outer(*[plain.fingerprints(split, "source")] * 2)
        )
        np.testing.assert_array_equal(retrieve(told).indices(split), retrieve(plain).indices(split))
    assert told.word_list() == plain.word_list()
    assert told.hash != plain.hash
    assert told.trained_groups() == ["The  Oak Gazette", "elm"]
    if corpus.get("segmentation") == "words":
        assert {"Gazette", "elm", "|"} <= set(told.vocabulary.pieces) - set(plain.vocabulary.pieces)


def test_setting_that_is_off_leaves_earlier_corpora_fresh(tmp_path: Path) -> None:
    write_splits(tmp_path, TOLD)
    manifest = prepare(config_for(tmp_path, segmentation="words")).manifest
    described = asdict(config_for(tmp_path, segmentation="words").corpus)
    for newer in ("group_in_source", "columns"):
        del described[newer]  # as before the setting existed
    assert manifest["key"] == hash_value({"format": 1, "config": described, "inputs": manifest["inputs"]})


def test_empty_texts_are_left_out_of_a_corpus(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_splits(tmp_path, [*TWO_RECORDS, {"source": "x", "target": " "}, *TWO_RECORDS])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    assert corpus.manifest["records"] == {"train": 4, "valid": 4, "test": 4}
    assert [record.uid for record in corpus.records("test")] == [f"test-{number}" for number in (0, 1, 3, 4)]
    said = [record.getMessage() for record in caplog.records if "empty" in record.getMessage()]
    assert said == [f"1 empty text was skipped: {tmp_path / f'{split}.jsonl'}:3." for split in SPLITS]
    write_splits(tmp_path, [{"source": "", "target": "x"}] * 2)
    with pytest.raises(InputError, match="no record for train has a text"):
        prepare(config_for(tmp_path, segmentation="words"))


def test_columns_of_other_names_make_the_same_corpus(tmp_path: Path) -> None:
    for split in SPLITS:
        (tmp_path / f"{split}.csv").write_text("id,Article,Headline\n7,The cat sat,Cat sits\n", "utf-8")
    files = {split: str(tmp_path / f"{split}.csv") for split in SPLITS}
    named = {"source": "Article", "target": "headline"}
    corpus = prepare(config_for(tmp_path, segmentation="words", **files, columns=named))
    assert [(record.source, record.target) for record in corpus.records("train")] == [("The cat sat", "Cat sits")]
    assert corpus.config.columns == named
    other = prepare(config_for(tmp_path, segmentation="words", **files, columns={"source": "headline", "target": "id"}))
    assert other.hash != corpus.hash
    assert next(other.records("train")).target == "7"
    with pytest.raises(InputError, match=r"train\.csv:1: there is no column 'text' .* are id, Article, Headline"):
        prepare(config_for(tmp_path, segmentation="words", **files, columns={"source": "text"}))


def test_announced_group_counts_towards_the_limit(tmp_path: Path) -> None:
    write_splits(tmp_path, TOLD)
    told = prepare(config_for(tmp_path, segmentation="words", max_source=6, group_in_source=True))
    assert told.manifest["truncated"]["train sources"] == 2  # the second has no group, and six words
    assert [len(told.sources("train")[i]) for i in range(3)] == [6, 6, 6]
    assert told.text(told.sources("train")[0]) == "The Oak Gazette | the cat"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 3), st.lists(st.integers(9, 15), min_size=1, max_size=4)), min_size=1))
def test_openings_come_before_their_texts(rows: list[tuple[int, list[int]]]) -> None:
    openings = [[0], [1, 2], [3, 4, 5], [6]]
    parts = Sequences(np.array([0, 1, 2, 3, 4, 5, 6], np.int32), np.array([0, 1, 3, 6, 7]))
    ids = np.array([number for _, text in rows for number in text], np.int32)
    lengths = np.array([len(text) for _, text in rows])
    found, found_lengths = _prepend(parts, np.array([group for group, _ in rows]), ids, lengths)
    expected = [(openings[group] if group >= 0 else []) + text for group, text in rows]
    assert found.tolist() == [number for text in expected for number in text]
    assert found_lengths.tolist() == [len(text) for text in expected]


def test_a_corpus_that_runs_were_trained_on_is_not_replaced_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_splits(tmp_path, TWO_RECORDS)
    config, changed = config_for(tmp_path), config_for(tmp_path, max_source=3)
    corpus = prepare(config)
    prepare(changed)
    assert "made again" not in caplog.text
    (corpus.folder.parent / "run").mkdir()
    (corpus.folder.parent / "run" / "run.json").touch()
    prepare(config)
    assert "runs trained on the earlier one need that one" in caplog.text
