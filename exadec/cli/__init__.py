"""The command line; each verb calls one public function.

In: arguments, files, text on stdin. Out: text on stdout, messages on stderr, exit status 2 for mistakes a user can fix.
"""

import errno
import logging
import os
import signal
import sys
from importlib.metadata import version
from io import TextIOWrapper
from types import FrameType
from typing import Annotated, NoReturn

import typer

from exadec.cli.configs import configs
from exadec.cli.console import MessageHandler, messages, say, with_options
from exadec.cli.data import inspect, prepare, retrieve
from exadec.cli.experiment import experiment
from exadec.cli.exporting import export
from exadec.cli.runs import demo, train
from exadec.cli.scoring import ScoreCommand, report, score
from exadec.cli.serving import serve
from exadec.cli.styling import style
from exadec.cli.writing import generate, swap
from exadec.errors import InputError, explain_lack_of_memory

_WITHOUT_MODEL = {"prepare", "retrieve", "inspect", "score"}
"""Verbs that need no model."""
_RESUMABLE = {"demo", "prepare", "retrieve", "train", "experiment"}
"""Verbs that go on where they stopped."""

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # of every verb
    pretty_exceptions_enable=False,
    help="Write text from a source (what to say) in the manner of an exemplar (how to say it).\n\n"
    "To try it: `exadec demo`. To use your own data: write JSONL records with `source` and `target`, begin with "
    "`exadec config show news > mine.yaml`, then run `exadec train mine.yaml` and `exadec generate RUN`.",
)
for verb in (
    demo,
    prepare,
    retrieve,
    train,
    generate,
    score,
    inspect,
    report,
    swap,
    export,
    serve,
    style,
    experiment,
):  # the order `--help` shows
    app.command(cls=ScoreCommand if verb is score else None)(verb)
app.add_typer(configs, name="config")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"exadec {version('exadec')}")
        raise typer.Exit


@app.callback()
def before_any_verb(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Only the options that come before a verb; the help of `app` describes the command."""


def main() -> None:
    """Run the command. A mistake that a user can fix prints one line on stderr, no traceback, and exits with 2."""
    # Text is UTF-8 on the way in and out, whatever the locale. What cannot be written is shown as its number.
    sys.argv = [os.fsencode(argument).decode(errors="surrogateescape") for argument in sys.argv]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, handlers=[MessageHandler()])
    logging.getLogger("exadec").setLevel(logging.INFO)  # such as word-vector coverage, or a reader's counts
    signal.signal(signal.SIGTERM, _end_as_with_ctrl_c)
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # it may be closed
                sys.stdout.flush()  # what cannot be written is said below, not by Python at its end
    except BrokenPipeError:  # the reader of our output has exited, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer makes it status 1
            sys.exit(0)
        if isinstance(end.__context__ and end.__context__.__cause__, KeyboardInterrupt):  # typer says nothing of it
            goes_on = " What was finished before is kept; run the same command again to go on."
            say(f"Interrupted.{goes_on if _RESUMABLE & {*sys.argv[1:2]} else ''}")
        raise
    except InputError as error:
        _fail(with_options(str(error)))
    except OSError as error:
        if error.filename is None and error.errno == errno.ENOSPC:  # every other file has a name
            error.filename = "the output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would try once more when it ends
        named = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {error.strerror}." if named else str(error))
    except (MemoryError, RuntimeError) as error:
        reason = explain_lack_of_memory(error, with_model=not _WITHOUT_MODEL & {*sys.argv[1:2]})
        if reason is None:
            raise
        _fail(reason)


def _end_as_with_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Also where Ctrl-C itself is ignored, as in a command that a script has sent to the background."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(number, frame)


def _fail(reason: str) -> NoReturn:
    messages.quiet = False  # with several processes, the one that fails says why
    say(f"exadec: {reason}", style="red")
    sys.exit(2)
