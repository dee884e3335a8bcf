"""How often each term occurs in each text of a corpus, counted once and kept on disk.

In: a prepared `Corpus`. Out: `TermCounts`, memory-mapped, from which every weighting is made.
"""

import json
from array import array
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from exadec.corpus.prepare import Corpus, Report, encode_words, silent
from exadec.corpus.record import SPLITS
from exadec.corpus.scan import Numbers
from exadec.corpus.sequences import ArrayFile, Sequences, SequencesFile
from exadec.corpus.stage import hash_value, make, read_manifest
from exadec.corpus.vocabulary import PieceTable
from exadec.exemplars.bow import Counted, terms
from exadec.reading.arrays import require_ascending, require_within
from exadec.reading.folder import Folder

FORMAT = 1
Features = Literal["words", "pieces"]
Side = Literal["source", "target"]


class TermCounts:
    """Counts in a folder that `open_counts` wrote."""

    def __init__(self, folder: Path, corpus: Corpus):
        self.folder = folder
        self._corpus = corpus
        self._files = Folder(folder, f"delete {folder}", read_manifest(folder)["files"])

    def names(self) -> list[str]:
        """The terms of the training texts, in the order of their numbers."""
        return self._files.read_names("terms.json")

    @cached_property
    def _count(self) -> int:
        return len(self.names())

    def counted(self, split: str) -> Counted:
        """The counts of a split. They are checked to be in their ranges: the kernels do not check."""
        size = self._corpus.size(split)
        # The kernels are compiled for writable arrays, so map it copy-on-write. Nothing writes to it.
        rows = Sequences.open(self._files, split, size, self._count, "c")
        with self._files.checking(f"{split}.ids.npy"):
            require_ascending(rows.ids, rows.offsets)
        characters = self._corpus.characters(split)

        def check(counts: np.ndarray) -> None:
            require_within(counts, 1, characters)
            require_within(counts.sum(dtype=np.int64, keepdims=True), 0, characters)

        def map_unknown(name: str, most: int) -> np.ndarray:
            within = partial(require_within, low=0, high=most)
            return self._files.map_array(f"{split}.{name}.npy", np.int64, (size,), within, "c")

        counts = self._files.map_array(f"{split}.counts.npy", np.int32, (len(rows.ids),), check, "c")
        unknown = map_unknown("unknown_terms", characters), map_unknown("unknown_squares", characters**2)
        return Counted(rows.offsets, rows.ids, counts, *unknown)


def open_counts(
    corpus: Corpus, features: Features, side: Side = "source", report: Report = silent, home: Path | None = None
) -> TermCounts:
    """Count the terms of a corpus, or open the counts if the corpus has not changed since.

    They are kept beside the corpus, to be shared by all policies, or in `home`.
    """
    folder = (home or beside(corpus)) / f"terms-{features}-{side}"
    facts: dict[str, Any] = {"corpus": corpus.hash, "features": features, "side": side}
    key = hash_value({"format": FORMAT, **facts})
    make(folder, key, facts, lambda draft: _count_corpus(corpus, features, side, draft, report))
    return TermCounts(folder, corpus)


def beside(corpus: Corpus) -> Path:
    """The folder that a corpus is in."""
    return corpus.folder.resolve().parent


def _count_corpus(corpus: Corpus, features: Features, side: Side, folder: Path, report: Report) -> None:
    terms_of, names, known = _number_terms(corpus, features, side)
    (folder / "terms.json").write_text(json.dumps(names[:known], ensure_ascii=False), encoding="utf-8")
    for split in SPLITS:
        texts = corpus.words(split, side)
        with (
            SequencesFile(folder, split) as rows,
            ArrayFile(folder / f"{split}.counts.npy", np.int32) as counts,
            ArrayFile(folder / f"{split}.unknown_terms.npy", np.int64) as unknown_terms,
            ArrayFile(folder / f"{split}.unknown_squares.npy", np.int64) as unknown_squares,
        ):
            for begin, end in texts.blocks():
                size = end - begin
                numbers, columns, times = _count_block(*texts.expand(terms_of, begin, end), len(names))
                is_known = columns < known
                rows.append(columns[is_known], np.bincount(numbers[is_known], minlength=size))
                counts.append(times[is_known])
                others, squares = numbers[~is_known], times[~is_known] ** 2
                unknown_terms.append(np.bincount(others, minlength=size))
                unknown_squares.append(np.bincount(others, squares, minlength=size))
                report(f"counting {features} of {split}", end, len(texts))


def _count_block(parts: np.ndarray, lengths: np.ndarray, types: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(entries,) each: text, term, count; sorted by text, then by term."""
    keys = np.repeat(np.arange(len(lengths)) * types, lengths) + parts
    keys, times = np.unique(keys, return_counts=True)
    numbers, columns = np.divmod(keys, max(types, 1))
    return numbers, columns, times


def _number_terms(corpus: Corpus, features: Features, side: Side) -> tuple[Sequences, list[str], int]:
    """The term numbers of each word of the corpus, the names of all terms, and how many occur in the training texts.

    Terms of the training texts get the first numbers, because an index needs only those.
    """
    words = corpus.word_list()
    if features == "words":
        numbers, found, ends = Numbers(), array("i"), array("q", [0])
        for word in words:
            found.extend(map(numbers.__getitem__, terms(word)))
            ends.append(len(found))
        parts, names = Sequences(np.array(found, np.int32), np.array(ends, np.int64)), list(numbers)
    else:
        table = PieceTable(corpus.vocabulary)
        parts = encode_words(corpus.segmenter, table, words)
        names = [*corpus.vocabulary.pieces, *table.unknown]
    is_trained = np.zeros(len(words), bool)
    texts = corpus.words("train", side)
    for begin, end in texts.blocks():
        is_trained[texts.ids[texts.offsets[begin] : texts.offsets[end]]] = True
    is_known = np.zeros(len(names), bool)
    is_known[parts.ids[np.repeat(is_trained, parts.lengths)]] = True
    order = np.argsort(~is_known, kind="stable")  # the known ones, then the others
    renumbered = np.empty(len(names), np.int32)
    renumbered[order] = np.arange(len(names))
    sequences = Sequences(renumbered[parts.ids], parts.offsets)
    return sequences, [names[number] for number in order.tolist()], int(is_known.sum())
