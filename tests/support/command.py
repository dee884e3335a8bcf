"""The command line in a process of its own."""

import subprocess
import sys
from pathlib import Path

from support.forked import run_forked

SOURCE = "house1 house1 n3 k5"


def exadec(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Warnings are errors, as everywhere in the tests."""
    given = [str(argument) for argument in arguments]
    done = run_forked(given, cwd or Path.cwd(), stdin, seconds=120, strict=True)
    return subprocess.CompletedProcess(["exadec", *given], done.status, done.out, done.errors)


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    """Exit status 2, one line on stderr that holds the message, nothing on stdout."""
    assert done.returncode == 2, done
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def assert_refused_in(folder: Path, arguments: list[str], message: str) -> None:
    """The command is refused, and no file of the folder is made or removed."""
    before = sorted(folder.rglob("*"))
    assert_refused(exadec(*arguments, stdin=SOURCE.encode(), cwd=folder), message)
    assert sorted(folder.rglob("*")) == before


def assert_needs_no_torch(*arguments: object) -> None:
    program = (
        "import sys; from exadec.cli import app\n"
        f"try: app({[str(argument) for argument in arguments]!r})\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
