"""The command `experiment`, in a real process."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from exadec.cli.experiment import _say_outcome
from exadec.experiment.driver import Outcome, State, find_state
from exadec.experiment.plan import load_plan
from support.command import assert_refused, exadec
from support.plans import write_plan, write_task


@pytest.mark.slow
def test_dry_run_then_run_then_tables_from_results_alone(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = write_plan(tmp_path)
    listed = exadec("experiment", plan, "--dry-run", "--only", "*adadec*")
    assert listed.stdout == "to do    toy-adadec-seed1    time unknown\n"
    assert listed.stderr == "Runs done: 0. To do: 1.\n"
    for order in (["seq2seq", "adadec"], ["adadec", "seq2seq"]):
        patterns = [word for variant in order for word in ("--only", f"*-{variant}-*")]
        listed = exadec("experiment", plan, "--dry-run", *patterns)
        assert [line.split()[2] for line in listed.stdout.splitlines()] == [f"toy-{name}-seed1" for name in order]
    assert not (tmp_path / "work").exists()
    assert not (tmp_path / "results").exists()
    done = exadec("experiment", plan)
    assert done.returncode == 0, done
    page = tmp_path / "results" / "tables.md"
    assert f"Tables: {page}" in done.stderr
    listed = exadec("experiment", plan, "--dry-run")
    assert listed.stdout == "done     toy-seq2seq-seed1\ndone     toy-adadec-seed1\n"
    written = {path: path.read_bytes() for path in page.parent.iterdir()}
    for path in (page, *tmp_path.glob("*.jsonl")):
        path.unlink()
    again = exadec("experiment", plan, "--tables-only")
    assert again.returncode == 0, again
    assert {path: path.read_bytes() for path in page.parent.iterdir()} == written


@pytest.mark.slow
def test_a_failing_run_is_named_and_the_status_is_two(tmp_path: Path) -> None:
    write_task(tmp_path)
    settings = {"wild": ["training.learning_rate=1e30"]}
    tables = {"t": {"corpora": ["toy"], "variants": ["seq2seq"], "settings": ["default", "wild"]}}
    done = exadec("experiment", write_plan(tmp_path, settings=settings, tables=tables))
    assert done.returncode == 2
    assert "toy-seq2seq-wild-seed1 failed: " in done.stderr
    assert "Traceback" not in done.stderr
    rows = (tmp_path / "results" / "tables.md").read_text("utf-8").splitlines()
    assert next(row for row in rows if row.startswith("| wild")).startswith("| wild | not yet")
    assert not next(row for row in rows if row.startswith("| default")).startswith("| default | not yet")


@pytest.mark.slow
def test_ctrl_c_leaves_what_a_second_call_finishes(tmp_path: Path) -> None:
    write_task(tmp_path, epochs=100_000, patience=100_000)
    plan = write_plan(tmp_path, tables={"t": {"corpora": ["toy"], "variants": ["seq2seq"]}})
    command = [sys.executable, "-m", "exadec", "experiment", str(plan)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(tmp_path.glob("work/runs/*/last.safetensors")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130, shown
    assert "Runs still to do: 1. Repeat the command to go on." in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("minutes", "seconds", "expected"),
    [
        (None, 600.0, "Repeat the command to go on."),
        (5.0, 60.0, "Repeat the command to go on."),
        (5.0, None, "Repeat the command to go on."),
        (5.0, 600.0, "The shortest is expected to take 10.0 minutes, so none was started; allow more."),
    ],
)
def test_it_says_so_if_no_run_fits_into_the_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, minutes: float | None, seconds: float | None, expected: str
) -> None:
    write_task(tmp_path)
    state = find_state(load_plan(write_plan(tmp_path)))
    state = State([replace(task, seconds=seconds) for task in state.tasks], {})
    _say_outcome(Outcome(left=[task.name for task in state.tasks]), state, minutes)
    assert " ".join(capsys.readouterr().err.split()) == f"Runs still to do: 2. {expected}"


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"tabels": {}}, [], "unknown key `tabels`; did you mean `tables`?"),
        ({}, ["--only", "news*"], "no run of plan.yaml has a name like 'news*'"),
        ({}, ["--dry-run", "--tables-only"], "use only one of them"),
        ({}, ["--tables-only"], "there are no results yet"),
    ],
)
def test_mistakes_get_one_line_and_status_two(
    tmp_path: Path, changes: dict[str, object], arguments: list[str], message: str
) -> None:
    write_task(tmp_path)
    write_plan(tmp_path, **changes)
    assert_refused(exadec("experiment", "plan.yaml", *arguments, cwd=tmp_path), message)
    assert not (tmp_path / "work").exists()


def test_a_plan_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(json.dumps(["a"]), "utf-8")
    assert_refused(exadec("experiment", tmp_path / "plan.yaml"), "expected sections")
