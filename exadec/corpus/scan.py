"""One pass over the records of a corpus, so that no later stage parses them again.

In: chunks of records, parsed or not. Out: `Scanner`'s files: JSONL, and arrays of words, groups and uids.

BPE pieces, the pieces of a `WordSegmenter` and the terms of a bag of words never cross a space. So each distinct word
between spaces is segmented only once, and texts are stored as sequences of word numbers.
"""

import json
from array import array
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from exadec.corpus.record import Lines, Record, fingerprint, log_skipped, to_line
from exadec.corpus.sequences import ArrayFile, OffsetsFile, SequencesFile
from exadec.errors import InputError

SIDES = ("source", "target")


class Numbers(dict[str, int]):
    """Numbers names in order of first lookup."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


@dataclass(frozen=True)
class Scanned:
    """The scan of a chunk of N records. Words and groups are numbered within the chunk."""

    lines: bytes
    """JSONL"""
    line_lengths: np.ndarray
    """(N,) int64, in bytes"""
    uids: np.ndarray
    """(N,) uint64 fingerprints"""
    groups: np.ndarray
    """(N,) int64; -1 for none"""
    group_names: list[str]
    words: list[str]
    """The distinct words: those of the sources in order of appearance, then new ones of the targets"""
    texts: dict[str, tuple[np.ndarray, np.ndarray]]
    """For each side, the numbers of all words (all words,) int32, and how many each text has (N,) int64"""
    tables: int
    """Records with a table"""
    several_references: int
    skipped: list[str]
    """Places of empty texts, which are left out"""


def scan_chunk(chunk: Lines | list[Record]) -> Scanned:
    """Parse the records, unless they are parsed already, and number their words."""
    skipped: list[str] = []
    records = list(chunk.records(skipped)) if isinstance(chunk, Lines) else chunk
    words, groups = Numbers(), Numbers()
    lines = [to_line(record) for record in records]
    texts = {"source": _number_words((record.source for record in records), words)}
    texts["target"] = _number_words((record.target for record in records), words)
    for side, (_, lengths) in texts.items():
        if not lengths.all():
            raise InputError(f"the {side} of the record {records[int(lengths.argmin())].uid!r} is empty.")
    return Scanned(
        lines=b"".join(lines),
        line_lengths=np.array([len(line) for line in lines], np.int64),
        uids=np.array([fingerprint(record.uid) for record in records], np.uint64),
        groups=np.array([-1 if record.group is None else groups[record.group] for record in records], np.int64),
        group_names=list(groups),
        words=list(words),
        texts=texts,
        tables=sum(record.table is not None for record in records),
        several_references=sum(len(record.references) > 1 for record in records),
        skipped=skipped,
    )


def _number_words(texts: Iterable[str], words: Numbers) -> tuple[np.ndarray, np.ndarray]:
    numbers, lengths, number_of = array("i"), array("q"), words.__getitem__
    for text in texts:
        found = text.split()
        numbers.extend(map(number_of, found))
        lengths.append(len(found))
    return np.array(numbers, np.int32), np.array(lengths, np.int64)


class Scanner:
    """Writes scanned chunks to a folder. Words and groups are numbered over all splits."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.words, self.groups = Numbers(), Numbers()

    def write(self, split: str, chunks: Iterable[Scanned], report: Callable[[int], None]) -> dict[str, int]:
        """Write the files of a split; returns its counts."""
        records = tables = several = 0
        groups: set[str] = set()
        skipped: list[str] = []
        with ExitStack() as files:
            lines = files.enter_context((self.folder / f"{split}.jsonl").open("wb"))
            line_offsets = files.enter_context(OffsetsFile(self.folder / f"{split}.lines.npy"))
            uids = files.enter_context(ArrayFile(self.folder / f"{split}.uids.npy", np.uint64))
            members = files.enter_context(ArrayFile(self.folder / f"{split}.groups.npy", np.int64))
            texts = {side: files.enter_context(SequencesFile(self.folder, f"{split}.{side}.words")) for side in SIDES}
            for chunk in chunks:
                lines.write(chunk.lines)
                line_offsets.append(chunk.line_lengths)
                uids.append(chunk.uids)
                members.append(_renumber(chunk.groups, chunk.group_names, self.groups))
                numbers = np.array([self.words[word] for word in chunk.words], np.int32)
                for side, (words, lengths) in chunk.texts.items():
                    texts[side].append(numbers[words], lengths)
                records += len(chunk.uids)
                tables += chunk.tables
                several += chunk.several_references
                groups.update(chunk.group_names)
                skipped += chunk.skipped
                report(records)
        log_skipped(skipped)
        if not records:
            raise InputError(f"no record for {split} has a text.")
        return {"records": records, "tables": tables, "several_references": several, "groups": len(groups)}

    def save(self) -> None:
        """Write the lists of words and groups."""
        for name, names in (("words", self.words), ("groups", self.groups)):
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps(list(names), ensure_ascii=False), encoding="utf-8")


def _renumber(members: np.ndarray, names: list[str], numbers: Numbers) -> np.ndarray:
    """(N,) int64: a chunk's groups -> numbers shared by all chunks; -1 stays -1."""
    renumbered: np.ndarray = np.array([*(numbers[name] for name in names), -1], np.int64)[members]
    return renumbered
