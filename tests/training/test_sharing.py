"""NVIDIA's Multi-Process Service is started, tried and ended as it should be; a script plays its part."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exadec.training import sharing

CONTROL = """#!/bin/sh
echo "$@" >> {log}
[ "$1" = -d ] && {{ echo "$CUDA_MPS_PIPE_DIRECTORY" > {log}.folder; exit {status}; }}
cat >> {log}
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, status=0)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in sharing._FOLDERS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "log"


def install(folder: Path, status: int) -> None:
    control = folder / sharing._CONTROL
    control.write_text(CONTROL.format(log=folder / "log", status=status), "utf-8")
    control.chmod(0o755)


def folder_of(log: Path) -> Path:
    return Path(log.with_suffix(".folder").read_text("utf-8").strip())


def test_processes_find_the_service_while_it_runs(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_PROBE", "")
    with sharing.shared_card() as running:
        assert running
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == str(folder_of(log))
        assert log.read_text("utf-8").split() == ["-d"]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert log.read_text("utf-8").split() == ["-d", "quit"]
    assert not folder_of(log).exists()


@pytest.mark.parametrize("probe", ["import sys; sys.exit(1)", None])
def test_training_does_without_a_service_that_fails(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: str | None
) -> None:
    if probe is None:
        install(tmp_path, status=1)
    else:
        monkeypatch.setattr(sharing, "_PROBE", probe)
    with sharing.shared_card() as running:
        assert not running
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert not folder_of(log).exists()


def test_service_of_somebody_else_is_left_alone(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    with sharing.shared_card() as running:
        assert not running
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/somewhere"
    assert not log.exists()


KILLED = """
import time
from exadec.training import sharing
sharing._PROBE = ""
with sharing.shared_card():
    print("running", flush=True)
    time.sleep(60)
"""


def test_service_ends_when_its_process_is_killed(log: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for _ in range(100):
        if not folder_of(log).exists():
            break
        time.sleep(0.1)
    assert log.read_text("utf-8").split() == ["-d", "quit"]
    assert not folder_of(log).exists()
