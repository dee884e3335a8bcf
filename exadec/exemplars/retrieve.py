"""Exemplars for every instance of a corpus.

In: a prepared `Corpus`. Out: an `ExemplarMap`: for each instance of each split one training instance, or none.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from exadec.corpus.prepare import SPLITS, Corpus, Report, silent
from exadec.corpus.stage import hash_value, is_fresh, read_manifest, rebuild
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords
from exadec.exemplars.join import nearest

FORMAT = 1


class ExemplarMap:
    """The exemplar of each instance, fixed before training (section 3.2)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder)

    @property
    def hash(self) -> str:
        key: str = self.manifest["key"]
        return key

    def indices(self, split: str) -> np.ndarray:
        """(N,) int32: the training instance whose target is the exemplar; -1 for none."""
        return np.asarray(np.load(self.folder / f"{split}.index.npy"))

    def similarities(self, split: str) -> np.ndarray:
        """(N,) float32: cosine between the two sources."""
        return np.asarray(np.load(self.folder / f"{split}.similarity.npy"))


class Retriever:
    """Finds exemplars for texts that are not part of a corpus."""

    def __init__(self, corpus: Corpus):
        self.targets: list[str] = []
        self._bag = BagOfWords()

        def sources() -> Any:
            for record in corpus.records("train"):
                self.targets.append(record.target)
                yield record.source

        self._rows: sparse.csr_array = self._bag.fit(sources())

    def find(self, sources: Sequence[str]) -> list[tuple[str | None, float]]:
        """For each source the target whose source is most similar, and the similarity; None when none shares a word."""
        rows, squares = self._bag.count(sources)
        indices, similarities = nearest(rows, squares, self._rows, exclude_own=False)
        return [
            (self.targets[index] if index >= 0 else None, float(similarity))
            for index, similarity in zip(indices, similarities, strict=True)
        ]


def retrieve(corpus: Corpus, report: Report = silent) -> ExemplarMap:
    """Make the exemplar map of a corpus, or open it when the corpus has not changed."""
    folder = corpus.folder.parent / "exemplars"
    key = hash_value({"format": FORMAT, "corpus": corpus.hash})
    if not is_fresh(folder, key):
        facts: dict[str, Any] = {"corpus": corpus.hash, "features": "raw counts of lower-cased words, cosine, top-1"}
        with rebuild(folder, key, facts) as draft:
            _join_splits(corpus, draft, facts, report)
    return ExemplarMap(folder)


def open_exemplars(corpus: Corpus, folder: Path) -> ExemplarMap:
    """An existing map, refused when it was made from another corpus."""
    exemplars = ExemplarMap(folder)
    if exemplars.manifest["corpus"] != corpus.hash:
        raise InputError(f"{folder}: these exemplars were retrieved from another corpus; run `exadec retrieve` again.")
    return exemplars


def _join_splits(corpus: Corpus, folder: Path, facts: dict[str, Any], report: Report) -> None:
    bag = BagOfWords()
    candidates = bag.fit(record.source for record in corpus.records("train"))
    for split in SPLITS:
        rows, squares = bag.count(record.source for record in corpus.records(split))
        indices, similarities = nearest(rows, squares, candidates, split == "train", _reporter(split, report))
        np.save(folder / f"{split}.index.npy", indices)
        np.save(folder / f"{split}.similarity.npy", similarities)
        facts[split] = {
            "without_exemplar": int((indices < 0).sum()),
            "mean_similarity": float(similarities.mean()),
        }


def _reporter(split: str, report: Report) -> Callable[[int], None]:
    return lambda done: report(f"retrieving for {split}", done)
