"""`exadec train` and `exadec demo`, as a user meets them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from exadec.cli import main, runs
from exadec.training.checkpoint import open_run, read_notes
from support.command import SOURCE, assert_refused_in, exadec


@pytest.mark.slow
def test_ctrl_c_stops_the_demo_and_starts_no_further_model(tmp_path: Path) -> None:
    sizes = ["corpus.wire_train=4000", "corpus.wire_outlets=200", "corpus.wire_heldout=20"]
    settings = [part for size in sizes for part in ("--set", size)]
    command = [sys.executable, "-m", "exadec", "demo", "--folder", str(tmp_path / "demo"), *settings]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    started = [tmp_path / "demo" / variant / "metrics.jsonl" for variant in ("seq2seq", "attexp")]
    deadline = time.monotonic() + 120
    while not all(path.is_file() and path.stat().st_size for path in started) and time.monotonic() < deadline:
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
    for path in started:  # stopped in their first epoch, and usable
        assert read_notes(path.with_name("last.safetensors"))["position"]["epoch"] == 0
    position = read_notes(started[0].with_name("last.safetensors"))["position"]["step"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    lines: list[str] = []
    while len(lines) < position // 25 + 3 and time.monotonic() < deadline:
        time.sleep(0.05)
        lines = started[0].read_text("utf-8").splitlines()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    rows = [json.loads(line) for line in lines]
    steps = [row["step"] for row in rows if row["kind"] == "loss"]
    assert steps == [25 * (number + 1) for number in range(len(steps))]  # it went on; it did not begin again


@pytest.mark.slow
def test_coverage_of_word_vectors_is_reported(folder: Path) -> None:
    (folder / "vectors.txt").write_text("up " + "0.5 " * 15 + "0.5\n", "utf-8")
    glove = ["--set", "model.glove=vectors.txt", "--set", "model.freeze_embeddings=true"]
    done = exadec("train", "toy.yaml", "--run", "glove", "--set", "training.epochs=1", *glove, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "vectors.txt: vectors for 1 of " in done.stderr
    generated = exadec("generate", "glove", "--exemplar", "up n1 k1", stdin=SOURCE.encode(), cwd=folder)
    assert generated.returncode == 0, generated.stderr


def test_a_log_shows_every_evaluation_and_the_cpu_can_be_asked_for(folder: Path) -> None:
    done = exadec("train", "toy.yaml", "--run", "cpu", "--device", "cpu", "--deterministic", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert open_run(folder / "cpu").config.training.deterministic
    assert "backend reference on cpu." in done.stderr
    assert len(re.findall(r"^training: step \d+ of 14, epoch [12].00, .*: dev ROUGE-L ", done.stderr, re.M)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("variants", ["seq2seq", "seq2seq,adadec"])
def test_curves_are_written_for_tensorboard(folder: Path, variants: str, tmp_path: Path) -> None:
    arguments = ["--variants", variants, "--tensorboard", "--set", f"folder={tmp_path}"]
    done = exadec("train", "toy.yaml", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    for variant in variants.split(","):
        curves = EventAccumulator(str(tmp_path / variant / "tensorboard")).Reload()
        assert len(curves.Scalars("development/ROUGE-L")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "absent.yaml"], "absent.yaml: no such file. `exadec config list` shows those"),
        (["train", "absent/news.yaml"], "To use the one that comes with exadec, write `news`."),
        (["train", "."], ".: this is a folder; name a file in it: toy.yaml."),
        (["train", "work"], "work: this is a folder; name a YAML file."),
        (["train", "toy.yaml", "--set", "epochs=2"], "unknown key `epochs`; did you mean `training.epochs`?"),
        (["train", "toy.yaml", "--set", "model.hiden=4"], "unknown key `model.hiden`; did you mean `model.hidden`?"),
        (
            ["train", "toy.yaml", "--set", "exemplars.policy=x"],
            "`exemplars.policy` must be one of nearest, sample, random",
        ),
        (["demo", "--port", "8001"], "--port is that of --serve; add --serve, or leave the port out."),
        (["train", "toy.yaml", "--set", "training.epochs="], "`training.epochs` must be a whole number, but is empty"),
        (["demo", "--set", "exemplars.policy=x"], "`exemplars.policy` must be one of nearest, sample, random"),
        (["train", "toy.yaml", "--variant", "bert"], "unknown variant 'bert'; the variants are seq2seq,"),
        (["train", "toy.yaml", "--run", "run"], "run: the run already exists; use --resume"),
        (["train", "toy.yaml", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (["demo", "--folder", "new", "--set", "corpus.format=duc"], "`corpus.format` must be one of records,"),
        (["train", "toy.yaml", "--set", "training.metric=rougel"], "`training.metric` must be one of rouge1, rouge2,"),
        (["demo", "--folder", "new", "--set", "training.metric=rougel"], "`training.metric` must be one of rouge1,"),
        *(
            (["train", "toy.yaml", *command, "--set", "model.hidden=1000000"], "parameters take 480,004.")
            for command in (["--run", "new"], ["--seeds", "1,2", "--at-once", "1", "--set", "folder=new"])
        ),
        (["demo", "--folder", "new", "--set", "model.hidden=1000000"], "GB are free; choose a smaller model.hidden"),
        (["train", "toy.yaml", "--run", "toy.yaml/run"], "because toy.yaml is not a folder"),
        pytest.param(
            ["train", "toy.yaml", "--run", "new", "--set", "training.precision=bfloat16"],
            "`training.precision` is bfloat16, which needs a GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        *(
            pytest.param(
                [*command, "--set", "training.backend=hopper"],
                "`training.backend` is hopper, but there is no CUDA GPU here. Leave it at auto.",
                marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
            )
            for command in (
                ["train", "toy.yaml", "--run", "new"],
                ["train", "toy.yaml", "--variants", "seq2seq,adadec", "--set", "folder=new"],
                ["demo", "--folder", "new"],
            )
        ),
        (["train", "toy.yaml", "--run", "new", "--device", "gpu"], "unknown device 'gpu'; the devices are cpu, cuda,"),
        *(
            pytest.param(
                ["train", "toy.yaml", *command, "--device", "cuda:1"],
                "the device cuda:1 was asked for, but torch finds no CUDA GPU here; use cpu.",
                marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
            )
            for command in (["--run", "new"], ["--seeds", "1,2"])
        ),
        (
            ["demo", "--folder", "new", "--set", "model.cell=transformer"],
            "`model.cell` must be one of lstm, gru, elman",
        ),
        (["train", "toy.yaml", "--run", "new", "--set", "model.glove=gone.txt"], "gone.txt: no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("run")
def test_mistakes_get_one_line_and_status_two(folder: Path, arguments: list[str], message: str) -> None:
    assert_refused_in(folder, arguments, message)


@pytest.mark.parametrize("verb", ["prepare", "retrieve", "inspect"])
def test_lack_of_memory_for_data_is_not_a_models_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr("exadec.corpus.prepare.prepare", fail)
    monkeypatch.setattr(sys, "argv", ["exadec", verb, str(folder / "toy.yaml")])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        main()
    signal.signal(signal.SIGTERM, before)
    assert end.value.code == 2
    expected = "exadec: there is not enough memory for this; try it with less data, or on a machine with more memory."
    assert " ".join(capfd.readouterr().err.split()) == expected


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "exadec: there is not enough memory for this; try a smaller training.batch_size,"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "there is not enough memory for"),
        (torch.OutOfMemoryError("CUDA out of memory."), "exadec: there is not enough memory on the GPU for this;"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_lack_of_memory_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("exadec.training.trainer.build_model", fail)
    monkeypatch.setattr(sys, "argv", ["exadec", "train", str(folder / "toy.yaml"), "--run", str(folder / "no-memory")])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        main()
    signal.signal(signal.SIGTERM, before)
    assert end.value.code == 2
    assert message in " ".join(capfd.readouterr().err.split())
    assert not (folder / "no-memory").exists()


@pytest.mark.parametrize("wanted", [True, False])
def test_the_demo_starts_the_page_or_says_how(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[tuple[Path, int]] = []
    monkeypatch.setattr("exadec.demo.run_demo", lambda folder, *_: folder / "report.html")
    monkeypatch.setattr(runs, "serve", lambda run, port: served.append((run, port)))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "exadec"), "demo"])
    runs.demo(tmp_path / "demo", serve_=wanted, port=8001 if wanted else None)
    assert served == ([(tmp_path / "demo" / "adadec", 8001)] if wanted else [])
    line = f"To write with its model in a browser: {tmp_path / 'exadec'} serve {tmp_path / 'demo' / 'adadec'}\n"
    assert capsys.readouterr().err == ("" if wanted else line)


@pytest.mark.parametrize("name", ["adadec", "mine"])
def test_the_demo_does_not_take_the_place_of_other_runs(run: Path, tmp_path: Path, name: str) -> None:
    """Neither of a run with a name of its own models, nor of another one's corpus."""
    shutil.copytree(run, tmp_path / "work" / name)
    before = sorted((tmp_path / "work").rglob("*"))
    done = exadec("demo", "--folder", tmp_path / "work")
    assert done.returncode == 2
    assert f"work/{name}: this run has other settings than the demo's" in " ".join(done.stderr.split())
    assert sorted((tmp_path / "work").rglob("*")) == before
    assert (
        "has its folder from `exadec demo --folder`"
        in exadec("demo", "--folder", tmp_path / "new", "--set", "folder=x").stderr
    )
    assert not (tmp_path / "new").exists()


def test_no_run_at_a_time_is_refused_even_for_one_run(folder: Path) -> None:
    done = exadec("train", "toy.yaml", "--at-once", 0, cwd=folder)
    assert done.returncode == 2
    assert "greater than or equal to 1" in " ".join(done.stderr.split())
