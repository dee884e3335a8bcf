"""Code shared by the commands: messages, and the arguments that several of them take.

In: text for the user. Out: messages on stderr.
"""

import logging
import re
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from exadec.errors import InputError

messages = Console(stderr=True)
One = TypeVar("One", Path, list[Path])


def refuse_address(given: One) -> One:
    """Say that a command needs the run itself. A path has lost a slash of the address."""
    for place in [given] if isinstance(given, Path) else given:
        scheme, _, rest = str(place).partition(":/")
        if scheme.lower() in ("http", "https"):
            raise InputError(
                f"{scheme}://{rest}: a server keeps its model to itself; give this command the run itself."
            )
    return given


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file, or a name that `config list` shows.")]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", callback=refuse_address, help="Folder of a trained run, or a file of `export`."),
]
RunOrServer = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder of a trained run, a file of `export`, or the address of a server, http://HOST:PORT.",
    ),
]
CorpusFolder = Annotated[
    Path | None,
    typer.Option("--corpus", metavar="FOLDER", help="The run's corpus, if it is not where the run says."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one value of the configuration; repeatable."),
]

DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="cpu|cuda|cuda:N", help="Where to compute; by default a GPU if there is one."),
]

SearchOverrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="search.KEY=VALUE", help="Change one search setting; repeatable."),
]


def say(text: str, style: str = "") -> None:
    """Print a message on stderr, without wrapping it."""
    messages.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def with_options(message: str) -> str:
    """The library speaks of its arguments: `force=True` is --force here, and `corpus=FOLDER` is --corpus FOLDER."""
    message = re.sub(r"`(\w+)=True`", lambda found: f"--{found[1].replace('_', '-')}", message)
    return re.sub(r"`(\w+)=([A-Z]+)`", r"--\1 \2", message)


class MessageHandler(logging.Handler):
    """Shows the library's log messages beside the progress bars. The same warning of each evaluation is said once;
    every error of a server is said."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = with_options(record.getMessage())
        if message not in self._said or record.levelno >= logging.ERROR:
            self._said.add(message)
            say(f"exadec: {message}", style="yellow" if record.levelno >= logging.WARNING else "")
