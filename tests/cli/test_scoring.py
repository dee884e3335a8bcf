"""`exadec score` and `exadec report`, as a user meets them."""

import json
from pathlib import Path

import pytest

from support.command import assert_needs_no_torch, assert_refused, assert_refused_in, exadec


def test_score_of_plain_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\na dog ran off\n", "utf-8")
    (tmp_path / "b.txt").write_text("the cat sat\nno idea\n", "utf-8")
    (tmp_path / "r.txt").write_text("the cat sat\nthe dog ran off\n", "utf-8")
    done = exadec("score", tmp_path / "a.txt", "--references", tmp_path / "r.txt", "--against", tmp_path / "b.txt")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ROUGE-1 87.50 [")
    assert "rouge-1|f1" in lines[0]
    assert "p = " in lines[1]
    assert "nrefs:1" in lines[6]


def test_recall_at_reference_length(tmp_path: Path) -> None:
    """Footnote 12: the prediction is cut to the reference's length, and recall is reported."""
    (tmp_path / "a.txt").write_text("one two three four\n", "utf-8")
    (tmp_path / "r.txt").write_text("one four\n", "utf-8")
    done = exadec("score", tmp_path / "a.txt", "--references", tmp_path / "r.txt", "--metrics", "recall1")
    assert done.stdout.startswith("ROUGE-1 recall 50.00 [")
    assert "cut:reference-length" in done.stdout


def test_score_of_records_knows_tables_and_several_references(tmp_path: Path) -> None:
    rows = [
        {
            "table": [["name", "Ada"], ["born", "1815"]],
            "target": "Ada was born in 1815 .",
            "references": ["a", "Ada ."],
        },
        {"table": [["name", "Bob"]], "target": "Bob is here ."},
    ]
    (tmp_path / "gold.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    (tmp_path / "a.txt").write_text("Ada .\nBob is here .\n", "utf-8")
    command = ["score", tmp_path / "a.txt", "--references", tmp_path / "gold.jsonl", "--metrics", "rougeL,bleu,parent"]
    done = exadec(*command)
    assert done.returncode == 0, done.stderr
    assert [line.split(" [")[0].rsplit(" ", 1)[0] for line in done.stdout.splitlines()] == [
        "ROUGE-L",
        "BLEU",
        "BLEU (tokenised)",
        "PARENT",
    ]
    assert "look tokenised" in done.stderr
    plain = exadec("score", tmp_path / "a.txt", "--references", tmp_path / "a.txt", "--metrics", "parent")
    assert_refused(plain, "parent needs tables: give --references as records with a 'table' each.")


def test_score_needs_no_torch(tmp_path: Path) -> None:
    """Scoring is for people who never train a model, too: it must not wait for what it does not use."""
    (tmp_path / "a.txt").write_text("one two\n", "utf-8")
    assert_needs_no_torch("score", tmp_path / "a.txt", "--references", tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "run", "--split", "valid"], "valid.outputs.jsonl: no such file"),
        (["score", "absent.txt", "--references", "r.txt"], "absent.txt: no such file."),
        (["score", "one.txt", "--references", "one.txt", "--wordnet", "gone"], "gone: there are no exception lists"),
        (["score", "one.txt", "--references", "two.txt"], "two.txt has 2 lines, but one.txt has 1"),
        (["score", "one.txt", "--references", "one.txt", "--metrics", "meteor"], "unknown metric 'meteor'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("run")
def test_mistakes_get_one_line_and_status_two(folder: Path, arguments: list[str], message: str) -> None:
    assert_refused_in(folder, arguments, message)
