"""A run on disk.

In: a model and the state of training. Out: files to load the model from, and to resume training exactly.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from exadec.config import Config
from exadec.corpus.prepare import Corpus, open_segmenter
from exadec.corpus.segment import BpeSegmenter, Segmenter
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError
from exadec.files import draft_of, flush, remove, replacing
from exadec.model.backends.choice import pick_device
from exadec.model.seq2seq import Seq2seq
from exadec.strict_yaml import Overrides, list_overrides
from exadec.training.events import CURVES, Line, parse_lines

CONFIG, FACTS, METRICS, VOCABULARY = "config.yaml", "run.json", "metrics.jsonl", "vocabulary.json"
BEST, LAST = "best.safetensors", "last.safetensors"
_OWN = {CONFIG, FACTS, METRICS, VOCABULARY, BEST, LAST, BpeSegmenter.FILE}
OUTPUTS = ".outputs.jsonl"
"""How the names of files with a run's outputs end, after the split."""


@dataclass(frozen=True)
class Run:
    """An opened run folder."""

    folder: Path
    config: Config
    facts: dict[str, Any]
    """The variant, the hashes of corpus, vocabulary and exemplar map, the corpus's path, torch's version; the groups
    of the training records, if the model is told the group."""
    vocabulary: Vocabulary
    segmenter: Segmenter

    def load_model(self, name: str = BEST, device: str | None = None) -> Seq2seq:
        """The model with the weights of a checkpoint, in evaluation mode, on the device that `pick_device` picks."""
        place = pick_device(device)
        tensors, notes = read_checkpoint(self.folder / name)
        if notes["vocabulary"] != self.vocabulary.hash():
            raise InputError(f"{self.folder / name}: the checkpoint was trained with another vocabulary.")
        model = Seq2seq(self.config.model, len(self.vocabulary), pretrained=_placeholder(self.config, tensors))
        model.load_state_dict({key[6:]: value for key, value in tensors.items() if key.startswith("model.")})
        return model.eval().to(place)

    def metrics(self) -> list[Line]:
        """The losses and scores that training logged, in order."""
        path = self.folder / METRICS
        return parse_lines(path.read_text(encoding="utf-8"), str(path))


def create_run(folder: Path, config: Config, corpus: Corpus, facts: dict[str, Any]) -> Run:
    """Write everything except the weights to a new folder, or in the place of an earlier run."""
    facts = {
        "corpus_folder": str(corpus.folder.resolve()),
        "corpus": corpus.hash,
        "vocabulary": corpus.vocabulary.hash(),
        "torch": torch.__version__,
        **facts,
    }
    if config.corpus.group_in_source:
        facts["groups"] = corpus.trained_groups()
    draft = draft_of(folder)
    remove(draft)
    draft.mkdir(parents=True)
    try:
        write_config(draft, config)
        corpus.vocabulary.save(draft / VOCABULARY)
        corpus.segmenter.save(draft)
        (draft / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        (draft / METRICS).touch()
        for path in (*draft.iterdir(), draft):
            flush(path)
        delete_run(folder)
        draft.rename(folder)
        flush(folder.parent)
    except BaseException:
        remove(draft)
        raise
    return open_run(folder)


def write_config(folder: Path, config: Config) -> None:
    with replacing(folder / CONFIG) as draft:
        draft.write_text(yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True), "utf-8")


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder that a run cannot replace, because it holds something that no run has written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way; choose another folder for the run.")
    for path in sorted(folder.rglob("*")):
        if not _is_own(path.relative_to(folder)):
            raise InputError(f"{path}: exadec did not write this, and would delete it; choose another folder.")


def _is_own(path: Path) -> bool:
    """Whether a run has a file or folder of this name."""
    if path.parts[0] == CURVES:
        return len(path.parts) == 1 or path.name.startswith("events.out.")
    name = path.name.removeprefix(".").removesuffix(".draft") if path.name.startswith(".") else path.name
    return len(path.parts) == 1 and (name in _OWN or name.endswith(OUTPUTS))


def delete_run(folder: Path) -> None:
    """Delete a run, its checkpoint first: what is left has nothing to resume, and is replaced by the next run."""
    refuse_other_files(folder)
    if not folder.exists():
        return
    for path in sorted(folder.iterdir(), key=lambda path: path.name != LAST):
        remove(path)
    folder.rmdir()


def open_run(folder: Path, overrides: Overrides = ()) -> Run:
    """Open a run folder, and refuse any other. `overrides` may change search settings: `search.key=value`."""
    for override in list_overrides(overrides):
        if not override.startswith("search."):
            raise InputError(f"only search.* settings of a trained run can change, but got {override!r}.")
    for name in (CONFIG, FACTS, VOCABULARY):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: not a run folder (there is no {name}).")
    config = Config.load(folder / CONFIG, overrides)
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        raise InputError(f"{folder / FACTS}: the file is damaged.") from None
    vocabulary = Vocabulary.open(folder / VOCABULARY)
    return Run(folder, config, facts, vocabulary, open_segmenter(config.corpus, folder))


def open_corpus(run: Run) -> Corpus:
    """The corpus a run was trained on; an error if it has changed since."""
    folder = Path(run.facts["corpus_folder"])
    if not folder.is_dir():
        raise InputError(f"{folder}: the corpus of run {run.folder} is no longer there; prepare it again.")
    corpus = Corpus(folder)
    if corpus.vocabulary.hash() != run.facts["vocabulary"]:
        raise InputError(f"{folder}: the corpus's vocabulary is not the one that run {run.folder} was trained with.")
    if corpus.hash != run.facts["corpus"]:
        raise InputError(f"{folder}: the corpus has changed since run {run.folder} was trained.")
    return corpus


def write_checkpoint(path: Path, model: Seq2seq, notes: dict[str, Any], extra: dict[str, torch.Tensor]) -> None:
    """Write one safetensors file, atomically: weights, other tensors, and notes in its header."""
    tensors = {f"model.{key}": value.contiguous() for key, value in model.state_dict().items()}
    with replacing(path) as draft:
        try:
            save_file({**tensors, **extra}, draft, metadata={"notes": json.dumps(notes)})
        except SafetensorError as error:  # such as a full disk
            raise OSError(f"{path}: could not be written: {error}") from None


def read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and notes."""
    with _opened(path) as file:
        return {key: file.get_tensor(key) for key in file.keys()}, _notes(file)  # noqa: SIM118


def read_notes(path: Path) -> dict[str, Any]:
    """The notes alone, without reading the tensors."""
    with _opened(path) as file:
        return _notes(file)


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint; the run stopped before its first one.")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, KeyError):
        raise InputError(f"{path}: not a checkpoint of exadec, or damaged.") from None


def _notes(file: safe_open) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads((file.metadata() or {})["notes"])
    return notes


def _placeholder(config: Config, tensors: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """A placeholder for frozen word vectors: the checkpoint holds them, so their file is not needed."""
    if not config.model.freeze_embeddings:
        return None
    return torch.zeros_like(tensors["model.decoder.embedding.weight"])
