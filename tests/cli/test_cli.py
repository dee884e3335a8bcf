"""The command line as a whole: every verb once, and help."""

import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from exadec.cli.console import MessageHandler
from exadec.textmetrics.metrics import METRICS
from support.command import exadec


@pytest.mark.slow
def test_prepare_retrieve_train_generate_report(folder: Path) -> None:
    done = exadec("prepare", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "200 train, 200 valid, 200 test records" in done.stderr
    done = exadec("retrieve", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "mean similarity" in done.stderr
    for variant in ("seq2seq", "adadec"):
        done = exadec("train", folder / "toy.yaml", "--variant", variant, "--set", "training.epochs=1")
        assert done.returncode == 0, done.stderr
        assert "decoder P and Q" in done.stderr
        formula = "4 gates × 4d², bias d² a gate" if variant == "adadec" else "4 gates × 2d², bias d a gate"
        assert formula in done.stderr
        assert done.stdout == ""
        done = exadec("generate", folder / "work" / variant, "--split", "test")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 200
    report = folder / "report.html"
    done = exadec("report", folder / "work" / "seq2seq", folder / "work" / "adadec", "--out", report)
    assert done.returncode == 0, done.stderr
    assert "AdaDec" in done.stdout
    assert report.is_file()


@pytest.mark.parametrize("ending", [">&-", "| head -0"], ids=["closed", "nobody reads it"])
@pytest.mark.parametrize("command", ["config list", "inspect toy.yaml", "generate run --split valid", "report run"])
@pytest.mark.usefixtures("run")
def test_output_that_nobody_wants_is_no_error(folder: Path, command: str, ending: str) -> None:
    """What the command makes is made all the same."""
    made = {"generate": folder / "run" / "valid.outputs.jsonl", "report": folder / "report.html"}.get(
        command.split()[0]
    )
    assert exadec("generate", folder / "run", "--split", "test").returncode == 0
    if made is not None:
        made.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    whole = f"set -o pipefail; {sys.executable} -m exadec {command} {ending}"
    done = subprocess.run(
        ["bash", "-c", whole], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert made is None or made.is_file()


def test_a_filter_without_an_output_says_so(run: Path) -> None:
    whole = f"echo a | {sys.executable} -m exadec generate {run} >&-"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, "exadec: there is nowhere to write: stdout is closed.\n")


def test_a_warning_that_comes_again_is_shown_once_and_every_error(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("exadec")
    logger.addHandler(MessageHandler())
    for text in ("The texts look tokenised", "Some texts were cut", "The texts look tokenised"):
        logger.warning(text)
    assert capsys.readouterr().err == "exadec: The texts look tokenised\nexadec: Some texts were cut\n"
    for _ in range(2):
        logger.error("POST: it failed")
    assert capsys.readouterr().err == "exadec: POST: it failed\n" * 2


def test_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    done = exadec("--version")
    assert (done.returncode, done.stdout) == (0, f"exadec {project['version']}\n")


@pytest.mark.parametrize("verb", [[], ["train"], ["score"], ["config"], ["config", "show"]], ids=" ".join)
def test_h_is_help_everywhere(verb: list[str]) -> None:
    short, long = exadec(*verb, "-h"), exadec(*verb, "--help")
    assert short.returncode == 0
    assert "Usage" in short.stdout
    assert short.stdout == long.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("exadec tr", {"train"}), ("exadec config ", {"list", "show"}), ("exadec train --at", {"--at-once"})],
)
def test_a_shell_completes_verbs_and_options(typed: str, offered: set[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_EXADEC_COMPLETE": "complete_bash"}
    program = "import sys; sys.argv = ['exadec']; from exadec.cli import main; main()"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert offered <= set(done.stdout.split()), done


def test_help_lists_verbs_and_metrics() -> None:
    done = exadec("--help")
    assert done.returncode == 0
    for verb in ("demo", "prepare", "retrieve", "train", "generate", "score", "report", "swap", "export"):
        assert verb in done.stdout
        assert exadec(verb, "--help").returncode == 0
    listed = exadec("score", "--help").stdout
    assert all(name in listed for name in METRICS)


def test_a_full_disk_is_said_of_the_output(tmp_path: Path) -> None:
    for unbuffered in ("", "1"):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "exadec", "config", "list"],
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                cwd=tmp_path,
                check=False,
            )
        assert (done.returncode, done.stderr) == (2, b"exadec: the output: No space left on device.\n")


def test_warnings_speak_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.makeLogRecord({"msg": "name it with `corpus=FOLDER`, or `with_exemplars=True`", "levelno": 30})
    MessageHandler().emit(record)
    assert capsys.readouterr().err == "exadec: name it with --corpus FOLDER, or --with-exemplars\n"


def test_ctrl_c_before_the_command_line_is_there_ends_without_a_traceback() -> None:
    """The first import of the command line sends the signal itself."""
    program = (
        "import os, signal, sys, types\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'exadec.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from exadec.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("environment", "count"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_do_not_spin_for_long(environment: dict[str, str], count: str) -> None:
    """What OpenMP reads when torch is loaded is there before that, unless the user has chosen otherwise."""
    program = (
        "import os, sys, types\n"
        "sys.modules['exadec.cli'] = cli = types.ModuleType('exadec.cli')\n"
        "cli.main = lambda: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)\n"
        "from exadec.__main__ import main\n"
        "main()\n"
    )
    usual = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=usual | environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{count} False\n"
