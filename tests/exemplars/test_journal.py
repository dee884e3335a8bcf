"""What was accepted or deleted is there again, whatever happened in between."""

import os
from pathlib import Path

import pytest

from exadec.errors import InputError
from exadec.exemplars import journal as module
from exadec.exemplars.journal import FILE, Accepted, Journal

TEXTS = [Accepted("a b", "A 1", "loud"), Accepted("c\u2028d", "שלום 🙂"), Accepted("e", "E")]


def reopen(journal: Journal, corpus: str = "hash") -> Journal:
    journal.close()
    return Journal(journal.path.parent, corpus)


def state(journal: Journal) -> tuple[dict[int, Accepted], set[int]]:
    return dict(journal.accepted), set(journal.deleted_training)


def test_changes_survive_and_numbers_are_never_used_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new" / "folder", "hash")
    assert [journal.accept(text) for text in TEXTS] == [0, 1, 2]
    assert journal.delete(2)
    assert not journal.delete(2)
    assert not journal.delete(7)
    assert journal.delete_training(5)
    assert not journal.delete_training(5)
    expected = {0: TEXTS[0], 1: TEXTS[1]}, {5}
    assert state(journal) == expected
    for _ in range(2):
        journal = reopen(journal)
        assert state(journal) == expected
    assert journal.accept(TEXTS[2]) == 3
    journal.close()


def test_deleted_texts_leave_the_file_when_it_is_opened_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "hash")
    journal.delete(journal.accept(Accepted("a", "private")))
    journal = reopen(journal)
    assert "private" not in (tmp_path / FILE).read_text("utf-8")
    assert journal.accept(TEXTS[0]) == 1
    journal.close()


def test_a_file_cut_anywhere_holds_what_was_confirmed_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "whole", "hash")
    sizes = {journal.path.stat().st_size: state(journal)}
    for text in TEXTS:
        number = journal.accept(text)
        sizes[journal.path.stat().st_size] = state(journal)
        if number == 1:
            journal.delete(0)
            sizes[journal.path.stat().st_size] = state(journal)
    content = journal.path.read_bytes()
    journal.close()
    for cut in range(len(content) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / FILE).write_bytes(content[:cut])
        found = Journal(folder, "hash")
        confirmed = [held for size, held in sizes.items() if size <= cut]
        assert state(found) == (confirmed[-1] if confirmed else ({}, set())), cut
        found.close()


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, "hash")
    journal.accept(TEXTS[0])
    write = os.write

    def half(number: int, line: bytes) -> int:
        if len(line) < 20:
            raise OSError(28, "No space left on device")
        return write(number, line[: len(line) // 2])

    monkeypatch.setattr(module.os, "write", half)
    with pytest.raises(InputError, match=r"No space left on device; nothing was changed"):
        journal.accept(TEXTS[1])
    monkeypatch.undo()
    assert journal.accept(TEXTS[2]) == 1
    journal = reopen(journal)
    assert state(journal) == ({0: TEXTS[0], 1: TEXTS[2]}, set())
    journal.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{\n", f"{FILE}:3: "),
        (b'{"accept": 0, "source": "a", "target": "b", "group": null}\n', f"{FILE}:3: the file is damaged"),
        (b'{"accept": -1, "source": "a", "target": "b", "group": null}\n', f"{FILE}:3: the file is damaged"),
        (b'{"accept": 4, "source": "a", "target": 3, "group": null}\n', f"{FILE}:3: the file is damaged"),
        (b'{"delete": -3, "training": true}\n', f"{FILE}:3: the file is damaged"),
        (b"\xff\n", f"{FILE}:3: not valid UTF-8"),
    ],
)
def test_damage_is_named_by_its_line_and_not_overwritten(tmp_path: Path, line: bytes, message: str) -> None:
    journal = Journal(tmp_path, "hash")
    journal.accept(TEXTS[0])
    journal.close()
    damaged = journal.path.read_bytes() + line
    journal.path.write_bytes(damaged)
    with pytest.raises(InputError, match=message):
        Journal(tmp_path, "hash")
    assert journal.path.read_bytes() == damaged


def test_it_belongs_to_one_corpus_and_one_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "hash")
    who = rf"{tmp_path}: process {os.getpid()} on \S+ has been writing it since 20.*; choose `exemplars=FOLDER`"
    with pytest.raises(InputError, match=who):
        Journal(tmp_path, "hash")
    with pytest.raises(InputError, match="belong to another corpus"):
        reopen(journal, "other")
    journal.path.write_text('{"format": 2, "corpus": "hash", "next": 0}\n', "utf-8")
    with pytest.raises(InputError, match="of another format than 1"):
        Journal(tmp_path, "hash")
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(InputError, match="exemplars cannot be kept there"):
        Journal(tmp_path / "file" / "folder", "hash")
