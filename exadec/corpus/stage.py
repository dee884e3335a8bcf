"""Pipeline stages that run again only if their inputs change.

In: a folder and everything the stage's result depends on. Out: the folder, complete or as it was before.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exadec.errors import InputError

MANIFEST = "manifest.json"


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_value(value: Any) -> str:
    """SHA-256 of any JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished stage."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder}: not a finished stage (there is no {MANIFEST}).")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        raise InputError(f"{path}: the manifest is damaged; delete {folder} and run the stage again.") from None
    return manifest


def is_fresh(folder: Path, key: str) -> bool:
    """Whether the stage has run with these inputs, and its files are unchanged."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_manifest(folder)
    # Checking sizes each time detects truncation. The content hashes are there for a full check.
    return manifest.get("key") == key and all(
        (folder / name).is_file() and (folder / name).stat().st_size == facts["bytes"]
        for name, facts in manifest.get("files", {}).items()
    )


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
