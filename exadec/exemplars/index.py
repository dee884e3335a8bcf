"""An index of texts that come and go, in memory or in a folder.

In: texts to be found, and texts to find them with. Out: `BowIndex`: the ids of the most similar texts, exactly.
"""

import copy
import fcntl
import json
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from exadec.corpus.stage import MANIFEST, hash_file, hash_value
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.candidates import BLOCK, Candidates
from exadec.exemplars.join import Allowed, Neighbours, screening_type, search
from exadec.files import flush, replacing

Split = Callable[[str], list[str]]
FORMAT = f"bag-of-words index 1, blocks of {BLOCK}"
_RATIO = 4
"""A segment has more than so many times the texts of the next one: segments stay few, and texts are seldom copied."""
_FILE = re.compile(r"\d{6,}[.\w]*\.npy")
"""The names of an index's files begin with the number of the change that wrote them, so that none is written twice."""
_READ = ("words", "word_weights", "columns", "ids")  # of a segment, when it is opened; it has other parts:
_MAPPED = ("offsets", "terms", "counts", "squares", "head_of", "head", "tail_offsets", "tail_rows")


@dataclass(frozen=True)
class Hit:
    """A text that was found, and its cosine."""

    id: int
    similarity: float


@dataclass(frozen=True)
class _Segment:
    """Texts that were added or merged together. It numbers terms for itself, so that one of few texts is small."""

    first_column: int
    """The index's columns from here to the next segment's first are of words that no segment before this one had"""
    columns: np.ndarray
    """(terms,) int32, ascending: the index's column of each term of this segment"""
    candidates: Candidates
    """Their ids ascend, and are above those of the segments before this one"""
    alive: np.ndarray
    """(N,) bool: False for what was deleted"""
    name: str = ""
    """How the names of its files begin; empty when it has none"""

    @staticmethod
    def arrange(bag: BagOfWords, rows: Rows, ids: np.ndarray, first_column: int) -> "_Segment":
        """Of rows over the columns of the bag."""
        present = np.bincount(rows.terms, minlength=len(bag.columns)) > 0  # (columns of the bag,)
        columns = np.flatnonzero(present).astype(np.int32)
        numbers = (np.cumsum(present) - 1).astype(np.int32)
        candidates = Candidates.arrange(replace(rows, terms=numbers[rows.terms]), bag.weights[columns], ids)
        return _Segment(first_column, columns, candidates, np.ones(len(rows), bool))

    def without(self, ids: np.ndarray) -> "_Segment":
        return replace(self, alive=self.alive & ~np.isin(self.candidates.ids, ids))

    def search(self, queries: Rows, k: int, among: np.ndarray | None) -> Neighbours:
        """The best, of all or `among` some (ids,), for queries over the columns of the index."""
        if not len(self.columns):
            return Neighbours.none(len(queries), k)
        alive = self.alive if among is None else self.alive & among[self.candidates.ids]
        place = np.searchsorted(self.columns, queries.terms)  # (entries,)
        known = np.take(self.columns, place, mode="clip") == queries.terms
        offsets = np.concatenate([[0], np.cumsum(known)])[queries.offsets]
        queries = Rows(offsets, place[known].astype(np.int32), queries.counts[known], queries.squares)
        if len(queries) == 1:
            return self._search_one(queries, k, alive)
        allowed = replace(Allowed.all(len(queries), len(self.candidates)), alive=alive)
        return search(queries, self.candidates, k, allowed, np.flatnonzero(np.diff(offsets)))

    def _search_one(self, query: Rows, k: int, alive: np.ndarray) -> Neighbours:
        """In this thread, as serving wants it: what `join.search` prepares for many outlasts a small search."""
        from exadec.exemplars.kernels import search_rows  # numba, which takes a second to load

        found, candidates = Neighbours.none(1, k), self.candidates
        if len(query.terms):
            factors = query.counts * candidates.weights[query.terms] ** 2
            allowed = np.zeros((0, 1), np.int64), np.zeros((0, len(candidates)), np.int64), alive
            search_rows(
                np.zeros(1, np.int64), 0, len(candidates), query.offsets, query.terms, factors,
                np.empty(BLOCK, screening_type(query, candidates)),
                *(*candidates.arrays(), *allowed, found.ids, found.scores),
            )  # fmt: skip
        return found


@dataclass(frozen=True)
class _State:
    """All that a search reads. A change makes another state, so that a search under way never sees half a change."""

    bag: BagOfWords
    segments: tuple[_Segment, ...]
    next_id: int


class BowIndex:
    """Finds the most similar of many texts: cos(q, c) = Σ qₜ cₜ wₜ² / (‖q‖ ‖c‖), by falling cosine, then rising id.

    `add` makes a segment of texts, and merges it with segments that are not much larger; `delete` marks texts, and
    `compact` removes them and makes tf-idf weights anew. Until then, new words weigh as much as words no text has.
    An index that was opened or saved lives in its folder: what `add`, `delete` and `compact` do is on disk when they
    return, and a crash leaves the folder as it was before or after. Whoever else has opened it goes on with what was
    there, and has to open it again to see or make changes. Threads may search while another changes the index.
    """

    def __init__(self, state: _State, corpus: str, split_name: str):
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
        segment = _Segment.arrange(bag, rows, np.arange(len(rows), dtype=np.int64), 0)
        return BowIndex(_State(bag, (segment,), len(rows)), corpus, split_name)

    @staticmethod
    def open(
        folder: Path | str, corpus: str | None = None, split: Split = terms, split_name: str = "words"
    ) -> "BowIndex":
        """Map the index of a folder, made from that corpus if one is given. Of mapped files only sizes are checked."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        if corpus is not None and manifest["corpus"] != corpus:
            raise InputError(f"{folder}: this index was made from another corpus; build it again.")
        if manifest["split"] != split_name:
            raise InputError(f"{folder}: this is an index of {manifest['split']}, not of {split_name}.")
        try:
            state = _read_state(folder, manifest, split)
        except InputError:
            if _read_manifest(folder) == manifest:
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
                segment = _Segment.arrange(bag, rows, ids, len(state.bag.columns))
                segments = _tidy(bag, (*state.segments, segment))
                self._change(_State(bag, segments, state.next_id + len(rows)), self.folder)
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
            segment = _Segment.arrange(state.bag, *_live_rows(state.segments), 0)
            rows = segment.candidates.rows  # over the terms of the segment, which become the columns of the index
            words = np.array(list(state.bag.columns), object)[segment.columns].tolist()
            bag = copy.copy(state.bag)
            bag.columns = dict(zip(words, range(len(words)), strict=True))
            bag.weights = segment.candidates.weights
            rows = bag.weigh(rows)
            candidates = replace(segment.candidates, rows=rows, weights=bag.weights)
            segment = replace(segment, columns=np.arange(len(words), dtype=np.int32), candidates=candidates)
            self._change(_State(bag, (segment,), state.next_id), self.folder)

    def save(self, folder: Path | str) -> None:
        """Write the index to a folder, in place of an index that is there, and live there from now on."""
        with self._writing:
            folder = Path(folder).resolve()
            if folder == self.folder:
                return  # all changes are there already
            if folder.is_file() or not all(_FILE.fullmatch(path.name) for path in folder.glob("[!.]*")):
                _read_manifest(folder)  # refuses what is not an index
            segments = tuple(replace(segment, name="") for segment in self._state.segments)
            self._change(replace(self._state, segments=segments), folder)

    def verify(self) -> None:
        """Check what the files hold; an index in memory alone is always well."""
        for name, facts in self._manifest.get("files", {}).items():
            path = Path(self.folder or "") / name
            if not path.is_file() or hash_file(path) != facts["sha256"]:
                raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.")

    def _change(self, state: _State, folder: Path | None) -> None:
        """Switch to a state. A folder holds what it held before until its manifest is replaced, in one instant."""
        manifest: dict[str, Any] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that would change the index wait
                before = _read_manifest(folder) if (folder / MANIFEST).exists() else {}
                if folder == self.folder and before.get("key") != self._manifest["key"]:
                    raise InputError(f"{folder}: someone else has changed this index; open it again.")
                facts = {"corpus": self.corpus, "split": self.split_name, "generation": before.get("generation", 0) + 1}
                try:
                    state, manifest = _write_state(folder, state, facts, self._manifest.get("files", {}))
                finally:
                    _sweep(folder)
        self.folder, self._manifest, self._state = folder, manifest, state


def _live_rows(segments: Sequence[_Segment]) -> tuple[Rows, np.ndarray]:
    """What is not deleted: rows over the columns of the index, and (N,) their ids."""
    parts = [segment.candidates.rows.take(np.flatnonzero(segment.alive)) for segment in segments]
    rows = Rows(
        offsets=np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.offsets) for part in parts]))]),
        terms=np.concatenate([segment.columns[part.terms] for segment, part in zip(segments, parts, strict=True)]),
        counts=np.concatenate([part.counts for part in parts]),
        squares=np.concatenate([part.squares for part in parts]),
    )
    return rows, np.concatenate([segment.candidates.ids[segment.alive] for segment in segments])


def _tidy(bag: BagOfWords, segments: tuple[_Segment, ...]) -> tuple[_Segment, ...]:
    """Merge the last segment with those before it that are not much larger."""
    first, size = len(segments) - 1, len(segments[-1].candidates)
    while first > 0 and len(segments[first - 1].candidates) <= _RATIO * size:
        first -= 1
        size += len(segments[first].candidates)
    if first == len(segments) - 1:
        return segments
    return (*segments[:first], _Segment.arrange(bag, *_live_rows(segments[first:]), segments[first].first_column))


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    damaged = InputError(f"{path}: the manifest is damaged; delete {folder} and build the index again.")
    if not path.is_file():
        raise InputError(f"{folder}: not an index (there is no {MANIFEST}).")
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError:
        raise damaged from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{folder}: not an index, or of another format than {FORMAT!r}; choose another folder.")
    if manifest.get("key") != hash_value({name: value for name, value in manifest.items() if name != "key"}):
        raise damaged
    return manifest


def _read_state(folder: Path, manifest: dict[str, Any], split: Split) -> _State:
    for name, facts in manifest["files"].items():
        path, read = folder / name, name.split(".")[-2] in (*_READ, "deleted")
        size = path.stat().st_size if path.is_file() else -1
        if size != facts["bytes"] or (read and hash_file(path) != facts["sha256"]):
            raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.")
    bag, segments = BagOfWords(manifest["weighting"], split), []
    bag.unseen_weight = manifest["unseen_weight"]
    deleted = _load(folder / f"{manifest['generation']:06}.deleted.npy")
    for name in manifest["segments"]:
        words, weights, columns, ids, *arrays = (_load(folder / f"{name}.{part}.npy") for part in (*_READ, *_MAPPED))
        first_column = len(bag.columns)
        bag.columns |= {word: column for column, word in enumerate(json.loads(words.tobytes()), first_column)}
        bag.weights = np.concatenate([bag.weights, weights])
        candidates = Candidates(Rows(*arrays[:4]), ids, bag.weights[columns], *arrays[4:])
        segments.append(_Segment(first_column, columns, candidates, np.ones(len(ids), bool), name).without(deleted))
    return _State(bag, tuple(segments), manifest["next_id"])


def _load(path: Path) -> np.ndarray:
    try:
        # Nobody writes to it, nor would that reach the file; but the kernel is compiled for writeable arrays.
        return np.asarray(np.load(path, mmap_mode="c"))
    except ValueError:
        raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.") from None


def _write_state(folder: Path, state: _State, facts: dict[str, Any], known: dict[str, Any]) -> tuple[_State, Any]:
    """Write what the folder lacks, the manifest last; `known` are the files of segments that have names."""
    change, words = f"{facts['generation']:06}", list(state.bag.columns)
    kept = {segment.name for segment in state.segments}
    files = {name: known[name] for name in known if name.rsplit(".", 2)[0] in kept}
    arrays = {"deleted": np.concatenate([segment.candidates.ids[~segment.alive] for segment in state.segments])}
    bounds, segments = [*(segment.first_column for segment in state.segments), len(words)], []
    for number, segment in enumerate(state.segments):
        if not segment.name:
            own = slice(bounds[number], bounds[number + 1])
            text = np.frombuffer(json.dumps(words[own]).encode(), np.uint8)
            parts = vars(segment) | vars(segment.candidates) | vars(segment.candidates.rows)
            parts |= {"words": text, "word_weights": state.bag.weights[own]}
            arrays |= {f"{number}.{part}": parts[part] for part in (*_READ, *_MAPPED)}
            segment = replace(segment, name=f"{change}.{number}")
        segments.append(segment)
    for part, array in arrays.items():
        path = folder / f"{change}.{part}.npy"
        np.save(path, array)
        flush(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
    manifest = {"format": FORMAT, **facts, "weighting": state.bag.weighting, "unseen_weight": state.bag.unseen_weight}
    manifest |= {"next_id": state.next_id, "segments": [segment.name for segment in segments], "files": files}
    manifest["key"] = hash_value(manifest)
    with replacing(folder / MANIFEST) as draft:
        draft.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return replace(state, segments=tuple(segments)), manifest


def _sweep(folder: Path) -> None:
    """Remove files that were written in vain, or are not needed any more."""
    listed = _read_manifest(folder)["files"] if (folder / MANIFEST).exists() else {}
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name) and path.name not in listed:
            path.unlink()
