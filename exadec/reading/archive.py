"""A file that holds others: a ZIP file without compression.

In: a path that may lead to anything. Out: an `Archive`, which is read like a folder; its arrays are mapped where they
are.

This reads only what `exadec.bundle` writes, because a ZIP file can say a thing twice and mean two: members lie one
after the other, from the first byte to the directory, and nothing lies between them. So none can overlap, none can be
larger than the file, and none is unpacked to anywhere.
"""

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from exadec.errors import InputError
from exadec.reading.content import Part, digest, open_file
from exadec.reading.folder import FILES, Folder

MANIFEST = "manifest.json"
ALIGNMENT = 64
"""Members begin at multiples of it, so that the numbers in them do, too."""
LARGEST = (1 << 31) - 1
"""Bytes of an archive; larger ones would need another kind of ZIP file."""
_MOST = 4096
"""Members of an archive"""
_NAME = re.compile(rb"(?:[a-z]+/)?[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")


@dataclass(frozen=True)
class Member:
    """Where a member's content lies in the file."""

    begin: int
    size: int
    checksum: int
    """CRC-32"""


@dataclass(frozen=True)
class Archive(Folder):
    """Reads the members of an archive."""

    home: Path = field(kw_only=True)
    """The file itself; `path` is what messages begin with"""
    members: Mapping[str, Member] = field(kw_only=True)

    @staticmethod
    def read(path: Path, remedy: str) -> "Archive":
        """An archive whose members have no hashes yet."""
        archive = Archive(path, remedy, home=path, members={})
        with open_file(path) as file:
            try:
                return replace(archive, members=_read_members(file))
            except (ValueError, struct.error) as error:
                why = "it ends too early" if isinstance(error, struct.error) else error
                raise InputError(f"{path}: not a file that exadec has written, or damaged: {why}; {remedy}.") from None

    def with_manifest(self, shape: Mapping[str, Any]) -> tuple["Archive", dict[str, Any]]:
        """The manifest, and the archive with the hashes in it. Every member but the manifest must have one."""
        manifest: dict[str, Any] = self.read_json(MANIFEST, {**shape, "files": FILES})
        if {*manifest["files"], MANIFEST} != set(self.members):
            raise self.damaged(MANIFEST, "it lists other files than there are")
        return replace(self, files=manifest["files"]), manifest

    def within(self, folder: str) -> "Archive":
        """The members of a folder inside, by their names in it."""
        names = {name: name.removeprefix(f"{folder}/") for name in self.members if name.startswith(f"{folder}/")}
        files = None if self.files is None else {short: self.files[name] for name, short in names.items()}
        members = {short: self.members[name] for name, short in names.items()}
        return replace(self, path=self.path / folder, files=files, members=members)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A member that is what the manifest says."""
        if self.files is not None and name not in self.files:
            raise self.damaged(name, "the manifest does not list it")
        if name not in self.members:
            raise InputError(f"{self.path / name}: no such file; {self.remedy}.")
        member = self.members[name]
        with open_file(self.home) as file:
            part = cast(BinaryIO, Part(file, member.begin, member.size))
            if self.files is None:
                is_whole = _checksum(part) == member.checksum
            else:
                facts = self.files[name]
                is_whole = member.size == facts["bytes"] and digest(part) == facts["sha256"]
            if not is_whole:
                raise self.damaged(name, "it is not what was written")
            yield part

    def has(self, name: str) -> bool:
        return name in self.members

    def size(self, name: str) -> int:
        with self.open(name):
            return self.members[name].size


def _checksum(file: BinaryIO) -> int:
    """CRC-32 of a whole file."""
    found = 0
    while block := file.read(1 << 20):
        found = zlib.crc32(block, found)
    file.seek(0)
    return found


def _read_members(file: BinaryIO) -> dict[str, Member]:
    """All members by name; a `ValueError` for anything but what `exadec.bundle` writes."""
    total = os.fstat(file.fileno()).st_size
    if not _END.size <= total <= LARGEST:
        raise ValueError("it is too small or too large")
    file.seek(total - _END.size)
    magic, *disks, here, count, size, begin, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\5\6" or any(disks) or comment or here != count or begin + size + _END.size != total:
        raise ValueError("its list of files is not at its end")
    if count > _MOST or size > _MOST * 256:
        raise ValueError("it has too many members")
    file.seek(begin)
    directory, members, place, end = file.read(size), dict[str, Member](), 0, 0
    for _ in range(count):
        name, member, start, place = _read_entry(file, directory, place)
        if start != end:
            raise ValueError("there is something between its members")
        if name in members:
            raise ValueError(f"{name} is in it twice")
        end = member.begin + member.size
        members[name] = member
    if place != len(directory) or end != begin:
        raise ValueError("there is something beside its members")
    return members


def _read_entry(file: BinaryIO, directory: bytes, place: int) -> tuple[str, Member, int, int]:
    """The name of the member at a place of the directory, the member, where its header begins, and the next place."""
    magic, _, _, flags, method, *_, checksum, packed, size, named, extra, comment, disk, _, attributes, start = (
        _ENTRY.unpack_from(directory, place)
    )
    place += _ENTRY.size
    name = directory[place : place + named]
    if magic != b"PK\1\2" or comment or disk or not _NAME.fullmatch(name):
        raise ValueError("an entry of its list of files is damaged, or names no file of a bundle")
    if flags or method or packed != size:
        raise ValueError(f"{name.decode()} is compressed or encrypted")
    if stat.S_IFMT(attributes >> 16) not in (0, stat.S_IFREG):
        raise ValueError(f"{name.decode()} is a link or a folder")
    file.seek(start)
    header = _HEADER.unpack(file.read(_HEADER.size))
    padding = header[10]
    if header[0] != b"PK\3\4" or header[2:4] != (0, 0) or header[6:10] != (checksum, size, size, named):
        raise ValueError(f"the header of {name.decode()} differs from its entry in the list of files")
    if file.read(named) != name:
        raise ValueError(f"{name.decode()} has another name in its header")
    begin = start + _HEADER.size + named + padding
    if begin % ALIGNMENT:
        raise ValueError(f"{name.decode()} is not aligned")
    return name.decode(), Member(begin, size, checksum), start, place + named + extra
