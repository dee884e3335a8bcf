"""The commands of the README and of docs/exemplars.md, run as a newcomer would run them, on a smaller wire."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from exadec.api import load
from exadec.config import VARIANTS
from exadec.textmetrics.licensing import Checker
from exadec.training.checkpoint import open_run
from exadec.training.evaluation import read_outputs
from support.small_wire import SMALL

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
EXEMPLARS = (ROOT / "docs" / "exemplars.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SHELL = re.findall(r"```sh\n(.*?)```", README + EXEMPLARS, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README + EXEMPLARS, re.DOTALL)


def commands() -> list[str]:
    joined = [block.replace("\\\n", " ") for block in SHELL]
    return [line for block in joined for line in block.splitlines() if line.strip()]


def is_runnable(command: str) -> bool:
    """`make` and `pip` would change the environment that the tests run in."""
    return not command.startswith(("make ", "pip "))


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
    assert done.stderr.splitlines()[-1] == "To write with its model in a browser: exadec serve demo/adadec"
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_two_commands_exist_and_do_what_is_said() -> None:
    assert [line.split("#")[0].strip() for line in SHELL[0].splitlines()] == ["make demo", "make test"]
    for target, expected in (("demo", "exadec demo"), ("test", "python -m pytest")):
        planned = run(["make", "--dry-run", target], ROOT)
        assert expected in planned.stdout, planned.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [*filter(is_runnable, commands())], ids=lambda command: " ".join(command.split()[:6])
)
def test_command_works(newcomer: Path, command: str) -> None:
    done = run(["bash", "-o", "pipefail", "-c", command], newcomer)
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr or not command.startswith("exadec")


@pytest.mark.slow
def test_demo_is_not_run_again_when_nothing_has_changed(newcomer: Path) -> None:
    weights = newcomer / "demo" / "adadec" / "best.safetensors"
    made = weights.stat().st_mtime_ns
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    assert run([sys.executable, "-m", "exadec", "demo", *settings], newcomer).returncode == 0
    assert weights.stat().st_mtime_ns == made


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_demo_states_only_what_its_sources_license(newcomer: Path, variant: str) -> None:
    run = open_run(newcomer / "demo" / variant)
    outputs = read_outputs(run.folder / "test.outputs.jsonl")
    assert len(outputs) == SMALL["corpus.wire_heldout"]
    stated = [Checker(output.source, run.read_names()).check(output.text) for output in outputs]
    assert all(output.text for output in outputs)
    assert sum(map(len, stated)) >= len(outputs)
    assert [fact for facts in stated for fact in facts if not fact.licensed] == []
    (source,) = re.findall(r'^source = "(.*)"$', README, re.MULTILINE)
    written = load(run.folder).write(source)
    assert written.facts is not None
    assert all(fact.licensed for fact in written.facts)


@pytest.mark.slow
@pytest.mark.parametrize(("example", "shown"), list(zip(PYTHON, ["in the manner of", "Hit(id=1"], strict=True)))
def test_python_example_works(newcomer: Path, example: str, shown: str) -> None:
    assert len(example.strip().splitlines()) <= 10
    done = run([sys.executable, "-W", "error", "-c", example], newcomer)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_ratios_of_speed_are_those_measured() -> None:
    """OpenNMT-py as released, the fastest variant of it, and the plain loop: at each batch size, AdaDec's ratio."""
    measured = json.loads((ROOT / "docs" / "results" / "training" / "toolkits_gpu.json").read_text("utf-8"))
    (line,) = [line for line in README.splitlines() if "How fast is training?" in line]
    ratios = [result["times_faster"]["exadec AdaDec"] for result in measured["results"]]

    def least(start: str) -> list[float]:
        return [min(value for name, value in each.items() if name.startswith(start)) for each in ratios]

    released, best, loop = least("OpenNMT-py ("), least("OpenNMT-py"), least("torch.nn.LSTM")
    assert "{:.0f} and {:.0f} times OpenNMT-py".format(*released) in line
    assert "{:.1f} and {:.1f} times the best variant".format(*best) in line
    assert "{:.1f} and {:.1f} times a plain loop".format(*loop) in line


def test_links_and_pictures_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 4
    for target in targets:
        assert (ROOT / target).exists(), target
