"""Atomic file writes.

In: a path and a block that writes it. Out: the complete new file, or the old one unchanged.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path` to write to. It replaces `path` if the block succeeds; otherwise it is removed.

    The content is flushed before the rename: a power failure leaves the old file or the new one, never a partial one.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        yield draft
        flush(draft)
        os.replace(draft, path)
        flush(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def flush(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk, so that they survive a power failure."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
