"""One run on two processes against the same run on one, with a real `torchrun`."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from exadec.api import load
from exadec.cli import app
from exadec.config import VARIANTS, Config, ModelConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.training.checkpoint import BEST, LAST, METRICS, open_run, read_notes
from exadec.training.distributed import Processes, join_processes
from exadec.training.events import Evaluated, LossLine
from exadec.training.trainer import train
from support import two_processes
from support.toys import toy_config, toy_records, write_splits
from support.two_processes import KINDS, train_in

STILL = {item.name: 0.0 for item in fields(ModelConfig) if item.name.endswith("_dropout")}
"""Processes draw different dropout; what is to be the same on one and on two must do without."""


@pytest.fixture(autouse=True)
def _on_the_cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "cuda" not in request.keywords:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def torchrun(*arguments: object, gpus: str = "") -> subprocess.Popen[str]:
    """Two processes, each with one thread, as this one has."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpus, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    everything = [*command, *map(str, arguments)]
    return subprocess.Popen(everything, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """What it has shown; a `torchrun` that hangs is ended, and its processes with it."""
    with process:
        try:
            return process.communicate(timeout=150)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            pytest.fail(process.communicate()[0])


def write_config(config: Config, path: Path) -> Path:
    path.write_text(json.dumps(config.to_dict()), "utf-8")
    return path


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Texts of many lengths; the last of each epoch's six batches has one instance for two processes."""
    folder = tmp_path_factory.mktemp("uneven")
    random = np.random.default_rng(0)

    def text(longest: int) -> str:
        return " ".join(f"w{number}" for number in random.integers(0, 40, random.integers(1, longest)))

    write_splits(folder, [{"source": text(12), "target": text(10)} for _ in range(41)])
    config = toy_config(folder, batch_size=8, epochs=2, learning_rate=0.0001, clip_norm=0.1, evaluation_size=2)
    return config.replace("model", **STILL)


@pytest.fixture(scope="module")
def loader(uneven: Config) -> Loader:
    corpus = prepare(uneven)
    return Loader(corpus, retrieve(corpus), "train", copy_exemplar=True)


@pytest.fixture(scope="module")
def configs(uneven: Config) -> dict[str, Config]:
    """The four models, the released one and residual weights, as they are trained; one in float64, without clipping."""
    found = {name: uneven.replace("model", **switches) for name, switches in VARIANTS.items()}
    released = {"input_feeding": True, "linear_attention_layer": True, "copy": "separate", "exemplar_layer": True}
    found["released"] = found["adadec+attexp"].replace("model", **released)
    found["residual"] = found["adadec"].replace("model", weights="residual", rank=4)
    found["double"] = uneven.replace("training", clip_norm=100.0, learning_rate=0.001)
    return found


@pytest.fixture(scope="module")
def on_two(uneven: Config, configs: dict[str, Config], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two processes have done their work."""
    folder = tmp_path_factory.mktemp("on_two")
    for part in ("same", "resumed"):
        (folder / part).mkdir()
    for name, config in configs.items():
        write_config(config, folder / "same" / f"{name}.yaml")
    write_config(uneven, folder / "resumed" / "still.yaml")
    write_config(uneven.replace("model", **dict.fromkeys(STILL, 0.2)), folder / "resumed" / "dropout.yaml")
    process = torchrun(two_processes.__file__, folder)
    shown = finish(process)
    assert process.returncode == 0, shown
    return folder


def largest_difference(first: Path, second: Path, prefix: str = "model.") -> float:
    one, other = (load_file(folder / LAST) for folder in (first, second))
    names = [name for name in one if name.startswith(prefix)]
    assert names == [name for name in other if name.startswith(prefix)]
    return torch.stack([(one[name] - other[name]).abs().max().double() for name in names]).max().item()  # NaN stays


def test_processes_share_words_unevenly(uneven: Config, loader: Loader) -> None:
    """Otherwise the next test could not tell the mean over all words from the mean of two means."""
    batches = loader.training_batches(uneven.training.batch_size, uneven.training.seed, epoch=0)
    assert sorted(len(batch) for batch in batches) == [1, 8, 8, 8, 8, 8]
    shares = [[Processes(rank, 2).share(batch) for rank in range(2)] for batch in batches]
    words = [[int((loader.batch(share).target_output != PAD).sum()) for share in pair] for pair in shares]
    assert all(first != second for first, second in words)
    assert 0 in np.ravel(words)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_two_processes_train_what_one_trains(on_two: Path, configs: dict[str, Config], name: str) -> None:
    """Twelve steps: the same parameters, and by Adam's moments also gradients of the same size.

    Adam divides gradients by their size, and so makes the rounding errors of very small ones a part of the learning
    rate: with 0.001, parameters in float32 came as far apart as 1.6e-6 (one seed of six), hence the smaller one here.
    """
    one, two = (on_two / "same" / f"{name}-{number}" for number in ("one", "two"))
    train_in(KINDS[name], configs[name], one)
    limit = 1e-12 if KINDS[name] == torch.float64 else 1e-6
    assert largest_difference(one, two) < limit
    assert largest_difference(one, two, "adam.") < limit


@pytest.mark.slow
def test_gradients_of_these_runs_are_clipped(on_two: Path, uneven: Config, tmp_path: Path) -> None:
    train(uneven.replace("training", clip_norm=100.0), tmp_path / "unclipped")
    assert largest_difference(on_two / "same" / "adadec-two", tmp_path / "unclipped") > 1e-5


@pytest.mark.slow
def test_command_makes_one_run_as_usual(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(100, seed=0))
    config = toy_config(tmp_path, epochs=7, evaluation_size=25).replace("model", **STILL)
    path = write_config(config, tmp_path / "toy.yaml")
    # Without the two dashes torchrun takes --run for its own --run-path.
    process = torchrun("-m", "--", "exadec", "train", path, "--run", tmp_path / "two")
    shown = finish(process)
    assert process.returncode == 0, shown
    for once in ("best rougeL on the development set", "Parameters"):
        assert shown.count(once) == 1, shown
    one, two = train(config, tmp_path / "one"), open_run(tmp_path / "two")
    assert {file.name for file in one.folder.iterdir()} == {file.name for file in two.folder.iterdir()}
    assert one.facts | {"created": ""} == two.facts | {"created": ""}
    assert one.config == two.config
    kinds = [[(type(event), event.step, event.epoch) for event in run.metrics()] for run in (one, two)]
    assert kinds[0] == kinds[1]
    assert [kind for kind, *_ in kinds[0]].count(LossLine) == 1
    for ours, theirs in zip(one.metrics(), two.metrics(), strict=True):
        if isinstance(ours, LossLine):
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)
        else:  # rounding may turn one of 25 decoded texts
            assert ours.value == pytest.approx(theirs.value, abs=4.1)
            assert ours.surprise == pytest.approx(theirs.surprise, rel=1e-3)
    assert two.metrics()[-1].value > 60
    assert load(two.folder).write("house1 n1 k1", "up n1 k1").text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["still", "dropout"])
def test_resumed_run_equals_uninterrupted_run(on_two: Path, name: str) -> None:
    """Bit for bit, on as many processes as before."""
    folder = on_two / "resumed" / name
    whole, parts = (load_file(folder / which / LAST) for which in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert not torch.equal(whole["random.cpu"], whole["random.cpu.1"])
    events = [open_run(folder / which).metrics() for which in ("whole", "parts")]
    without_time = [[replace(event, seconds=0.0) for event in part] for part in events]
    assert [(type(event), event.step) for event in without_time[0]] == [(Evaluated, 6), (Evaluated, 12)]
    assert without_time[0] == without_time[1]
    assert (
        read_notes(folder / "left" / LAST)["position"]["step"] == 8
    )  # the process that was not interrupted has stopped there, too


@pytest.mark.slow
def test_run_of_two_processes_is_resumed_on_one(on_two: Path, uneven: Config) -> None:
    train(uneven, on_two / "resumed" / "still" / "left", resume=True)
    assert largest_difference(on_two / "resumed" / "still" / "whole", on_two / "resumed" / "still" / "left") < 1e-6


@pytest.mark.slow
def test_what_the_first_process_refuses_ends_the_second_silently(on_two: Path) -> None:
    reason = "InputError: `training.batch_size` is 7, which 2 processes cannot share evenly"
    assert (on_two / "refused-0").read_text("utf-8").startswith(reason)
    assert (on_two / "refused-1").read_text("utf-8") == "SystemExit: 2"
    assert not (on_two / "refused").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of threads from /proc")
def test_no_thread_of_the_group_outlives_python(on_two: Path) -> None:
    """One that did aborted one process in some hundreds: it wanted Python's lock when Python had ended."""
    for rank in range(2):
        names = (on_two / f"threads-{rank}").read_text("utf-8").split()
        assert names
        assert not [name for name in names if "gloo" in name]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["torchrun", "one process"])
def test_ctrl_c_leaves_a_usable_run(tmp_path: Path, to: str) -> None:
    write_splits(tmp_path, toy_records(100, seed=0))
    path = write_config(toy_config(tmp_path, epochs=9999, patience=9999), tmp_path / "toy.yaml")
    process = torchrun("-m", "exadec", "train", path)
    run = tmp_path / "work" / "adadec"
    deadline = time.monotonic() + 60
    while not ((run / METRICS).is_file() and (run / METRICS).stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    )
    started = [int(one) for one in listed.stdout.split()]
    assert len(started) == 2
    os.kill(process.pid if to == "torchrun" else started[1], signal.SIGINT)
    shown = finish(process)
    assert not any(Path(f"/proc/{child}").exists() for child in started)
    assert process.returncode != 0
    assert shown.count(f"Interrupted. {run} is usable; repeat the command with --resume to continue.") == 1, shown
    assert -100 < load(run).write("house1 n1 k1", "up n1 k1").score < 0  # what NaN is not
    assert read_notes(run / LAST)["position"]["step"] >= 4  # the first line of metrics was there
    assert (run / BEST).is_file()


@pytest.fixture
def _second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("exadec.cli.messages.quiet", False)  # undone afterwards


@pytest.mark.usefixtures("_second_of_two")
def test_several_runs_are_refused(uneven: Config, tmp_path: Path) -> None:
    path = write_config(uneven, tmp_path / "toy.yaml")
    for arguments in (["train", str(path), "--seeds", "1,2"], ["demo", "--folder", str(tmp_path / "demo")]):
        with pytest.raises(InputError, match="`torchrun` trains one model with all its processes"):
            app(arguments)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("_second_of_two")
def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="2 processes on this machine, which has 1 GPU: use --nproc-per-node 1"):
        join_processes().__enter__()


@pytest.mark.parametrize(("size", "count"), [(8, 2), (7, 3), (1, 3), (2, 4)])
def test_processes_share_a_batch_without_loss(size: int, count: int) -> None:
    shares = [Processes(rank, count).share(np.arange(10, 10 + size)) for rank in range(count)]
    assert all(len(share) for share in shares)
    assert sorted(index for share in shares for index in share if index >= 0) == list(range(10, 10 + size))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_processes_train_on_a_gpu_what_one_trains(
    uneven: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One captures its steps, two do not. They share a card, so gloo carries their gradients: NCCL wants one each."""
    config = uneven.replace("training", precision="float32")
    process = torchrun(two_processes.__file__, write_config(config, tmp_path / "toy.yaml"), gpus="0")
    shown = finish(process)
    assert process.returncode == 0, shown
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    train(config, tmp_path / "one")
    assert largest_difference(tmp_path / "one", tmp_path / "toy-two") < 1e-5
