"""A run in one file, opened for writing.

In: a file that `export` wrote, which may come from a stranger. Out: a `PackedRun`: the model, and perhaps exemplars.

What is inside is what a run and a corpus have in their folders, under the same names, and read by the same code.
Nothing in it is executed or unpacked. Whatever a later version adds gets a member of its own, and a line in `_SHAPE`.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors

from exadec.bank import FILE as BANK
from exadec.bank import bank_shape
from exadec.config import CorpusConfig
from exadec.corpus.prepare import GROUPS
from exadec.corpus.segment import Segmenter
from exadec.corpus.sequences import Sequences
from exadec.corpus.vocabulary import PieceTable, Vocabulary
from exadec.errors import AbsentError, InputError
from exadec.exemplars.bow import terms
from exadec.exemplars.index import BowIndex
from exadec.exemplars.retriever import Retriever
from exadec.model.seq2seq import Seq2seq
from exadec.reading.archive import LARGEST, MANIFEST, Archive
from exadec.reading.arrays import require_within
from exadec.reading.content import LARGE, take
from exadec.reading.folder import Folder
from exadec.strict_yaml import Overrides
from exadec.styles import Styles, parse_styles
from exadec.training.checkpoint import Run, open_corpus, open_run, read_parts
from exadec.training.weights import require_finite

FORMAT = 1
"""Increased whenever the meaning of a bundle's files changes."""
ENDING = ".exadec"
WEIGHTS, CARD, INDEX, STYLES = "weights.safetensors", "README.md", "index", "styles.json"
RECORDS = (
    GROUPS,
    "train.groups.npy",
    "train.source.fingerprints.npy",
    "train.target.ids.npy",
    "train.target.offsets.npy",
    "unknown.json",
)
"""What is needed of a corpus to retrieve exemplars for new text, besides the index"""
_REMEDY = "get the file again, or export the run again"
_SHAPE = {"format": int, "exadec": str, "precision": str, "records": (int, None)}


def open_folder_or_bundle(path: Path, overrides: Overrides = (), corpus: Path | None = None) -> Run:
    """Open a run folder, or a run in one file."""
    is_bundle = path.is_file() or (path.suffix == ENDING and not path.is_dir())
    return (open_bundle if is_bundle else open_run)(path, overrides, corpus)


def open_bundle(path: Path, overrides: Overrides = (), corpus: Path | None = None) -> "PackedRun":
    """Open a run in one file. `overrides` may change search settings: `search.key=value`.

    `corpus` is the folder of the run's corpus, to retrieve exemplars from if the file holds none.
    """
    archive = Archive.read(path, _REMEDY)
    if archive.read_json(MANIFEST, {}).get("format") != FORMAT:
        raise InputError(f"{path}: of another format than {FORMAT}; open it with the version of exadec that made it.")
    archive, manifest = archive.with_manifest(_SHAPE)
    config, facts, vocabulary, segmenter = read_parts(archive, {}, overrides)
    return PackedRun(
        path, config, facts, vocabulary, segmenter, corpus, archive=archive, record_count=manifest["records"]
    )


@dataclass(frozen=True)
class PackedRun(Run):
    """A run in one file; `folder` is that file."""

    archive: Archive = field(kw_only=True)
    record_count: int | None = field(kw_only=True)
    """The training records whose targets are inside; None if none are."""

    @property
    def files(self) -> Folder:
        return self.archive

    def load_model(self, name: str = WEIGHTS, device: str | None = None) -> Seq2seq:
        return super().load_model(WEIGHTS, device)

    def read_weights(self, name: str = WEIGHTS) -> dict[str, torch.Tensor]:
        """The only weights inside, whatever the name, in the model's own precision."""
        with self.archive.open(WEIGHTS) as file:
            content = take(file, str(self.archive.path / WEIGHTS), LARGEST)
        with self.archive.checking(WEIGHTS):
            try:
                tensors = parse_tensors(content)
            except (SafetensorError, KeyError, TypeError, AssertionError, RuntimeError):
                raise ValueError("it holds no tensors") from None
            tensors = {key: one.float() if one.dtype == torch.bfloat16 else one for key, one in tensors.items()}
            require_finite(tensors)
        return tensors

    @property
    def styles(self) -> Styles:
        """Those inside, and those that were saved beside the file."""
        if not self.archive.has(STYLES):
            return Styles.beside(self.folder)
        content = self.archive.read_text(STYLES, LARGE)
        return Styles.beside(self.folder, parse_styles(content, str(self.archive.path / STYLES)))

    def open_bank(self, model: Seq2seq) -> np.ndarray | None:
        """λ of all training targets, as `exadec.bank.open_bank` makes them; None if they are not inside."""
        if self.record_count is None or not self.archive.has(BANK):
            return None
        return self.archive.map_array(BANK, np.float16, bank_shape(model, self.record_count), _require_numbers)

    def corpus_places(self) -> list[Path]:
        """Nowhere: the file may have come from anywhere."""
        return []

    def open_retriever(self) -> Retriever:
        if self.corpus_folder is not None:
            return Retriever.open(open_corpus(self), self.config.exemplars)
        if self.record_count is None:
            raise AbsentError(
                f"{self.folder}: no exemplar can be retrieved, because this file was exported without them; give one "
                "with each source, name the run's corpus with `corpus=FOLDER`, or export the run again with "
                "`with_exemplars=True`."
            )
        records = PackedRecords(self.archive, self.config.corpus, self.vocabulary, self.segmenter, self.record_count)
        features = self.config.exemplars.features
        split = terms if features == "words" else self.segmenter.segment
        files = self.archive.within(INDEX)
        index = BowIndex.read(files, self.facts["corpus"], split, features)
        if index.next_id != self.record_count:  # those that were deleted before the export have their numbers, too
            raise files.damaged(MANIFEST, "it is not an index of these training records")
        if index.weighting != self.config.exemplars.weighting:
            raise files.damaged(MANIFEST, "it has another weighting than the run")
        return Retriever(records, index, self.config.exemplars)


def _require_numbers(coefficients: np.ndarray) -> None:
    if not np.isfinite(coefficients).all():
        raise ValueError("a number in it is infinite or NaN")


class PackedRecords:
    """The training targets inside a bundle, and what else retrieval needs: `TrainingRecords`."""

    def __init__(
        self, files: Folder, config: CorpusConfig, vocabulary: Vocabulary, segmenter: Segmenter, record_count: int
    ):
        self.config, self.segmenter = config, segmenter
        self._files, self._count = files, record_count
        self.table = PieceTable(vocabulary, files.read_names("unknown.json"))

    @cached_property
    def group_names(self) -> list[str]:
        return self._files.read_names(GROUPS)

    def groups(self, split: str) -> np.ndarray:
        """(N,) int64: indices into `group_names`; -1 for records without a group."""
        within = partial(require_within, low=-1, high=len(self.group_names) - 1)
        return self._files.map_array(f"{split}.groups.npy", np.int64, (self._count,), within)

    def fingerprints(self, split: str, side: str) -> np.ndarray:
        """(N,) int64, as those of a `Corpus`."""
        return self._files.map_array(f"{split}.{side}.fingerprints.npy", np.int64, (self._count,))

    def targets(self, split: str) -> Sequences:
        sequences = Sequences.open(self._files, f"{split}.target", self._count, self.table.size)
        if not sequences.lengths.all():
            raise self._files.damaged(f"{split}.target.offsets.npy", "a text is empty")
        return sequences

    def text(self, ids: np.ndarray | list[int]) -> str:
        return self.segmenter.join(self.table.decode(int(number) for number in ids))
