"""Records -> token ids on disk.

In: the data a configuration names. Out: a `Corpus`: memory-mapped ids, vocabulary, records, and a manifest of hashes.
"""

import json
import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from exadec.config import Config, CorpusConfig
from exadec.corpus.readers import find_format
from exadec.corpus.record import SPLITS, Record, read_records, write_records
from exadec.corpus.segment import BpeSegmenter, Segmenter, WordSegmenter
from exadec.corpus.stage import hash_file, hash_value, is_fresh, read_manifest, rebuild
from exadec.corpus.vocabulary import SPECIALS, UNK, PieceTable, Vocabulary

FORMAT = 1
"""Raised when the files of a prepared corpus change their meaning."""
_CHUNK = 10_000

logger = logging.getLogger(__name__)


class Report(Protocol):
    """Told of progress: what is being done, how many records have been done, and of how many where that is known."""

    def __call__(self, what: str, count: int, total: int | None = None) -> None: ...


def silent(what: str, count: int, total: int | None = None) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Sequences:
    """Many id sequences in one memory-mapped array."""

    ids: np.ndarray
    """(all pieces,) int32"""
    offsets: np.ndarray
    """(N + 1,) int64; sequence i is ids[offsets[i]:offsets[i + 1]]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        row: np.ndarray = self.ids[self.offsets[index] : self.offsets[index + 1]]
        return row

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @staticmethod
    def open(folder: Path, name: str) -> "Sequences":
        ids = np.load(folder / f"{name}.ids.npy", mmap_mode="r")
        return Sequences(ids, np.load(folder / f"{name}.offsets.npy"))


class Corpus:
    """A prepared corpus folder, opened for reading."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.config = CorpusConfig(**self.manifest["config"])
        self.vocabulary = Vocabulary.open(folder / "vocabulary.json")
        self.segmenter = open_segmenter(self.config, folder)
        unknown = json.loads((folder / "unknown.json").read_text(encoding="utf-8"))
        self.table = PieceTable(self.vocabulary, unknown)

    @property
    def hash(self) -> str:
        """Changes when anything the corpus was made from changes."""
        key: str = self.manifest["key"]
        return key

    def size(self, split: str) -> int:
        count: int = self.manifest["records"][split]
        return count

    def sources(self, split: str) -> Sequences:
        return Sequences.open(self.folder, f"{split}.source")

    def targets(self, split: str) -> Sequences:
        return Sequences.open(self.folder, f"{split}.target")

    def records(self, split: str) -> Iterator[Record]:
        return read_records(self.folder / f"{split}.jsonl")

    def target(self, number: int) -> str:
        """The target of a training record, without reading the others."""
        with (self.folder / "train.jsonl").open("rb") as file:
            file.seek(self._line_starts[number])
            target: str = json.loads(file.readline())["target"]
        return target

    @cached_property
    def _line_starts(self) -> list[int]:
        with (self.folder / "train.jsonl").open("rb") as file:
            return [0, *accumulate(len(line) for line in file)][:-1]

    def text(self, ids: np.ndarray | list[int]) -> str:
        """The text of ids of this corpus."""
        return self.segmenter.join(self.table.decode(int(number) for number in ids))


def corpus_folder(config: Config) -> Path:
    return Path(config.folder) / "corpus"


def open_segmenter(config: CorpusConfig, folder: Path) -> Segmenter:
    if config.segmentation == "bpe":
        return BpeSegmenter.open(folder, config.lower_case)
    return WordSegmenter(config.pretokenized, config.lower_case)


def prepare(config: Config, report: Report = silent) -> Corpus:
    """Make the corpus of a configuration, or open it when it is there and its inputs have not changed."""
    folder = corpus_folder(config)
    facts: dict[str, Any] = {"config": asdict(config.corpus), "inputs": _input_hashes(config.corpus)}
    key = hash_value({"format": FORMAT, **facts})
    if not is_fresh(folder, key):
        with rebuild(folder, key, facts) as draft:
            facts["records"] = {
                split: write_records(draft / f"{split}.jsonl", _counted(records, f"reading {split}", report))
                for split, records in _read_splits(config.corpus).items()
            }
            facts |= _encode_splits(config.corpus, draft, report)
    corpus = Corpus(folder)
    for what, count in corpus.manifest["truncated"].items():
        if count:
            logger.warning("%s: %d were longer than the limit and were cut.", what, count)
    return corpus


def _input_hashes(config: CorpusConfig) -> dict[str, str]:
    return {name: hash_file(path) for name, path in find_format(config).inputs(config).items()}


def _read_splits(config: CorpusConfig) -> dict[str, Iterator[Record]]:
    return {split: find_format(config).read(config, split) for split in SPLITS}


def _counted(records: Iterator[Record], what: str, report: Report) -> Iterator[Record]:
    for number, record in enumerate(records, start=1):
        if number % 1000 == 0:
            report(what, number)
        yield record


def _encode_splits(config: CorpusConfig, folder: Path, report: Report) -> dict[str, Any]:
    segmenter, vocabulary = _learn_pieces(config, folder, report)
    segmenter.save(folder)
    vocabulary.save(folder / "vocabulary.json")
    table = PieceTable(vocabulary)
    truncated: dict[str, int] = {}
    pieces: dict[str, int] = {}
    for split in SPLITS:
        sides = {"source": _Encoder(config.max_source), "target": _Encoder(config.max_target)}
        records = read_records(folder / f"{split}.jsonl")
        while chunk := list(islice(records, _CHUNK)):
            for side, encoder in sides.items():
                encoder.add(segmenter.encode_all([getattr(record, side) for record in chunk], table))
            report(f"encoding {split}", len(sides["source"].offsets) - 1)
        for side, encoder in sides.items():
            np.save(folder / f"{split}.{side}.ids.npy", np.frombuffer(encoder.ids, np.int32))
            np.save(folder / f"{split}.{side}.offsets.npy", np.frombuffer(encoder.offsets, np.int64))
            truncated[f"{split} {side}s"] = encoder.cut
            pieces[f"{split} {side}s"] = len(encoder.ids)
    (folder / "unknown.json").write_text(json.dumps(table.unknown, ensure_ascii=False), encoding="utf-8")
    return {
        "vocabulary": {"size": len(vocabulary), "hash": vocabulary.hash(), "unknown_types": len(table.unknown)},
        "truncated": truncated,
        "pieces": pieces,
    }


def _learn_pieces(config: CorpusConfig, folder: Path, report: Report) -> tuple[Segmenter, Vocabulary]:
    """Source and target share one vocabulary, because they share one embedding table (section 4.1)."""
    records = _counted(read_records(folder / "train.jsonl"), "learning pieces", report)
    texts = (text for record in records for text in (record.source, record.target))
    if config.segmentation == "bpe":
        bpe = BpeSegmenter.learn(texts, config.vocabulary_size - len(SPECIALS), config.lower_case)
        return bpe, Vocabulary(bpe.pieces())
    words = WordSegmenter(config.pretokenized, config.lower_case)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words.segment(text))
    return words, Vocabulary.most_frequent(counts, config.vocabulary_size)


class _Encoder:
    """Id sequences on their way into one array."""

    def __init__(self, limit: int):
        self.limit = limit
        self.ids, self.offsets, self.cut = array("i"), array("q", [0]), 0

    def add(self, sequences: Iterable[list[int]]) -> None:
        for sequence in sequences:
            self.cut += len(sequence) > self.limit
            # No sequence is empty: text of no pieces at all counts as one unknown word.
            self.ids.extend(sequence[: self.limit] or [UNK])
            self.offsets.append(len(self.ids))
