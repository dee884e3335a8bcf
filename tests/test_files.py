"""A file is replaced as a whole, or left as it was, by one process at a time."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from exadec.errors import InputError
from exadec.files import locked_for_reading, locked_for_writing, make_folder_for, replacing


def test_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append(os.fstat(number).st_ino), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda draft, path: (calls.append("replace"), replace(draft, path)))
    with replacing(tmp_path / "a.txt") as draft:
        draft.write_text("new")
    assert calls == [(tmp_path / "a.txt").stat().st_ino, "replace", tmp_path.stat().st_ino]


def test_draft_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever hands over a folder could put one there, to overwrite a file of its reader."""
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    (tmp_path / ".a.txt.draft").symlink_to(precious)
    with replacing(tmp_path / "a.txt") as draft:
        draft.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert precious.read_text() == "mine"


HOLD = """
import sys, time
from pathlib import Path
from exadec import files
with getattr(files, f"locked_for_{sys.argv[1]}")(Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(float(sys.argv[3]))
"""


@contextmanager
def held_by_another(how: str, path: Path, seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, how, str(path), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        ("writing", locked_for_writing, "has been writing it since 20"),
        ("writing", locked_for_reading, "has been writing it since 20"),
        ("reading", locked_for_writing, "has been reading it since 20"),
        ("reading", locked_for_reading, None),
    ],
)
def test_second_process_is_refused_until_the_first_is_dead(
    tmp_path: Path, theirs: str, ours: Callable[[Path], AbstractContextManager[None]], message: str | None
) -> None:
    folder = tmp_path / "folder"
    with held_by_another(theirs, folder) as process:
        if message is None:
            with ours(folder):
                pass
        else:
            if theirs == "reading":
                with locked_for_reading(folder):  # signs, too, and is not the one to name
                    pass
            expected = rf"{folder}: process {process.pid} on \S+ {message}.*; wait until it has finished, or stop it\."
            with pytest.raises(InputError, match=expected), ours(folder):
                pass
        process.kill()  # as SIGKILL, which leaves the lock's file behind
        process.wait()
        with locked_for_writing(folder):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lock", [locked_for_writing, locked_for_reading])
def test_in_a_queue_who_writes_is_waited_for(
    tmp_path: Path, lock: Callable[..., AbstractContextManager[None]], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    with held_by_another("writing", folder, seconds=1) as process:
        with lock(folder, queue=True):
            assert process.wait(timeout=10) == 0
        expected = (
            rf"^{folder}: process {process.pid} on \S+ has been writing it since .*; waiting until it has finished\.$"
        )
        assert [bool(re.match(expected, record.message)) for record in caplog.records] == [True]


def test_in_a_queue_who_reads_is_not_waited_for(tmp_path: Path) -> None:
    """Somebody may train on it for days."""
    folder = tmp_path / "folder"
    with (
        held_by_another("reading", folder),
        pytest.raises(InputError, match="has been reading it since"),
        locked_for_writing(folder, queue=True),
    ):
        pass


def test_all_names_of_a_folder_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with (
        locked_for_writing(tmp_path / "folder"),
        pytest.raises(InputError, match=f"process {os.getpid()} on"),
        locked_for_writing(tmp_path / "link"),
    ):
        pass


def test_readers_lock_nothing_where_nobody_can_write(tmp_path: Path) -> None:
    with locked_for_reading(tmp_path / "absent" / "folder"):
        assert list(tmp_path.iterdir()) == []


def test_many_processes_never_write_at_the_same_time(tmp_path: Path) -> None:
    """Each takes the lock, and its file is removed and made again, as often as it can in a second."""
    code = """
import sys, time, os
from pathlib import Path
from exadec.errors import InputError
from exadec.files import locked_for_writing
folder, end, taken = Path(sys.argv[1]), time.monotonic() + 1, 0
while time.monotonic() < end:
    try:
        with locked_for_writing(folder / "lock"):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            taken += 1
            os.unlink(folder / "inside")
    except InputError:
        pass
print(taken)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    taken = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(taken) > 20


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="not a regular file, so it cannot be replaced"), replacing(pipe):
        pytest.fail("it was written")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do() -> None:
    """`/proc` takes no file, whoever asks."""
    for write in (replacing, locked_for_writing, lambda path: nullcontext(make_folder_for(path / "b"))):
        said = r"the folder /proc.* cannot be written .*; change its permissions, or choose another"
        with pytest.raises(OSError, match=said) as error, write(Path("/proc/a")):
            pass
        assert str(error.value.filename).startswith("/proc/a")
        said = r"^/dev/null/a.*: cannot be written there, because /dev/null.* is not a folder\.$"
        with pytest.raises(InputError, match=said), write(Path("/dev/null/a")):
            pass
