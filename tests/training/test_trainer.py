"""The whole loop on tasks that can be learnt in seconds."""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from exadec.api import load
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.textmetrics.metrics import score_all
from exadec.training.checkpoint import BEST, LAST, open_corpus, read_notes
from exadec.training.evaluation import (
    Output,
    choose_sample,
    decode_split,
    evaluate,
    mean_surprise,
    read_outputs,
    score_outputs,
)
from exadec.training.events import Evaluated, LossLine
from exadec.training.trainer import Interrupted, Trainer, train
from support.small_models import ALL_OPTIONS, OPTIONS
from support.toys import toy_config, variant_config


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
    control = load(runs["seq2seq"])
    assert control.write(source, "up n9 k2").text == control.write(source, "down k2 n9").text


def test_two_trainings_with_one_seed_are_the_same(toy: Path) -> None:
    config = variant_config(toy, "adadec", epochs=1)
    first, second = (load_file(train(config, toy / name).folder / LAST) for name in ("same-1", "same-2"))
    assert all(torch.equal(first[key], second[key]) for key in first)


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
    config = variant_config(toy, "seq2seq", epochs=1)
    run = train(config, toy / "killed")
    before = run.metrics()
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "loss", "step": 10**6, "epoch": 9, "loss": 1.0, "seconds": 1}) + "\n")
    assert train(config, run.folder, resume=True).metrics() == before


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


def test_ctrl_c_leaves_a_usable_run(toy: Path) -> None:
    """A real process, a real signal."""
    config = variant_config(toy, "adadec", epochs=500, patience=500)
    (toy / "long.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    command = [sys.executable, "-m", "exadec", "train", str(toy / "long.yaml"), "--run", str(toy / "ctrl-c")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = toy / "ctrl-c" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "--resume to continue" in " ".join(messages.split())
    assert_usable(toy / "ctrl-c")
    assert read_notes(toy / "ctrl-c" / LAST)["position"]["step"] >= 19  # the first line of metrics was there


def test_existing_run_is_refused_unless_forced(toy: Path, runs: dict[str, Path]) -> None:
    config = variant_config(toy, "seq2seq", epochs=1)
    with pytest.raises(InputError, match="the run already exists; use --resume to continue it or --force"):
        train(config, runs["seq2seq"])
    with pytest.raises(InputError, match="there is no run to resume"):
        train(config, toy / "absent", resume=True)
    with pytest.raises(InputError, match="started with another configuration"):
        train(config, runs["seq2seq"], resume=True)
    with pytest.raises(InputError, match=r"this model \(seq2seq\) does not read exemplars"):
        train(config.replace("search", guidance=1.0), toy / "guided")
    assert not (toy / "guided").exists()
    once = train(config, toy / "forced")
    assert train(config, once.folder, force=True).metrics()[-1].step == 19


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

    monkeypatch.setattr("exadec.training.trainer.score_outputs", fake_scores)
    run = train(config, toy / "stopped")
    assert [event.value for event in run.metrics() if isinstance(event, Evaluated)] == [10.0, 30.0, 20.0, 25.0]
    assert read_notes(run.folder / BEST)["position"]["step"] == 38  # the second of the epochs, 19 batches each


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
    """Residual weights start without the exemplar, so they need time, and a constant learning rate, to follow it."""
    length = {"epochs": 14, "annealing_epochs": 14} if option == {"weights": "residual"} else {"epochs": 8}
    config = variant_config(toy, "adadec", patience=14, **length)
    config = config.replace("exemplars", neighbours=3).replace("model", **option)
    run = train(config, toy / f"beyond-{'-'.join(option)}")
    assert max(event.value for event in run.metrics() if isinstance(event, Evaluated)) > 95
    assert_usable(run.folder)
