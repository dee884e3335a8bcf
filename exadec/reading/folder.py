"""Folders that exadec writes: a corpus, counted terms, exemplars, an index, a run.

In: a folder and, if it has a manifest, what that says of each file. Out: contents that are what was written.

The SHA-256 of a file is checked when it is opened, and shapes and values after that: a hash finds damage, but whoever
makes a folder makes its hashes, too.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from exadec.errors import InputError
from exadec.reading.content import LARGE, SMALL, decode, digest, matches, open_file, parse_json, take

if TYPE_CHECKING:  # a command that reads no arrays need not wait for numpy
    import numpy as np

    from exadec.reading.arrays import Shape

FILES = {str: {"bytes": int, "sha256": str}}
"""What a manifest says of files, as `matches` takes it"""


def refuse_links(folder: Path) -> None:
    """Refuse a folder that holds a symbolic link: what is read or written there would be somewhere else."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise InputError(f"{str(folder)!r}: {getattr(error, 'strerror', None) or 'not a folder'}.") from None
    if links:
        raise InputError(f"{folder / min(links)}: a symbolic link, which exadec does not follow here; remove it.")


@dataclass(frozen=True)
class Folder:
    """Reads the files of a folder."""

    path: Path
    remedy: str
    """What the user is to do about a damaged file"""
    files: Mapping[str, Mapping[str, Any]] | None = None
    """Bytes and SHA-256 by name, from the manifest; None for a folder without one"""

    def damaged(self, name: str, why: str) -> InputError:
        return InputError(f"{self.path / name}: the file is damaged: {why}; {self.remedy}.")

    @contextmanager
    def checking(self, name: str) -> Iterator[None]:
        """A `ValueError` of the block becomes the error for this file."""
        try:
            yield
        except InputError:
            raise
        except ValueError as error:
            raise self.damaged(name, str(error)) from None

    @contextmanager
    def _with_remedy(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            raise InputError(f"{str(error).removesuffix('.')}; {self.remedy}.") from None

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file that is what its manifest says."""
        if self.files is not None and name not in self.files:
            raise self.damaged(name, "the manifest does not list it")
        if not os.path.lexists(self.path / name):
            raise InputError(f"{self.path / name}: no such file; {self.remedy}.")
        with open_file(self.path / name, follow=False) as file:
            if self.files is not None:
                facts = self.files[name]
                if os.fstat(file.fileno()).st_size != facts["bytes"] or digest(file) != facts["sha256"]:
                    raise self.damaged(name, "it is not what was written")
            yield file

    def has(self, name: str) -> bool:
        return os.path.lexists(self.path / name)

    def size(self, name: str) -> int:
        """Bytes of a file"""
        with self.open(name) as file:
            return os.fstat(file.fileno()).st_size

    def verify(self) -> None:
        """Check the content of all files."""
        for name in self.files or ():
            with self.open(name):
                pass

    def read_text(self, name: str, limit: int = SMALL) -> str:
        with self.open(name) as file, self._with_remedy():
            return decode(take(file, str(self.path / name), limit), str(self.path / name))

    def read_json(self, name: str, shape: Any, limit: int = SMALL) -> Any:
        """A JSON value of this shape, which `matches` describes."""
        text = self.read_text(name, limit)
        with self._with_remedy():
            value = parse_json(text, str(self.path / name))
        if not matches(value, shape):
            raise self.damaged(name, "it does not hold what it should")
        return value

    def read_names(self, name: str) -> list[str]:
        """A list of different texts."""
        names: list[str] = self.read_json(name, [str], LARGE)
        if len(set(names)) < len(names):
            raise self.damaged(name, "a name is in it twice")
        return names

    def map_array(
        self,
        name: str,
        dtype: "type[np.generic]",
        shape: "Shape",
        check: "Callable[[np.ndarray], None] | None" = None,
        mode: Literal["r", "c"] = "r",
    ) -> "np.ndarray":
        """An array; `check` raises `ValueError` for values that are not allowed."""
        from exadec.reading.arrays import map_array

        with self.open(name) as file, self.checking(name):
            array = map_array(file, dtype, shape, mode)
            if check is not None:
                check(array)
        return array
