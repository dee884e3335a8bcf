"""An index of texts that come and go, in memory or in a folder.

In: texts to be found, and texts to find them with. Out: `BowIndex`: the ids of the most similar texts, exactly.
"""

import copy
import fcntl
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from exadec.corpus.stage import MANIFEST, hash_file
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.index_files import Split, holds_other_files, read_manifest, read_state, sweep, write_state
from exadec.exemplars.join import Neighbours
from exadec.exemplars.segments import Segment, State, live_rows, merge_small


@dataclass(frozen=True)
class Hit:
    """A text that was found, and its cosine."""

    id: int
    similarity: float


class BowIndex:
    """Finds the most similar of many texts: cos(q, c) = Σ qₜ cₜ wₜ² / (‖q‖ ‖c‖), by falling cosine, then rising id.

    `add` makes a segment of texts, and merges it with segments that are not much larger; `delete` marks texts, and
    `compact` removes them and makes tf-idf weights anew. Until then, new words weigh as much as words no text has.
    An index that was opened or saved lives in its folder: what `add`, `delete` and `compact` do is on disk when they
    return, and a crash leaves the folder as it was before or after. Whoever else has opened it goes on with what was
    there, and has to open it again to see or make changes. Threads may search while another changes the index.
    """

    def __init__(self, state: State, corpus: str, split_name: str):
        if (state.bag.split is terms) != (split_name == "words"):
            raise ValueError(f"`split_name` must be 'words' for `terms`, only, but is {split_name!r} instead.")
        self._state = state
        self._manifest: dict[str, Any] = {}
        self._writing = threading.Lock()
        self.folder: Path | None = None  # where the index lives; None for memory alone
        self.corpus = corpus  # the hash of the one that it was built from; empty for none
        self.split_name = split_name  # what texts are split into

    @staticmethod
    def build(
        texts: Iterable[str],
        weighting: Weighting = "raw",
        corpus: str = "",
        split: Split = terms,
        split_name: str = "words",
    ) -> "BowIndex":
        """Index texts, in memory; their ids are 0, 1, ..."""
        bag = BagOfWords(weighting, split)
        return BowIndex.from_rows(bag, bag.fit(texts), corpus, split_name)

    @staticmethod
    def from_rows(bag: BagOfWords, rows: Rows, corpus: str = "", split_name: str = "words") -> "BowIndex":
        """Index texts that the bag has counted, and which shall not grow after; ids are the numbers of the rows."""
        if not len(rows):
            raise InputError("There is nothing to index: no text was given.")
        segment = Segment.arrange(bag, rows, np.arange(len(rows), dtype=np.int64), 0)
        return BowIndex(State(bag, (segment,), len(rows)), corpus, split_name)

    @staticmethod
    def open(
        folder: Path | str, corpus: str | None = None, split: Split = terms, split_name: str = "words"
    ) -> "BowIndex":
        """Map the index of a folder, made from that corpus if one is given. Of mapped files only sizes are checked."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        if corpus is not None and manifest["corpus"] != corpus:
            raise InputError(f"{folder}: this index was made from another corpus; build it again.")
        if manifest["split"] != split_name:
            raise InputError(f"{folder}: this is an index of {manifest['split']}, not of {split_name}.")
        try:
            state = read_state(folder, manifest, split)
        except InputError:
            if read_manifest(folder) == manifest:
                raise
            # Someone changed the index while we read it, and removed what it does not need any more.
            return BowIndex.open(folder, corpus, split, split_name)
        index = BowIndex(state, manifest["corpus"], split_name)
        index.folder, index._manifest = folder.resolve(), manifest
        return index

    def __len__(self) -> int:
        """How many texts can be found."""
        return sum(int(segment.alive.sum()) for segment in self._state.segments)

    @property
    def weighting(self) -> Weighting:
        return self._state.bag.weighting

    @property
    def segments(self) -> int:
        """How many parts each search goes through."""
        return len(self._state.segments)

    def search(self, text: str, k: int = 1) -> list[Hit]:
        """The k most similar texts, or as many as share a word with this one; in this thread."""
        ids, similarities = self.search_many([text], k)
        return [Hit(*hit) for hit in zip(ids[0].tolist(), similarities[0].tolist(), strict=True) if hit[0] >= 0]

    def search_many(
        self, texts: Iterable[str], k: int = 1, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(Q, k) int64 ids, -1 for no more, and (Q, k) float32 cosines; `among`, (ids,) bool: who may be found."""
        if k < 1:
            raise ValueError(f"`k` must be at least 1, but is {k} instead.")
        state = self._state
        queries = state.bag.count(texts)
        found = Neighbours.merge([segment.search(queries, k, among) for segment in state.segments])
        return found.ids, found.similarities(queries.squares)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """Add texts, and give their ids: int64, ascending, of no other text ever before or after."""
        with self._writing:
            state = self._state
            bag = copy.copy(state.bag)
            bag.columns = dict(bag.columns)  # others count with the old ones
            rows = bag.grow(texts)
            ids = np.arange(state.next_id, state.next_id + len(rows), dtype=np.int64)
            if len(rows):
                segment = Segment.arrange(bag, rows, ids, len(state.bag.columns))
                segments = merge_small(bag, (*state.segments, segment))
                self._change(State(bag, segments, state.next_id + len(rows)), self.folder)
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Texts with these ids are never found again. Ids deleted before may be among them, unknown ones may not."""
        wanted = np.array(list(ids), np.int64)
        with self._writing:
            state = self._state
            unknown = wanted[(wanted < 0) | (wanted >= state.next_id)]
            if len(unknown):
                raise InputError(f"There is no text with the id {unknown[0]}; nothing was deleted.")
            segments = tuple(segment.without(wanted) for segment in state.segments)
            if any((new.alive < old.alive).any() for new, old in zip(segments, state.segments, strict=True)):
                self._change(replace(state, segments=segments), self.folder)

    def compact(self) -> None:
        """Leave no trace of deleted texts, nor of words that only they had, and make tf-idf weights anew."""
        with self._writing:
            state = self._state
            segment = Segment.arrange(state.bag, *live_rows(state.segments), 0)
            rows = segment.candidates.rows  # over the terms of the segment, which become the columns of the index
            words = np.array(list(state.bag.columns), object)[segment.columns].tolist()
            bag = copy.copy(state.bag)
            bag.columns = dict(zip(words, range(len(words)), strict=True))
            bag.weights = segment.candidates.weights
            rows = bag.weigh(rows)
            candidates = replace(segment.candidates, rows=rows, weights=bag.weights)
            segment = replace(segment, columns=np.arange(len(words), dtype=np.int32), candidates=candidates)
            self._change(State(bag, (segment,), state.next_id), self.folder)

    def save(self, folder: Path | str) -> None:
        """Write the index to a folder, in place of an index that is there, and live there from now on."""
        with self._writing:
            folder = Path(folder).resolve()
            if folder == self.folder:
                return  # all changes are there already
            if holds_other_files(folder):
                read_manifest(folder)  # refuses what is not an index
            segments = tuple(replace(segment, name="") for segment in self._state.segments)
            self._change(replace(self._state, segments=segments), folder)

    def verify(self) -> None:
        """Check what the files hold; an index in memory alone is always well."""
        for name, facts in self._manifest.get("files", {}).items():
            path = Path(self.folder or "") / name
            if not path.is_file() or hash_file(path) != facts["sha256"]:
                raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.")

    def _change(self, state: State, folder: Path | None) -> None:
        """Switch to a state. A folder holds what it held before until its manifest is replaced, in one instant."""
        manifest: dict[str, Any] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that would change the index wait
                before = read_manifest(folder) if (folder / MANIFEST).exists() else {}
                if folder == self.folder and before.get("key") != self._manifest["key"]:
                    raise InputError(f"{folder}: someone else has changed this index; open it again.")
                facts = {"corpus": self.corpus, "split": self.split_name, "generation": before.get("generation", 0) + 1}
                try:
                    state, manifest = write_state(folder, state, facts, self._manifest.get("files", {}))
                finally:
                    sweep(folder)
        self.folder, self._manifest, self._state = folder, manifest, state
