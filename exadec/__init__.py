"""Text generation with exemplar-based adaptive decoding (Peng et al., NAACL 2019)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exadec.api import Generation, Writer, load, train
    from exadec.bundle.onnx_folder import export_onnx
    from exadec.bundle.packing import export
    from exadec.config import Config
    from exadec.corpus.prepare import prepare
    from exadec.corpus.record import Record
    from exadec.exemplars.retrieve import retrieve
    from exadec.request import Request
    from exadec.textmetrics.metrics import score
    from exadec.training.evaluation import evaluate
    from exadec.views.results import compare_runs

    __version__: str

__all__ = [
    "Config",
    "Generation",
    "Record",
    "Request",
    "Writer",
    "compare_runs",
    "evaluate",
    "export",
    "export_onnx",
    "load",
    "prepare",
    "retrieve",
    "score",
    "train",
]

_HOMES = {
    "Config": "exadec.config",
    "Generation": "exadec.api",
    "Record": "exadec.corpus.record",
    "Request": "exadec.request",
    "Writer": "exadec.api",
    "compare_runs": "exadec.views.results",
    "evaluate": "exadec.training.evaluation",
    "export": "exadec.bundle.packing",
    "export_onnx": "exadec.bundle.onnx_folder",
    "load": "exadec.api",
    "prepare": "exadec.corpus.prepare",
    "retrieve": "exadec.exemplars.retrieve",
    "score": "exadec.textmetrics.metrics",
    "train": "exadec.api",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `exadec --help` does not wait for torch."""
    if name == "__version__":
        from importlib.metadata import version

        return version("exadec")
    if name == "errors":
        return import_module("exadec.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'exadec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also before their first use."""
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]
