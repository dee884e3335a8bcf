"""Files that are complete or not there.

In: a path and a block that writes it. Out: the new file in place of the old one, or the old one as it was.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path` to write to. It takes the path's place when the block succeeds, else it is removed.

    The content is on disk before the name is: a power failure leaves the old file or the new one, never half of either.
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
    """Return when a file, or a folder's list of names, would survive a power failure."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
