"""Records -> token ids on disk.

In: the data a configuration names. Out: a `Corpus`: memory-mapped ids, vocabulary, records, and a manifest of hashes.
"""

import json
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from exadec.config import Config, CorpusConfig
from exadec.corpus.readers import find_format, read_split, revision_of
from exadec.corpus.record import CHUNK, SPLITS, Record, announce, read_records
from exadec.corpus.scan import SIDES, Scanner, scan_chunk
from exadec.corpus.segment import ENCODINGS, Segmenter, WordSegmenter, count_stretches
from exadec.corpus.sequences import ArrayFile, Sequences, SequencesFile, fingerprints, positions
from exadec.corpus.stage import hash_file, hash_value, is_fresh, read_manifest, rebuild
from exadec.corpus.vocabulary import SPECIALS, UNK, PieceTable, Vocabulary
from exadec.corpus.workers import Workers
from exadec.errors import InputError

FORMAT = 1
"""Increased whenever the meaning of a prepared corpus's files changes."""
_CONTENTS = "contents"
"""Key in the manifest of a corpus that stores its words, groups and uids; older corpora do not have it."""

logger = logging.getLogger(__name__)


class Report(Protocol):
    """A progress callback: what is being done, how many records are done, and the total if it is known."""

    def __call__(self, what: str, count: int, total: int | None = None) -> None: ...


def silent(what: str, count: int, total: int | None = None) -> None:
    """Report nothing."""


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
        """Changes whenever any input of the corpus changes."""
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

    def words(self, split: str, side: str) -> Sequences:
        """The texts as indices into `word_list`: split at spaces, not lower-cased, not truncated."""
        self._require_contents()
        return Sequences.open(self.folder, f"{split}.{side}.words")

    def word_list(self) -> list[str]:
        """All distinct words of the corpus; those of the training split come first."""
        self._require_contents()
        words: list[str] = json.loads((self.folder / "words.json").read_bytes())
        return words

    def groups(self, split: str) -> np.ndarray:
        """(N,) int64: indices into `group_names`; -1 for records without a group."""
        return self._load(f"{split}.groups.npy")

    @cached_property
    def group_names(self) -> list[str]:
        self._require_contents()
        names: list[str] = json.loads((self.folder / "groups.json").read_bytes())
        return names

    def trained_groups(self) -> list[str]:
        """The groups of the training records."""
        numbers = np.unique(self.groups("train"))
        return [self.group_names[number] for number in numbers[numbers >= 0].tolist()]

    def uids(self, split: str) -> np.ndarray:
        """(N,) uint64: fingerprints of the uids."""
        return self._load(f"{split}.uids.npy")

    def fingerprints(self, split: str, side: str) -> np.ndarray:
        """(N,) int64: equal if the ids are the same after lower-casing and truncation, whatever group is announced."""
        return self._load(f"{split}.{side}.fingerprints.npy")

    def contents(self, split: str) -> dict[str, int]:
        """How many records have a table or `several_references`, and how many distinct groups there are."""
        self._require_contents()
        counts: dict[str, int] = self.manifest[_CONTENTS][split]
        return counts

    def _load(self, name: str) -> np.ndarray:
        self._require_contents()
        return np.asarray(np.load(self.folder / name, mmap_mode="r"))

    def _require_contents(self) -> None:
        if _CONTENTS not in self.manifest:
            raise InputError(f"{self.folder}: made by an earlier version of exadec; run `exadec prepare` again.")

    @cached_property
    def _line_starts(self) -> np.ndarray:
        """(N + 1,) int64 byte offsets in train.jsonl"""
        return self._load("train.lines.npy")

    def text(self, ids: np.ndarray | list[int]) -> str:
        """The text of ids of this corpus."""
        return self.segmenter.join(self.table.decode(int(number) for number in ids))


def corpus_folder(config: Config) -> Path:
    return Path(config.folder) / "corpus"


def open_segmenter(config: CorpusConfig, folder: Path) -> Segmenter:
    if config.segmentation in ENCODINGS:
        return ENCODINGS[config.segmentation].open(folder, config.lower_case)
    return WordSegmenter(config.pretokenized, config.lower_case)


def prepare(config: Config, report: Report = silent) -> Corpus:
    """Make the corpus of a configuration, or open it if it exists and its inputs have not changed."""
    folder = corpus_folder(config)
    facts: dict[str, Any] = {"config": _describe(config.corpus), "inputs": hash_inputs(config.corpus)}
    if revision_of(config.corpus) > 1:  # otherwise left out: corpora made before revisions existed stay fresh
        facts["reader"] = revision_of(config.corpus)
    key = hash_value({"format": FORMAT, **facts})
    if not is_fresh(folder, key) or _CONTENTS not in read_manifest(folder):
        with rebuild(folder, key, facts) as draft, Workers() as workers:
            scanner = Scanner(draft)
            contents = {
                split: scanner.write(
                    split,
                    workers.map(scan_chunk, read_split(config.corpus, split)),
                    _report_to(report, f"reading {split}"),
                )
                for split in SPLITS
            }
            scanner.save()
            facts["records"] = {split: counted.pop("records") for split, counted in contents.items()}
            facts[_CONTENTS] = contents
            announced = [announce(name) for name in scanner.groups] if config.corpus.group_in_source else []
            facts |= _encode_splits(config.corpus, draft, list(scanner.words), announced, workers, report)
        _say_what_was_cut(folder, facts["truncated"])
    return Corpus(folder)


def _say_what_was_cut(folder: Path, truncated: dict[str, int]) -> None:
    """Once, when a corpus is made: later stages only open it, and `inspect` shows the counts."""
    cut = ", ".join(f"{count:,} {texts}" for texts, count in truncated.items() if count)
    if cut:
        limits = "`corpus.max_source` or `corpus.max_target`"
        logger.warning("%s: some texts were longer than %s and were cut: %s.", folder, limits, cut)


def _describe(config: CorpusConfig) -> dict[str, Any]:
    """The settings a corpus depends on, without newer ones that are off: corpora made before them stay fresh."""
    described = asdict(config)
    for name in ("group_in_source", "columns"):
        if not described[name]:
            del described[name]
    return described


def hash_inputs(config: CorpusConfig) -> dict[str, str]:
    """SHA-256 of each file that a corpus is made from."""
    return {name: hash_file(path) for name, path in find_format(config).inputs(config).items()}


def _report_to(report: Report, what: str) -> Callable[[int], None]:
    return lambda count: report(what, count)


def _encode_splits(
    config: CorpusConfig,
    folder: Path,
    words: Sequence[str],
    announced: Sequence[str],
    workers: Workers,
    report: Report,
) -> dict[str, Any]:
    """Learn pieces from the words of the training texts, and write the ids of all texts.

    `announced` holds what stands before the sources of each group; it is empty if groups are not announced.
    """
    segmenter, vocabulary = _learn_pieces(config, folder, words, announced, workers, report)
    segmenter.save(folder)
    vocabulary.save(folder / "vocabulary.json")
    table = PieceTable(vocabulary)
    pieces_of = encode_words(segmenter, table, words)
    openings = encode_words(segmenter, table, announced)
    truncated: dict[str, int] = {}
    pieces: dict[str, int] = {}
    for split in SPLITS:
        for side, limit in (("source", config.max_source), ("target", config.max_target)):
            texts, name = Sequences.open(folder, f"{split}.{side}.words"), f"{split} {side}s"
            truncated[name] = 0
            with (
                SequencesFile(folder, f"{split}.{side}") as file,
                ArrayFile(folder / f"{split}.{side}.fingerprints.npy", np.int64) as seen,
            ):
                for begin, end in texts.blocks():
                    ids, lengths = texts.expand(pieces_of, begin, end)
                    seen.append(fingerprints(*_fit(ids, lengths, limit)))
                    if announced and side == "source":
                        groups = np.load(folder / f"{split}.groups.npy", mmap_mode="r")[begin:end]
                        ids, lengths = _prepend(openings, groups, ids, lengths)
                    truncated[name] += int((lengths > limit).sum())
                    file.append(*_fit(ids, lengths, limit))
                    report(f"encoding {split} {side}s", end, len(texts))
            pieces[name] = file.ids.size
    (folder / "unknown.json").write_text(json.dumps(table.unknown, ensure_ascii=False), encoding="utf-8")
    return {
        "vocabulary": {"size": len(vocabulary), "hash": vocabulary.hash(), "unknown_types": len(table.unknown)},
        "truncated": truncated,
        "pieces": pieces,
    }


def _learn_pieces(
    config: CorpusConfig,
    folder: Path,
    words: Sequence[str],
    announced: Sequence[str],
    workers: Workers,
    report: Report,
) -> tuple[Segmenter, Vocabulary]:
    """Source and target share one vocabulary, because they share one embedding table (section 4.1)."""
    counts = np.zeros(len(words), np.int64)
    for side in SIDES:
        texts = Sequences.open(folder, f"train.{side}.words")
        for begin, end in texts.blocks():
            counts += np.bincount(texts.ids[texts.offsets[begin] : texts.offsets[end]], minlength=len(words))
    known = int(np.flatnonzero(counts)[-1]) + 1  # the training split comes first, so its words have the lowest numbers
    tasks = ((words[i : i + CHUNK], counts[i : i + CHUNK].tolist(), config) for i in range(0, known, CHUNK))
    parts: Counter[str] = Counter()
    for number, counted in enumerate(workers.map(_count_parts, tasks)):
        parts.update(counted)
        report("learning pieces from words", min((number + 1) * CHUNK, known), known)
    if announced:
        groups = np.load(folder / "train.groups.npy")
        times = np.bincount(groups[groups >= 0], minlength=len(announced))
        openings = [(word, int(n)) for text, n in zip(announced, times, strict=True) if n for word in text.split()]
        parts.update(_count_parts(([word for word, _ in openings], [n for _, n in openings], config)))
    if config.segmentation in ENCODINGS:
        encoding, size = ENCODINGS[config.segmentation], config.vocabulary_size - len(SPECIALS)
        learnt = encoding.learn_from_counts(parts, size, config.lower_case)
        return learnt, Vocabulary(learnt.pieces())
    vocabulary = Vocabulary.most_frequent(parts, config.vocabulary_size)
    return WordSegmenter(config.pretokenized, config.lower_case), vocabulary


def _count_parts(task: tuple[Sequence[str], Sequence[int], CorpusConfig]) -> Counter[str]:
    """Counts to learn a vocabulary from, given words and how often each occurs: stretches for BPE, otherwise pieces."""
    words, counts, config = task
    if config.segmentation in ENCODINGS:
        return count_stretches((words, counts, config.lower_case))
    segmenter, parts = WordSegmenter(config.pretokenized, config.lower_case), Counter[str]()
    for word, count in zip(words, counts, strict=True):
        for piece in segmenter.segment(word):
            parts[piece] += count
    return parts


def encode_words(segmenter: Segmenter, table: PieceTable, words: Sequence[str]) -> Sequences:
    """The ids of each word's pieces. Pieces outside the vocabulary are numbered in order of appearance."""
    ids, ends = array("i"), array("q", [0])
    for begin in range(0, len(words), CHUNK):
        for pieces in segmenter.encode_all(words[begin : begin + CHUNK], table):
            ids.extend(pieces)
            ends.append(len(ids))
    return Sequences(np.array(ids, np.int32), np.array(ends, np.int64))


def _prepend(
    openings: Sequences, groups: np.ndarray, ids: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Put each text's opening before it: that of its group, or none for a group of -1."""
    starts, told = np.cumsum(lengths) - lengths, groups[groups >= 0]
    added = np.where(groups >= 0, openings.lengths[groups], 0)
    pieces, _ = Sequences(told, np.arange(len(told) + 1)).expand(openings, 0, len(told))
    return np.insert(ids, np.repeat(starts, added), pieces), lengths + added


def _fit(ids: np.ndarray, lengths: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Truncate sequences to the limit. A text without pieces becomes one unknown word, so that none is empty."""
    if lengths.max() > limit:
        ids, lengths = ids[positions(lengths) < limit], lengths.clip(max=limit)
    empty = lengths == 0
    if empty.any():
        ids, lengths = np.insert(ids, (np.cumsum(lengths) - lengths)[empty], UNK), lengths + empty
    return ids, lengths
