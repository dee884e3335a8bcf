"""The command line in a real process."""

import subprocess
import sys
from pathlib import Path

SOURCE = "house1 house1 n3 k5"


def exadec(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "exadec", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


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
