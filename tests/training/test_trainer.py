"""The whole loop on tasks that can be learnt in seconds."""

import errno
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from exadec.api import load
from exadec.corpus.prepare import prepare
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.files import locked_for_writing
from exadec.textmetrics.metrics import score_all
from exadec.textmetrics.scores import Score
from exadec.training.checkpoint import BEST, LAST, open_corpus, open_run, read_notes
from exadec.training.evaluation import (
    Output,
    choose_sample,
    decode_split,
    evaluate,
    find_outputs,
    mean_surprise,
    outputs_path,
    read_outputs,
    repeating,
    score_outputs,
)
from exadec.training.events import WITHOUT, Evaluated, Evaluating, LossLine
from exadec.training.trainer import Interrupted, Trainer, train
from support.small_models import ALL_OPTIONS, OPTIONS
from support.toys import toy_config, toy_records, variant_config, write_splits


@pytest.fixture(scope="module")
def runs(toy: Path) -> dict[str, Path]:
    torch.set_num_threads(1)
    return {v: train(variant_config(toy, v), toy / v).folder for v in ("seq2seq", "adadec")}


def assert_usable(folder: Path) -> None:
    """The weights can be loaded, are sound, and write from the source: a text that ends by itself or at the limit."""
    writer = load(folder)
    generation = writer.write("house1 n1 k1", "up n1 k1")
    assert -100 < generation.score < 0  # and not NaN
    assert len(generation.pieces) <= writer.run.config.search.max_length
    assert {"n1", "k1", "up", "down"} & set(generation.text.split())


def test_adaptive_decoder_learns_manner_and_content(runs: dict[str, Path]) -> None:
    outputs = evaluate(runs["adadec"])
    assert score_all(["rougeL"], [o.text for o in outputs], [o.references for o in outputs])[0].value > 95
    assert read_outputs(runs["adadec"] / "test.outputs.jsonl") == outputs


def test_manner_is_out_of_reach_without_the_exemplar(runs: dict[str, Path]) -> None:
    """The houses are unknown words: a model that does not read exemplars can only guess."""
    first = [output.text.split()[0] == output.references[0].split()[0] for output in evaluate(runs["seq2seq"])]
    assert 0.2 < np.mean(first) < 0.8


def test_swapping_the_exemplar_swaps_the_manner(runs: dict[str, Path]) -> None:
    source = "house1 house1 house1 n3 k5"
    writer = load(runs["adadec"])
    assert writer.write(source, "up n9 k2").text == "up n3 k5"
    assert writer.write(source, "down k2 n9").text == "down k5 n3"
    with pytest.raises(InputError, match=r"this model \(seq2seq\) does not read exemplars; leave the exemplar out"):
        load(runs["seq2seq"]).write(source, "up n9 k2")


def test_two_trainings_with_one_seed_are_the_same(toy: Path) -> None:
    config = variant_config(toy, "adadec", epochs=1)
    first, second = (load_file(train(config, toy / name).folder / LAST) for name in ("same-1", "same-2"))
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("variant", ["seq2seq", "adadec+attexp"])
def test_deterministic_training_is_the_same_on_a_cpu(toy: Path, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # and undone afterwards
    seen, step = set(), Trainer._step

    def watched(self: Trainer, *arguments: object) -> None:
        seen.add(torch.are_deterministic_algorithms_enabled())
        step(self, *arguments)

    monkeypatch.setattr(Trainer, "_step", watched)
    weights = []
    for wanted in (False, True):
        config = variant_config(toy, variant, epochs=1, deterministic=wanted)
        weights.append(load_file(train(config, toy / f"deterministic-{variant}-{wanted}").folder / LAST))
        assert seen == {wanted}
        seen.clear()
        assert not torch.are_deterministic_algorithms_enabled()
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_gpu_in_use_is_refused_for_deterministic_training(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuBLAS has chosen how to work by then."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(InputError, match=r"CUBLAS_WORKSPACE_CONFIG=:4096:8 set before"):
        train(variant_config(toy, "seq2seq", deterministic=True), toy / "too-late")
    assert not (toy / "too-late").exists()


@pytest.mark.parametrize("option", [{}, {**ALL_OPTIONS, "exemplar_skipping": 0.3}], ids=["paper", "all"])
def test_resumed_training_equals_uninterrupted_training(
    toy: Path, tmp_path: Path, option: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = variant_config(toy, "adadec", epochs=3).replace("exemplars", neighbours=3).replace("model", **option)
    whole = train(config, tmp_path / "whole")
    steps = []
    step = Trainer._step

    def interrupted_step(self: Trainer, *arguments: object) -> None:
        step(self, *arguments)
        steps.append(1)
        if len(steps) == 27:  # in the second epoch, between two evaluations
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_step", interrupted_step)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "parts")
    monkeypatch.undo()
    assert_usable(tmp_path / "parts")
    assert read_notes(tmp_path / "parts" / LAST)["position"]["step"] == 27
    assert read_notes(tmp_path / "parts" / BEST)["position"]["step"] == 19  # the first evaluation
    resumed = train(config, tmp_path / "parts", resume=True)
    first, second = load_file(whole.folder / LAST), load_file(resumed.folder / LAST)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    without_time = [[replace(event, seconds=0.0) for event in run.metrics()] for run in (whole, resumed)]
    assert without_time[0] == without_time[1]
    assert [type(event) for event in without_time[0]] == [Evaluated, LossLine, Evaluated, LossLine, Evaluated]


def test_metrics_after_the_last_checkpoint_are_dropped_on_resume(toy: Path) -> None:
    """After a kill, not an interrupt, the file may know of steps that the checkpoint does not."""
    config = variant_config(toy, "seq2seq", epochs=2)
    run = train(config.replace("training", epochs=1), toy / "killed")
    before = run.metrics()
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "loss", "step": 10**6, "epoch": 9, "loss": 1.0, "seconds": 1}) + "\n")
    after = train(config, run.folder, resume=True).metrics()
    assert after[: len(before)] == before
    assert [event.step for event in after] == [19, 25, 38]


def test_every_evaluation_logs_the_surprise_at_the_development_set(toy: Path) -> None:
    run = train(variant_config(toy, "adadec", epochs=2, evaluations_per_epoch=2), toy / "surprise")
    logged = [event.surprise for event in run.metrics() if isinstance(event, Evaluated)]
    assert len(logged) == 4
    assert logged[-1] < logged[0]
    corpus = open_corpus(run)
    chosen = choose_sample(60, 50)  # the sizes of the toy's development set and of its sample
    again = mean_surprise(run.load_model(LAST), corpus, retrieve(corpus), "valid", chosen)
    assert logged[-1] == pytest.approx(again, rel=1e-6)


def test_every_evaluation_logs_manner_and_truth_of_a_model_with_exemplars(toy: Path) -> None:
    for variant, names in (("adadec", {"manner", "leak", "support"}), ("seq2seq", set())):
        run = train(variant_config(toy, variant, epochs=1), toy / f"logged-{variant}")
        (event,) = [event for event in run.metrics() if isinstance(event, Evaluated)]
        assert set(event.scores) == names
        assert (event.instances, event.split_size) == (50, 60)
        split = open_corpus(run), retrieve(open_corpus(run)), "valid"
        outputs = decode_split(run.load_model(LAST), *split, run.config.search, choose_sample(60, 50))
        found = score_outputs(list(event.scores), outputs)
        assert list(event.scores.values()) == pytest.approx([score.value for score in found], abs=1e-4)


def test_run_of_an_earlier_version_is_resumed(toy: Path) -> None:
    """Its lines have no surprise; they stay as they are."""
    config = variant_config(toy, "seq2seq", epochs=2)
    run = train(config.replace("training", epochs=1), toy / "earlier")
    (old,) = (json.loads(line) for line in (run.folder / "metrics.jsonl").read_text("utf-8").splitlines())
    del old["surprise"], old["scores"]
    (run.folder / "metrics.jsonl").write_text(json.dumps(old) + "\n", "utf-8")
    settings = yaml.safe_load((run.folder / "config.yaml").read_text("utf-8"))
    settings["training"]["epochs"] = 2
    del settings["search"]["stopping"]
    (run.folder / "config.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    events = [event for event in train(config, run.folder, resume=True).metrics() if isinstance(event, Evaluated)]
    assert events[0].surprise is None
    assert events[0].value == old["value"]
    assert events[1].surprise > 0


@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, ""), (signal.SIGTERM, ""), (signal.SIGTERM, "trap '' INT; ")],
    ids=["ctrl-c", "terminated", "terminated in the background"],
)
def test_signal_leaves_a_usable_run(toy: Path, number: signal.Signals, ignored: str) -> None:
    """A real process, a real signal. A script's shell ignores Ctrl-C for what it sends to the background."""
    config = variant_config(toy, "adadec", epochs=500, patience=500)
    (toy / "long.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    run = toy / f"{number.name}{len(ignored)}"
    command = [sys.executable, "-m", "exadec", "train", str(toy / "long.yaml"), "--run", str(run)]
    process = subprocess.Popen(["sh", "-c", f'{ignored}exec "$@"', "sh", *command], stderr=subprocess.PIPE, text=True)
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "--resume to continue" in " ".join(messages.split())
    assert_usable(run)
    assert read_notes(run / LAST)["position"]["step"] >= 19  # the first line of metrics was there


def test_existing_run_is_refused_unless_forced(toy: Path, runs: dict[str, Path]) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    with pytest.raises(InputError, match="the run already exists; use `resume=True` to continue it or"):
        train(config, runs["seq2seq"])
    with pytest.raises(InputError, match=r"with training.seed=1. Only training.epochs and training.patience may"):
        train(config.replace("training", seed=2), runs["seq2seq"], resume=True)
    with pytest.raises(InputError, match=r"this model \(seq2seq\) does not read exemplars"):
        train(config.replace("search", guidance=1.0), toy / "guided")
    assert not (toy / "guided").exists()
    once = train(config, toy / "forced")
    (once.folder / "tensorboard").mkdir()
    (once.folder / "tensorboard" / "events.out.tfevents.1").touch()
    assert train(config, once.folder, force=True).metrics()[-1].step == 19


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_finished_run_is_left_as_it_is(toy: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    run = train(config, toy / "finished")
    before = contents(run.folder)
    with caplog.at_level("INFO", "exadec"):
        assert train(config, run.folder, resume=True).metrics() == run.metrics()
    assert f"{run.folder}: the run has finished: 1 epoch. To go on, set training.epochs to more." in caplog.messages
    assert contents(run.folder) == before


def test_run_is_made_longer_as_if_it_had_been_so_from_the_start(toy: Path) -> None:
    config = variant_config(toy, "adadec", epochs=3, patience=3)
    whole = train(config, toy / "long")
    short = train(config.replace("training", epochs=1), toy / "short")
    extended = train(config, short.folder, resume=True)
    assert extended.config.training.epochs == 3
    again = train(config.replace("training", epochs=1, patience=1), short.folder, resume=True)  # the file as it was
    assert (again.config.training.epochs, again.config.training.patience) == (3, 3)
    assert again.metrics() == extended.metrics()
    first, second = (load_file(run.folder / LAST) for run in (whole, extended))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_texts_of_earlier_weights_are_deleted(toy: Path) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    run = train(config, toy / "written")
    evaluate(run.folder)
    train(config, run.folder, resume=True)  # it has finished
    assert outputs_path(run.folder, "test").is_file()
    longer = train(config.replace("training", epochs=4), run.folder, resume=True)
    assert longer.best_evaluation().epoch > 1
    assert not outputs_path(run.folder, "test").exists()


def test_texts_of_other_settings_do_not_pass_for_the_runs_own(runs: dict[str, Path]) -> None:
    run = runs["adadec"]
    own, overrides = evaluate(run), ["search.beam_size=1", "search.max_length=2"]
    short = evaluate(run, overrides=overrides)
    assert {len(output.text.split()) for output in short} == {1}
    assert read_outputs(outputs_path(run, "test")) == own
    path = find_outputs(run, "test", overrides)
    assert read_outputs(path) == short
    assert path == find_outputs(run, "test", [*overrides[::-1], "search.batch_size=7"])
    assert find_outputs(run, "test", ["search.batch_size=7"]) == outputs_path(run, "test")


def test_run_that_is_being_written_is_not_decoded_into(toy: Path) -> None:
    run = train(variant_config(toy, "seq2seq", epochs=1), toy / "busy").folder
    with locked_for_writing(run), pytest.raises(InputError, match=rf"busy: process {os.getpid()} on .* writing it"):
        evaluate(run)
    assert not outputs_path(run, "test").exists()


def test_project_that_was_moved_can_be_made_longer(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(60, seed=0))
    config = variant_config(tmp_path, "seq2seq", epochs=1)
    train(config, Path(config.folder) / "run")
    moved = Path(config.folder).rename(tmp_path / "elsewhere")
    longer = replace(config.replace("training", epochs=2), folder=str(moved))
    assert train(longer, moved / "run", resume=True).metrics()[-1].epoch == 2


def test_more_patience_makes_a_stopped_run_longer(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = variant_config(toy, "seq2seq", epochs=3, patience=2)
    same = type("Same", (), {"name": "x", "value": 1.0, "signature": "x"})
    monkeypatch.setattr("exadec.training.evaluation.score_outputs", lambda names, outputs: [same])
    stopped = train(config.replace("training", patience=1), toy / "impatient")
    assert stopped.metrics()[-1].step == 38
    assert train(config, stopped.folder, resume=True).metrics()[-1].step == 57


def test_more_patience_goes_on_in_the_middle_of_an_epoch(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = variant_config(toy, "seq2seq", epochs=2, patience=9, evaluations_per_epoch=4)
    same = type("Same", (), {"name": "x", "value": 1.0, "signature": "x"})
    monkeypatch.setattr("exadec.training.evaluation.score_outputs", lambda names, outputs: [same])
    whole = train(config, toy / "patient-parts")
    stopped = train(config.replace("training", patience=1), toy / "impatient-parts")
    assert stopped.metrics()[-1].step == 10  # of 19 in an epoch
    resumed = train(config, stopped.folder, resume=True)
    steps = [event.step for event in resumed.metrics() if isinstance(event, Evaluated)]
    assert steps == [event.step for event in whole.metrics() if isinstance(event, Evaluated)]
    first, second = load_file(whole.folder / LAST), load_file(resumed.folder / LAST)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_run_that_stopped_before_its_first_checkpoint_starts_again(toy: Path) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    whole = train(config, toy / "whole-again").folder
    for name, resume in (("plain", False), ("resumed", True), ("absent", True)):
        folder = toy / f"again-{name}"
        if name != "absent":
            train(config, folder)
            for path in folder.glob("*.safetensors"):
                path.unlink()
            (folder / ".last.safetensors.draft").write_text("half", "utf-8")
        train(config, folder, resume=resume)
        first, second = load_file(whole / LAST), load_file(folder / LAST)
        assert all(torch.equal(first[key], second[key]) for key in first)
        assert contents(folder).keys() == contents(whole).keys()


@pytest.mark.parametrize("force", [False, True])
def test_folder_that_is_not_a_run_is_never_emptied(toy: Path, tmp_path: Path, force: bool) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    thesis = tmp_path / "precious" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("years of work", "utf-8")
    with pytest.raises(InputError, match=r"precious/thesis.tex: not part of a run of exadec, and would be deleted"):
        train(config, thesis.parent, force=force)
    for name in ("config.yaml", "run.json", "names.json"):  # ours by name alone
        theirs = tmp_path / "mine" / name
        theirs.parent.mkdir(exist_ok=True)
        theirs.write_text("{}  # years of work", "utf-8")
        with pytest.raises(InputError, match=rf"mine/{name}: not part of a run of exadec"):
            train(config, theirs.parent, force=force)
        assert theirs.read_text("utf-8") == "{}  # years of work"
        theirs.unlink()
    run = train(config, tmp_path / "run")
    thesis.rename(run.folder / "thesis.tex")
    with pytest.raises(InputError, match=r"run/thesis.tex: not part of a run of exadec" if force else "already exists"):
        train(config, run.folder, force=force)
    assert (run.folder / "thesis.tex").read_text("utf-8") == "years of work"
    (run.folder / "thesis.tex").unlink()
    for name in ("index-notes", "index", "corpus"):  # like a name of ours, or ours, but not in a run
        (run.folder / name).mkdir()
        (run.folder / name / "page.txt").write_text("years of work", "utf-8")
        refusal = rf"run/{name}.*: not part of a run of exadec" if force else "already exists"
        with pytest.raises(InputError, match=refusal):
            train(config, run.folder, force=force)
        (run.folder / name / "page.txt").unlink()
        (run.folder / name).rmdir()
    with pytest.raises(InputError, match=r"not part of a run of exadec"):
        train(config, Path(config.folder), force=force)  # with corpus, exemplars and other runs
    assert load(run.folder).write("house1 n1 k1").score < 0


def test_second_training_of_a_run_is_refused(toy: Path) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    messages = []

    def observe(event: object) -> None:
        if isinstance(event, Evaluated):
            for options in ({}, {"resume": True}, {"force": True}):
                with pytest.raises(InputError) as refusal:
                    train(config, toy / "twice", **options)
                messages.append(str(refusal.value))

    run = train(config, toy / "twice", observe=observe)
    assert len(messages) == 3
    assert all(message.startswith(f"{run.folder}: process {os.getpid()} on ") for message in messages)
    assert [event.step for event in run.metrics()] == [19]


def test_the_observer_hears_of_all_that_comes_before_the_score(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    heard_again, scoring = threading.Event(), Evaluating("scoring", "valid", 50)

    def observe(event: object) -> None:
        events.append(event)
        if events.count(scoring) == 3:
            heard_again.set()

    def take_long(names: list[str], outputs: list[Output]) -> list[Score]:
        assert heard_again.wait(60)
        return score_outputs(names, outputs)

    monkeypatch.setattr("exadec.training.evaluation.score_outputs", take_long)
    monkeypatch.setattr("exadec.training.evaluation.repeating", partial(repeating, seconds=0.01))
    config = variant_config(toy, "seq2seq", epochs=1, batch_size=32).replace("search", batch_size=20)
    train(config, tmp_path / "run", observe=observe)
    heard = [event for event in events if isinstance(event, Evaluating)]
    again = events.count(scoring)
    assert again >= 3
    assert heard == [
        *(Evaluating("decoding", "valid", done, 50) for done in (20, 40, 50)),
        *[scoring] * again,
        *(Evaluating("computing -log p of", "valid", done, 50) for done in (32, 50)),
    ]
    assert events.index(heard[-1]) < next(i for i, event in enumerate(events) if isinstance(event, Evaluated))


def test_an_observer_that_fails_stops_training_while_texts_are_scored(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    failed = threading.Event()

    def observe(event: object) -> None:
        events.append(event)
        if events.count(Evaluating("scoring", "valid", 50)) == 2:
            failed.set()
            raise BrokenPipeError

    monkeypatch.setattr("exadec.training.evaluation.score_outputs", lambda *_: failed.wait(60) and [None])
    monkeypatch.setattr("exadec.training.evaluation.repeating", partial(repeating, seconds=0.01))
    with pytest.raises(BrokenPipeError):
        train(variant_config(toy, "seq2seq", epochs=1), tmp_path / "run", observe=observe)
    assert not any(isinstance(event, Evaluated) for event in events)


def test_training_keeps_its_corpus_from_being_replaced(toy: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy, tmp_path / "toy"))
    config = variant_config(folder, "seq2seq", epochs=1)
    refused = []

    def observe(event: object) -> None:
        if isinstance(event, Evaluated):
            with pytest.raises(InputError, match=f"corpus: process {os.getpid()} on .* has been reading it since"):
                prepare(config.replace("corpus", lower_case=True))
            refused.append(event)

    train(config, tmp_path / "run", observe=observe)
    assert refused


def test_training_starts_from_the_weights_of_a_run(toy: Path) -> None:
    config = variant_config(toy, "adadec", epochs=1)
    first = train(config, toy / "first")
    warm = config.replace("training", start_from=str(first.folder), learning_rate=1e-30)
    model = train(warm, toy / "warm").load_model(LAST)
    for name, value in first.load_model(BEST).state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)
    with pytest.raises(InputError, match=r"needs a run with the same shapes, but .* is \[.*\] there and \[.*\] here"):
        train(warm.replace("model", hidden=6), toy / "other-shape")
    with pytest.raises(InputError, match="not a run folder"):
        train(warm.replace("training", start_from=str(toy)), toy / "no-run")


def test_full_disk_leaves_the_last_checkpoint_and_whole_lines(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = variant_config(toy, "seq2seq", epochs=2)
    whole = train(config, toy / "roomy")
    run = train(config.replace("training", epochs=1), toy / "full")
    before = contents(run.folder)

    real = Path.open

    class FullDisk(io.StringIO):
        def write(self, text: str) -> int:
            with real(run.folder / "metrics.jsonl", "a") as file:
                file.write(text[:9])
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(path: Path, mode: str = "r", **more: Any) -> Any:
        return FullDisk() if mode == "a" else real(path, mode, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(OSError, match="No space left"):
            train(config, run.folder, resume=True)
    assert {**contents(run.folder), "config.yaml": b""} == {**before, "config.yaml": b""}
    again = train(config, run.folder, resume=True)
    first, second = load_file(whole.folder / LAST), load_file(again.folder / LAST)
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("epochs", [1, 2])  # seen at the evaluation after 19 steps, or by the loss of the first 25
def test_training_that_diverges_is_stopped_with_advice(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    if epochs == 2:
        monkeypatch.setattr(Trainer, "_evaluate", lambda self, batches: None)
    with pytest.raises(InputError, match=r"no longer finite at step (19|25); try a lower training.learning_rate"):
        train(toy_config(toy, epochs=epochs, learning_rate=1e38), tmp_path / "run")


def test_early_stopping_keeps_the_best_weights(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([10.0, 30.0, 20.0, 25.0, 99.0])
    config = variant_config(toy, "seq2seq", epochs=5, patience=2)

    def fake_scores(names: list[str], outputs: list[Output]):
        value = next(scores)
        return [type("Fake", (), {"name": names[0], "value": value, "signature": "fake"})]

    monkeypatch.setattr("exadec.training.evaluation.score_outputs", fake_scores)
    run = train(config, toy / "stopped")
    assert [event.value for event in run.metrics() if isinstance(event, Evaluated)] == [10.0, 30.0, 20.0, 25.0]
    assert read_notes(run.folder / BEST)["position"]["step"] == 38  # the second of the epochs, 19 batches each


def test_early_stopping_can_watch_surprise(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surprises = iter([3.0, 1.0, 2.0, 1.5, 0.5])
    monkeypatch.setattr("exadec.training.evaluation.mean_surprise", lambda *arguments: next(surprises))
    config = variant_config(toy, "seq2seq", epochs=5, patience=2, watch="surprise")
    run = train(config, toy / "surprised")
    assert [event.surprise for event in run.evaluations()] == [3.0, 1.0, 2.0, 1.5]
    assert run.best_evaluation() == run.evaluations()[1]
    assert read_notes(run.folder / BEST)["position"]["step"] == 38


@pytest.mark.parametrize(("variant", "logged"), [("adadec", True), ("seq2seq", False)])
def test_worth_of_exemplars_is_logged_for_models_that_can_do_without(toy: Path, variant: str, logged: bool) -> None:
    config = variant_config(toy, variant, epochs=1).replace("model", exemplar_skipping=0.2)
    run = train(config, toy / f"{variant}-skipping")
    [event] = run.evaluations()
    assert (WITHOUT in event.scores) is logged
    if logged:
        corpus = open_corpus(run)
        split = run.load_model(), corpus, retrieve(corpus, config.exemplars), "valid"
        chosen = choose_sample(corpus.size("valid"), config.training.evaluation_size)
        assert event.scores[WITHOUT] == pytest.approx(mean_surprise(*split, chosen, hidden=True), rel=1e-5)
        assert event.surprise == pytest.approx(mean_surprise(*split, chosen), rel=1e-5)


@pytest.mark.parametrize(
    "settings", [{"cell": "gru"}, {"cell": "elman"}, {"copy": "separate"}, {"input_feeding": True}]
)
def test_other_architectures_train_and_write(toy: Path, settings: dict[str, object]) -> None:
    config = variant_config(toy, "adadec", epochs=2).replace("model", **settings)
    run = train(config, toy / "-".join(str(value) for value in settings.values()))
    first, line, second = run.metrics()  # 19 steps an epoch, a line of loss every 25
    assert isinstance(line, LossLine)
    assert line.loss < math.log(31) / 2  # half of what guessing evenly among the words would give
    assert isinstance(first, Evaluated)
    assert isinstance(second, Evaluated)
    assert max(first.value, second.value) > 70
    assert_usable(run.folder)


@pytest.mark.parametrize("option", [*OPTIONS, {**ALL_OPTIONS, "exemplar_skipping": 0.1}], ids=lambda o: "-".join(o))
def test_options_beyond_the_paper_learn_manner_and_content(toy: Path, option: dict[str, object]) -> None:
    config = variant_config(toy, "adadec", patience=14, epochs=8)
    config = config.replace("exemplars", neighbours=3).replace("model", **option)
    run = train(config, toy / f"beyond-{'-'.join(option)}")
    assert max(event.value for event in run.metrics() if isinstance(event, Evaluated)) > 95
    assert_usable(run.folder)


def test_a_run_without_a_single_exemplar_is_refused_unless_it_is_wanted(
    toy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = variant_config(toy, "adadec", epochs=1)
    with pytest.raises(InputError, match=r"no training record has a group; .* set exemplars\.policy=none"):
        train(config.replace("exemplars", group="only"), tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    train(config.replace("exemplars", policy="none"), tmp_path / "wanted")
    train(variant_config(toy, "seq2seq", epochs=1).replace("exemplars", group="only"), tmp_path / "reads none")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_exemplars_of_little_use_are_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = toy_records(40, seed=0)
    write_splits(tmp_path, records)
    twice = [json.dumps({**record, "source": f"{record['source']} x"}) for record in records for _ in range(2)]
    (tmp_path / "train.jsonl").write_text("\n".join(twice) + "\n", "utf-8")
    train(variant_config(tmp_path, "adadec", epochs=1), tmp_path / "run")
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "100% of the training exemplars come from an identical source, but 0% of the valid ones" in warning


def test_what_would_be_another_run_is_refused_before_anything_is_replaced(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(60, seed=0))
    config = variant_config(tmp_path, "seq2seq", epochs=1)
    run = train(config, tmp_path / "run")
    before = open_corpus(run).hash
    other = config.replace("corpus", vocabulary_size=10)
    with pytest.raises(InputError, match=r"the run was started with corpus\.vocabulary_size"):
        train(other, run.folder, resume=True)
    assert open_corpus(open_run(run.folder)).hash == before
    with pytest.raises(InputError, match="use only one of them"):
        train(config, run.folder, resume=True, force=True)
    link = tmp_path / "link"
    link.symlink_to(run.folder)
    with pytest.raises(InputError, match="link: a link, which a run cannot replace"):
        train(config, link, force=True)
    assert open_run(run.folder).load_model()
