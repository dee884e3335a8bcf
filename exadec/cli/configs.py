"""The commands for configurations that ship with exadec: `config list`, `config show`.

In: a name. Out: names with a description each, or the text of a file.
"""

from pathlib import Path
from typing import Annotated

import typer

from exadec.errors import InputError
from exadec.settings import shipped_configs

configs = typer.Typer(no_args_is_help=True, help="List and show the configurations that come with exadec.")


@configs.command("list")
def list_configs() -> None:
    """List names that stand for a CONFIG or, under plans/, for a PLAN."""
    shipped = shipped_configs()
    width = max(map(len, shipped))
    for name, path in shipped.items():
        print(f"{name:{width}}  {_describe(path)}")


@configs.command("show")
def show_config(name: Annotated[str, typer.Argument(metavar="NAME", help="A name that `config list` shows.")]) -> None:
    """Print a configuration, to read it or to begin one of your own.

    exadec config show news > mine.yaml
    """
    shipped = shipped_configs()
    if name not in shipped:
        raise InputError(f"no configuration that comes with exadec is named {name!r}; there are {', '.join(shipped)}.")
    print(shipped[name].read_text(encoding="utf-8"), end="")


def _describe(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    comment = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment).partition(". ")[0].rstrip(".")
