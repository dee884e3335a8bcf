"""The command line in a forked process: as isolated as a new one, but it starts in a millisecond."""

import ctypes
import gc
import logging
import os
import signal
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from exadec.cli import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    """Exit status; minus the signal's number if a signal ended it"""
    out: str
    errors: str
    peak: int
    """Most memory, in MiB"""

    @property
    def is_clean(self) -> bool:
        """Whether it ended well, or by saying what is wrong with its input."""
        return self.status in (0, 2) and "Traceback" not in self.errors and "Aborted" not in self.errors


def fork() -> int:
    """`os.fork`, without the warning of newer versions of Python if there are threads: no child uses them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # it would wait for threads that only its parent has:
        torch.set_num_threads(1)  # to compute,
        gc.freeze()  # and to free what the parent left behind, such as sessions of onnxruntime
    return child


def heed_modes() -> None:
    """Make the permissions of files hold for this process, even if it is root's."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the version of the call, and this process
    capabilities = (ctypes.c_uint32 * 6)()  # none
    assert ctypes.CDLL(None).capset(header, capabilities) == 0


def run_forked(
    arguments: list[str],
    folder: Path,
    stdin: bytes = b"",
    seconds: int = 30,
    strict: bool = False,
    heeding_modes: bool = False,
) -> Outcome:
    """Run a command in a folder. One that takes longer is ended by SIGALRM. If `strict`, warnings are errors."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        child = fork()
        if child == 0:
            if heeding_modes:
                heed_modes()
            _run(arguments, folder, (given.fileno(), out.fileno(), errors.fileno()), seconds, strict)
        _, status, usage = os.wait4(child, 0)
        out.seek(0)
        errors.seek(0)
        texts = out.read().decode(errors="replace"), errors.read().decode(errors="replace")
    return Outcome(os.waitstatus_to_exitcode(status), *texts, usage.ru_maxrss >> 10)


def _run(arguments: list[str], folder: Path, streams: tuple[int, int, int], seconds: int, strict: bool) -> None:
    """In the child; never returns."""
    status = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        warnings.simplefilter("error" if strict else "default")
        logging.getLogger().handlers.clear()  # those of pytest
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        os.chdir(folder)
        sys.argv = ["exadec", *arguments]
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
