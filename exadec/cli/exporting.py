"""The command that hands a run over: `export`.

In: a run. Out: one file.
"""

from pathlib import Path
from typing import Annotated

import typer

from exadec.cli.console import CorpusFolder, say


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.")],
    out: Annotated[Path, typer.Option(metavar="NAME.exadec", help="The file to write.")],
    precision: Annotated[
        str, typer.Option(metavar="float32|bfloat16", help="Of the weights; bfloat16 halves the file.")
    ] = "float32",
    with_exemplars: Annotated[
        bool,
        typer.Option(
            "--with-exemplars", help="Add training targets and their index, to retrieve exemplars without the corpus."
        ),
    ] = False,
    corpus: CorpusFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
) -> None:
    """Put a run's model into one file that works anywhere.

    exadec export demo/adadec --out adadec.exadec --with-exemplars

    echo "Norway gave Ghana aid." | exadec generate adadec.exadec

    The file is a ZIP file without compression. Its README.md says what the model is and how well it scored.
    With --with-exemplars, whoever has the file can read the training targets, and which words their sources have.
    """
    from exadec.bundle.packing import export as export_run

    written = export_run(run, out, precision, with_exemplars, corpus, force)
    say(f"{written}: {written.stat().st_size:,} bytes.")
