"""The command line; each verb calls one public function.

In: arguments, files, text on stdin. Out: text on stdout, messages on stderr, exit status 2 for mistakes a user can fix.
"""

import logging
import sys

import typer

from exadec.cli.console import MessageHandler, messages, say
from exadec.cli.data import inspect, prepare, retrieve
from exadec.cli.runs import demo, train
from exadec.cli.scoring import ScoreCommand, report, score
from exadec.cli.writing import generate, swap
from exadec.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Write text from a source (what to say) in the manner of an exemplar (how to say it).\n\n"
    "A first look: `exadec demo`. A data set of your own: put it into JSONL records with `source` and `target`, copy "
    "a file of configs/, then `exadec train CONFIG --variant adadec` and `exadec generate RUN`.",
)
for verb in (demo, prepare, retrieve, train, generate, score, inspect, report, swap):  # the order `--help` shows
    app.command(cls=ScoreCommand if verb is score else None)(verb)


def main() -> None:
    """Run the command. A mistake that a user can fix is one line on stderr and exit status 2, never a traceback."""
    logging.basicConfig(level=logging.WARNING, handlers=[MessageHandler()])
    logging.getLogger("exadec").setLevel(logging.INFO)  # coverage of word vectors, counts of a reader
    try:
        app()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except (InputError, OSError) as error:
        messages.quiet = False  # of several processes the one that fails says why
        say(f"exadec: {error}", style="red")
        sys.exit(2)
