"""Pipeline stages that run again only if their inputs change.

In: a folder and everything the stage's result depends on. Out: the folder, complete or as it was before.
"""

import errno
import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exadec.errors import InputError
from exadec.files import draft_of, flush, locked_for_reading, locked_for_writing, remove
from exadec.reading.content import hash_file
from exadec.reading.folder import FILES, Folder, refuse_links

FORMAT = 1
"""Of the folder of a stage: which files it has, and how they are read."""
_FORMAT_KEY = "stage_format"  # a stage may have a format of its own besides
MANIFEST = "manifest.json"
AGAIN = "run the stage again"

logger = logging.getLogger(__name__)


def hash_value(value: Any) -> str:
    """SHA-256 of any JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path, shape: dict[str, Any] | None = None, remedy: str = AGAIN) -> dict[str, Any]:
    """The manifest of a finished stage. `shape` says what it must hold besides its key and its files."""
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: not a finished stage (there is no {MANIFEST}).")
    refuse_links(folder)
    stage = Folder(folder, remedy)
    manifest: dict[str, Any] = stage.read_json(MANIFEST, {"key": str, "files": FILES, **(shape or {})})
    if manifest.get(_FORMAT_KEY, FORMAT) != FORMAT:  # the first version wrote none
        raise InputError(f"{folder}: written by another version of exadec; delete it and run the stage again.")
    if any(name != Path(name).name for name in manifest["files"]):
        raise stage.damaged(MANIFEST, "it names files outside the folder")
    return manifest


def _is_fresh(folder: Path, key: str) -> bool:
    """Whether the stage has run with these inputs, and its files are unchanged."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        manifest = read_manifest(folder)
    except InputError:  # `rebuild` says what to do
        return False
    if manifest["key"] != key:
        return False
    try:
        Folder(folder, "it is made again", manifest["files"]).verify()
    except InputError as error:
        logger.warning("%s", error)
        return False
    return True


def make(
    folder: Path,
    key: str,
    facts: dict[str, Any],
    build: Callable[[Path], None],
    is_sound: Callable[[], bool] = lambda: True,
) -> None:
    """Run a stage, unless it is fresh and sound. `build` writes to an empty folder, which takes the place of `folder`.

    It may add to `facts`, which become part of the manifest. If another process is making the same folder, this one
    waits, and uses what that has made.
    """
    with locked_for_reading(folder, queue=True):
        if _is_fresh(folder, key) and is_sound():
            return
    with locked_for_writing(folder, queue=True):
        if not (_is_fresh(folder, key) and is_sound()):  # another process may have been faster
            with _replacing(folder, key, facts) as draft:
                build(draft)


@contextmanager
def rebuild(folder: Path, key: str, facts: dict[str, Any]) -> Iterator[Path]:
    """Yield an empty folder. It replaces `folder` if the block succeeds; otherwise it is removed.

    A folder with anything that no stage has written is refused, and so is one that another process writes or reads.
    """
    with locked_for_writing(folder), _replacing(folder, key, facts) as draft:
        yield draft


@contextmanager
def _replacing(folder: Path, key: str, facts: dict[str, Any]) -> Iterator[Path]:
    _refuse_other_files(folder)
    draft = draft_of(folder)
    remove(draft)
    try:
        draft.mkdir()
        yield draft
        _finish(draft, key, facts)
        _delete(folder)
        draft.rename(folder)
        flush(folder.parent)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, OSError) and error.filename is None:  # met while writing; numpy does not say why
            reason = error.strerror or f"could not be written; is the disk full? ({error})"
            raise OSError(error.errno or errno.EIO, reason, str(folder)) from error
        raise


def _finish(draft: Path, key: str, facts: dict[str, Any]) -> None:
    """Flush all files, and write the manifest last."""
    files = {}
    for path in sorted(draft.iterdir()):
        flush(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
    manifest = draft / MANIFEST
    content = {_FORMAT_KEY: FORMAT, "key": key, "files": files, **facts}
    manifest.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    flush(manifest)
    flush(draft)


def _refuse_other_files(folder: Path) -> None:
    if not folder.exists():
        return
    if folder.is_symlink():
        raise InputError(f"{folder}: a link, which exadec cannot replace; remove it, or choose another `folder`.")
    if not folder.is_dir():
        raise InputError(f"{folder}: a file is in the way; move it, or choose another `folder`.")
    known = set()
    if (folder / MANIFEST).is_file():
        remedy = "without it nobody knows what exadec wrote there, so delete the folder and run this again"
        known = {MANIFEST, *read_manifest(folder, remedy=remedy).get("files", {})}
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            raise InputError(f"{path}: exadec did not write this, and would delete it; choose another `folder`.")


def _delete(folder: Path) -> None:
    """Delete a stage, its manifest last: if that is all that is left, it still says what belonged to the stage."""
    if not folder.exists():
        return
    for path in sorted(folder.iterdir(), key=lambda path: path.name == MANIFEST):
        path.unlink()
    folder.rmdir()
