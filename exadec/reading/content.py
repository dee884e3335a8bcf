"""Small files as bytes, text and JSON, and the hashes of all files.

In: a path that may lead to anything. Out: its content, of the type asked for, or an `InputError` that names the file.
"""

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO, cast

from exadec.errors import InputError, RequestError

SMALL = 1 << 24
"""Bytes that a file of settings, facts or results has at most."""
LARGE = 1 << 30
"""Bytes that a list of words has at most."""
LONGEST_WORD = 10_000
"""Characters without a space that a text to read has at most; scripts without spaces need many."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""As in the server's schema: tabs and line ends are allowed."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file is sure to change its time stamp."""
_digests: dict[tuple[int, ...], str] = {}
"""SHA-256 of the files, and parts, that this process has hashed, by device, inode, size, time of the last change, part
"""


class Part(io.RawIOBase):
    """Some bytes of an open file, as a file of their own."""

    def __init__(self, file: BinaryIO, begin: int, size: int):
        self.file, self.begin, self.size, self._place = cast(io.BufferedReader, file), begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.size}[whence]
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        room = max(0, self.size - self._place)  # `RawIOBase.read` would first take as much memory as it is asked for
        found = super().read(room if size is None or size < 0 else min(size, room))
        return found or b""

    def readinto(self, buffer: Any) -> int:
        self.file.seek(self.begin + self._place)
        found = self.file.readinto(memoryview(buffer)[: max(0, self.size - self._place)])
        self._place += found
        return found

    def fileno(self) -> int:
        """Of the file that it is part of."""
        return self.file.fileno()


def open_file(path: Path, follow: bool = True) -> BinaryIO:
    """Open a regular file: never a folder, a pipe or a device and, unless `follow`, never through a symbolic link."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)  # no pipe may block us
    try:
        number = os.open(path, flags)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a symbolic link, which exadec does not follow here; remove it.") from None
        raise InputError(f"{path}: {error.strerror}.") from None
    except ValueError:  # a NUL character
        raise InputError(f"{str(path)!r}: not a name that a file can have.") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise InputError(f"{path}: not a file.")
    return os.fdopen(number, "rb")


def read_bytes(path: Path, limit: int = SMALL, follow: bool = True) -> bytes:
    """The content of a file of at most `limit` bytes."""
    with open_file(path, follow) as file:
        return take(file, str(path), limit)


def take(file: BinaryIO, name: str, limit: int) -> bytes:
    """The content of an open file of at most `limit` bytes."""
    try:
        content = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}.") from None
    if len(content) > limit:
        raise InputError(f"{name}: larger than {limit:,} bytes, the most that is read of such a file.")
    return content


def read_text(path: Path, limit: int = SMALL, follow: bool = True) -> str:
    return decode(read_bytes(path, limit, follow), str(path))


def decode(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not valid UTF-8 (byte {error.start + 1}).") from None


def read_json(path: Path, limit: int = SMALL, follow: bool = True) -> Any:
    return parse_json(read_text(path, limit, follow), str(path))


def parse_json(text: str, where: str) -> Any:
    """A JSON value whose texts can be written as UTF-8. `where` names its place in the error."""
    try:
        value = json.loads(text)
        if "\\u" in text:  # the only way to write half a character
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        if text.startswith("\ufeff"):
            raise InputError(f"{where}: there is a byte order mark (U+FEFF) at its beginning; take it out.") from None
        line = f"line {error.lineno}, " * ("\n" in text.strip())
        fault = f"{error.msg.removesuffix(' at')} at {line}column {error.colno}"
        raise InputError(f"{where}: not JSON ({fault}).") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply.") from None
    except UnicodeEncodeError:
        raise InputError(f"{where}: half a character (a lone surrogate); write the text as UTF-8.") from None
    except ValueError:
        raise InputError(f"{where}: a number of the JSON has too many digits.") from None
    return value


def require_text(text: str, name: str) -> None:
    """Refuse a text that cannot be written as UTF-8, such as an argument in another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not valid UTF-8.") from None


def require_plain_text(text: str, name: str) -> None:
    """Refuse what a terminal or a page would not show as text, and words that no language has, as too slow to read."""
    require_text(text, name)
    found = _CONTROL.search(text)
    if found is not None:
        raise RequestError(f"{name} has a control character (U+{ord(found[0]):04X}); take it out.")
    longest = max(map(len, text.split()), default=0)
    if longest > LONGEST_WORD:
        raise RequestError(f"{name} has {longest:,} characters without a space; at most {LONGEST_WORD:,} are read.")


def matches(value: object, shape: Any) -> bool:
    """Whether a JSON value has this shape.

    `str`, `int` and `bool` stand for themselves, `float` for any finite number, `None` for null, `object` for anything.
    A tuple lists alternatives, [shape] is a list of any length, {str: shape} an object with any keys, and any other
    dictionary an object that has at least its keys.
    """
    if isinstance(shape, tuple):
        return any(matches(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(matches(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        if str in shape:
            return all(matches(one, shape[str]) for one in value.values())
        return all(key in value and matches(value[key], one) for key, one in shape.items())
    if shape is float:
        return isinstance(value, int | float) and type(value) is not bool and abs(value) < math.inf
    return value is None if shape is None else shape is object or type(value) is shape


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open_file(path) as file:
        return digest(file)


def digest(file: BinaryIO) -> str:
    """SHA-256 of an open file. A file that has not changed is hashed once in a process, however often it is opened."""
    facts = os.fstat(file.fileno())
    part = (file.begin, file.size) if isinstance(file, Part) else ()
    identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_ctime_ns, *part)
    known = _digests.get(identity)
    if known is None:
        known = hashlib.file_digest(cast(io.BufferedReader, file), "sha256").hexdigest()
        if time.time_ns() - facts.st_ctime_ns > _SETTLED:
            _digests[identity] = known
    file.seek(0)
    return known
