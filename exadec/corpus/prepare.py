"""Records -> token ids on disk.

In: the data a configuration names. Out: a `Corpus`: memory-mapped ids, vocabulary, records, and a manifest of hashes.
"""

import json
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from exadec.config import Config, ConfigError, CorpusConfig
from exadec.corpus.readers import find_format, read_split, revision_of
from exadec.corpus.record import CHUNK, SPLITS, Record, announce, parse_record, read_records
from exadec.corpus.scan import SIDES, Scanner, scan_chunk
from exadec.corpus.segment import ENCODINGS, BpeSegmenter, Segmenter, WordSegmenter, count_stretches
from exadec.corpus.sequences import ArrayFile, Sequences, SequencesFile, fingerprints, positions
from exadec.corpus.stage import MANIFEST, hash_file, hash_value, make, read_manifest
from exadec.corpus.vocabulary import SPECIALS, UNK, PieceTable, Vocabulary
from exadec.corpus.workers import Workers
from exadec.errors import InputError
from exadec.reading.arrays import require_offsets, require_within
from exadec.reading.content import matches
from exadec.reading.folder import Folder
from exadec.strict_yaml import build

FORMAT = 1
"""Increased whenever the meaning of a prepared corpus's files changes."""
GROUPS = "groups.json"
_CONTENTS = "contents"
"""Key in the manifest of a corpus that stores its words, groups and uids; older corpora do not have it."""

_REMEDY = "run `exadec prepare` again"
_CONTENTS_SHAPE = dict.fromkeys(SPLITS, dict.fromkeys(("tables", "several_references", "groups"), int))
_SHAPE = {
    "config": dict,
    "inputs": {str: str},
    "records": dict.fromkeys(SPLITS, int),
    "vocabulary": {"size": int, "hash": str, "unknown_types": int},
    "truncated": {str: int},
    "pieces": {str: int},
}

logger = logging.getLogger(__name__)


class Report(Protocol):
    """A progress callback: what is being done, how many records are done, and the total if it is known."""

    def __call__(self, what: str, count: int, total: int | None = None) -> None: ...


def silent(what: str, count: int, total: int | None = None) -> None:
    """Report nothing."""


class Corpus:
    """A prepared corpus folder, opened for reading.

    Each file is checked when it is opened: that its hash is the manifest's, that there are as many numbers in it as
    there should be, and that each number is in its range.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder, _SHAPE, _REMEDY)
        self._files = Folder(folder, _REMEDY, self.manifest["files"])
        inputs = {name: self.manifest[name] for name in ("config", "inputs", "reader") if name in self.manifest}
        if self.hash != hash_value({"format": FORMAT, **inputs}):
            raise self._files.damaged(MANIFEST, "its key is not that of its settings and inputs")
        try:
            self.config = build(CorpusConfig, self.manifest["config"])
        except ConfigError as error:
            raise self._files.damaged(MANIFEST, str(error).removesuffix(".")) from None
        self.vocabulary = Vocabulary.open(self._files, "vocabulary.json")
        if self.vocabulary.hash() != self.manifest["vocabulary"]["hash"]:
            raise self._files.damaged("vocabulary.json", "it is not the vocabulary of the manifest")
        self.segmenter = open_segmenter(self.config, self._files, self.vocabulary)
        self.table = PieceTable(self.vocabulary, self._files.read_names("unknown.json"))
        sizes = self.manifest["vocabulary"]["size"], self.manifest["vocabulary"]["unknown_types"]
        if sizes != (len(self.vocabulary), len(self.table.unknown)):
            raise self._files.damaged(MANIFEST, "its sizes are not those of the vocabulary")

    @property
    def hash(self) -> str:
        """Changes whenever any input of the corpus changes."""
        key: str = self.manifest["key"]
        return key

    def size(self, split: str) -> int:
        count: int = self.manifest["records"][split]
        return count

    def sources(self, split: str) -> Sequences:
        return self._sequences(f"{split}.source", split, self.table.size)

    def targets(self, split: str) -> Sequences:
        return self._sequences(f"{split}.target", split, self.table.size)

    def _sequences(self, name: str, split: str, numbers: int) -> Sequences:
        """A sequence of numbers below `numbers` for each record; none is empty."""
        sequences = Sequences.open(self._files, name, self.size(split), numbers)
        if not sequences.lengths.all():
            raise self._files.damaged(f"{name}.offsets.npy", "a text is empty")
        return sequences

    def records(self, split: str) -> Iterator[Record]:
        """Raises at the end if there are not as many as the manifest says."""
        with self._files.open(f"{split}.jsonl"):
            pass  # it is what was written
        count = 0
        for record in read_records(self.folder / f"{split}.jsonl"):
            count += 1
            yield record
        if count != self.size(split):
            raise self._files.damaged(f"{split}.jsonl", f"it has {count} records, not {self.size(split)}")

    def characters(self, split: str) -> int:
        """An upper bound for the characters of a split's texts, and so for its words"""
        return self._files.size(f"{split}.jsonl")

    def target(self, number: int) -> str:
        """The target of a training record, without reading the others."""
        with self._files.open("train.jsonl") as file:
            starts = self._line_starts
            file.seek(int(starts[number]))
            line = file.read(int(starts[number + 1] - starts[number]))
        return parse_record(line, f"{self.folder / 'train.jsonl'}:{number + 1}").target

    def words(self, split: str, side: str) -> Sequences:
        """The texts as indices into `word_list`: split at spaces, not lower-cased, not truncated."""
        return self._sequences(f"{split}.{side}.words", split, self._word_count)

    @cached_property
    def _word_count(self) -> int:
        return len(self.word_list())

    def word_list(self) -> list[str]:
        """All distinct words of the corpus; those of the training split come first."""
        self._require_contents()
        return self._files.read_names("words.json")

    def groups(self, split: str) -> np.ndarray:
        """(N,) int64: indices into `group_names`; -1 for records without a group."""
        most = len(self.group_names) - 1
        return self._load(f"{split}.groups.npy", split, np.int64, lambda groups: require_within(groups, -1, most))

    @cached_property
    def group_names(self) -> list[str]:
        self._require_contents()
        return self._files.read_names(GROUPS)

    def trained_groups(self) -> list[str]:
        """The groups of the training records."""
        numbers = np.unique(self.groups("train"))
        return [self.group_names[number] for number in numbers[numbers >= 0].tolist()]

    def uids(self, split: str) -> np.ndarray:
        """(N,) uint64: fingerprints of the uids."""
        return self._load(f"{split}.uids.npy", split, np.uint64)

    def fingerprints(self, split: str, side: str) -> np.ndarray:
        """(N,) int64: equal if the ids are the same after lower-casing and truncation, whatever group is announced."""
        return self._load(f"{split}.{side}.fingerprints.npy", split, np.int64)

    def contents(self, split: str) -> dict[str, int]:
        """How many records have a table or `several_references`, and how many distinct groups there are."""
        self._require_contents()
        counts: dict[str, int] = self.manifest[_CONTENTS][split]
        return counts

    def _load(
        self, name: str, split: str, dtype: type[np.generic], check: Callable[[np.ndarray], None] | None = None
    ) -> np.ndarray:
        self._require_contents()
        return self._files.map_array(name, dtype, (self.size(split),), check)

    def _require_contents(self) -> None:
        if _CONTENTS not in self.manifest:
            raise InputError(f"{self.folder}: made by an earlier version of exadec; {_REMEDY}.")
        if not matches(self.manifest[_CONTENTS], _CONTENTS_SHAPE):
            raise self._files.damaged(MANIFEST, "it does not say what the records have")

    @cached_property
    def _line_starts(self) -> np.ndarray:
        """(N + 1,) int64 byte offsets in train.jsonl"""
        self._require_contents()
        size = self._files.size("train.jsonl")
        check = partial(require_offsets, total=size)
        return self._files.map_array("train.lines.npy", np.int64, (self.size("train") + 1,), check)

    def verify(self) -> None:
        """Open, and thereby check, everything that is read of a corpus."""
        for split in SPLITS:
            for side in SIDES:
                self.words(split, side)
                self.fingerprints(split, side)
            self.sources(split), self.targets(split), self.groups(split), self.uids(split)
        self._line_starts  # noqa: B018 - checked when it is read

    def text(self, ids: np.ndarray | list[int]) -> str:
        """The text of ids of this corpus."""
        return self.segmenter.join(self.table.decode(int(number) for number in ids))


def corpus_folder(config: Config) -> Path:
    return Path(config.folder) / "corpus"


def open_segmenter(config: CorpusConfig, folder: Folder, vocabulary: Vocabulary) -> Segmenter:
    """The segmenter of a corpus or a run, which must have the pieces of its vocabulary."""
    if config.segmentation in ENCODINGS:
        segmenter = ENCODINGS[config.segmentation].open(folder, config.lower_case)
        if tuple(segmenter.pieces()) != vocabulary.pieces[len(SPECIALS) :]:
            raise folder.damaged(BpeSegmenter.FILE, "its pieces are not those of the vocabulary")
        return segmenter
    return WordSegmenter(config.pretokenized, config.lower_case)


def prepare(config: Config, report: Report = silent) -> Corpus:
    """Make the corpus of a configuration, or open it if it exists and its inputs have not changed."""
    folder = corpus_folder(config)
    facts: dict[str, Any] = {"config": _describe(config.corpus), "inputs": hash_inputs(config.corpus)}
    if revision_of(config.corpus) > 1:  # otherwise left out: corpora made before revisions existed stay fresh
        facts["reader"] = revision_of(config.corpus)
    key = hash_value({"format": FORMAT, **facts})

    def read_and_encode(draft: Path) -> None:
        if folder.is_dir() and any(folder.parent.glob("*/run.json")):  # beside it are the runs that `training` makes
            logger.warning(
                "%s: settings or data have changed, so the corpus is made again; runs trained on the earlier one need "
                "that one: undo the change, or train them again.",
                folder,
            )
        with Workers() as workers:
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
            facts.update(_encode_splits(config.corpus, draft, list(scanner.words), announced, workers, report))
        _say_what_was_cut(folder, facts["truncated"])

    make(folder, key, facts, read_and_encode, lambda: _is_sound(folder))
    return Corpus(folder)


def _say_what_was_cut(folder: Path, truncated: dict[str, int]) -> None:
    """Once, when a corpus is made: later stages only open it, and `inspect` shows the counts."""
    cut = ", ".join(f"{count:,} {texts}" for texts, count in truncated.items() if count)
    if cut:
        limits = "`corpus.max_source` or `corpus.max_target`"
        logger.warning("%s: some texts were longer than %s and were cut: %s.", folder, limits, cut)


def _is_sound(folder: Path) -> bool:
    try:
        Corpus(folder).verify()
    except InputError as error:
        logger.warning("%s", error)
        return False
    return True


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
    draft = Folder(folder, _REMEDY)
    pieces_of = encode_words(segmenter, table, words)
    openings = encode_words(segmenter, table, announced)
    truncated: dict[str, int] = {}
    pieces: dict[str, int] = {}
    for split in SPLITS:
        for side, limit in (("source", config.max_source), ("target", config.max_target)):
            texts, name = Sequences.open(draft, f"{split}.{side}.words"), f"{split} {side}s"
            truncated[name] = 0
            with (
                SequencesFile(folder, f"{split}.{side}") as file,
                ArrayFile(folder / f"{split}.{side}.fingerprints.npy", np.int64) as seen,
            ):
                for begin, end in texts.blocks():
                    ids, lengths = texts.expand(pieces_of, begin, end)
                    seen.append(fingerprints(*_fit(ids, lengths, limit)))
                    if announced and side == "source":
                        groups = draft.map_array(f"{split}.groups.npy", np.int64, (None,))[begin:end]
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
        texts = Sequences.open(Folder(folder, _REMEDY), f"train.{side}.words")
        for begin, end in texts.blocks():
            counts += np.bincount(texts.ids[texts.offsets[begin] : texts.offsets[end]], minlength=len(words))
    known = int(np.flatnonzero(counts)[-1]) + 1  # the training split comes first, so its words have the lowest numbers
    tasks = ((words[i : i + CHUNK], counts[i : i + CHUNK].tolist(), config) for i in range(0, known, CHUNK))
    parts: Counter[str] = Counter()
    for number, counted in enumerate(workers.map(_count_parts, tasks)):
        parts.update(counted)
        report("learning pieces from words", min((number + 1) * CHUNK, known), known)
    if announced:
        groups = Folder(folder, _REMEDY).map_array("train.groups.npy", np.int64, (None,))
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
