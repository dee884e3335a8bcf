"""Pipeline stages that run again only if their inputs change.

In: a folder and everything the stage's result depends on. Out: the folder, complete or as it was before.
"""

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exadec.errors import InputError
from exadec.reading.content import hash_file
from exadec.reading.folder import FILES, Folder, refuse_links

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
    if any(name != Path(name).name for name in manifest["files"]):
        raise stage.damaged(MANIFEST, "it names files outside the folder")
    return manifest


def is_fresh(folder: Path, key: str) -> bool:
    """Whether the stage has run with these inputs, and its files are unchanged."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        manifest = read_manifest(folder)
        if manifest["key"] != key:
            return False
        Folder(folder, "it is made again", manifest["files"]).verify()
    except InputError as error:
        logger.warning("%s", error)
        return False
    return True


@contextmanager
def rebuild(folder: Path, key: str, facts: dict[str, Any]) -> Iterator[Path]:
    """Yield an empty folder. It replaces `folder` if the block succeeds; otherwise it is removed.

    The block may add to `facts`, which become part of the manifest.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield draft
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": hash_file(path)} for path in sorted(draft.iterdir())
        }
        manifest = {"key": key, "files": files, **facts}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        draft.chmod(0o755)  # mkdtemp creates folders that only their owner can read
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
