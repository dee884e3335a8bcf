"""A run on disk.

In: a model and the state of training. Out: files to load the model from, and to resume training exactly.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open

from exadec.config import Config, ConfigError
from exadec.corpus.prepare import GROUPS, Corpus, open_segmenter
from exadec.corpus.segment import BpeSegmenter, Segmenter
from exadec.corpus.stage import MANIFEST, read_manifest
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import AbsentError, InputError
from exadec.exemplars.retriever import Retriever
from exadec.files import draft_of, flush, remove, replacing
from exadec.model.backends.choice import pick_device
from exadec.model.cells import CELLS
from exadec.model.seq2seq import Seq2seq
from exadec.reading.content import LARGE, matches, open_file, parse_json, read_bytes, read_json
from exadec.reading.folder import Folder, refuse_links
from exadec.search.facts import names_of
from exadec.settings import check_names
from exadec.strict_yaml import LONGEST, Overrides, list_overrides, require_choice
from exadec.styles import Styles
from exadec.textmetrics.facts import Names
from exadec.training.events import CURVES, Evaluated, Line, parse_lines
from exadec.training.weights import hash_tensors, require_finite, restore_model, write_tensors

CONFIG, FACTS, METRICS, VOCABULARY = "config.yaml", "run.json", "metrics.jsonl", "vocabulary.json"
NAMES = "names.json"
BEST, LAST = "best.safetensors", "last.safetensors"
FORMAT = 1
"""Increased whenever the meaning of a run's files changes. Runs without it are of format 1."""
_OWN = {CONFIG, FACTS, METRICS, VOCABULARY, NAMES, BEST, LAST, BpeSegmenter.FILE}
_HOST = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}")
"""What looks like HOST:PORT"""
_FOR_NEW_TEXT = re.compile("index-(words|pieces)-(raw|binary|tfidf)|terms-(words|pieces)-(source|target)")
"""Folders in a run that came from elsewhere"""
OUTPUTS = ".outputs.jsonl"
"""How the names of files with a run's outputs end, after the split."""
_REMEDY = "copy the run again, or train it again"
_WHERE_ELSE = "say where it is with `corpus=FOLDER`, or prepare it again"
"""The remedy for a corpus that is not found. The command line has an option of this name."""
_SHAPE: dict[str, Any] = dict.fromkeys(("corpus", "vocabulary", "exemplars"), str)
_NOTES = {
    "vocabulary": str,
    "position": {
        **dict.fromkeys(("epoch", "batch", "step", "stale"), int),
        "seconds": float,
        "best": object,  # minus infinity before the first evaluation
        "done": bool,
    },
}


@dataclass(frozen=True)
class Run:
    """An opened run folder."""

    folder: Path
    config: Config
    facts: dict[str, Any]
    """The variant, the hashes of corpus, vocabulary and exemplar map, the way to the corpus, torch's version, the time
    of creation; the groups of the training records, if the model is told the group."""
    vocabulary: Vocabulary
    segmenter: Segmenter
    corpus_folder: Path | None = None
    """Where the user says that the corpus is; None for where the run says."""

    @property
    def files(self) -> Folder:
        return Folder(self.folder, _REMEDY)

    @property
    def styles(self) -> Styles:
        """The house styles that were saved for this run."""
        return Styles.beside(self.folder)

    @property
    def created_on(self) -> date | None:
        """The day on which training began, in UTC; None if an earlier version trained the run and did not record it."""
        created = self.facts.get("created")
        return None if created is None else datetime.fromisoformat(created).date()

    def load_model(self, name: str = BEST, device: str | None = None) -> Seq2seq:
        """The model with the weights of a checkpoint, in evaluation mode, on the device that `pick_device` picks."""
        place = pick_device(device)
        tensors = self.read_weights(name)
        with self.files.checking(name):
            model = restore_model(self.config.model, len(self.vocabulary), tensors)
        return model.eval().to(place)

    def read_weights(self, name: str = BEST) -> dict[str, torch.Tensor]:
        """The tensors of a checkpoint, by name; those of the model begin with `model.`."""
        tensors, notes = read_checkpoint(self.folder / name)
        if notes["vocabulary"] != self.vocabulary.hash():
            raise InputError(f"{self.folder / name}: the checkpoint was trained with another vocabulary.")
        return tensors

    def read_names(self) -> Names:
        """The names in the training sources. An earlier version kept none: then names show by their capitals alone."""
        if not self.files.has(NAMES):
            return Names()
        return Names.from_json(self.files.read_json(NAMES, {part: [str] for part in Names._fields}, LARGE))

    def corpus_places(self) -> list[Path]:
        """Where the corpus may be: beside the run, then where the run says.

        Runs of earlier versions have an absolute path, which is where they were made: if they were moved or copied
        together with their corpus, it is still beside them.
        """
        home, named = self.folder.resolve(), self.facts["corpus_folder"]
        places = [home.parent / Path(named).name, home / named]  # an absolute path stays what it is
        return list(dict.fromkeys(Path(os.path.normpath(place)) for place in places))

    def open_retriever(self) -> Retriever:
        """What finds exemplars for new text among the training targets."""
        corpus, home = open_corpus(self), self.folder.resolve()
        # What has to be built is kept beside a corpus that is the run's own. The path in a run that came from somewhere
        # else may lead to anyone's corpus: then it is kept in the run's folder.
        is_own = home.parent == corpus.folder.resolve().parent
        return Retriever.open(corpus, self.config.exemplars, None if is_own else home)

    def copy_weights(self, model: Seq2seq, vocabulary: Vocabulary) -> None:
        """Put the best weights into another model of the same shapes and vocabulary (`training.start_from`)."""
        if self.vocabulary.hash() != vocabulary.hash():
            raise InputError(f"{self.folder}: `training.start_from` needs a run with the same vocabulary.")
        weights, own = self.load_model().state_dict(), model.state_dict()
        for name in sorted(weights.keys() | own.keys()):
            there, here = (list(state[name].shape) if name in state else "absent" for state in (weights, own))
            if there != here:
                raise InputError(
                    f"{self.folder}: `training.start_from` needs a run with the same shapes, but {name} is {there} "
                    f"there and {here} here."
                )
        model.load_state_dict(weights)

    def metrics(self) -> list[Line]:
        """The losses and scores that training logged, in order."""
        path = self.folder / METRICS
        return parse_lines(read_bytes(path, LARGE, follow=False).decode(errors="replace"), str(path))

    def evaluations(self) -> list[Evaluated]:
        """The scores among them: at least one."""
        found = [event for event in self.metrics() if isinstance(event, Evaluated)]
        if not found:
            raise InputError(f"{self.folder / METRICS}: there is no score of the development set; {_REMEDY}.")
        return found

    def best_evaluation(self) -> Evaluated:
        """The scores of the best weights."""
        return max(self.evaluations(), key=lambda event: event.merit(self.config.training.watch))


def create_run(folder: Path, config: Config, corpus: Corpus, facts: dict[str, Any]) -> Run:
    """Write everything except the weights to a new folder, or in the place of an earlier run."""
    facts = {
        "format": FORMAT,
        "corpus_folder": _way_to(corpus.folder, folder),
        "corpus": corpus.hash,
        "vocabulary": corpus.vocabulary.hash(),
        "torch": torch.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
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
        (draft / NAMES).write_text(json.dumps(names_of(corpus).to_json(), ensure_ascii=False), encoding="utf-8")
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
    if folder.is_symlink():
        raise InputError(f"{folder}: a link, which a run cannot replace; name the folder itself.")
    if not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way; choose another folder for the run.")
    is_run = _has_facts(folder)  # names alone prove nothing: `config.yaml` may be somebody's
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if not _is_own(within) or not (is_run or within.parts[0] == CURVES):
            raise InputError(f"{path}: not part of a run of exadec, and would be deleted; choose another folder.")


def _has_facts(folder: Path) -> bool:
    """Whether a folder has the facts of a run. They are written with the run, and deleted last."""
    try:
        return matches(read_json(folder / FACTS, follow=False), {"format": int, "corpus": str, "vocabulary": str})
    except InputError:
        return False


def _is_own(path: Path) -> bool:
    """Whether a run has a file or folder of this name, or a killed process may have left it there."""
    first = path.parts[0]
    if first == CURVES:
        return len(path.parts) == 1 or path.name.startswith("events.out.")
    name = re.sub(r"^\.(.*)\.(draft|lock)$", r"\1", first)
    if _FOR_NEW_TEXT.fullmatch(name):
        left = (".lock", draft_of(path.with_name(MANIFEST)).name)
        return len(path.parts) == 1 or path.suffix in (".npy", ".json") or path.name in left
    return len(path.parts) == 1 and (name in _OWN or name.endswith(OUTPUTS))


def delete_run(folder: Path) -> None:
    """Delete a run, its checkpoint first and its facts last: what is left has nothing to resume, and is still a run."""
    refuse_other_files(folder)
    if not folder.exists():
        return
    for path in sorted(folder.iterdir(), key=lambda path: (path.name == FACTS, path.name != LAST)):
        remove(path)
    folder.rmdir()


def delete_outputs(folder: Path) -> None:
    """Before weights change: what the earlier ones have written would pass for the texts of the new ones."""
    for path in folder.glob(f"*{OUTPUTS}"):
        path.unlink()


def explain_end(run: Run) -> str | None:
    """Why a run has finished, and how it can go on; None if it has not."""
    position, training = read_notes(run.folder / LAST)["position"], run.config.training
    if position["stale"] >= training.patience:
        tries = f"{position['stale']} evaluations in a row were no better than the best"
        return f"{tries}. To go on, set a higher training.patience."
    if position["epoch"] >= training.epochs:
        return f"{training.epochs} epoch{'s' * (training.epochs > 1)}. To go on, set training.epochs to more."
    return None


def open_run(folder: Path, overrides: Overrides = (), corpus: Path | None = None) -> Run:
    """Open a run folder, and refuse any other. `overrides` may change search settings: `search.key=value`.

    `corpus` is the folder of the run's corpus, if it is not where the run says.
    """
    if folder.is_file():
        raise InputError(
            f"{folder}: a file, not a run folder; a file of `exadec export` can write new text, but this needs "
            "the folder that it was exported from."
        )
    if not folder.exists():
        hint = "the address of a server begins with http://" if _HOST.fullmatch(str(folder)) else "check the path"
        raise InputError(f"{folder}: not a run folder: there is nothing of this name; {hint}.")
    for name in (CONFIG, FACTS, VOCABULARY):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: not a run folder (there is no {name}).")
    refuse_links(folder)
    return Run(folder, *read_parts(Folder(folder, _REMEDY), {"corpus_folder": str}, overrides), corpus)


def read_parts(
    files: Folder, shape: Mapping[str, Any], overrides: Overrides
) -> tuple[Config, dict[str, Any], Vocabulary, Segmenter]:
    """What is read of a run before its weights. `shape` says what its facts hold besides those of every run."""
    for override in list_overrides(overrides):
        if not override.startswith("search."):
            raise InputError(f"only search.* settings of a trained run can change, but got {override!r}.")
    if files.read_json(FACTS, {}).get("format", FORMAT) != FORMAT:
        raise InputError(f"{files.path}: a run of another format than {FORMAT}; open it with the version that made it.")
    text = files.read_text(CONFIG, LONGEST)
    try:
        config = Config.parse(text, CONFIG)
        check_names(config)
        require_choice(config.model.cell, CELLS, "model.cell")
    except ConfigError as error:
        raise files.damaged(CONFIG, str(error).removesuffix(".")) from None
    config = Config.parse(text, CONFIG, overrides) if overrides else config
    groups = {"groups": [str]} if config.corpus.group_in_source else {}
    facts = files.read_json(FACTS, {**_SHAPE, **shape, **groups})
    if "created" in facts and not _is_time(facts["created"]):  # earlier versions wrote none
        raise files.damaged(FACTS, "`created` is not a time")
    vocabulary = Vocabulary.open(files, VOCABULARY)
    if vocabulary.hash() != facts["vocabulary"]:
        raise files.damaged(VOCABULARY, f"it is not the vocabulary of {FACTS}")
    return config, facts, vocabulary, open_segmenter(config.corpus, files, vocabulary)


def _way_to(corpus: Path, run: Path) -> str:
    """The path from a run to its corpus: if both are moved together, it stays right.

    It is absolute if they have nothing in common but the root of the file system.
    """
    corpus, run = corpus.resolve(), run.resolve()
    is_near = len(Path(os.path.commonpath([corpus, run])).parts) > 1
    return os.path.relpath(corpus, run) if is_near else str(corpus)


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def open_corpus(run: Run) -> Corpus:
    """The corpus a run was trained on; an error if it has changed since, or is not found."""
    folder = _find_corpus(run)
    corpus = Corpus(folder)
    if corpus.hash != run.facts["corpus"]:
        if run.corpus_folder is not None:
            raise InputError(f"{folder}: not the corpus that run {run.folder} was trained on; name that one instead.")
        raise InputError(
            f"{folder}: the corpus has changed since run {run.folder} was trained; if the run's own is elsewhere, "
            f"{_WHERE_ELSE}."
        )
    if corpus.vocabulary.hash() != run.facts["vocabulary"]:
        raise InputError(f"{folder}: the corpus's vocabulary is not the one that run {run.folder} was trained with.")
    if run.config.corpus.group_in_source and run.facts["groups"] != corpus.trained_groups():
        raise InputError(
            f"{run.folder / FACTS}: its groups are not those of {folder / GROUPS}, so one of the two files is damaged; "
            "copy both folders again, or prepare and train again."
        )
    return corpus


def _find_corpus(run: Run) -> Path:
    """The folder that holds the run's corpus; or the last place to look, if what is there is not the run's corpus."""
    places = [run.corpus_folder] if run.corpus_folder is not None else run.corpus_places()
    found = [place for place in places if (place / MANIFEST).is_file()]
    if not found:
        if run.corpus_folder is not None:
            raise InputError(f"{run.corpus_folder}: not a prepared corpus (there is no {MANIFEST}).")
        looked = f"is not in {' nor in '.join(map(str, places))}" if places else "is not part of this file"
        raise AbsentError(f"{run.folder}: the corpus of this run {looked}; {_WHERE_ELSE}.")
    return next((place for place in found if _key_of(place) == run.facts["corpus"]), found[-1])


def _key_of(folder: Path) -> str | None:
    try:
        key: str = read_manifest(folder)["key"]
    except InputError:
        return None
    return key


def write_checkpoint(path: Path, model: Seq2seq, notes: dict[str, Any], extra: dict[str, torch.Tensor]) -> None:
    """Write one safetensors file, atomically: weights, other tensors, and notes in its header."""
    tensors = {f"model.{key}": value.contiguous() for key, value in model.state_dict().items()}
    tensors = {key: value.cpu() for key, value in (tensors | extra).items()}
    metadata = {"notes": json.dumps({**notes, "sha256": hash_tensors(tensors)})}
    with replacing(path) as draft:
        try:
            with draft.open("wb") as file:
                write_tensors(file, tensors, metadata)
        except OSError as error:  # such as a full disk
            raise OSError(f"{path}: could not be written: {error.strerror or error}.") from None


def read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and notes. Weights are finite."""
    with _opened(path) as file:
        notes = _notes(file, path)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if "sha256" in notes and notes["sha256"] != hash_tensors(tensors):  # earlier versions wrote none
        raise _damaged(path, "it is not what was written")
    with Folder(path.parent, _REMEDY).checking(path.name):
        require_finite(tensors)
    return tensors, notes


def read_notes(path: Path) -> dict[str, Any]:
    """The notes alone, without reading the tensors."""
    with _opened(path) as file:
        return _notes(file, path)


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    if not path.exists():
        raise InputError(f"{path}: no such checkpoint; the run stopped before its first one.")
    with open_file(path, follow=False):
        pass  # a regular file
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError):
        raise _damaged(path, "it is not a checkpoint of exadec") from None


def _notes(file: safe_open, path: Path) -> dict[str, Any]:
    notes = parse_json((file.metadata() or {}).get("notes", "0"), str(path))
    if not matches(notes, _NOTES):
        raise _damaged(path, "it has no notes of exadec's")
    found: dict[str, Any] = notes
    return found


def _damaged(path: Path, why: str) -> InputError:
    return Folder(path.parent, _REMEDY).damaged(path.name, why)
