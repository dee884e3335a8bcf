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
    assert done.stdout.startswith("ROUGE-1 recall at reference length 50.00 [")
    assert "cut:reference-length" in done.stdout


def test_recall_of_whole_texts_and_of_some_bytes_and_bleu_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One two three four five\n", "utf-8")
    (tmp_path / "r.txt").write_text("one two three four six\n", "utf-8")
    command = ["score", tmp_path / "a.txt", "--references", tmp_path / "r.txt", "--metrics"]
    whole = exadec(*command, "rouge1_recall,bleu,bleu_lc")
    lines = whole.stdout.splitlines()
    assert lines[0].startswith("ROUGE-1 recall 80.00 [")
    assert "rouge-1|recall|cut:no|" in lines[0]
    assert float(lines[1].split()[1]) < 66 < float(lines[2].removeprefix("BLEU (lower case) ").split()[0])
    assert "case:lc" in lines[2]
    cut = exadec(*command, "rouge1_recall", "--bytes", "13")
    assert cut.stdout.startswith("ROUGE-1 recall at 13 bytes 100.00 [")
    assert "rouge-1|recall|cut:13-bytes|" in cut.stdout
    assert_refused(exadec(*command, "recall1", "--bytes", "13"), "recall1 is cut at the reference's length")
    assert exadec(*command, "rouge1", "--bytes", "0").returncode == 2


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
    assert_refused(plain, "parent needs the tables: give --references as records with a 'table' each.")


SOURCES = "A flood cut off Lowmoor on Thursday.\nThe mayor, Ada Brack, refused 12 deals.\n"
EXEMPLARS = "Fire: Highmoor cut off\n\n"
TEXTS = "Flood: Highmoor cut off\nBrack refuses 13 deals\n"
GOLD = "Flood cuts off Lowmoor\nBrack refuses deals\n"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Texts, references, sources and exemplars as plain lines."""
    for name, text in (("texts", TEXTS), ("gold", GOLD), ("sources", SOURCES), ("exemplars", EXEMPLARS)):
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
    return tmp_path


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The same as the outputs of a run."""
    path = tmp_path / "test.outputs.jsonl"
    rows = zip(*(text.split("\n")[:2] for text in (TEXTS, GOLD, SOURCES, EXEMPLARS)), strict=True)
    with path.open("w", encoding="utf-8") as file:
        for uid, (text, gold, source, exemplar) in enumerate(rows):
            row = {"uid": str(uid), "source": source, "exemplar": exemplar or None, "similarity": 0.5, "text": text}
            file.write(json.dumps({**row, "references": [gold], "score": -1.0, "table": None}) + "\n")
    return path


def test_manner_leak_and_support_of_plain_files_and_of_outputs(plain: Path, outputs: Path) -> None:
    files = [plain / f"{name}.txt" for name in ("texts", "gold", "exemplars", "sources")]
    options = ("--references", "--exemplars", "--sources")
    done = exadec("score", files[0], *(item for pair in zip(options, files[1:], strict=True) for item in pair))
    assert done.returncode == 0, done.stderr
    scores = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if "definition:" in line}
    # Leak: Highmoor, of flood, Highmoor and cut. Support: Brack, of Brack and 13; nothing shows Highmoor to be a name.
    assert scores.keys() == {"Manner", "Leak", "Support"}
    assert scores["Leak"] == "33.33"
    assert scores["Support"] == "50.00"
    lines = done.stdout.splitlines()
    assert lines[lines.index(next(line for line in lines if line.startswith("Leak"))) + 1].startswith(
        "  of the references 0.00 ["
    )
    assert "1 of 2 instances have no exemplar; manner and leak leave them out." in done.stderr
    assert "where the exemplar has not" in done.stdout
    assert "100* (100" in done.stdout  # the one exemplar with a colon, followed
    again = exadec("score", outputs, *(item for option in options for item in (option, outputs)))
    assert (again.stdout, again.stderr) == (done.stdout, done.stderr)


def test_comparison_says_that_a_lower_leak_is_better(plain: Path) -> None:
    command = ["score", plain / "texts.txt", "--references", plain / "gold.txt", "--against", plain / "gold.txt"]
    more = ["--exemplars", plain / "exemplars.txt", "--sources", plain / "sources.txt", "--metrics", "leak,manner"]
    lines = exadec(*command, *more).stdout.splitlines()
    against = [line for line in lines if line.startswith("  against ")]
    assert [line.endswith(" (lower is better)") for line in against] == [True, False]
    assert against[0].startswith("  against 0.00: +33.33 [")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "manner"], "manner needs the exemplars: give --exemplars FILE."),
        (["--metrics", "leak", "--exemplars", "exemplars.txt"], "leak needs the sources: give --sources FILE."),
        (["--metrics", "support"], "support needs the sources: give --sources FILE."),
        (["--exemplars", "one.txt"], "one.txt has 1 lines, but texts.txt has 2: they must match line for line."),
        (["--sources", "one.txt"], "one.txt has 1 lines, but texts.txt has 2"),
        (["--exemplars", "empty.txt"], "empty.txt: there is no exemplar in this file."),
        (["--exemplars", "other.jsonl"], "other.jsonl:1: there is no 'exemplar' in this line."),
        (
            ["--exemplars", "bad.jsonl"],
            "bad.jsonl:1: not JSON (Expecting value at column 1); give plain lines, or .jsonl with 'exemplar'.",
        ),
        (["--sources", "other.jsonl"], "the record has no 'source'"),
        (["--metrics", "bleu", "--bytes", "75"], "--bytes cuts texts for ROUGE alone; leave it out, or ask for one"),
        (["--no-stem", "--wordnet", "gone"], "--wordnet is for stems, which --no-stem leaves out; use only one"),
        (["--references", "only_source.jsonl"], "only_source.jsonl: record 1 has neither a 'target' nor 'references'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_that_do_not_fit_get_one_line(plain: Path, arguments: list[str], message: str) -> None:
    (plain / "one.txt").write_text("one\n", "utf-8")
    (plain / "empty.txt").write_text("\n\n", "utf-8")
    (plain / "other.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n', "utf-8")
    (plain / "only_source.jsonl").write_text('{"source": "a"}\n{"source": "b"}\n', "utf-8")
    (plain / "bad.jsonl").write_text("a\nb\n", "utf-8")
    references = [] if "--references" in arguments else ["--references", "gold.txt"]
    assert_refused_in(plain, ["score", "texts.txt", *references, *arguments], message)


def test_score_needs_no_torch(tmp_path: Path) -> None:
    """Scoring is for people who never train a model, too: it must not wait for what it does not use."""
    (tmp_path / "a.txt").write_text("one two\n", "utf-8")
    files = [item for option in ("--references", "--sources", "--exemplars") for item in (option, tmp_path / "a.txt")]
    assert_needs_no_torch("score", tmp_path / "a.txt", *files)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "run", "--out", "thesis.tex"], "thesis.tex: the report is an HTML page; give --out a name that"),
        (["report", "run", "--device", "tpu"], "unknown device 'tpu'"),
        (["report", "run", "--split", "valid"], "valid.outputs.jsonl: no such file"),
        (
            ["report", "run", "--out", "work"],
            "work: this is a folder; --out names the HTML file, such as work/report.html",
        ),
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


def test_several_references_may_be_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sat\na dog ran\n")
    rows = [{"source": "x", "target": "the cat sat"}, {"source": "y", "target": "another text"}]
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "two.txt").write_text("something else\na dog ran\n")
    (tmp_path / "one.txt").write_text("the cat sat\nanother text\n")
    plain, records = (
        exadec("score", tmp_path / "a.txt", "--references", tmp_path / one, "--references", tmp_path / "two.txt")
        for one in ("one.txt", "one.jsonl")
    )
    assert records.stdout == plain.stdout != ""


@pytest.mark.parametrize("row", ['{"target": "the river rose"}', '{"references": ["a flood", "the river rose"]}'])
def test_references_need_no_source(tmp_path: Path, row: str) -> None:
    (tmp_path / "texts.txt").write_text("the river rose\n", "utf-8")
    (tmp_path / "gold.jsonl").write_text(f"{row}\n", "utf-8")
    done = exadec("score", "texts.txt", "--references", "gold.jsonl", "--metrics", "bleu", cwd=tmp_path)
    assert (done.returncode, "BLEU" in done.stdout) == (0, True), done.stderr
