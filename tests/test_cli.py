"""The command line as a user meets it: real processes, pipes, and one clear line for every mistake."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from toys import toy_config, toy_records, write_splits

from exadec.config import Config
from exadec.textmetrics.metrics import METRICS
from exadec.training.checkpoint import open_run
from exadec.training.trainer import train

SOURCE = "house1 house1 n3 k5"


def exadec(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "exadec", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    """Exit status 2, one line on stderr that holds the message, nothing on stdout."""
    assert done.returncode == 2, done
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    write_splits(folder, toy_records(200, seed=0))
    config = toy_config(folder, epochs=2)
    (folder / "toy.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return train(Config.load(folder / "toy.yaml", variant="adadec"), folder / "run").folder


def test_prepare_retrieve_train_generate_report(folder: Path) -> None:
    done = exadec("prepare", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "200 train, 200 valid, 200 test records" in done.stderr
    done = exadec("retrieve", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "mean similarity" in done.stderr
    for variant in ("seq2seq", "adadec"):
        done = exadec("train", folder / "toy.yaml", "--variant", variant, "--set", "training.epochs=1")
        assert done.returncode == 0, done.stderr
        assert "decoder P and Q" in done.stderr
        formula = "4 gates × 4d², bias d² a gate" if variant == "adadec" else "4 gates × 2d², bias d a gate"
        assert formula in done.stderr
        assert done.stdout == ""
        done = exadec("generate", folder / "work" / variant, "--split", "test")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 200
    report = folder / "report.html"
    done = exadec("report", folder / "work" / "seq2seq", folder / "work" / "adadec", "--out", report)
    assert done.returncode == 0, done.stderr
    assert "AdaDec" in done.stdout
    assert report.is_file()


def test_generate_reads_stdin_and_writes_stdout_alone(run: Path) -> None:
    done = exadec("generate", run, "--exemplar", "up n1 k1", stdin=f"{SOURCE}\n{SOURCE}\n".encode())
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""
    done = exadec("generate", run, "--json", "--n-best", 2, stdin=SOURCE.encode())
    row = json.loads(done.stdout)
    greedy = exadec("generate", run, "--set", "search.beam_size=1", stdin=SOURCE.encode())
    assert greedy.returncode == 0, greedy.stderr
    assert row["exemplar"]
    assert 0 < row["similarity"] <= 1
    assert len(row["alternatives"]) == 1


def test_long_sources_are_cut_and_counted(run: Path) -> None:
    done = exadec("generate", run, stdin=("n1 " * 500 + "\n" + SOURCE + "\n").encode())
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    limit = open_run(run).config.corpus.max_source
    assert f"1 sources were longer than {limit} pieces and were cut." in done.stderr


def test_swap_shows_the_same_source_in_several_manners(run: Path) -> None:
    done = exadec("swap", run, "--source", SOURCE, "--exemplar", "up n1 k1", "--exemplar", "down k1 n1")
    assert done.returncode == 0, done.stderr
    for text in (SOURCE, "up n1 k1", "down k1 n1"):
        assert text in done.stdout


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


def test_interrupted_pipes_are_no_error(run: Path) -> None:
    command = f"yes '{SOURCE}' | head -50 | {sys.executable} -m exadec generate {run} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_ctrl_c_stops_the_demo_and_starts_no_further_model(tmp_path: Path) -> None:
    sizes = ["corpus.wire_train=4000", "corpus.wire_outlets=200", "corpus.wire_heldout=20"]
    settings = [part for size in sizes for part in ("--set", size)]
    command = [sys.executable, "-m", "exadec", "demo", "--folder", str(tmp_path / "demo"), *settings]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    started = [tmp_path / "demo" / variant / "metrics.jsonl" for variant in ("seq2seq", "attexp")]
    deadline = time.monotonic() + 120
    while not all(path.is_file() for path in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to all processes in the foreground
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130, shown
    assert "Run the same command again to continue with the unfinished models." in shown
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        "attexp",
        "corpus",
        "exemplars",
        "seq2seq",
        "terms-words-source",
    ]


def test_help_teaches() -> None:
    done = exadec("--help")
    assert done.returncode == 0
    for verb in ("demo", "prepare", "retrieve", "train", "generate", "score", "report", "swap"):
        assert verb in done.stdout
        assert exadec(verb, "--help").returncode == 0
    listed = exadec("score", "--help").stdout
    assert all(name in listed for name in METRICS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "absent.yaml"], "absent.yaml: no such file."),
        (["train", "toy.yaml", "--set", "model.hiden=4"], "unknown key `model.hiden`; did you mean `model.hidden`?"),
        (
            ["train", "toy.yaml", "--set", "exemplars.policy=x"],
            "`exemplars.policy` must be one of nearest, sample, random",
        ),
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
        (["demo", "--set", "exemplars.policy=x"], "`exemplars.policy` must be one of nearest, sample, random"),
        (["train", "toy.yaml", "--variant", "bert"], "unknown variant 'bert'; the variants are seq2seq,"),
        (["train", "toy.yaml", "--run", "run"], "run: the run already exists; use --resume"),
        (["train", "toy.yaml", "--run", "none", "--resume"], "none: there is no run to resume."),
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
        (["train", "toy.yaml", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (["inspect", "toy.yaml", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (["demo", "--folder", "new", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (
            ["prepare", "toy.yaml", "--set", "training.metric=parent"],
            "`training.metric` must be one of rouge1, rouge2, rouge4, rougeL, bleu, but is 'parent' instead.",
        ),
        (["train", "toy.yaml", "--set", "training.metric=rougel"], "`training.metric` must be one of rouge1, rouge2,"),
        (["demo", "--folder", "new", "--set", "training.metric=rougel"], "`training.metric` must be one of rouge1,"),
        (["generate", "nowhere"], "nowhere: not a run folder"),
        (["generate", "run", "--split", "tset"], "unknown split 'tset'; the splits are train, valid, test."),
        (["generate", "run", "--n-best", "9"], "--n-best must be from 1 to the beam size 2."),
        (["generate", "run", "--exemplar", "xyzzy"], "the exemplar 'xyzzy' has no word the model knows"),
        (["swap", "run", "--source", "n1", "--exemplar", "qwerty"], "the exemplar 'qwerty' has no word the model"),
        (["generate", "run", "--set", "model.hidden=3"], "only search.* settings of a trained run can change"),
        (["train", "toy.yaml", "--run", "toy.yaml/run"], "Not a directory"),
        pytest.param(
            ["train", "toy.yaml", "--run", "new", "--set", "training.precision=bfloat16"],
            "`training.precision` is bfloat16, which needs a GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (["train", "toy.yaml", "--run", "new", "--set", "model.glove=gone.txt"], "gone.txt: no such file"),
        (["report", "run", "--split", "valid"], "valid.outputs.jsonl: no such file"),
        (["score", "absent.txt", "--references", "r.txt"], "absent.txt: no such file."),
        (["score", "one.txt", "--references", "one.txt", "--wordnet", "gone"], "gone: there are no exception lists"),
        (["score", "one.txt", "--references", "two.txt"], "two.txt has 2 lines, but one.txt has 1"),
        (["score", "one.txt", "--references", "one.txt", "--metrics", "meteor"], "unknown metric 'meteor'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_line_and_status_two(folder: Path, run: Path, arguments: list[str], message: str) -> None:
    good = '{"source": "a", "target": "b"}\n'
    (folder / "bad.jsonl").write_text(good + "{", "utf-8")
    (folder / "empty.jsonl").write_text("", "utf-8")
    (folder / "mute.jsonl").write_text('{"source": "a"}\n', "utf-8")
    (folder / "latin.jsonl").write_bytes(good.encode() + b'{"source": "\xe9", "target": "b"}\n')
    (folder / "one.txt").write_text("a\n", "utf-8")
    (folder / "two.txt").write_text("a\nb\n", "utf-8")
    before = sorted(folder.rglob("*"))
    assert_refused(exadec(*arguments, stdin=SOURCE.encode(), cwd=folder), message)
    assert sorted(folder.rglob("*")) == before


def test_bad_bytes_on_stdin_are_named_with_their_line(run: Path) -> None:
    done = exadec("generate", run, stdin=SOURCE.encode() + b"\n\xff\xfe\n")
    assert done.returncode == 2
    assert "<stdin>:2: not valid UTF-8" in done.stderr


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


def assert_needs_no_torch(*arguments: object) -> None:
    program = (
        "import sys; from exadec.cli import app\n"
        f"try: app({[str(argument) for argument in arguments]!r})\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_score_needs_no_torch(tmp_path: Path) -> None:
    """Scoring is for people who never train a model, too: it must not wait for what it does not use."""
    (tmp_path / "a.txt").write_text("one two\n", "utf-8")
    assert_needs_no_torch("score", tmp_path / "a.txt", "--references", tmp_path / "a.txt")


def test_inspect_needs_no_torch(folder: Path, run: Path) -> None:
    assert_needs_no_torch("inspect", folder / "toy.yaml")


def test_coverage_of_word_vectors_is_reported(folder: Path) -> None:
    (folder / "vectors.txt").write_text("up " + "0.5 " * 15 + "0.5\n", "utf-8")
    glove = ["--set", "model.glove=vectors.txt", "--set", "model.freeze_embeddings=true"]
    done = exadec("train", "toy.yaml", "--run", "glove", "--set", "training.epochs=1", *glove, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "vectors.txt: vectors for 1 of " in done.stderr
    generated = exadec("generate", "glove", "--exemplar", "up n1 k1", stdin=SOURCE.encode(), cwd=folder)
    assert generated.returncode == 0, generated.stderr


def test_inspect_shows_a_corpus(folder: Path, run: Path) -> None:
    for corpus in (folder / "toy.yaml", folder / "work" / "corpus"):
        done = exadec("inspect", corpus)
        assert done.returncode == 0, done.stderr
        assert "Instances" in done.stdout
        assert "leakage" in done.stdout
    rows = json.loads(exadec("inspect", folder / "work" / "corpus", "--json").stdout)
    assert rows["splits"]["train"]["instances"] == 200
    assert_refused(exadec("inspect", folder), "there is no manifest.json")
