"""An index of texts, in memory or in a folder; texts can be added and deleted.

In: texts to index, and queries. Out: `BowIndex`: the ids of the most similar texts, exactly.
"""

import copy
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from exadec.corpus.stage import MANIFEST
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.index_files import (
    LOCK,
    Split,
    check_manifest,
    files_of,
    has_leftovers,
    holds_other_files,
    read_manifest,
    read_state,
    sweep,
    write_state,
)
from exadec.exemplars.join import Neighbours
from exadec.exemplars.segments import Segment, State, live_rows, merge_small
from exadec.files import locked_for_writing
from exadec.reading.folder import Folder, refuse_links


@dataclass(frozen=True)
class Hit:
    """The id of a text that was found, and its cosine."""

    id: int
    similarity: float


class BowIndex:
    """Finds the most similar of many texts: cos(q, c) = Σ qₜ cₜ wₜ² / (‖q‖ ‖c‖), best first; ties by ascending id.

    `add` creates a segment, and merges it with segments that are not much larger. `delete` marks texts as deleted.
    `compact` removes them and recomputes tf-idf weights; until then, new words weigh as much as unseen words.
    An index that was opened or saved stays in sync with its folder: when `add`, `delete` or `compact` returns, the
    change is on disk, and a crash leaves the folder as it was before or after it. Other processes that have opened the
    index keep the old state, and must open it again to see or make changes; one that makes a change at the same time is
    refused. Threads may search while another thread changes the index; changes of several threads are made in turn.
    """

    def __init__(self, state: State, corpus: str, split_name: str):
        if (state.bag.split is terms) != (split_name == "words"):
            raise ValueError(f"`split_name` must be 'words' for `terms`, and only then, but is {split_name!r} instead.")
        self._state = state
        self._manifest: dict[str, Any] = {}
        self._writing = threading.Lock()
        self.folder: Path | None = None  # None for an index in memory only
        self.corpus = corpus  # hash of the corpus it was built from; empty for none
        self.split_name = split_name  # what texts are split into

    @staticmethod
    def build(
        texts: Iterable[str],
        weighting: Weighting = "raw",
        corpus: str = "",
        split: Split = terms,
        split_name: str = "words",
    ) -> "BowIndex":
        """Index texts in memory; their ids are 0, 1, ..."""
        bag = BagOfWords(weighting, split)
        return BowIndex.from_rows(bag, bag.fit(texts), corpus, split_name)

    @staticmethod
    def from_rows(bag: BagOfWords, rows: Rows, corpus: str = "", split_name: str = "words") -> "BowIndex":
        """Index rows that the bag has counted; the bag must not grow afterwards. Ids are row numbers."""
        if not len(rows):
            raise InputError("There is nothing to index: no text was given.")
        segment = Segment.arrange(bag, rows, np.arange(len(rows), dtype=np.int64), 0)
        return BowIndex(State(bag, (segment,), len(rows)), corpus, split_name)

    @staticmethod
    def open(
        folder: Path | str, corpus: str | None = None, split: Split = terms, split_name: str = "words"
    ) -> "BowIndex":
        """Map the index of a folder. `corpus`, if given, is the hash of the corpus it must be made from.

        All files are checked: their hashes, and that each number in them is in its range.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        if corpus is not None and manifest["corpus"] != corpus:
            raise InputError(f"{folder}: this index was made from another corpus; build it again.")
        if manifest["split"] != split_name:
            raise InputError(f"{folder}: this is an index of {manifest['split']}, not of {split_name}.")
        try:
            state = read_state(files_of(folder, manifest), manifest, split)
        except InputError:
            if read_manifest(folder) == manifest:
                raise
            # Another process changed the index while we read it, and removed old files.
            return BowIndex.open(folder, corpus, split, split_name)
        index = BowIndex(state, manifest["corpus"], split_name)
        index.folder, index._manifest = folder.resolve(), manifest
        if has_leftovers(folder, manifest):
            # Unless somebody writes, or it is read-only.
            with suppress(OSError, InputError), locked_for_writing(folder, folder / LOCK, patience=0):
                sweep(folder)
        return index

    @staticmethod
    def read(files: Folder, corpus: str, split: Split = terms, split_name: str = "words") -> "BowIndex":
        """`open` for files that are part of something else. What changes then is in memory only."""
        manifest = check_manifest(files)
        if (manifest["corpus"], manifest["split"]) != (corpus, split_name):
            raise files.damaged(MANIFEST, f"it is not an index of the {split_name} of this corpus")
        return BowIndex(read_state(replace(files, files=manifest["files"]), manifest, split), corpus, split_name)

    def in_memory(self) -> "BowIndex":
        """An index of the same texts that shares their memory; what changes in it is in memory only."""
        return BowIndex(self._state, self.corpus, self.split_name)

    def __len__(self) -> int:
        """The number of texts that can be found."""
        return sum(int(segment.alive.sum()) for segment in self._state.segments)

    @property
    def next_id(self) -> int:
        """The id of the next text that is added. All ids are below it."""
        return self._state.next_id

    @property
    def alive(self) -> np.ndarray:
        """(ids,) bool: which texts can be found."""
        state = self._state
        alive = np.zeros(state.next_id, bool)
        for segment in state.segments:
            alive[segment.candidates.ids[segment.alive]] = True
        return alive

    @property
    def weighting(self) -> Weighting:
        return self._state.bag.weighting

    @property
    def segments(self) -> int:
        """The number of segments that each search goes through."""
        return len(self._state.segments)

    def search(self, text: str, k: int = 1) -> list[Hit]:
        """The k most similar texts, or fewer if fewer share a word with this one. Runs in this thread."""
        ids, similarities = self.search_many([text], k)
        return [Hit(*hit) for hit in zip(ids[0].tolist(), similarities[0].tolist(), strict=True) if hit[0] >= 0]

    def search_many(
        self, texts: Iterable[str], k: int = 1, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(Q, k) int64 ids, -1 for no more, and (Q, k) float32 cosines. `among` (ids,) bool: which ids may be found."""
        if k < 1:
            raise ValueError(f"`k` must be at least 1, but is {k} instead.")
        state = self._state
        queries = state.bag.count(texts)
        found = Neighbours.merge([segment.search(queries, k, among) for segment in state.segments])
        return found.ids, found.similarities(queries.squares)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """Add texts, and return their ids: int64, ascending, never used for any other text."""
        if isinstance(texts, str):
            raise ValueError("`texts` must be a list of texts, but is one text; write it in brackets.")
        with self._writing:
            state = self._state
            bag = copy.copy(state.bag)
            bag.columns = dict(bag.columns)  # other threads still use the old one
            rows = bag.grow(texts)
            ids = np.arange(state.next_id, state.next_id + len(rows), dtype=np.int64)
            if len(rows):
                segment = Segment.arrange(bag, rows, ids, len(state.bag.columns))
                segments = merge_small(bag, (*state.segments, segment))
                self._change(State(bag, segments, state.next_id + len(rows)), self.folder)
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Delete the texts with these ids. Ids that are already deleted are allowed; unknown ids are an error."""
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
        """Remove deleted texts, and words that only they had, and recompute tf-idf weights."""
        with self._writing:
            state = self._state
            segment = Segment.arrange(state.bag, *live_rows(state.segments), 0)
            rows = segment.candidates.rows  # over the segment's terms, which become the columns of the index
            words = np.array(list(state.bag.columns), object)[segment.columns].tolist()
            bag = copy.copy(state.bag)
            bag.columns = dict(zip(words, range(len(words)), strict=True))
            bag.weights = segment.candidates.weights
            rows = bag.weigh(rows)
            candidates = replace(segment.candidates, rows=rows, weights=bag.weights)
            segment = replace(segment, columns=np.arange(len(words), dtype=np.int32), candidates=candidates)
            self._change(State(bag, (segment,), state.next_id), self.folder)

    def save(self, folder: Path | str) -> None:
        """Write the index to a folder, replacing any index there; later changes go to this folder too."""
        with self._writing:
            folder = Path(folder).resolve()
            if folder == self.folder:
                return  # all changes are there already
            if holds_other_files(folder):
                read_manifest(folder)  # raises if it is not an index
            segments = tuple(replace(segment, name="") for segment in self._state.segments)
            self._change(replace(self._state, segments=segments), folder)

    def verify(self) -> None:
        """Check the content of all files again; an index in memory only is always valid."""
        if self.folder is not None:
            files_of(self.folder, self._manifest).verify()

    def _change(self, state: State, folder: Path | None) -> None:
        """Switch to a state. The folder keeps its old state until its manifest is replaced, atomically."""
        manifest: dict[str, Any] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            refuse_links(folder)
            with locked_for_writing(folder, folder / LOCK):
                before = read_manifest(folder) if (folder / MANIFEST).exists() else {}
                if folder == self.folder and before.get("key") != self._manifest["key"]:
                    raise InputError(f"{folder}: someone else has changed this index; open it again.")
                facts = {"corpus": self.corpus, "split": self.split_name, "generation": before.get("generation", 0) + 1}
                try:
                    state, manifest = write_state(folder, state, facts, self._manifest.get("files", {}))
                finally:
                    sweep(folder)
        self.folder, self._manifest, self._state = folder, manifest, state
