"""A run into one file.

In: a run folder and, if exemplars are to come along, its corpus. Out: a ZIP file without compression, with a manifest.
"""

import hashlib
import io
import json
import logging
import shlex
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import torch
import yaml

from exadec.bank import FILE as BANK
from exadec.bank import bank_files, bank_folder, open_bank
from exadec.bundle.card import Contents, write_card
from exadec.bundle.packed import CARD, ENDING, FORMAT, INDEX, RECORDS, STYLES, WEIGHTS
from exadec.config import Config
from exadec.corpus.naming import name_data_set
from exadec.corpus.prepare import Corpus
from exadec.corpus.segment import BpeSegmenter
from exadec.corpus.sequences import Sequences
from exadec.corpus.stage import AGAIN
from exadec.corpus.vocabulary import UNK
from exadec.errors import InputError
from exadec.exemplars.index_files import files_of, read_manifest
from exadec.exemplars.journal import FILE as JOURNAL
from exadec.exemplars.journal import journal_folder, read_changes
from exadec.files import make_folder_for, replacing
from exadec.loading.batch import mark
from exadec.reading.archive import ALIGNMENT, LARGEST, MANIFEST
from exadec.reading.folder import Folder
from exadec.strict_yaml import require_choice
from exadec.styles import format_styles
from exadec.training.checkpoint import CONFIG, FACTS, NAMES, VOCABULARY, Run, open_corpus, open_run
from exadec.training.weights import write_tensors

logger = logging.getLogger(__name__)

PRECISIONS = ("float32", "bfloat16")
_PADDING = 0xD935
"""The kind of extra field that other programs, too, use to align the members of a ZIP file"""
_MARGIN = 1 << 20
"""Bytes kept for the directory at the end of a ZIP file"""


def export(
    run: Path | str,
    out: Path | str,
    precision: str = "float32",
    with_exemplars: bool = False,
    corpus: Path | str | None = None,
    force: bool = False,
    with_bank: bool = False,
    exemplars: Path | str | None = None,
) -> Path:
    """Write a run's model to one file that `load` opens anywhere.

    bfloat16 halves the file, and texts may differ from the run's. `with_exemplars` adds the training targets and their
    index, so that exemplars are retrieved without the corpus; `with_bank` adds λ of each of them, for
    `Writer.bank`. `corpus` is the folder of the run's corpus, if it is not where the run says. `force` replaces a file
    that is there already. Targets that a server of this run has deleted are left out; `exemplars` is the folder in
    which it kept that, by default beside the run.
    """
    out, opened = Path(out), open_run(Path(run), corpus=None if corpus is None else Path(corpus))
    require_choice(precision, PRECISIONS, "precision")
    if out.suffix != ENDING or out.is_dir():
        raise InputError(f"{out}: choose a name that ends in {ENDING}, such as {out.with_suffix(ENDING)}.")
    if out.exists() and not force:
        raise InputError(f"{out}: the file exists; choose another name, or replace it with `force=True`.")
    if with_exemplars and not opened.config.model.reads_exemplars:
        raise InputError(
            f"{opened.folder}: this model ({opened.config.model.variant}) does not read exemplars; export it without."
        )
    if with_bank and not (with_exemplars and opened.config.model.adaptive):
        raise InputError(
            "the λ bank is that of the exemplars inside; add `with_exemplars=True`."
            if opened.config.model.adaptive
            else f"{opened.folder}: this model ({opened.config.model.variant}) does not adapt; export it without bank."
        )
    deleted = _deleted(opened, out, None if exemplars is None else Path(exemplars)) if with_exemplars else ()
    make_folder_for(out)
    with replacing(out) as draft, draft.open("wb") as file:
        try:
            _write(file, opened, precision, with_exemplars, with_bank, deleted)
        except OverflowError:
            raise InputError(
                f"{out}: the file would be larger than {LARGEST:,} bytes; try bfloat16, or leave out the exemplars."
            ) from None
    return out


def _deleted(run: Run, out: Path, exemplars: Path | None) -> list[int]:
    """The training exemplars that a server has deleted. Texts that it has accepted stay behind; a message says so.

    Records of the file have the numbers of the corpus, and a journal beside the file would use these numbers again.
    """
    if exemplars is not None and not (exemplars / JOURNAL).is_file():
        raise InputError(f"{exemplars}: no server has kept exemplars there (there is no {JOURNAL}).")
    folder = exemplars or journal_folder(run.folder)
    changes = read_changes(folder, run.facts["corpus"])
    if changes.accepted:
        logger.warning(
            "%s: texts that a server accepted (%s) are not in this file; to retrieve them with it: %s",
            *(out, f"{len(changes.accepted):,}"),
            shlex.join(["exadec", "serve", str(out), "--exemplars", str(folder)]),
        )
    count = open_corpus(run).size("train")
    deleted = sorted(number for number in changes.deleted_training if number < count)
    if len(deleted) == count:
        raise InputError(f"{folder}: all training exemplars were deleted; export the run without exemplars.")
    return deleted


def _write(
    file: BinaryIO, run: Run, precision: str, with_exemplars: bool, with_bank: bool, deleted: Collection[int]
) -> None:
    tensors = {name: one for name, one in run.read_weights().items() if name.startswith("model.")}
    records = None
    with BundleFile(file) as bundle:
        for name, text in (
            (CONFIG, yaml.safe_dump(without_paths(run.config).to_dict(), sort_keys=False, allow_unicode=True)),
            (FACTS, json.dumps({name: one for name, one in run.facts.items() if name != "corpus_folder"}, indent=1)),
        ):
            bundle.add_text(name, text)
        for name in (VOCABULARY, BpeSegmenter.FILE, NAMES):
            if run.files.has(name):  # words need no encoding, and an earlier version kept no names
                bundle.copy(run.files, name)
        with bundle.member(WEIGHTS) as member:
            write_tensors(member, {name: _in(precision, one) for name, one in tensors.items()}, {})
        styles = run.styles.all()
        if styles:
            bundle.add_text(STYLES, format_styles(styles))
        if with_exemplars:
            records = _add_exemplars(bundle, run, deleted)
        if with_bank:
            _add_bank(bundle, run, precision, deleted)
        weights = sum(tensor.numel() for tensor in tensors.values())
        sizes = {name: facts["bytes"] for name, facts in bundle.files.items()}
        data_set = name_data_set(without_paths(run.config))  # no folder of whoever trained it
        shown = None if records is None else records - len(deleted)
        contents = Contents(data_set, precision, weights, shown, sizes, tuple(styles))
        bundle.add_text(CARD, write_card(run, contents, datetime.now(UTC).date()))
        facts = {"format": FORMAT, "exadec": version("exadec"), "precision": precision, "records": records}
        bundle.add_text(MANIFEST, json.dumps({**facts, "files": bundle.files}, indent=1) + "\n")


def _in(precision: str, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(getattr(torch, precision)) if tensor.is_floating_point() else tensor


def _add_exemplars(bundle: "BundleFile", run: Run, deleted: Collection[int]) -> int:
    """Add training targets and their index; returns how many, with those that were deleted.

    These keep their numbers, so that what a server wrote down about the others holds with this file, too. Nothing of
    their texts is added.
    """
    retriever = run.open_retriever()
    corpus, index = retriever.corpus, retriever.index
    assert isinstance(corpus, Corpus)
    count = corpus.size("train")
    if len(index) != count:
        raise InputError(f"{index.folder}: not all training records are in this index; delete it.")
    files = Folder(corpus.folder, AGAIN, corpus.manifest["files"])
    changed = _without(corpus, deleted)
    for name in RECORDS:
        if name in changed:
            bundle.add_array(name, changed[name])
        else:
            bundle.copy(files, name)
    with TemporaryDirectory() as place:
        if deleted:
            index = index.in_memory()
            index.delete(deleted)
            index.compact()
        folder = index.folder or Path(place) / INDEX
        index.save(folder)  # only if it is in memory
        manifest = read_manifest(folder)
        bundle.copy(files_of(folder), MANIFEST, INDEX)
        for name in manifest["files"]:
            bundle.copy(files_of(folder, manifest), name, INDEX)
    return count


def _without(corpus: Corpus, deleted: Collection[int]) -> dict[str, np.ndarray]:
    """The files of a corpus that change if these records are an unknown word, without group and source."""
    if not deleted:
        return {}
    gone = np.zeros(corpus.size("train"), bool)
    gone[list(deleted)] = True
    targets = _erase(corpus.targets("train"), gone)
    return {
        "train.groups.npy": np.where(gone, -1, corpus.groups("train")),
        "train.source.fingerprints.npy": np.where(gone, 0, corpus.fingerprints("train", "source")),
        "train.target.ids.npy": targets.ids,
        "train.target.offsets.npy": targets.offsets,
    }


def _erase(targets: Sequences, gone: np.ndarray) -> Sequences:
    lengths = np.where(gone, 1, targets.lengths)
    ids = np.full(lengths.sum(), UNK, targets.ids.dtype)
    ids[np.repeat(~gone, lengths)] = targets.ids[np.repeat(~gone, targets.lengths)]
    return Sequences(ids, np.concatenate([[0], np.cumsum(lengths)]))


def _add_bank(bundle: "BundleFile", run: Run, precision: str, deleted: Collection[int]) -> None:
    """Add λ of all training targets, of the weights as they are in the file."""
    model, corpus = run.load_model(), open_corpus(run)
    changed = _without(corpus, deleted)
    targets = corpus.targets("train")
    if changed:
        targets = Sequences(changed["train.target.ids.npy"], changed["train.target.offsets.npy"])
    for tensor in model.state_dict().values():
        tensor.copy_(_in(precision, tensor))
    as_given = mark if run.config.exemplars.marks_given else np.asarray
    with TemporaryDirectory() as place:
        is_that_of_the_run = precision == "float32" and not deleted
        folder = bank_folder(run.folder) if is_that_of_the_run else Path(place) / "bank"
        open_bank(folder, model, targets, as_given)
        bundle.copy(bank_files(folder), BANK)


def without_paths(config: Config) -> Config:
    """The configuration without folders of whoever trained the run: only the last part of each path is kept."""
    paths = {
        "corpus": ("source_folder", "train", "valid", "test"),
        "exemplars": ("given",),
        "model": ("glove",),
        "training": ("start_from",),
    }
    for section, names in paths.items():
        values = {name: getattr(getattr(config, section), name) for name in names}
        config = config.replace(section, **{name: value and Path(value).name for name, value in values.items()})
    return replace(config, folder=Path(config.folder).name)


class BundleFile:
    """Writes the members of a bundle, one after the other, and their hashes at the end."""

    def __init__(self, file: BinaryIO):
        self._archive = ZipFile(file, "w", ZIP_STORED)
        self.files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> "BundleFile":
        return self

    def __exit__(self, *error: object) -> None:
        self._archive.close()

    @contextmanager
    def member(self, name: str) -> Iterator[BinaryIO]:
        """A member to write to. It begins at a multiple of `ALIGNMENT`, so that arrays in it can be mapped."""
        info = ZipInfo(name)  # without a date, so that the same run gives the same members
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        begin = self._archive.start_dir + 30 + len(name) + 4
        padding = bytes(-begin % ALIGNMENT)
        info.extra = _PADDING.to_bytes(2, "little") + len(padding).to_bytes(2, "little") + padding
        with self._archive.open(info, "w") as file:
            hashing = _Hashing(file, LARGEST - begin - _MARGIN)
            yield cast(BinaryIO, hashing)
        self.files[name] = {"bytes": hashing.size, "sha256": hashing.hashed.hexdigest()}

    def add_text(self, name: str, text: str) -> None:
        with self.member(name) as file:
            file.write(text.encode())

    def add_array(self, name: str, array: np.ndarray) -> None:
        with self.member(name) as file:
            np.save(file, array)

    def copy(self, files: Folder, name: str, folder: str = "") -> None:
        """Copy a file, after the checks that every reader makes."""
        with files.open(name) as file, self.member(f"{folder}/{name}" if folder else name) as member:
            shutil.copyfileobj(file, member, 1 << 20)


class _Hashing(io.RawIOBase):
    """Passes on what is written, and hashes it; more than fits is an `OverflowError`."""

    def __init__(self, file: Any, room: int):
        self._file, self._room, self.hashed, self.size = file, room, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        written = memoryview(content).nbytes
        self.size += written
        if self.size > self._room:
            raise OverflowError
        self._file.write(content)
        self.hashed.update(content)
        return written
