"""Lines of text files, plain or compressed.

In: a file (plain, .gz or .xz), or an open one. Out: its lines, none of them so long that it fills the memory.
"""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from exadec.errors import InputError
from exadec.reading.content import open_file

LONGEST = 1 << 25
"""Bytes of the longest line that is read. Compressed, a line of any length takes hardly any space."""
_UNPACKING = 1 << 28
"""Bytes of memory that unpacking an .xz file may take; `xz -9` needs a quarter of it."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of a UTF-8 file."""
    yield from decode_lines(raw_lines(path), str(path))


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked, with their ends."""
    with open_file(path) as packed:
        file: BinaryIO = packed
        if path.suffix == ".gz":
            file = cast(BinaryIO, gzip.GzipFile(fileobj=packed))
        elif path.suffix == ".xz":
            file = io.BufferedReader(_Unpacked(packed), 1 << 20)
        try:
            yield from bounded_lines(file, str(path))
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path}: the compressed file is damaged or truncated ({error}).") from None


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of an open file, as they arrive; a line that is too long is an error."""
    number = 0
    while line := file.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise _too_long(name, number)
        yield line


def arriving_lines(file: io.BufferedIOBase) -> Iterator[list[bytes]]:
    """All lines that are at hand, without their ends, as often as more arrive.

    Of a line that is too long only the beginning is there: `LONGEST` bytes and one more.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := file.read1(1 << 20):
        head, *others = chunk.split(b"\n")
        if size <= LONGEST:
            parts.append(head)
            size += len(head)
        if others:
            yield [b"".join(parts)[: LONGEST + 1], *others[:-1]]
            parts, size = [others[-1]], len(others[-1])
    if size:
        yield [b"".join(parts)[: LONGEST + 1]]


def decode_line(raw: bytes, name: str, number: int) -> str:
    """One line as text, without its end."""
    if len(raw) > LONGEST:
        raise _too_long(name, number)
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}:{number}: not valid UTF-8 (byte {error.start + 1} of the line).") from None
    return text.rstrip("\r\n")


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """(line number, text) of lines, numbered from `first`; the error for a line that is not UTF-8 has its number."""
    for number, raw in enumerate(lines, first):
        yield number, decode_line(raw, name, number)


def _too_long(name: str, number: int) -> InputError:
    return InputError(f"{name}:{number}: the line is longer than {LONGEST:,} bytes.")


class _Unpacked(io.RawIOBase):
    """The content of an .xz file. Unlike `lzma.open`, it does not take as much memory as the file asks for."""

    def __init__(self, packed: BinaryIO):
        self._packed = packed
        self._stream = lzma.LZMADecompressor(memlimit=_UNPACKING)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = b""
        while not found:
            given = b""
            if self._stream.eof:  # another stream, or padding, may follow
                given = (self._stream.unused_data or self._packed.read(1 << 16)).lstrip(b"\0")
                if not given and not (given := self._packed.read(1 << 16)):
                    return 0
                self._stream = lzma.LZMADecompressor(memlimit=_UNPACKING)
            elif self._stream.needs_input and not (given := self._packed.read(1 << 16)):
                raise EOFError("it ends too early")
            found = self._stream.decompress(given, len(buffer))
        buffer[: len(found)] = found
        return len(found)
