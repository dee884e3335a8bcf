"""Exemplars that were accepted or deleted after training, in a file that only grows.

In: a folder; texts to accept, ids to delete. Out: what holds after all of it, also after a crash.

Each change is one line of JSON, flushed to disk before `accept` or `delete` returns. The first line says which corpus
the ids of training exemplars belong to. A line without an end was never confirmed to anybody, and is dropped.
"""

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exadec.errors import InputError
from exadec.files import flush, locked_for_writing, replacing
from exadec.reading.content import decode, matches, open_file, parse_json
from exadec.reading.lines import bounded_lines

FILE = "accepted.jsonl"
FORMAT = 1
"""Increased whenever the meaning of the lines changes."""
_HEADER = {"format": int, "corpus": str, "next": int}
_ACCEPTED = {"accept": int, "source": str, "target": str, "group": (str, None)}
_DELETED: dict[str, Any] = {"delete": int, "training": bool}


@dataclass(frozen=True)
class Accepted:
    """A text that somebody accepted, and what it was written from."""

    source: str
    target: str
    group: str | None = None


@dataclass
class Changes:
    """What holds after all that was accepted and deleted."""

    accepted: dict[int, Accepted] = field(default_factory=dict)
    deleted_training: set[int] = field(default_factory=set)
    next_number: int = 0
    """Of the next text that is accepted"""


def journal_folder(run: Path) -> Path:
    """Where the journal of a run is kept, whether the run is a folder or a file: beside it."""
    home = run.resolve()
    return home.with_name(f"{home.name.removesuffix('.exadec')}.exemplars")


def read_changes(folder: Path, corpus: str) -> Changes:
    """What a journal says, while another process may have it open. Without a journal, nothing has changed."""
    path = folder / FILE
    changes = Changes()
    rows = _rows(path) if path.exists() else iter(())
    header = next(rows, None)
    if header is None:
        return changes  # or it was created, but not written
    _require(matches(header, _HEADER), path, 1)
    if header["format"] != FORMAT:
        raise InputError(f"{path}: of another format than {FORMAT}; use the version of exadec that made it.")
    if header["corpus"] != corpus:
        raise InputError(f"{path}: these exemplars belong to another corpus; choose `exemplars=FOLDER`.")
    changes.next_number = header["next"]
    for line, row in enumerate(rows, 2):
        if matches(row, _ACCEPTED):
            number = row["accept"]
            _require(number >= 0 and number not in changes.accepted, path, line)
            changes.accepted[number] = Accepted(row["source"], row["target"], row["group"])
            changes.next_number = max(changes.next_number, number + 1)
        elif matches(row, _DELETED):
            _require(row["delete"] >= 0, path, line)
            if row["training"]:
                changes.deleted_training.add(row["delete"])
            else:
                changes.accepted.pop(row["delete"], None)
        else:
            _require(False, path, line)
    return changes


class Journal:
    """What was accepted and deleted. One process at a time has it open.

    Numbers of accepted texts are never used again, nor do deleted texts stay in the file after it is opened next.
    """

    def __init__(self, folder: Path, corpus: str):
        """`corpus` is the hash of the corpus whose training exemplars can be deleted."""
        self.path = folder / FILE
        self._corpus = corpus
        self._writing = threading.Lock()
        self._file = -1
        with ExitStack() as held:  # until all is well
            try:
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked_for_writing(folder, folder / ".lock", remedy="choose `exemplars=FOLDER`"))
            except OSError as error:
                reason = os.strerror(error.errno or errno.EIO)
                raise InputError(
                    f"{folder}: exemplars cannot be kept there ({reason}); choose `exemplars=FOLDER`."
                ) from None
            found = read_changes(folder, corpus)
            self.accepted, self.deleted_training, self._next = found.accepted, found.deleted_training, found.next_number
            self._rewrite()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._held = held.pop_all()

    def close(self) -> None:
        """Let another process open it."""
        with self._writing:
            os.close(self._file)
            self._file = -1
            self._held.close()

    def accept(self, text: Accepted) -> int:
        """Keep a text; its number, once it is on disk."""
        with self._writing:
            number = self._next
            self._append(_accepting(number, text))
            self._next += 1
            self.accepted[number] = text
        return number

    def delete(self, number: int) -> bool:
        """Delete an accepted text for good; False if there is none of this number."""
        with self._writing:
            if number not in self.accepted:
                return False
            self._append({"delete": number, "training": False})
            del self.accepted[number]
        return True

    def delete_training(self, number: int) -> bool:
        """Never find this training exemplar again; False if it is deleted already."""
        with self._writing:
            if number in self.deleted_training:
                return False
            self._append({"delete": number, "training": True})
            self.deleted_training.add(number)
        return True

    def _append(self, row: dict[str, Any]) -> None:
        """Write one line completely, or not at all."""
        if self._file < 0:
            raise InputError(f"{self.path}: it has been closed, so nothing can be added or deleted.")
        before = os.fstat(self._file).st_size
        line = _line(row)
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)  # half a line would join the next one
            raise InputError(f"{self.path}: {error.strerror}; nothing was changed.") from None

    def _rewrite(self) -> None:
        """Write what holds, without what was deleted."""
        header = {"format": FORMAT, "corpus": self._corpus, "next": self._next}
        rows = [
            header,
            *(_accepting(number, text) for number, text in self.accepted.items()),
            *({"delete": number, "training": True} for number in sorted(self.deleted_training)),
        ]
        with replacing(self.path) as draft, draft.open("wb") as file:
            file.writelines(map(_line, rows))
        flush(self.path.parent.parent)  # the folder itself may be new


def _rows(path: Path) -> Iterator[Any]:
    with open_file(path, follow=False) as file:
        for number, line in enumerate(bounded_lines(file, str(path)), 1):
            if not line.endswith(b"\n"):
                return  # the process or the power ended while this was written
            where = f"{path}:{number}"
            yield parse_json(decode(line, where), where)


def _require(sound: bool, path: Path, line: int) -> None:
    if not sound:
        raise InputError(f"{path}:{line}: the file is damaged; restore it, or remove this line.")


def _accepting(number: int, text: Accepted) -> dict[str, Any]:
    return {"accept": number, "source": text.source, "target": text.target, "group": text.group}


def _line(row: dict[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()
