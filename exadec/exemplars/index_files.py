"""An index in a folder: a manifest, and immutable files.

In: a `State`, or a folder. Out: the folder, with the old state or the new one, or the `State` in it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from exadec.corpus.stage import MANIFEST, hash_file, hash_value
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows
from exadec.exemplars.candidates import BLOCK, Candidates
from exadec.exemplars.segments import Segment, State
from exadec.files import flush, replacing

Split = Callable[[str], list[str]]
FORMAT = f"bag-of-words index 1, blocks of {BLOCK}"
_FILE = re.compile(r"\d{6,}[.\w]*\.npy")
"""File names begin with the number of the change that wrote them, so that no file is written twice."""
_READ = ("words", "word_weights", "columns", "ids", "deleted")
"""Files that are read when an index is opened. The others, which are larger, are memory-mapped."""


def holds_other_files(folder: Path) -> bool:
    """Whether the folder holds anything that is not part of an index."""
    return folder.is_file() or not all(_FILE.fullmatch(path.name) for path in folder.glob("[!.]*"))


def read_manifest(folder: Path) -> dict[str, Any]:
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


def read_state(folder: Path, manifest: dict[str, Any], split: Split) -> State:
    """The state that a manifest describes. Small files are checked by content, mapped ones by size."""
    for name, facts in manifest["files"].items():
        path, read = folder / name, name.split(".")[-2] in _READ
        size = path.stat().st_size if path.is_file() else -1
        if size != facts["bytes"] or (read and hash_file(path) != facts["sha256"]):
            raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.")
    bag, segments = BagOfWords(manifest["weighting"], split), []
    bag.unseen_weight = manifest["unseen_weight"]
    deleted = _load(folder / f"{manifest['generation']:06}.deleted.npy")
    for name in manifest["segments"]:
        segments.append(_read_segment(folder, name, bag).without(deleted))
    return State(bag, tuple(segments), manifest["next_id"])


def _read_segment(folder: Path, name: str, bag: BagOfWords) -> Segment:
    """A segment with all its texts alive. The words it introduced are added to the bag."""

    def load(part: str) -> np.ndarray:
        return _load(folder / f"{name}.{part}.npy")

    first_column, columns, ids = len(bag.columns), load("columns"), load("ids")
    words = json.loads(load("words").tobytes())
    bag.columns |= {word: column for column, word in enumerate(words, first_column)}
    bag.weights = np.concatenate([bag.weights, load("word_weights")])
    rows = Rows(load("offsets"), load("terms"), load("counts"), load("squares"))
    arranged = load("head_of"), load("head"), load("tail_offsets"), load("tail_rows")
    candidates = Candidates(rows, ids, bag.weights[columns], *arranged)
    return Segment(first_column, columns, candidates, np.ones(len(ids), bool), name)


def _load(path: Path) -> np.ndarray:
    try:
        # The kernel is compiled for writable arrays, so map it copy-on-write. Nothing writes to it.
        return np.asarray(np.load(path, mmap_mode="c"))
    except ValueError:
        raise InputError(f"{path}: this file is damaged; delete the folder and build the index again.") from None


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
    """Whether a folder holds files that its manifest does not list."""
    return any(_FILE.fullmatch(path.name) and path.name not in manifest["files"] for path in folder.iterdir())


def sweep(folder: Path) -> None:
    """Remove files that the manifest does not list: left over from failed or earlier changes."""
    listed = read_manifest(folder)["files"] if (folder / MANIFEST).exists() else {}
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name) and path.name not in listed:
            path.unlink()
