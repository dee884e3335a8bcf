"""How often each term occurs in each text of a corpus, counted once and kept on disk.

In: a prepared `Corpus`. Out: `TermCounts`, memory-mapped, from which every weighting is made.
"""

import json
from array import array
from pathlib import Path
from typing import Any, Literal

import numpy as np

from exadec.corpus.prepare import Corpus, Report, encode_words, silent
from exadec.corpus.record import SPLITS
from exadec.corpus.scan import Numbers
from exadec.corpus.sequences import ArrayFile, Sequences, SequencesFile
from exadec.corpus.stage import hash_value, is_fresh, rebuild
from exadec.corpus.vocabulary import PieceTable
from exadec.exemplars.bow import Counted, terms

FORMAT = 1
Features = Literal["words", "pieces"]
Side = Literal["source", "target"]


class TermCounts:
    """Counts in a folder that `open_counts` wrote."""

    def __init__(self, folder: Path):
        self.folder = folder

    def names(self) -> list[str]:
        """The terms of the training texts, in the order of their numbers."""
        names: list[str] = json.loads((self.folder / "terms.json").read_bytes())
        return names

    def counted(self, split: str) -> Counted:
        names = ("offsets", "ids", "counts", "unknown_terms", "unknown_squares")
        return Counted(*(self._load(f"{split}.{name}.npy") for name in names))

    def _load(self, name: str) -> np.ndarray:
        # The kernels are compiled for writable arrays, so map it copy-on-write. Nothing writes to it.
        return np.asarray(np.load(self.folder / name, mmap_mode="c"))


def open_counts(corpus: Corpus, features: Features, side: Side = "source", report: Report = silent) -> TermCounts:
    """Count the terms of a corpus, or open the counts if the corpus has not changed since."""
    folder = counts_folder(corpus, features, side)
    facts: dict[str, Any] = {"corpus": corpus.hash, "features": features, "side": side}
    key = hash_value({"format": FORMAT, **facts})
    if not is_fresh(folder, key):
        with rebuild(folder, key, facts) as draft:
            _count_corpus(corpus, features, side, draft, report)
    return TermCounts(folder)


def counts_folder(corpus: Corpus, features: Features, side: Side) -> Path:
    """Beside the corpus, shared by all policies."""
    return corpus.folder.resolve().parent / f"terms-{features}-{side}"


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
