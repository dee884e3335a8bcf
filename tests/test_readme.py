"""The README's commands, run as a newcomer would run them, on a smaller wire."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SMALL = {
    "corpus.wire_train": 300,
    "corpus.wire_outlets": 30,
    "corpus.wire_heldout": 40,
    "corpus.vocabulary_size": 700,
    "model.hidden": 16,
    "model.embedding": 16,
    "training.evaluation_size": 10,
}


def commands() -> list[str]:
    joined = [block.replace("\\\n", " ") for block in SHELL]
    return [line for block in joined for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `exadec demo` has been run, and `configs/wire.yaml` is small."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "configs").mkdir()
    text = (ROOT / "configs" / "wire.yaml").read_text("utf-8")
    for key, value in SMALL.items():
        text, count = re.subn(rf"^(  {key.partition('.')[2]}: )\S+", rf"\g<1>{value}", text, flags=re.MULTILINE)
        assert count == 1, key
    (folder / "configs" / "wire.yaml").write_text(text, "utf-8")
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    done = run([sys.executable, "-m", "exadec", "demo", *settings], folder)
    assert done.returncode == 0, done.stderr
    for shown in ("Seq2seq", "AttExp", "AdaDec", "AdaDec+AttExp", "ROUGE-L", "source: what to say"):
        assert shown in done.stdout
    assert "demo/report.html" in done.stderr
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_two_commands_exist_and_do_what_is_said() -> None:
    assert [line.split("#")[0].strip() for line in SHELL[0].splitlines()] == ["make demo", "make test"]
    for target, expected in (("demo", "exadec demo"), ("test", "python -m pytest")):
        planned = run(["make", "--dry-run", target], ROOT)
        assert expected in planned.stdout, planned.stderr


@pytest.mark.parametrize("command", commands()[2:], ids=lambda command: " ".join(command.split()[:6]))
def test_command_works(newcomer: Path, command: str) -> None:
    done = run(["bash", "-o", "pipefail", "-c", command], newcomer)
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr or not command.startswith("exadec")


def test_demo_is_not_run_again_when_nothing_has_changed(newcomer: Path) -> None:
    weights = newcomer / "demo" / "adadec" / "best.safetensors"
    made = weights.stat().st_mtime_ns
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    assert run([sys.executable, "-m", "exadec", "demo", *settings], newcomer).returncode == 0
    assert weights.stat().st_mtime_ns == made


@pytest.mark.parametrize(("example", "shown"), list(zip(PYTHON, ["in the manner of", "Hit(id=1"], strict=True)))
def test_python_example_works(newcomer: Path, example: str, shown: str) -> None:
    assert len(example.strip().splitlines()) <= 10
    done = run([sys.executable, "-W", "error", "-c", example], newcomer)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_tree_lists_every_module() -> None:
    (tree,) = re.findall(r"```\nexadec/\n(.*?)```", README, re.DOTALL)
    listed = set(re.findall(r"^\s+(\w+\.py)", tree, re.MULTILINE))
    found = {
        path.name for path in (ROOT / "exadec").rglob("*.py") if path.parent.name == "exadec" or path.stem != "__init__"
    }
    assert listed == found


def test_links_and_pictures_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 4
    for target in targets:
        assert (ROOT / target).exists(), target
