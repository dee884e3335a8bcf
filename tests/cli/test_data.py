"""`exadec prepare`, `retrieve` and `inspect`, as a user meets them."""

import json
from pathlib import Path

import pytest

from support.command import assert_needs_no_torch, assert_refused, assert_refused_in, exadec


def test_an_exported_run_is_not_inspected(tmp_path: Path) -> None:
    (tmp_path / "a.exadec").write_bytes(b"PK" * 200_000)
    said = "a.exadec: this is an exported run; give the folder of a corpus, or a CONFIG."
    assert_refused_in(tmp_path, ["inspect", "a.exadec"], said)


def test_inspect_needs_no_torch(folder: Path, run: Path) -> None:
    assert_needs_no_torch("inspect", folder / "toy.yaml")


def test_inspect_prepares_and_retrieves_first(folder: Path, tmp_path: Path) -> None:
    done = exadec("inspect", folder / "toy.yaml", "--set", f"folder={tmp_path / 'new'}", "--json")
    assert done.returncode == 0, done.stderr
    inspected = json.loads(done.stdout)
    assert inspected["splits"]["train"]["instances"] == 200
    assert inspected["audit"]["splits"]["test"]["without_exemplar"] == 0


def test_inspect_shows_a_corpus(folder: Path, run: Path) -> None:
    for corpus in (folder / "toy.yaml", folder / "work" / "corpus"):
        done = exadec("inspect", corpus)
        assert done.returncode == 0, done.stderr
        assert "Instances" in done.stdout
        assert "leakage" in done.stdout
    rows = json.loads(exadec("inspect", folder / "work" / "corpus", "--json").stdout)
    assert rows["splits"]["train"]["instances"] == 200
    assert_refused(exadec("inspect", folder), "there is no manifest.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["prepare", "toy.yaml", "--set", "exemplars.policy=x"],
            "`exemplars.policy` must be one of nearest, sample, random",
        ),
        (
            ["retrieve", "toy.yaml", "--set", "exemplars.policy=x"],
            "`exemplars.policy` must be one of nearest, sample, random",
        ),
        (
            ["inspect", "toy.yaml", "--set", "exemplars.policy=x"],
            "`exemplars.policy` must be one of nearest, sample, random",
        ),
        (["inspect", "run"], "run: not a prepared corpus (there is no manifest.json); name the folder of a corpus, or"),
        (["inspect", "work"], "work: not a prepared corpus (there is no manifest.json); did you mean work/corpus?"),
        (["prepare", "toy.yaml", "--set", "corpus.train=gone.jsonl"], "gone.jsonl: no such file"),
        (["prepare", "toy.yaml", "--set", "corpus.train=bad.jsonl"], "bad.jsonl:2: not JSON"),
        (["prepare", "toy.yaml", "--set", "corpus.train=empty.jsonl"], "empty.jsonl: the file holds no records."),
        (["prepare", "toy.yaml", "--set", "corpus.train=mute.jsonl"], "mute.jsonl:1: the record has no 'target'."),
        (["prepare", "toy.yaml", "--set", "corpus.train=latin.jsonl"], "latin.jsonl:2: not valid UTF-8"),
        (
            ["prepare", "toy.yaml", "--set", "corpus.format=duc"],
            "`corpus.format` must be one of records, wire, gigaword",
        ),
        (["retrieve", "toy.yaml", "--set", "corpus.format=duc"], "webnlg, but is 'duc' instead."),
        (["inspect", "toy.yaml", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (
            ["prepare", "toy.yaml", "--set", "training.metric=parent"],
            "`training.metric` must be one of rouge1, rouge2, rouge4, rougeL, bleu, but is 'parent' instead.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("run")
def test_mistakes_get_one_line_and_status_two(folder: Path, arguments: list[str], message: str) -> None:
    assert_refused_in(folder, arguments, message)
