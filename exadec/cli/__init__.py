"""The command line; each verb calls one public function.

In: arguments, files, text on stdin. Out: text on stdout, messages on stderr, exit status 2 for mistakes a user can fix.
"""

import logging
import os
import sys
from io import TextIOWrapper

import typer

from exadec.cli.console import MessageHandler, messages, say
from exadec.cli.data import inspect, prepare, retrieve
from exadec.cli.experiment import experiment
from exadec.cli.runs import demo, train
from exadec.cli.scoring import ScoreCommand, report, score
from exadec.cli.writing import generate, swap
from exadec.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Write text from a source (what to say) in the manner of an exemplar (how to say it).\n\n"
    "To try it: `exadec demo`. To use your own data: write JSONL records with `source` and `target`, copy a file from "
    "configs/, then run `exadec train CONFIG --variant adadec` and `exadec generate RUN`.",
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
    experiment,
):  # the order `--help` shows
    app.command(cls=ScoreCommand if verb is score else None)(verb)


def main() -> None:
    """Run the command. A mistake that a user can fix prints one line on stderr, no traceback, and exits with 2."""
    # Text is UTF-8 on the way in and out, whatever the locale. What cannot be written is shown as its number.
    sys.argv = [os.fsencode(argument).decode(errors="surrogateescape") for argument in sys.argv]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, handlers=[MessageHandler()])
    logging.getLogger("exadec").setLevel(logging.INFO)  # such as word-vector coverage, or a reader's counts
    try:
        app()
    except BrokenPipeError:  # the reader of our output has exited, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except (InputError, OSError) as error:
        messages.quiet = False  # with several processes, the one that fails says why
        say(f"exadec: {error}", style="red")
        sys.exit(2)
    except MemoryError:
        say("exadec: there is not enough memory for this.", style="red")
        sys.exit(2)
