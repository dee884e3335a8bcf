"""Warnings of exemplars that are of little use. What an audit counts is tested with the inspection that shows it."""

import json
from pathlib import Path

import pytest

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.exemplars.audit import find_faults
from exadec.exemplars.retrieve import retrieve
from support.toys import config_for, write_splits

ALIKE: list[dict[str, object]] = [{"source": f"a b c{i}", "target": f"t{i}"} for i in range(10)]


def faults_of(corpus: Corpus, **exemplars: object) -> list[str]:
    return find_faults(corpus, retrieve(corpus, ExemplarConfig(**exemplars)))  # type: ignore[arg-type]


def corpus_of(folder: Path, train: list[dict[str, object]], held_out: list[dict[str, object]] = ALIKE) -> Corpus:
    write_splits(folder, held_out)
    lines = [json.dumps({**record, "uid": str(number)}) for number, record in enumerate(train)]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return prepare(config_for(folder, segmentation="words"))


@pytest.mark.parametrize("policy", ["nearest", "random", "oracle", "none"])
def test_useful_exemplars_have_no_faults(tmp_path: Path, policy: str) -> None:
    records = [{**record, "target": f"the {record['target']}"} for record in ALIKE]
    others = [{"source": f"a b d{i}", "target": f"the u{i}"} for i in range(10)]
    assert faults_of(corpus_of(tmp_path, records, others), policy=policy) == []


def test_groups_that_are_not_there_are_named(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ALIKE)
    (fault,) = faults_of(corpus, group="only")
    assert fault == (
        "10 of 10 train, 10 of 10 valid, 10 of 10 test instances have no exemplar: `exemplars.group` is only, but no "
        "training record has a group; set exemplars.group=any."
    )
    assert faults_of(corpus, group="prefer") == faults_of(corpus)


def test_groups_of_one_record_each_are_named(tmp_path: Path) -> None:
    lonely = [{**record, "group": f"g{i}"} for i, record in enumerate(ALIKE)]
    (fault,) = faults_of(corpus_of(tmp_path, lonely, lonely), group="only")
    assert fault.startswith("10 of 10 train instances have no exemplar: ")  # held-out ones find their group's record
    assert fault.endswith("too few records share a group; set exemplars.group=prefer.")


def test_exclusions_and_unlike_sources_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    equal = corpus_of(tmp_path / "a", [{"source": "a", "target": f"t{i}"} for i in range(4)])
    (fault,) = faults_of(equal, exclude_same_source=True)
    assert (
        fault
        == "4 of 4 train instances have no exemplar: nothing else is similar; set exemplars.exclude_same_source=false."
    )
    unlike = corpus_of(tmp_path / "b", [{"source": f"w{i}", "target": f"t{i}"} for i in range(4)])
    (fault,) = faults_of(unlike)
    assert "they share no word with another training source" in fault


def test_sources_that_repeat_only_in_training_suggest_to_exclude_them(tmp_path: Path) -> None:
    """Two texts for each training source, as WebNLG has; held-out sources are new."""
    train = [{"source": f"a b c{i // 2}", "target": f"t{i}"} for i in range(20)]
    corpus = corpus_of(tmp_path, train, [{"source": f"a b d{i}", "target": f"u{i}"} for i in range(5)])
    (fault,) = faults_of(corpus)
    assert fault.startswith("100% of the training exemplars come from an identical source, but 0% of the valid ones")
    assert "(mean similarity 1.00 and 0.67)" in fault
    assert fault.endswith("set exemplars.exclude_same_source=true.")
    assert faults_of(corpus, exclude_same_source=True) == []
    assert faults_of(corpus, calibrated=True) == []
    same_everywhere = [{"source": f"a b c{i}", "target": f"u{i}"} for i in range(5)]
    (tmp_path / "other").mkdir()
    assert faults_of(corpus_of(tmp_path / "other", train, same_everywhere)) == []
