"""The command for house styles: `style`.

In: a run or a server, a name, exemplars. Out: the run's styles on stdout, and in a file beside the run.
"""

from pathlib import Path
from typing import Annotated

import typer

from exadec.cli.console import DeviceName, RunOrServer, say
from exadec.cli.writing import read_exemplars
from exadec.errors import InputError
from exadec.remote.methods import RemoteStyles
from exadec.remote.service import Service, is_address
from exadec.styles import Mixture, Styles


def style(
    run: RunOrServer,
    name: Annotated[
        str | None, typer.Argument(help="The style to show, save or remove; without it, all are listed.")
    ] = (None),
    exemplar: Annotated[
        list[str] | None, typer.Option(help="Save the style: it is the mean of these texts; repeat the option.")
    ] = None,
    exemplars: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the style: it is the mean of these texts, one per line.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the style.")] = False,
    device: DeviceName = None,
) -> None:
    """List, save and remove house styles: the mean λ of some exemplars, under a name.

    exadec style RUN brief --exemplar "Fire: two hurt" --exemplar "Flood: 12 dead"

    exadec generate RUN --style brief < stories.txt

    The page and the API of `exadec serve` use the same styles; RUN may be the address of a server, too.
    """
    texts = [*(exemplar or []), *([] if exemplars is None else read_exemplars(exemplars))]
    if device is not None and (not texts or remove):
        raise InputError("--device is where λ of a new style is computed; leave it out where no style is saved.")
    if name is None:
        if texts or remove:
            raise InputError("give the style a name: exadec style RUN NAME.")
        _list(run)
        return
    if remove:
        if texts:
            raise InputError("--remove takes no exemplars.")
        _styles(run).remove(name)
        say(f"Removed the style {name}.")
    elif texts:
        from exadec.api import load

        load(run, device=device).save_style(name, Mixture.of(texts))
        count = f"{len(texts):,} exemplar{'s' * (len(texts) > 1)}"
        say(f"Saved the style {name}, the mean of {count}. Use it with --style: exadec generate RUN --style NAME")
    else:
        for text, weight in _styles(run).get(name).parts:
            print(f"{weight:g}\t{text}")


def _list(run: str) -> None:
    found = _styles(run).all()
    for name, mixture in found.items():
        print(f"{name}\t{len(mixture.parts)}")
    if not found:
        say("There are no styles yet. If the model adapts, exadec style RUN NAME --exemplar TEXT saves one.")


def _styles(run: str) -> Styles:
    """Without loading the model."""
    if is_address(run):
        return RemoteStyles(Service(run))
    from exadec.bundle.packed import open_folder_or_bundle

    return open_folder_or_bundle(Path(run)).styles
