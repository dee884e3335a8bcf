"""A run as a folder of ONNX files, for programs without exadec or torch.

In: a run. Out: a folder with `encoder.onnx`, `step.onnx`, the vocabulary, the segmentation, and a manifest that says
how to use them. It holds no programs: graphs of standard operators, weights and JSON.
"""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from exadec.bundle.graphs import OPSET, Graph, trace
from exadec.bundle.packed import open_folder_or_bundle
from exadec.corpus.segment import JOINER, WORD, BpeSegmenter
from exadec.corpus.stage import MANIFEST, read_manifest, rebuild
from exadec.corpus.vocabulary import BOS, EOS, NONE, PAD, UNK
from exadec.errors import InputError
from exadec.search.generate import NEVER_WRITTEN
from exadec.training.checkpoint import VOCABULARY, Run
from exadec.training.weights import hash_tensors

FORMAT = "exadec ONNX 1"
ENCODER, STEP = "encoder.onnx", "step.onnx"


def export_onnx(run: Path | str, folder: Path | str, force: bool = False) -> Path:
    """Write a run's model as two ONNX graphs, `encoder.onnx` and `step.onnx`, and what is needed to use them.

    `run` is a run folder, or a file that `export` wrote. `force` replaces an earlier folder of ONNX files.
    """
    opened, folder = open_folder_or_bundle(Path(run)), Path(folder)
    _refuse_folder(folder, force)
    model = opened.load_model(device="cpu")
    encoder, step = trace(model)
    with rebuild(folder, hash_tensors(model.state_dict()), _facts(opened, encoder, step)) as draft:
        (draft / ENCODER).write_bytes(encoder.content)
        (draft / STEP).write_bytes(step.content)
        pieces = json.dumps(opened.vocabulary.pieces, ensure_ascii=False, indent=0)
        (draft / VOCABULARY).write_text(pieces, encoding="utf-8")
        opened.segmenter.save(draft)
    return folder


def _refuse_folder(folder: Path, force: bool) -> None:
    """Refuse what is there already, unless it is of our own and may be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force:
        raise InputError(f"{folder}: exists; choose another name, or replace it with `force=True`.")
    if not (folder / MANIFEST).is_file() or read_manifest(folder).get("format") != FORMAT:
        raise InputError(f"{folder}: not a folder of ONNX files that exadec wrote; choose another name.")


def _facts(run: Run, encoder: Graph, step: Graph) -> dict[str, Any]:
    """What another program has to know."""
    corpus, model = run.config.corpus, run.config.model
    segmentation: dict[str, Any] = {"kind": corpus.segmentation, "lower_case": corpus.lower_case}
    if corpus.segmentation != "words":
        segmentation["file"] = BpeSegmenter.FILE
    elif not corpus.pretokenized:
        segmentation |= {"pattern": WORD.pattern, "joiner": JOINER}
    exemplars = {
        "read": model.exemplars_read if model.reads_exemplars else 0,
        "longest": corpus.max_target,
        "copied": model.attend_exemplar,
        "marked_if_given": run.config.exemplars.marks_given,
    }
    return {
        "format": FORMAT,
        "exadec": version("exadec"),
        "model": model.variant,
        "opset": OPSET,
        "vocabulary": {"file": VOCABULARY, "size": len(run.vocabulary)},
        "special": {"padding": PAD, "unknown": UNK, "begin": BOS, "end": EOS, "none": NONE},
        "never_written": list(NEVER_WRITTEN),
        "segmentation": segmentation,
        "source": {"longest": corpus.max_source, "groups": run.facts.get("groups", [])},
        "exemplars": exemplars,
        "search": asdict(run.config.search),
        "encoder": {"file": ENCODER, **_ports(encoder)},
        "step": {"file": STEP, **_ports(step)},
    }


def _ports(graph: Graph) -> dict[str, Any]:
    return {"inputs": [asdict(port) for port in graph.inputs], "outputs": [asdict(port) for port in graph.outputs]}
