"""Several runs at a time, with real processes: the same runs as one by one, and none that stops the others."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from exadec.cli import app
from exadec.config import Config
from exadec.cores import available_cores
from exadec.errors import InputError
from exadec.training.checkpoint import BEST, LAST, METRICS, open_run
from exadec.training.evaluation import outputs_path
from exadec.training.events import Evaluated, Failed, RunEvent, TrainingEvent, Waiting
from exadec.training.side_by_side import Job, is_finished, plan_jobs, train_side_by_side
from exadec.training.trainer import Interrupted, train
from support.toys import toy_config, toy_records, write_splits

FOUR = ["--variants", "seq2seq,adadec", "--seeds", "1,2"]
BEST_SCORE = "best rougeL on the development set "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_task(tmp_path_factory.mktemp("side_by_side"))


def make_task(folder: Path) -> Path:
    write_splits(folder, toy_records(100, seed=0))
    (folder / "toy.yaml").write_text(json.dumps(toy_config(folder, epochs=2).to_dict()), "utf-8")
    return folder


@pytest.fixture(scope="module")
def jobs(folder: Path) -> list[Job]:
    return plan_jobs([Config.load(folder / "toy.yaml", variant=name) for name in ("seq2seq", "adadec")], [1, 2])


@pytest.fixture(scope="module")
def references(folder: Path, jobs: list[Job]) -> Path:
    """The same runs, one by one in this process, with as many threads as two processes have each."""
    torch.set_num_threads(max(1, available_cores() // 2))
    for job in jobs:
        train(job.config, folder / "references" / job.name)
    return folder / "references"


def exadec_train(folder: Path, *arguments: str) -> int:
    """The exit status of the command, run in this process: only its children are new ones."""
    with pytest.raises(SystemExit) as end:
        app(["train", str(folder / "toy.yaml"), *arguments])
    return int(end.value.code or 0)


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def assert_same_run(folder: Path, reference: Path) -> None:
    """Best weights, last weights, Adam's moments and random states, bit for bit; and the same lines of metrics."""
    for name in (BEST, LAST):
        found, expected = load_file(folder / name), load_file(reference / name)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(found[key], value), key
    lines, expected_lines = (
        [replace(event, seconds=0.0) for event in open_run(one).metrics()] for one in (folder, reference)
    )
    assert lines == expected_lines
    assert [type(line) for line in lines] == [Evaluated, Evaluated]


def stop_at_evaluation(job: Job, number: int) -> None:
    """Just after its score is written, and before the checkpoint that would hold it."""
    seen = []

    def observe(event: TrainingEvent) -> None:
        if isinstance(event, Evaluated):
            seen.append(event)
        if len(seen) == number:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(job.config, job.folder, observe=observe)


@pytest.mark.slow
def test_new_and_resumed_runs_are_bit_for_bit_those_of_single_trainings(
    folder: Path, jobs: list[Job], references: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [job.name for job in jobs] == ["seq2seq-seed1", "seq2seq-seed2", "adadec-seed1", "adadec-seed2"]
    *_, interrupted, without_checkpoint = jobs  # the first two are missing
    stop_at_evaluation(interrupted, 2)
    kept = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(references / without_checkpoint.name, without_checkpoint.folder, ignore=kept)
    assert exadec_train(folder, *FOUR, "--at-once", "2", "--resume") == 0
    shown = capfd.readouterr().err
    for job in jobs:
        assert_same_run(folder / "work" / job.name, references / job.name)
        assert f"{folder / 'work' / job.name}: {BEST_SCORE}" in shown
    assert shown.count(" (50 of 100 instances).") == len(jobs)
    assert shown.splitlines()[-1] == f"exadec report {' '.join(str(job.folder) for job in jobs)}"


@pytest.mark.slow
def test_finished_runs_are_left_alone_and_one_that_fails_does_not_stop_the_next(
    folder: Path, jobs: list[Job], references: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for job in jobs:
        shutil.rmtree(job.folder, ignore_errors=True)
    first, damaged, missing, last = jobs
    for job in (first, last):
        shutil.copytree(references / job.name, job.folder)
    damaged.folder.write_text("not a run", "utf-8")
    before = times(first.folder) | times(last.folder)
    assert exadec_train(folder, *FOUR, "--resume") == 2
    shown = capfd.readouterr().err
    assert times(first.folder) | times(last.folder) == before
    for job in (first, missing, last):
        assert f"{job.folder}: {BEST_SCORE}" in shown
    assert f"{damaged.name}: {damaged.folder}: a file is in the way; choose another folder for the run." in shown
    assert f"{damaged.folder}: {BEST_SCORE}" not in shown
    assert "Traceback" not in shown
    open_run(missing.folder).load_model()
    damaged.folder.unlink()


@pytest.mark.slow
def test_finished_means_this_training_to_its_end(folder: Path, jobs: list[Job], references: Path) -> None:
    job = Job(jobs[0].config, references / jobs[0].name)
    exemplars = open_run(job.folder).facts["exemplars"]
    assert is_finished(job, exemplars)
    assert is_finished(replace(job, config=replace(job.config, folder="a copy of the project")), exemplars)
    assert not is_finished(job, "other exemplars")
    assert not is_finished(Job(jobs[1].config, job.folder), exemplars)
    assert not is_finished(Job(job.config, folder / "nowhere"), exemplars)
    with_outputs = replace(job, evaluate=True)
    assert not is_finished(with_outputs, exemplars)
    outputs_path(job.folder, "test").touch()
    assert is_finished(with_outputs, exemplars)
    outputs_path(job.folder, "test").unlink()
    begun = Job(job.config, folder / "begun")
    stop_at_evaluation(begun, 2)  # its checkpoint is that of the first of two epochs
    assert not is_finished(begun, exemplars)


def test_a_process_that_is_killed_has_failed(folder: Path, jobs: list[Job]) -> None:
    job = Job(jobs[0].config, folder / "work" / "killed")
    events: list[RunEvent] = []

    def kill_the_first() -> None:
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    assert train_side_by_side([job], observe=lambda _, event: events.append(event)) == [job]
    killer.join()
    assert events == [Waiting(), Failed("the process ended with status -9.")]


def test_without_seeds_a_run_is_named_after_its_variant(folder: Path) -> None:
    config = toy_config(folder)
    (job,) = plan_jobs([config])
    assert job == Job(config, folder / "work" / "adadec")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (FOUR, "work/adadec-seed2: the run already exists; use `resume=True` to continue it or"),
        ([*FOUR, "--run", "run"], "--run names the folder of one run, but 4 were asked for."),
        (["--seeds", "1,x"], "--seeds takes whole numbers separated by commas, such as 1,2,3, but got '1,x'."),
        (["--seeds", "3,3"], "work/adadec-seed3: two of the runs would go into this folder."),
        (["--variants", "seq2seq,bert"], "unknown variant 'bert'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_impossible_requests_are_refused_before_anything_starts(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    folder = make_task(tmp_path)
    (folder / "work" / "adadec-seed2").mkdir(parents=True)
    (folder / "work" / "adadec-seed2" / "last.safetensors").touch()
    before = times(folder)
    with pytest.raises(InputError) as refusal:
        app(["train", str(folder / "toy.yaml"), *arguments])
    assert message in str(refusal.value)
    assert times(folder) == before


def test_no_run_at_a_time_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="`at_once` must be at least 1, but is 0 instead"):
        train_side_by_side(plan_jobs([toy_config(folder)]), at_once=0)


@pytest.mark.parametrize(
    ("number", "to_all", "first"),
    [(signal.SIGINT, True, 7), (signal.SIGINT, False, 17), (signal.SIGTERM, False, 27)],
    ids=["ctrl-c", "kill -INT", "terminated"],
)
def test_signal_leaves_usable_runs_and_starts_no_further_one(
    folder: Path, number: signal.Signals, to_all: bool, first: int
) -> None:
    seeds = (first, first + 1, first + 2)
    settings = ["--set", "training.epochs=9999", "--set", "training.patience=9999"]
    command = [sys.executable, "-W", "error", "-m", "exadec", "train", str(folder / "toy.yaml"), *settings]
    command += ["--seeds", ",".join(map(str, seeds)), "--at-once", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    runs = [folder / "work" / f"adadec-seed{seed}" for seed in seeds]
    deadline = time.monotonic() + 60
    while not all((run / METRICS).is_file() and (run / METRICS).stat().st_size for run in runs[:2]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = children_of(process.pid)
    assert len(started) >= 2
    if to_all:
        os.killpg(process.pid, number)  # what a terminal does: to all processes in the foreground
    else:
        process.send_signal(number)  # what `kill` or a service manager does: to the first process alone
    _, shown = process.communicate(timeout=30)
    assert process.returncode == 130, shown
    assert "Interrupted. The runs that have started are usable; repeat the command with --resume to continue." in shown
    assert "Traceback" not in shown
    for run in runs[:2]:
        open_run(run).load_model()
        assert (run / LAST).is_file()
    assert not runs[2].exists()
    deadline = time.monotonic() + 10  # the tracker of multiprocessing ends last
    while any(Path(f"/proc/{child}").exists() for child in started):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(number: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(number)], capture_output=True, text=True, check=False)
    return [int(one) for one in listed.stdout.split()]
