"""The command that answers requests over HTTP: `serve`.

In: a run, and requests. Out: texts, until a signal ends it.
"""

import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from exadec.cli.console import CorpusFolder, DeviceName, RunFolder, SearchOverrides, say
from exadec.errors import InputError
from exadec.remote.service import choose_token

_NEEDED = ("fastapi", "fastapi_offline", "uvicorn", "prometheus_client")


def require_packages() -> None:
    """Refuse to go on without what only the server needs."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"`exadec serve` needs {' and '.join(missing)}: pip install 'exadec[serve]'")


def serve(
    run: RunFolder,
    host: Annotated[str, typer.Option(help="Where to listen; the default can be reached from this machine alone.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Ask for `Authorization: Bearer TEXT`, in ASCII. The variable EXADEC_TOKEN hides it from ps.",
        ),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait; more are told to come back (429).")] = 256,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds in which a request is answered (503).")] = 30.0,
    max_bytes: Annotated[int, typer.Option(min=1, help="Of the body of a request (413).")] = 200_000,
    exemplars: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep accepted and deleted exemplars here; by default beside the run."),
    ] = None,
    device: DeviceName = None,
    corpus: CorpusFolder = None,
    set_: SearchOverrides = None,
) -> None:
    """Write texts for whoever asks over HTTP.

    exadec serve demo/adadec

    curl -s localhost:8000/v1/write -H 'Content-Type: application/json' -d '{"source": "Norway gave Ghana aid."}'

    http://127.0.0.1:8000/docs describes all requests; `exadec.load("http://127.0.0.1:8000")` is a Writer.
    Requests that arrive together are written together. Ctrl-C or SIGTERM: what was begun is finished first.
    Accepted exemplars (POST /v1/exemplars) can be retrieved at once, and are there again after a restart.
    """
    require_packages()
    token = choose_token(token)
    # On a CPU, oneDNN keeps code for up to 1,024 shapes of matrices. Each batch has new ones, so memory would grow for
    # a long time. Without the cache it stays flat, at the same speed. Torch, loaded below, reads the variable.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    from exadec.server.desk import open_writer
    from exadec.server.door import Limits
    from exadec.server.running import serve as serve_run

    open_run = partial(open_writer, run, exemplars, set_ or [], device, corpus)
    limits = Limits(max_bytes, timeout, queue)
    serve_run(open_run, host, port, token, limits, lambda address: say(f"Ready at {address}"))
    say("Stopped; what was begun is finished.")
