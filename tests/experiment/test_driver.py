"""The driver, with real trainings of a second each: nothing is done twice, and nothing is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from exadec.experiment import results
from exadec.experiment.driver import Outcome, State, find_state, run_plan
from exadec.experiment.plan import Plan, list_trials, load_plan
from exadec.experiment.results import Result, read_results, unpack, write_result
from exadec.files import locked_for_writing
from exadec.textmetrics.bootstrap import resample_all
from exadec.training.checkpoint import BEST, LAST, METRICS, open_run
from exadec.training.evaluation import outputs_path, read_outputs, score_outputs
from exadec.training.events import Doing, Evaluated, Evaluating, RunEvent
from exadec.training.side_by_side import Job
from support.plans import made_up_result, write_plan, write_task

ADADEC = {"corpora": ["toy"], "variants": ["adadec"]}


def names(tasks: list) -> list[str]:
    return [task.name for task in tasks]


def go_on(plan: Plan, **options: Any) -> tuple[State, Outcome]:
    """One call of the command, and where the plan stands before it."""
    state = find_state(plan)
    return state, run_plan(plan, state, **options)


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment: seq2seq, and adadec decoded in two ways."""
    folder = tmp_path_factory.mktemp("finished")
    write_task(folder)
    plan = load_plan(write_finished_plan(folder))
    told = set()

    def observe(job: Job, event: RunEvent) -> None:
        if isinstance(event, Evaluating) and event.split == "test":
            told.add((job.config.model.variant, event.doing))

    state, outcome = go_on(plan, observe=observe)
    assert names(state.to_do) == ["toy-seq2seq-seed1", "toy-adadec-seed1"]
    assert outcome == Outcome()
    assert told == set(product(("seq2seq", "adadec"), get_args(Doing)))  # nobody waits without a word
    return folder


def write_finished_plan(folder: Path, **changes: Any) -> Path:
    tables = {
        "models": {"corpora": ["toy"], "variants": ["seq2seq", "adadec"], "baseline": {"variant": "seq2seq"}},
        "searches": {**ADADEC, "searches": ["default", "greedy"]},
    }
    return write_plan(folder, **{"tables": tables, **changes})


def results_of(plan: Plan) -> list[Result]:
    found = read_results(Path(plan.results))
    return [found[trial.key] for trial in list_trials(plan)]


@pytest.mark.slow
def test_results_hold_what_the_run_holds(finished: Path) -> None:
    plan = load_plan(write_finished_plan(finished))
    seq2seq, adadec, greedy = results_of(plan)
    assert (seq2seq.name, adadec.search, greedy.search) == ("toy-seq2seq-seed1", "default", "greedy")
    assert seq2seq.parameters < adadec.parameters == greedy.parameters
    (task,) = [task for task in find_state(plan).tasks if task.name == adadec.name]
    run = open_run(task.folder)
    assert adadec.settings["model.hidden"] == run.config.model.hidden == 16
    outputs = read_outputs(outputs_path(run.folder, "test"))
    rouge1, rouge_l = score_outputs(["rouge1", "rougeL"], outputs)
    assert adadec.scores["rouge1"].value == round(rouge1.value, 4)
    assert adadec.scores["rougeL"].signature == rouge_l.signature
    np.testing.assert_allclose(unpack(adadec.per_instance["texts"]), rouge_l.per_instance, atol=0.005)
    (copied,) = score_outputs(["rougeL"], [replace(output, text=output.exemplar or "") for output in outputs])
    np.testing.assert_allclose(unpack(adadec.per_instance["exemplars"]), copied.per_instance, atol=0.005)
    found = unpack(adadec.similarities) / 100
    np.testing.assert_allclose(found, [output.similarity for output in outputs], atol=1e-4)
    assert (seq2seq.similarities, list(seq2seq.per_instance)) == ("", ["texts"])
    (resampled,) = resample_all([rouge1])
    np.testing.assert_allclose(unpack(adadec.scores["rouge1"].resampled), resampled, atol=0.005)
    (evaluation,) = [event for event in run.metrics() if isinstance(event, Evaluated)]
    assert (adadec.best_score, adadec.best_epoch) == (evaluation.value, evaluation.epoch)
    assert (adadec.evaluated, adadec.development) == (evaluation.instances, evaluation.split_size)
    assert adadec.inputs == task.inputs
    assert set(adadec.surprise) == {"valid", "test"}
    assert adadec.seconds["whole"] >= adadec.seconds["training"]


@pytest.mark.slow
def test_finished_results_are_used_again_until_something_changes(finished: Path) -> None:
    before = snapshot(finished)
    plan = load_plan(write_finished_plan(finished))
    state, outcome = go_on(plan)
    assert (state.to_do, outcome) == ([], Outcome())
    after = snapshot(finished)
    assert {path: when for path, when in after.items() if path.name != "plan.yaml"} == {
        path: when for path, when in before.items() if path.name != "plan.yaml"
    }
    changed = find_state(load_plan(write_finished_plan(finished, set=["training.learning_rate=0.5"])))
    assert len(changed.to_do) == 2
    assert not {task.folder for task in changed.to_do} & {task.folder for task in state.tasks}
    data = finished / "test.jsonl"
    text = data.read_text("utf-8")
    data.write_text(text + json.dumps({"source": "more", "target": "more"}) + "\n", "utf-8")
    others = find_state(plan).to_do  # the same settings, other data
    data.write_text(text, "utf-8")
    assert len(others) == 2
    assert not {task.folder for task in others} & {task.folder for task in state.tasks}
    assert find_state(plan).to_do == []


@pytest.mark.slow
def test_a_further_metric_is_computed_from_outputs_without_the_weights(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    corpora = {"toy": {"config": str(finished / "toy.yaml")}}
    plan = load_plan(write_finished_plan(folder, corpora=corpora, metrics=["rouge2", "rougeL", "bleu"]))
    for path in folder.rglob("*.safetensors"):
        path.unlink()
    monkeypatch.setattr(results, "find_versions", lambda: {"exadec": "a later one"})
    state, outcome = go_on(plan)
    assert (len(state.to_do), outcome) == (2, Outcome())
    assert all(result.scored == {"exadec": "a later one"} != result.versions for result in results_of(plan))
    assert all({"rouge1", "rouge2", "bleu"} <= result.scores.keys() for result in results_of(plan))  # 1 as before
    renamed = {
        "tables": {"t": {**ADADEC, "searches": ["usual", "narrow"]}},
        "searches": {"usual": [], "narrow": ["search.beam_size=1"]},
    }
    plan = load_plan(write_finished_plan(folder, corpora=corpora, metrics=["rougeL", "rouge4"], **renamed))
    _, outcome = go_on(plan)
    assert outcome == Outcome()
    assert [(result.search, "rouge4" in result.scores) for result in results_of(plan)] == [
        ("usual", True),
        ("narrow", True),
    ]
    assert not list(folder.rglob("*.safetensors"))


@pytest.mark.slow
def test_outputs_that_were_cut_or_damaged_are_decoded_again(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    corpora = {"toy": {"config": str(finished / "toy.yaml")}}
    before = results_of(load_plan(write_finished_plan(folder, corpora=corpora)))
    cut, damaged = folder.rglob("toy-seq2seq*/test.outputs.jsonl"), folder.rglob("test.greedy-*.outputs.jsonl")
    for path in cut:
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:5]), "utf-8")
    for path in damaged:
        os.truncate(path, 100)
    plan = load_plan(write_finished_plan(folder, corpora=corpora, metrics=["rougeL", "bleu"]))
    _, outcome = go_on(plan)
    assert outcome == Outcome()
    for result, earlier in zip(results_of(plan), before, strict=True):
        assert result.scores["rougeL"] == earlier.scores["rougeL"]
        assert "bleu" in result.scores


@pytest.mark.slow
def test_a_damaged_run_stops_no_other_even_with_a_time_limit(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    plan = load_plan(write_finished_plan(folder, corpora={"toy": {"config": str(finished / "toy.yaml")}}))
    shutil.rmtree(plan.results)
    for path in folder.rglob("toy-seq2seq*/last.safetensors"):
        os.truncate(path, 100)
    _, outcome = go_on(plan, minutes=5.0)
    assert set(outcome.failed) == {"toy-seq2seq-seed1"}
    assert {result.name for result in read_results(Path(plan.results)).values()} == {"toy-adadec-seed1"}


@pytest.mark.slow
def test_what_another_process_has_or_has_done_is_left_to_it(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    plan = load_plan(write_finished_plan(folder, corpora={"toy": {"config": str(finished / "toy.yaml")}}))
    kept = Path(shutil.move(plan.results, tmp_path / "kept"))
    state, seen = find_state(plan), list[RunEvent]()
    seq2seq, adadec = (next(task for task in state.tasks if name in task.name) for name in ("seq2seq", "adadec"))
    shutil.copytree(
        kept, plan.results, ignore=shutil.ignore_patterns("*adadec*")
    )  # another process writes it meanwhile
    with locked_for_writing(adadec.folder):
        outcome = run_plan(plan, state, observe=lambda job, event: seen.append(event))
    assert outcome == Outcome(left=[adadec.name])
    assert not any(isinstance(event, Evaluating) for event in seen)
    assert seq2seq.name not in outcome.left


@pytest.mark.slow
def test_two_commands_share_the_work(tmp_path: Path) -> None:
    """While one decodes and scores a trained run, the other one leaves it alone, and does not train it again."""
    write_task(tmp_path)
    path = write_plan(tmp_path, tables={"t": {"corpora": ["toy"], "variants": ["seq2seq", "adadec"]}})
    plan = load_plan(path)
    go_on(plan, at_once=2)
    shutil.rmtree(plan.results)
    command = [sys.executable, "-m", "exadec", "experiment", str(path), "--at-once", "1", "--drop-runs"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert find_state(plan).to_do == []
    assert "training starts" not in "".join(told)
    scored = [text.count("the run has finished") for text in told]
    assert sum(scored) == 2, told  # each run by one of them


def test_time_is_expected_for_what_is_missing_alone(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    corpora = {"toy": {"config": str(finished / "toy.yaml")}}
    scores = find_state(load_plan(write_finished_plan(folder, corpora=corpora, metrics=["rouge1", "rougeL", "rouge2"])))
    assert [task.seconds for task in scores.to_do] == [0.0, 0.0]
    plan = load_plan(write_finished_plan(folder, corpora=corpora))
    seconds = {one.search: one.seconds for one in results_of(plan)[1:]}
    for path in Path(plan.results).glob("*greedy*.json"):
        path.unlink()
    (task,) = find_state(plan).to_do
    assert task.seconds is not None
    assert task.seconds < seconds["default"]["whole"]


@pytest.mark.slow
def test_scores_of_instances_are_those_of_the_plans_main_metric(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    changes = {"corpora": {"toy": {"config": str(finished / "toy.yaml")}}, "main": "rouge1"}
    plan = load_plan(write_finished_plan(folder, **changes))
    assert find_state(plan).to_do == []  # the results have this score, and nothing needs it for each instance
    table = {**ADADEC, "variants": ["seq2seq", "adadec"], "baseline": {"variant": "seq2seq"}, "bands": True}
    plan = load_plan(write_finished_plan(folder, **changes, tables={"t": table}))
    assert {result.main for result in results_of(plan)} == {"rougeL"}
    _, outcome = go_on(plan)
    assert outcome == Outcome()
    for result in results_of(plan):
        assert result.main == "rouge1"
        assert unpack(result.per_instance["texts"]).mean() == pytest.approx(result.scores["rouge1"].value, abs=0.01)
    assert find_state(plan).to_do == []


@pytest.mark.slow
def test_interrupted_run_is_resumed_and_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    write_task(tmp_path, epochs=6, patience=9)
    whole = load_plan(
        write_plan(tmp_path, results=str(tmp_path / "whole"), folder=str(tmp_path / "whole-work"), tables={"t": ADADEC})
    )
    go_on(whole, at_once=1)
    plan = load_plan(write_plan(tmp_path, tables={"t": ADADEC}))
    seen = []

    def stop(job: object, event: object) -> None:
        seen.append(event)
        if isinstance(event, Evaluated) and event.epoch == 2:
            os.kill(os.getpid(), signal.SIGINT)  # it passes this on to the process of the run

    _, outcome = go_on(plan, at_once=1, observe=stop)
    assert outcome.interrupted
    assert outcome.left == ["toy-adadec-seed1"]
    assert not Path(plan.results).exists()
    (task,) = find_state(plan).to_do
    assert open_run(task.folder).metrics()
    resumed = []
    _, outcome = go_on(plan, at_once=1, observe=lambda job, event: resumed.append(event))
    assert outcome == Outcome()
    epochs = [event.epoch for event in resumed if isinstance(event, Evaluated)]
    assert 1 < epochs[0] <= 3
    assert epochs[-1] == 6
    (first,), (second,) = results_of(whole), results_of(plan)
    assert (first.key, first.per_instance, first.surprise) == (second.key, second.per_instance, second.surprise)


@pytest.mark.slow
def test_a_failing_run_and_a_missing_corpus_do_not_stop_the_others(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(
        write_plan(
            tmp_path,
            corpora={
                "toy": {"config": str(tmp_path / "toy.yaml")},
                "lost": {"config": str(tmp_path / "toy.yaml"), "set": [f"corpus.train={tmp_path / 'lost.jsonl'}"]},
            },
            settings={"wild": ["training.learning_rate=1e30"]},
            tables={"t": {**ADADEC, "corpora": ["toy", "lost"], "settings": ["wild", "default"]}},
        )
    )
    state, outcome = go_on(plan)
    assert names(state.tasks) == ["toy-adadec-wild-seed1", "toy-adadec-seed1"]
    assert set(state.problems) == {"lost-adadec-wild-seed1", "lost-adadec-seed1"}
    assert "lost.jsonl" in state.problems["lost-adadec-seed1"]
    assert set(outcome.failed) == {"toy-adadec-wild-seed1", *state.problems}
    assert "no longer finite" in outcome.failed["toy-adadec-wild-seed1"]
    assert [result.name for result in read_results(Path(plan.results)).values()] == ["toy-adadec-seed1"]


@pytest.mark.slow
def test_dropped_runs_lose_their_weights_only_and_can_be_trained_again(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path, tables={"t": ADADEC}))
    state, _ = go_on(plan, at_once=2, drop_runs=True)
    folder = state.tasks[0].folder
    assert {BEST, LAST}.isdisjoint(path.name for path in folder.iterdir())
    assert {METRICS, "test.outputs.jsonl"} <= {path.name for path in folder.iterdir()}
    assert find_state(plan).to_do == []
    (before,) = results_of(plan)
    further = load_plan(write_plan(tmp_path, tables={"t": {**ADADEC, "searches": ["default", "greedy"]}}))
    _, outcome = go_on(further, at_once=2)
    assert outcome == Outcome()
    default, greedy = results_of(further)
    assert default == before
    assert greedy.surprise == before.surprise


def made_up(plan: Plan, inputs: dict[str, str], count: int, **seconds: float) -> None:
    for trial in list_trials(plan)[:count]:
        result = replace(made_up_result(trial, [1.0]), inputs=inputs, seconds={"training": 1.0, **seconds})
        write_result(Path(plan.results), trial.file_name, result)


def test_runs_that_would_not_finish_in_time_are_not_started(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path))
    inputs = find_state(plan).tasks[0].inputs
    made_up(plan, inputs, 1, whole=3600.0)
    state, outcome = go_on(plan, minutes=5)
    assert names(state.done) == ["toy-seq2seq-seed1"]
    assert [task.seconds for task in state.to_do] == [3600.0]  # another model, but the same corpus
    assert outcome.left == ["toy-adadec-seed1"]
    assert not outcome.interrupted
    assert not state.to_do[0].folder.exists()


@pytest.mark.slow
def test_when_the_time_is_up_runs_stop_and_can_go_on(tmp_path: Path) -> None:
    write_task(tmp_path, epochs=100_000, patience=100_000, evaluations_per_epoch=1)
    plan = load_plan(write_plan(tmp_path, tables={"t": ADADEC}))
    folder = find_state(plan).tasks[0].folder
    for minutes in (0.2, 0.6, 2):  # a busy machine may need more to come to the first checkpoint
        _, outcome = go_on(plan, minutes=minutes, at_once=2)
        assert outcome == Outcome(left=["toy-adadec-seed1"])
        if (folder / LAST).is_file():
            break
    assert (folder / LAST).is_file()
    assert open_run(folder).metrics()


def test_the_longest_run_comes_first_and_unknown_ones_before_it(tmp_path: Path) -> None:
    write_task(tmp_path)
    corpora = {
        "toy": {"config": str(tmp_path / "toy.yaml")},
        "other": {"config": str(tmp_path / "toy.yaml"), "set": ["corpus.vocabulary_size=20"]},
    }
    table = {"corpora": ["toy", "other"], "variants": ["seq2seq", "adadec"], "seeds": [1, 2]}
    plan = load_plan(write_plan(tmp_path, corpora=corpora, tables={"t": table}))
    inputs = find_state(plan).tasks[0].inputs
    first, _, third, _, *_ = list_trials(plan)
    for trial, whole in ((first, 10.0), (third, 90.0)):
        result = replace(made_up_result(trial, [1.0]), inputs=inputs, seconds={"training": 1.0, "whole": whole})
        write_result(Path(plan.results), trial.file_name, result)
    assert [(task.name, task.seconds) for task in find_state(plan).to_do] == [
        ("other-seq2seq-seed1", None),
        ("other-seq2seq-seed2", None),
        ("other-adadec-seed1", None),
        ("other-adadec-seed2", None),
        ("toy-adadec-seed2", 90.0),
        ("toy-seq2seq-seed2", 10.0),
    ]
    assert names(find_state(plan, only=["toy-*"]).tasks) == [
        f"toy-{name}" for name in ("seq2seq-seed1", "seq2seq-seed2", "adadec-seed1", "adadec-seed2")
    ]


def test_times_of_another_device_say_nothing_about_this_one(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path))
    first, _ = list_trials(plan)
    write_result(Path(plan.results), first.file_name, made_up_result(first, [1.0], device="another"))
    assert [task.seconds for task in find_state(plan).tasks] == [None, None]


@pytest.mark.slow
def test_a_corpus_that_several_runs_share_is_talked_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_task(tmp_path)
    go_on(load_plan(write_plan(tmp_path, set=["corpus.max_source=4"])))
    cut = [message for message in caplog.messages if "were cut" in message]
    assert len(cut) == 1


@pytest.mark.slow
def test_a_further_metric_that_a_corpus_cannot_have_stops_nothing(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    plan = load_plan(write_plan(tmp_path, metrics=["rougeL", "parent"]))
    _, outcome = go_on(plan)
    assert len(outcome.failed) == 2
    assert all("tables" in message for message in outcome.failed.values())


def test_a_metric_that_needs_tables_fails_before_training(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path, metrics=["rougeL", "parent"]))
    _, outcome = go_on(plan)
    assert set(outcome.failed.values()) == {"`parent` needs tables, but not every test record has one."}
    assert not (tmp_path / "work" / "runs").exists()
