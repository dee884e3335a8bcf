"""`exadec generate` and `exadec swap`, as a user meets them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exadec import load
from exadec.cli.writing import _read_record
from exadec.request import Request
from exadec.styles import Mixture
from exadec.training.checkpoint import open_run
from support.command import SOURCE, assert_refused, assert_refused_in, exadec
from support.forked import run_forked


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


def test_ctrl_c_promises_no_more_than_generate_can_keep(run: Path) -> None:
    command = [sys.executable, "-m", "exadec", "generate", str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdin.write(f"{SOURCE}\n")
        process.stdin.flush()
        written = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "Interrupted.\n"
    assert (written.strip() != "", process.returncode) == (True, 130)


@pytest.mark.parametrize(("told", "reads", "group"), [(False, False, None), (False, True, "Oak"), (True, False, "Oak")])
def test_group_of_a_record_is_read_by_models_that_know_groups(told: bool, reads: bool, group: str | None) -> None:
    one = _read_record(Request(""), told, reads, '{"source": "n1", "group": "Oak"}', "stdin:1")
    assert (one.source, one.group) == ("n1", group)


def test_long_sources_are_cut_and_counted(run: Path) -> None:
    done = exadec("generate", run, stdin=("n1 " * 500 + "\n" + SOURCE + "\n").encode())
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    limit = open_run(run).config.corpus.max_source
    assert f"1 source was longer than {limit} pieces, and cut." in done.stderr
    done = exadec("generate", run, "--exemplar", "up n1 " * 300, stdin=f"{SOURCE}\n{SOURCE}\n".encode())
    limit = open_run(run).config.corpus.max_target
    assert f"2 exemplars were longer than {limit} pieces, and cut." in done.stderr


def test_swap_shows_the_same_source_in_several_manners(run: Path) -> None:
    done = exadec("swap", run, "--source", SOURCE, "--exemplar", "up n1 k1", "--exemplar", "down k1 n1")
    assert done.returncode == 0, done.stderr
    for text in (SOURCE, "up n1 k1", "down k1 n1"):
        assert text in done.stdout


def test_guidance_is_refused_in_one_line_for_a_model_that_cannot_be_guided(run: Path, tmp_path: Path) -> None:
    unguided = Path(shutil.copytree(run, tmp_path / "run"))
    config = unguided / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("exemplar_skipping: 0.1", "exemplar_skipping: 0.0"), "utf-8")
    message = "was not trained to write without an exemplar: set it to 0, or train one with model.exemplar_skipping=0.1"
    asked = ["--corpus", run.parent / "work" / "corpus"]
    for command in (
        ["generate", unguided, "--exemplar", "up n1", "--set", "search.guidance=1"],
        ["generate", unguided, "--split", "test", "--set", "search.guidance=1", *asked],
        ["swap", unguided, "--source", "n1 k1", "--set", "search.guidance=1", *asked],
        ["swap", unguided, "--study", 3, "--guidance", "0,1", *asked],
    ):
        assert_refused(exadec(*command), message)


def test_a_study_is_shown_and_written(run: Path, tmp_path: Path) -> None:
    done = exadec("swap", run, "--study", 6, "--guidance", "1,0", "--seed", 2, "--out", tmp_path / "study")
    assert done.returncode == 0, done.stderr
    for text in (
        "6 swaps of run (adadec), seed 2",
        "there are no groups to swap between",
        "Swapped, w = 0",
        "Swapped, w = 1",
    ):
        assert text in " ".join(done.stdout.split())
    assert f"Study: {tmp_path / 'study' / 'study.md'}" in done.stderr
    numbers = json.loads((tmp_path / "study" / "study.json").read_text("utf-8"))
    assert [strength["guidance"] for strength in numbers["strengths"]] == [0, 1]
    assert "--guidance 1,0" in (tmp_path / "study" / "study.md").read_text("utf-8")


def test_a_study_takes_exemplars_from_a_file(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("Up n9 k2\n\nn9: down k2\n", "utf-8")
    done = exadec("swap", run, "--study", 5, "--exemplars", path, "--out", tmp_path / "study")
    assert done.returncode == 0, done.stderr
    assert "2 texts that were given" in " ".join(done.stdout.split())
    assert f"--exemplars {path}" in (tmp_path / "study" / "study.md").read_text("utf-8")
    path.write_text("Up n9 k2\n", "utf-8")
    shown = " ".join(exadec("swap", run, "--study", 5, "--exemplars", path).stdout.split())
    assert "Exemplars: 1 text that was given." in shown
    path.write_text(" \n", "utf-8")
    assert_refused(exadec("swap", run, "--study", 5, "--exemplars", path), "there is no exemplar in this file")
    assert_refused(exadec("swap", run, "--study", 5, "--exemplars", tmp_path / "none"), "no such file")


def test_a_study_uses_the_search_settings_and_the_whole_test_set_at_most(run: Path) -> None:
    overrides = ["--set", "search.guidance=0.5", "--set", "search.beam_size=1", "--set", "search.max_length=2"]
    done = exadec("swap", run, "--study", 500, *overrides)
    assert_refused(done, "no training target is left to swap in; ask for fewer.")
    done = exadec("swap", run, "--study", 3, *overrides)
    assert "Swapped, w = 0.5" in done.stdout
    assert done.stderr == ""


def test_a_run_that_was_copied_away_takes_its_corpus_from_an_option(run: Path, folder: Path, tmp_path: Path) -> None:
    copied, corpus = shutil.copytree(run, tmp_path / "inbox" / "run"), folder / "work" / "corpus"
    before = sorted(path.name for path in corpus.parent.iterdir())
    done = exadec("generate", copied, stdin=SOURCE.encode())
    looked = f"{tmp_path}/inbox/corpus nor in {tmp_path}/inbox/work/corpus"
    assert_refused(done, f"{copied}: the corpus of this run is not in {looked}; say where it is with --corpus FOLDER")
    assert_refused(
        exadec("generate", copied, "--corpus", tmp_path, stdin=SOURCE.encode()), f"{tmp_path}: not a prepared corpus"
    )
    expected = exadec("generate", run, "--json", stdin=SOURCE.encode()).stdout
    assert json.loads(expected)["exemplar"]
    done = exadec("generate", copied, "--json", "--corpus", corpus, stdin=SOURCE.encode())
    assert (done.returncode, done.stdout) == (0, expected)
    done = exadec("generate", copied, "--split", "test", "--corpus", corpus)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 200), done.stderr
    done = exadec("swap", copied, "--study", 3, "--corpus", corpus, "--out", tmp_path / "study")
    assert done.returncode == 0, done.stderr
    assert f"--corpus {corpus}" in (tmp_path / "study" / "study.md").read_text("utf-8")
    assert {path.name for path in corpus.parent.iterdir()} - {*before, "index-words-raw"} == set()


@pytest.mark.parametrize("counted", [True, False], ids=["with its terms", "without its terms"])
def test_a_read_only_project_writes_with_an_index_in_memory(
    run: Path, folder: Path, tmp_path: Path, counted: bool
) -> None:
    expected = exadec("generate", run, "--json", stdin=SOURCE.encode()).stdout
    assert json.loads(expected)["exemplar"]
    kept = shutil.ignore_patterns("index-*", *([] if counted else ["terms-*"]))
    theirs = shutil.copytree(folder / "work", tmp_path / "work", ignore=kept)
    shutil.copytree(run, theirs / "run", ignore=kept)
    everything = [theirs, *theirs.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    said = "the index for new text is in memory only, and has to be built again next time.\n"
    try:
        commands = [["generate", "work/run", "--json"], ["swap", "work/run", "--source", SOURCE]]
        for command in [*commands, ["export", "work/run", "--out", "packed.exadec", "--with-exemplars"]]:
            done = run_forked(command, tmp_path, SOURCE.encode(), strict=True, heeding_modes=True)
            assert done.status == 0, done.errors
            assert done.errors.count(said) == 1
            assert f"{theirs}/index-words-raw: Permission denied" in done.errors
            if command[0] == "generate":
                assert done.out == expected
        assert sorted(theirs.rglob("*")) == sorted(everything[1:])
        done = run_forked(["generate", "work/run", "--split", "test"], tmp_path, strict=True, heeding_modes=True)
        assert (done.status, len(done.errors.splitlines())) == (2, 1), done.errors
    finally:
        for path in everything:
            path.chmod(0o755)
    packed = exadec("generate", tmp_path / "packed.exadec", "--json", stdin=SOURCE.encode())
    assert packed.stdout == expected


def test_an_unknown_group_is_refused_before_an_index_is_built(run: Path, folder: Path, tmp_path: Path) -> None:
    kept = shutil.ignore_patterns("index-*")
    theirs = shutil.copytree(folder / "work", tmp_path / "work", ignore=kept)
    shutil.copytree(run, theirs / "run", ignore=kept)
    arguments = ["generate", "work/run", "--group", "nobody"]
    assert_refused_in(tmp_path, arguments, "no exemplar has the group 'nobody'.")


def test_interrupted_pipes_are_no_error(run: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{SOURCE}\n" * 3000, "utf-8")  # more than a pipe holds
    command = f"set -o pipefail; {sys.executable} -m exadec generate {run} < {lines} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_bad_line_has_an_empty_result_and_disturbs_no_other(run: Path) -> None:
    lines = [SOURCE.encode(), b"\xff\xfe", b"  ", b"n2 k2 house3", b"n1 \x07 k1"]
    done = exadec("generate", run, stdin=b"\n".join(lines) + b"\n")
    assert done.returncode == 2
    alone = exadec("generate", run, stdin=SOURCE.encode() + b"\nn2 k2 house3\n").stdout.splitlines()
    assert done.stdout.splitlines() == [alone[0], "", "", alone[1], ""]
    assert done.stderr.splitlines() == [
        "<stdin>:2: not valid UTF-8 (byte 1 of the line).",
        "<stdin>:3: the line is empty.",
        "<stdin>:5: the source has a control character (U+0007); take it out.",
        "No text for 3 of 5 lines; their results are empty.",
    ]


@pytest.mark.parametrize("option", ["--n-best", "--vary"])
def test_every_line_has_as_many_results(run: Path, option: str) -> None:
    lines = [SOURCE.encode(), b" ", b"n2 k2 house3"]
    done = exadec("generate", run, option, 2, stdin=b"\n".join(lines) + b"\n")
    found = done.stdout.splitlines()
    assert len(found) == 6
    assert found[2:4] == ["", ""]
    assert found[0]
    assert found[4]


def test_errors_are_the_same_in_json_and_as_messages(run: Path) -> None:
    rows = [b"{", b'{"source": 5, "uid": "b"}', b'{"source": "n1", "exemplar": ""}', b'{"source": "n1 k1"}']
    done = exadec("generate", run, "--records", "--json", stdin=b"\n".join(rows))
    errors = [json.loads(line).get("error") for line in done.stdout.splitlines()]
    assert errors == [*done.stderr.splitlines()[:3], None]
    assert [error.split(" ")[0] for error in errors[:3]] == ["<stdin>:1:", "<stdin>:2:", "<stdin>:3:"]


def test_records_that_are_read_as_text_are_noticed(run: Path) -> None:
    row = json.dumps({"source": SOURCE}).encode()
    hint = "The first line looks like a JSON record, but is read as text; --records reads records."
    assert hint in exadec("generate", run, stdin=row).stderr
    assert exadec("generate", run, "--records", stdin=row).stderr == ""
    assert hint not in exadec("generate", run, stdin=SOURCE.encode() + b"\n" + row).stderr


def test_texts_vary_with_their_exemplars(run: Path) -> None:
    row = json.dumps({"uid": "b", "source": SOURCE, "exemplar": "up n1 k1"})
    sources = [SOURCE, *(f"n{i} k{i % 5} house{i}" for i in range(8))]
    done = exadec("generate", run, "--vary", "3", "--json", stdin="\n".join(sources).encode())
    assert done.returncode == 0, done
    found = [*map(json.loads, done.stdout.splitlines())]
    expected = [load(run).vary(source, 3) for source in sources]
    varied = [[row, *row["alternatives"]] for row in found]
    texts = [[one["text"] for one in several] for several in varied]
    assert texts == [[one.text for one in several] for several in expected]
    for name in ("exemplar", "exemplar_id", "similarity"):
        assert [[one[name] for one in several] for several in varied] == [
            [getattr(one, name) for one in several] for several in expected
        ]
    assert all(0 < one["similarity"] <= 1 for several in varied for one in several)
    assert all(len(set(several)) == len(several) for several in texts)
    assert max(map(len, texts)) > 1
    alone = exadec("generate", run, "--vary", "3", stdin=b"unheard")
    assert (alone.returncode, alone.stdout) == (2, "\n\n\n")
    assert "<stdin>:1: no exemplar is like this source, so there is nothing to vary." in alone.stderr
    refused = exadec("generate", run, "--vary", "3", "--records", stdin=row.encode())
    assert refused.returncode == 2
    assert "<stdin>:1: --vary looks for exemplars by itself" in refused.stderr
    row = json.dumps({"source": SOURCE, "forbidden": ["up"]})
    kept = exadec("generate", run, "--vary", "3", "--records", stdin=row.encode())
    assert kept.returncode == 0, kept
    expected_texts = [one.text for one in load(run).vary(Request(SOURCE, forbidden=("up",)), 3)]
    assert kept.stdout.splitlines() == expected_texts + [""] * (3 - len(expected_texts))
    assert not any("up" in text.split() for text in expected_texts)


def test_records_bring_their_own_exemplar_group_and_name(run: Path) -> None:
    rows: list[object] = [
        {"uid": "a", "source": SOURCE, "exemplar": "up n1 k1"},
        {"source": SOURCE, "target": "ignored"},
        {"uid": 7, "table": [["n1", "k1"], ["k1", "n1"]]},
        {"uid": "b", "source": SOURCE, "exemplar": "xyzzy"},
        {"uid": "c", "source": SOURCE, "group": "nobody"},
        {"uid": "d"},
        {"source": SOURCE, "exemplar": 5},
        [1],
    ]
    given = "\n".join(map(json.dumps, rows)) + "\n{\n"
    done = exadec("generate", run, "--records", "--json", stdin=given.encode())
    assert done.returncode == 2
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.get("uid") for row in found] == ["a", None, "7", "b", "c", "d", None, None, None]
    assert [bool(row["text"]) for row in found] == [True] * 3 + [False] * 6
    assert found[0]["exemplar"] == "up n1 k1"
    assert found[1]["exemplar"] not in (None, "up n1 k1")
    assert [row["error"] for row in found[3:5]] == [
        "<stdin>:4: the exemplar 'xyzzy' has no word the model knows; give another one.",
        "<stdin>:5: no exemplar has the group 'nobody'.",
    ]
    assert all(row["error"].startswith(f"<stdin>:{line}: ") for line, row in enumerate(found[5:], 6))
    assert "<stdin>:4: the exemplar 'xyzzy' has no word" in done.stderr
    plain = exadec("generate", run, "--records", "--exemplar", "up n1 k1", stdin=json.dumps(rows[1]).encode())
    assert plain.stdout.strip() == found[0]["text"]


def test_records_ask_for_what_a_server_takes(run: Path) -> None:
    mixture = [{"exemplar": "up n1 k1", "weight": 3}, {"exemplar": "down k1 n1"}]
    rows: list[object] = [
        {"source": SOURCE, "mixture": mixture},
        {"source": SOURCE, "exemplar": "up n1 k1", "group": "nosuch"},
        {"source": SOURCE, "options": {"guidance": 1}},
        {"source": SOURCE, "options": "of another program"},
    ]
    done = exadec("generate", run, "--records", "--json", stdin="\n".join(map(json.dumps, rows)).encode())
    assert done.returncode == 2
    mixed, *refused, foreign = map(json.loads, done.stdout.splitlines())
    expected = Mixture((("up n1 k1", 3.0), ("down k1 n1", 1.0)))
    assert mixed["text"] == load(run).write(Request(SOURCE, mixture=expected)).text
    assert mixed["exemplar"] == "up n1 k1"
    assert "<stdin>:2: 'exemplar' gives the exemplar and 'group' says where to look" in refused[0]["error"]
    assert "<stdin>:3: a record has no 'options'" in refused[1]["error"]
    assert "--set search.NAME=VALUE" in refused[1]["error"]
    assert foreign["text"]


def test_bulk_input_keeps_its_order_and_comes_as_it_is_written(run: Path) -> None:
    """The texts of many lines are those of single lines; one line is answered before the next one is asked for."""
    sources = [f"n{number % 7} k{number % 5} house{number % 3} " * (1 + number % 4) for number in range(150)]
    done = exadec("generate", run, "--set", "search.batch_size=8", stdin="\n".join(sources).encode())
    assert done.returncode == 0, done.stderr
    texts = done.stdout.splitlines()
    assert len(texts) == 150
    command = [sys.executable, "-m", "exadec", "generate", str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (3, 140, 77):
            process.stdin.write(sources[number] + "\n")
            process.stdin.flush()
            assert process.stdout.readline().rstrip("\n") == texts[number]
        process.stdin.close()


def test_a_split_is_written_as_json_and_with_several_texts_each(run: Path) -> None:
    plain = exadec("generate", run, "--split", "test").stdout.splitlines()
    done = exadec("generate", run, "--split", "test", "--json", "--n-best", 2)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == plain
    assert all(len(row["alternatives"]) == 1 and row["uid"] and row["exemplar"] for row in rows)
    lines = exadec("generate", run, "--split", "test", "--n-best", 2).stdout.splitlines()
    assert lines == [text for row in rows for text in (row["text"], row["alternatives"][0][0])]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "nowhere"], "nowhere: not a run folder"),
        (["generate", "run", "--split", "tset"], "unknown split 'tset'; the splits are train, valid, test."),
        (["generate", "run", "--device", "gpu"], "unknown device 'gpu'; the devices are cpu, cuda,"),
        (["generate", "run", "--split", "test", "--device", "gpu"], "unknown device 'gpu'"),
        (["generate", "run", "--split", "test", "--n-best", "9"], "--n-best must be from 1 to the beam size 2."),
        (["generate", "run", "--split", "test", "--records"], "leave out --exemplar, --group, --style and --records."),
        (["generate", "run", "--group", "nobody"], "no exemplar has the group 'nobody'."),
        (["generate", "run", "--vary", "0"], "--vary must be at least 1, but is 0."),
        (["generate", "run", "--vary", "2", "--n-best", "2"], "--vary looks for exemplars; leave out --exemplar,"),
        (["generate", "run", "--n-best", "9"], "--n-best must be from 1 to the beam size 2."),
        (["generate", "run", "--exemplar", "xyzzy"], "the exemplar 'xyzzy' has no word the model knows"),
        (["swap", "run", "--source", "n1", "--exemplar", "qwerty"], "the exemplar 'qwerty' has no word the model"),
        (["generate", "run", "--set", "model.hidden=3"], "only search.* settings of a trained run can change"),
        (["swap", "run", "--source", "n1", "--set", "search.stopping=never"], "`search.stopping` must be one of"),
        (["swap", "run"], "say what to write: --source TEXT for one swap, or --study N"),
        (["swap", "run", "--source", "n1", "--study", "3"], "leave out --source and --exemplar"),
        (["swap", "run", "--source", "n1", "--device", "tpu"], "unknown device 'tpu'"),
        (["swap", "run", "--study", "3", "--device", "tpu"], "unknown device 'tpu'"),
        (
            ["swap", "run", "--study", "3", "--guidance", "0", "--set", "search.guidance=1"],
            "--guidance takes the place of --set search.guidance; use only one of them.",
        ),
        (["swap", "run", "--source", "n1", "--guidance", "1"], "use --set search.guidance=W"),
        (["swap", "run", "--study", "0"], "a study needs at least 1 swap, but 0 were asked for."),
        (["swap", "run", "--study", "3", "--seed", "-1"], "--seed must be at least 0, but is -1."),
        (["swap", "run", "--study", "3", "--guidance", "1,x"], "such as 0,0.5,1, but is '1,x'."),
        (["swap", "run", "--study", "3", "--guidance", "-1"], "but is '-1'."),
        (["swap", "run", "--study", "3", "--guidance", "1,1.0"], "but is '1,1.0'."),
        (["swap", "run", "--study", "3", "--guidance", "inf"], "but is 'inf'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("run")
def test_mistakes_get_one_line_and_status_two(folder: Path, arguments: list[str], message: str) -> None:
    assert_refused_in(folder, arguments, message)


def test_a_closed_stdin_is_said(run: Path) -> None:
    command = [sys.executable, "-m", "exadec", "generate", str(run)]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert_refused(done, "stdin is closed")


def test_text_is_utf8_in_every_locale(run: Path) -> None:
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "exadec", "generate", str(run), "--json", "--exemplar"]
    done = subprocess.run([*command, "up é n1"], input=SOURCE.encode(), capture_output=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exemplar"] == "up é n1"
    done = subprocess.run([*command, b"up \xe9"], input=SOURCE.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == "exadec: the exemplar is not valid UTF-8.\n"


def test_facts_are_shown_with_json_alone(run: Path) -> None:
    source = b"house3 house3 house3 n4 k5 on Monday"
    exemplar = ("--exemplar", "up n1 k1", "--set", "search.facts=mark")
    plain = exadec("generate", run, *exemplar, stdin=source)
    row = json.loads(exadec("generate", run, *exemplar, "--json", stdin=source).stdout)
    assert plain.stdout == f"{row['text']}\n"
    assert isinstance(row["facts"], list)
    without = json.loads(exadec("generate", run, "--exemplar", "up n1 k1", "--json", stdin=source).stdout)
    assert "facts" not in without
    done = exadec("generate", run, "--split", "test", "--json", "--set", "search.facts=strict")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    assert all(fact["licensed"] for row in rows for fact in row["facts"])
