"""The command that hands a run over: `export`.

In: a run. Out: one file, or a folder of ONNX files.
"""

from pathlib import Path
from typing import Annotated

import typer

from exadec.cli.console import CorpusFolder, refuse_address, say
from exadec.errors import InputError


def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", callback=refuse_address, help="Folder of a trained run; for --onnx also a file of `export`."
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="NAME.exadec", help="The file to write.")] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write ONNX files instead, for programs without exadec. Needs the extra `onnx`."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="float32|bfloat16", help="Of the weights; bfloat16 halves the file.")
    ] = "float32",
    with_exemplars: Annotated[
        bool,
        typer.Option(
            "--with-exemplars", help="Add training targets and their index, to retrieve exemplars without the corpus."
        ),
    ] = False,
    with_bank: Annotated[
        bool, typer.Option("--with-bank", help="Add λ of each training target, too (float16), for studies of styles.")
    ] = False,
    exemplars: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where `serve` kept what it deleted, to leave that out; by default beside the run."
        ),
    ] = None,
    corpus: CorpusFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
) -> None:
    """Put a run's model into one file that works anywhere.

    exadec export demo/adadec --out adadec.exadec --with-exemplars

    echo "Norway gave Ghana aid." | exadec generate adadec.exadec

    The file is a ZIP file without compression. Its README.md says what the model is and how well it scored.
    With --with-exemplars, whoever has the file can read the training targets, and which words their sources have.

    exadec export demo/adadec --onnx adadec-onnx

    The folder has two graphs, one that reads and one that takes a step of the decoder, and a manifest that says how to
    use them.
    """
    if (out is None) == (onnx is None):
        raise InputError("choose what to write: one file with --out NAME.exadec, or ONNX files with --onnx FOLDER.")
    if out is not None:
        from exadec.bundle.packing import export as export_run

        written = export_run(run, out, precision, with_exemplars, corpus, force, with_bank, exemplars)
        say(f"{written}: {written.stat().st_size:,} bytes.")
    elif onnx is not None:
        if precision != "float32" or with_exemplars or with_bank or corpus is not None or exemplars is not None:
            raise InputError(
                "--precision, --with-exemplars, --with-bank, --exemplars and --corpus are for --out; leave them out "
                "with --onnx."
            )
        from exadec.bundle.onnx_folder import export_onnx

        for path in sorted(export_onnx(run, onnx, force).iterdir()):
            say(f"{path}: {path.stat().st_size:,} bytes.")
