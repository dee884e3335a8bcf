"""Safe writing: one writer at a time, and files that are complete or not there.

In: a path and a block that writes it. Out: the complete new file, or the old one unchanged.
"""

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from exadec.errors import InputError, InUseError

_PATIENCE = 0.5
"""Seconds to wait for a lock. Many are held for a moment only: to look at a manifest, or to replace a file."""
_REMEDY = "wait until it has finished, or stop it"

logger = logging.getLogger(__name__)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path` to write to. It replaces `path` if the block succeeds; otherwise it is removed.

    The content is flushed before the rename: a power failure leaves the old file or the new one, never a partial one.
    A draft that a killed process left behind is taken over. The draft itself is the lock: one process at a time.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: not a regular file, so it cannot be replaced; choose another name.")
    draft = draft_of(path)
    if draft.is_symlink():
        draft.unlink()  # somebody else's: what it points to is not ours to overwrite
    with _naming(path, path.parent):
        number = _lock(draft, path, fcntl.LOCK_EX)
    try:
        os.truncate(number, 0)
        yield draft
        flush(draft)
        os.replace(draft, path)
        flush(path.parent)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # such as a full disk
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(number)


def write_text(path: Path, text: str) -> None:
    """Replace a file by this text, or make it."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def draft_of(path: Path) -> Path:
    """Where a file or folder is written before it takes its place."""
    return path.with_name(f".{path.name}.draft")


def make_folder_for(path: Path) -> None:
    """Make the folder in which a file is going to be written."""
    with _naming(path, path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk, so that they survive a power failure."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def locked_for_writing(
    path: Path, place: Path | None = None, patience: float = _PATIENCE, remedy: str = _REMEDY, queue: bool = False
) -> Iterator[None]:
    """Be the only process that writes a file or folder, while nobody reads it; otherwise an error says who does.

    The lock ends with the process, however that ends. It is a file beside `path`, or at `place`, and the last one who
    leaves removes it. `patience` is how many seconds to wait for it, and `remedy` is what the error advises. In a
    `queue`, it waits for whoever writes, however long that takes.
    """
    folder = path.parent if place is None else place.parent  # as the user wrote it: links are resolved below
    place = place or _lock_of(path)
    with _naming(path, folder):
        place.parent.mkdir(parents=True, exist_ok=True)
        number = _lock(place, path, fcntl.LOCK_EX, patience, remedy, queue)
    try:
        os.truncate(number, 0)
        _sign(number, "writing")
        yield
    finally:
        _unlock(place, number)


@contextmanager
def locked_for_reading(path: Path, queue: bool = False) -> Iterator[None]:
    """Keep others from writing a file or folder. Any number of processes may read at a time.

    In a `queue`, it waits for whoever writes, however long that takes; otherwise an error says who does. Where no lock
    can be made, as on a medium that is read-only, nobody can write either.
    """
    place = _lock_of(path)
    try:
        number = _lock(place, path, fcntl.LOCK_SH, queue=queue)
    except OSError:
        yield
        return
    try:
        _sign(number, "reading")
        yield
    finally:
        _unlock(place, number)


@contextmanager
def _naming(path: Path, folder: Path) -> Iterator[None]:
    """Errors are about `path` and the folder it is in: nobody knows the names of drafts and locks."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{path}: cannot be written there, because {folder} is not a folder.") from None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
            raise
        reason = f"the folder {folder} cannot be written ({error.strerror}); change its permissions, or choose another"
        raise OSError(error.errno, reason, str(path)) from None


def _lock_of(path: Path) -> Path:
    """Links are resolved, so that all names of a folder have the same lock."""
    path = path.resolve()
    return path.with_name(f".{path.name}.lock")


def _lock(
    place: Path, path: Path, kind: int, patience: float = _PATIENCE, remedy: str = _REMEDY, queue: bool = False
) -> int:
    """A file descriptor that holds the lock."""
    deadline, announced = time.monotonic() + patience, False
    while True:
        number = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(number, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, writes = _describe_holder(number)
            os.close(number)
            late = time.monotonic() >= deadline
            if late and not (queue and writes):
                raise InUseError(f"{path}: {holder}; {remedy}.") from None
            if late and not announced:
                logger.warning("%s: %s; waiting until it has finished.", path, holder)
                announced = True
            time.sleep(0.02)
            continue
        except BaseException:
            os.close(number)
            raise
        if _is_at(place, number):
            return number
        os.close(number)  # its last holder removed it after we had opened it


def _unlock(place: Path, number: int) -> None:
    with suppress(OSError):  # somebody else is reading, or has removed it
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(place, number):
            place.unlink()
    os.close(number)


def _is_at(place: Path, number: int) -> bool:
    try:
        return os.path.samestat(os.stat(place, follow_symlinks=False), os.fstat(number))
    except FileNotFoundError:
        return False


def _sign(number: int, what: str) -> None:
    """Add a line that tells others who holds the lock."""
    signature = {"process": os.getpid(), "host": socket.gethostname(), "since": time.time(), "what": what}
    with suppress(OSError):  # a full disk: then the lock holds without it
        os.write(number, (json.dumps(signature) + "\n").encode())


def _describe_holder(number: int) -> tuple[str, bool]:
    """Who it is, and whether they write: from the last line of somebody who is still there, of another process if there
    is one."""
    found = []
    for line in os.pread(number, 65536, 0).splitlines():
        try:
            signature = json.loads(line)
            if _is_gone(signature):
                continue
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(signature["since"]))
            process, host, what = int(signature["process"]), str(signature["host"]), str(signature["what"])
            holder = f"process {process} on {host} has been {what} it since {since}"
            found.append((process != os.getpid(), (holder, what == "writing")))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    # This process may have signed as a reader before; the sort keeps the order of the others.
    return (
        sorted(found, key=lambda one: one[0])[-1][1] if found else ("another process is writing or reading it", False)
    )


def _is_gone(signature: dict[str, Any]) -> bool:
    if signature["host"] != socket.gethostname():
        return False
    try:
        with suppress(PermissionError):  # it belongs to somebody else
            os.kill(int(signature["process"]), 0)
    except ProcessLookupError:
        return True
    return False
