"""An index in a folder: a manifest, and immutable files.

In: a `State`, or a folder. Out: the folder, with the old state or the new one, or the `State` in it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from exadec.corpus.stage import MANIFEST, hash_file, hash_value
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows, Weighting
from exadec.exemplars.candidates import BLOCK, END, Candidates
from exadec.exemplars.segments import Segment, State
from exadec.files import flush, replacing
from exadec.reading.arrays import Shape, require_ascending, require_offsets, require_within
from exadec.reading.content import decode, matches, parse_json
from exadec.reading.folder import FILES, Folder, refuse_links

Split = Callable[[str], list[str]]
_KIND = "bag-of-words index"
FORMAT = f"{_KIND} 1, blocks of {BLOCK}"
LOCK = ".lock"
"""Held while the index is changed. It is inside the folder, because what is beside it may be somebody else's."""
_FILE = re.compile(r"\d{6,}[.\w]*\.npy")
"""File names begin with the number of the change that wrote them, so that no file is written twice."""
_SHAPE = {
    "format": str,
    "key": str,
    "corpus": str,
    "split": str,
    "generation": int,
    "weighting": str,
    "unseen_weight": int,
    "next_id": int,
    "segments": [str],
    "files": FILES,
}
_HEAVIEST = 1 << 20
"""Above the weight of any term"""


def holds_other_files(folder: Path) -> bool:
    """Whether the folder holds anything that is not part of an index."""
    return folder.is_file() or not all(_FILE.fullmatch(path.name) for path in folder.glob("[!.]*"))


def read_manifest(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: not an index (there is no {MANIFEST}).")
    refuse_links(folder)
    return check_manifest(files_of(folder))


def check_manifest(files: Folder) -> dict[str, Any]:
    """The manifest among the files of an index."""
    manifest: dict[str, Any] = files.read_json(MANIFEST, dict)
    if not str(manifest.get("format")).startswith(_KIND):
        raise InputError(f"{files.path}: not an index; choose another folder.")
    if manifest["format"] != FORMAT:
        raise InputError(f"{files.path}: an index of another format than {FORMAT!r}; {files.remedy}.")
    key = hash_value({name: value for name, value in manifest.items() if name != "key"})
    if not matches(manifest, _SHAPE) or manifest["key"] != key or not all(map(_FILE.fullmatch, manifest["files"])):
        raise files.damaged(MANIFEST, "it is not what was written")
    if manifest["weighting"] not in get_args(Weighting) or not 0 < manifest["unseen_weight"] < _HEAVIEST:
        raise files.damaged(MANIFEST, "its weighting is unknown, or a weight is out of range")
    return manifest


def files_of(folder: Path, manifest: dict[str, Any] | None = None) -> Folder:
    """The files of an index; without a manifest, their content is not known yet."""
    return Folder(folder, f"delete {folder} and build the index again", None if manifest is None else manifest["files"])


def read_state(files: Folder, manifest: dict[str, Any], split: Split) -> State:
    """The state that a manifest describes.

    The kernels that search it do not check where they read and write. So each number is checked here.
    """
    end = manifest["next_id"]
    files.verify()
    bag, segments, first = BagOfWords(manifest["weighting"], split), list[Segment](), 0
    bag.unseen_weight = manifest["unseen_weight"]
    deleted = files.map_array(f"{manifest['generation']:06}.deleted.npy", np.int64, (None,))
    for name in manifest["segments"]:
        segment = _SegmentFiles(files, name).read(bag, first, end)
        first = int(segment.candidates.ids.max(initial=first - 1)) + 1
        segments.append(segment.without(deleted))
    if not segments:
        raise files.damaged(MANIFEST, "it names no segments")
    return State(bag, tuple(segments), end)


class _SegmentFiles:
    """Reads the files of one segment, and checks them against each other."""

    def __init__(self, files: Folder, name: str):
        self.files, self.name = files, name

    def read(self, bag: BagOfWords, first_id: int, end_id: int) -> Segment:
        """The segment with all its texts alive. The words it introduced are added to the bag."""
        first_column = len(bag.columns)
        self._add_words(bag)
        columns = self._map("columns", np.int32, (None,), _ascending(0, len(bag.columns) - 1))
        ids = self._map("ids", np.int64, (None,), _ascending(first_id, end_id - 1))
        rows = self._read_rows(len(ids), len(columns))
        candidates = Candidates(rows, ids, bag.weights[columns], *self._read_arranged(len(ids), len(columns)))
        return Segment(first_column, columns, candidates, np.ones(len(ids), bool), self.name)

    def _add_words(self, bag: BagOfWords) -> None:
        path = self._path("words")
        text = self._map("words", np.uint8, (None,)).tobytes()
        with self.files.checking(path):
            try:
                words = parse_json(decode(text, path), path)
            except InputError:
                raise ValueError("it is not JSON") from None
            if not matches(words, [str]) or len(set(words)) < len(words) or not bag.columns.keys().isdisjoint(words):
                raise ValueError("it is not a list of new words")
        weights = self._map("word_weights", np.int64, (len(words),), partial(require_within, low=1, high=_HEAVIEST))
        bag.columns |= {word: column for column, word in enumerate(words, len(bag.columns))}
        bag.weights = np.concatenate([bag.weights, weights])

    def _read_rows(self, count: int, terms: int) -> Rows:
        rows = self._map("terms", np.int32, (None,), partial(require_within, low=0, high=terms - 1))
        offsets = self._map("offsets", np.int64, (count + 1,), partial(require_offsets, total=len(rows)))
        with self.files.checking(self._path("terms")):
            require_ascending(rows, offsets)
        counts = self._map("counts", np.int32, (len(rows),), partial(require_within, low=1, high=END))
        squares = self._map("squares", np.int64, (count,))
        with self.files.checking(self._path("squares")):
            if not (squares >= (np.diff(offsets) > 0)).all():
                raise ValueError("the norm of a text is 0")
        return Rows(offsets, rows, counts, squares)

    def _read_arranged(self, count: int, terms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`head_of`, `head`, `tail_offsets` and `tail_rows` of `Candidates`."""
        width = min(BLOCK, max(1, count))
        head = self._map("head", np.uint8, (-(-count // width), None, width))
        columns = head.shape[1] - 1
        head_of = self._map("head_of", np.int16, (terms,))
        with self.files.checking(self._path("head_of")):
            # Two terms in one column would be written beyond the end of what the kernel has room for.
            require_within(head_of, -1, columns - 1)
            if not np.array_equal(np.sort(head_of[head_of >= 0]), np.arange(columns)):
                raise ValueError("a column belongs to no term, or to several")
        tail_rows = self._map("tail_rows", np.int32, (None,))
        tail_offsets = self._map("tail_offsets", np.int64, (terms + 1,), partial(require_offsets, total=len(tail_rows)))
        with self.files.checking(self._path("tail_rows")):
            _require_lists(tail_rows, tail_offsets, count)
        return head_of, head, tail_offsets, tail_rows

    def _path(self, part: str) -> str:
        return f"{self.name}.{part}.npy"

    def _map(
        self, part: str, dtype: type[np.generic], shape: Shape, check: Callable[[np.ndarray], None] | None = None
    ) -> np.ndarray:
        # The kernel is compiled for writable arrays, so map it copy-on-write. Nothing writes to it.
        return self.files.map_array(self._path(part), dtype, shape, check, "c")


def _ascending(low: int, high: int) -> Callable[[np.ndarray], None]:
    def check(values: np.ndarray) -> None:
        require_within(values, low, high)
        require_ascending(values, np.array([0, len(values)]))

    return check


def _require_lists(tail_rows: np.ndarray, offsets: np.ndarray, count: int) -> None:
    """Refuse inverted lists in which the kernel would not stop, or step back: each ends in END, and only there."""
    ends = offsets[1:] - 1
    is_end = tail_rows == END
    if (np.diff(offsets) < 1).any() or not is_end[ends].all() or is_end.sum() != len(ends):
        raise ValueError("a list in it has no end")
    if not ((tail_rows[1:] >= tail_rows[:-1]) | is_end[:-1]).all():
        raise ValueError("a list in it does not ascend")
    require_within(tail_rows[~is_end], 0, count - 1)


def write_state(folder: Path, state: State, facts: dict[str, Any], known: dict[str, Any]) -> tuple[State, Any]:
    """Write the files that the folder lacks, then the manifest; `known` are the files of segments already written."""
    change, words = f"{facts['generation']:06}", list(state.bag.columns)
    kept = {segment.name for segment in state.segments}
    files = {name: known[name] for name in known if name.rsplit(".", 2)[0] in kept}
    arrays = {"deleted": np.concatenate([segment.candidates.ids[~segment.alive] for segment in state.segments])}
    bounds, segments = [*(segment.first_column for segment in state.segments), len(words)], []
    for number, segment in enumerate(state.segments):
        if not segment.name:
            own = slice(bounds[number], bounds[number + 1])
            parts = _parts(segment, words[own], state.bag.weights[own])
            arrays |= {f"{number}.{part}": array for part, array in parts.items()}
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


def _parts(segment: Segment, words: list[str], weights: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of a segment, by file name; `words` are the words it introduced."""
    candidates, rows = segment.candidates, segment.candidates.rows
    return {
        "words": np.frombuffer(json.dumps(words).encode(), np.uint8),
        "word_weights": weights,
        "columns": segment.columns,
        "ids": candidates.ids,
        "offsets": rows.offsets,
        "terms": rows.terms,
        "counts": rows.counts,
        "squares": rows.squares,
        "head_of": candidates.head_of,
        "head": candidates.head,
        "tail_offsets": candidates.tail_offsets,
        "tail_rows": candidates.tail_rows,
    }


def has_leftovers(folder: Path, manifest: dict[str, Any]) -> bool:
    """Whether a folder holds files of an index that its manifest does not list."""
    return any(_is_ours(path.name) and path.name not in manifest["files"] for path in folder.iterdir())


def _is_ours(name: str) -> bool:
    return name == LOCK or _FILE.fullmatch(name) is not None


def sweep(folder: Path) -> None:
    """Remove files that the manifest does not list: left over from failed or earlier changes."""
    listed = read_manifest(folder)["files"] if (folder / MANIFEST).exists() else {}
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name) and path.name not in listed:
            path.unlink()
