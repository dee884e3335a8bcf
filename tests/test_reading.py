"""The door: what comes in is of the type, size and range that was asked for, or one line says what is wrong."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.errors import InputError
from exadec.reading import lines
from exadec.reading.arrays import map_array, require_ascending, require_offsets, require_within
from exadec.reading.content import (
    Part,
    digest,
    hash_file,
    matches,
    open_file,
    parse_json,
    read_bytes,
    read_text,
    require_text,
)
from exadec.reading.folder import Folder, refuse_links
from exadec.reading.lines import read_lines

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_json_comes_back(value: object) -> None:
    assert parse_json(json.dumps(value), "here") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"^here: not JSON \(Expecting property name enclosed in double quotes at column 2\)\.$"),
        ('{\n "a": "b', r"^here: not JSON \(Unterminated string starting at line 2, column 7\)\.$"),
        ('"a\tb"', r"^here: not JSON \(Invalid control character at column 3\)\.$"),
        ("\ufeff{}", r"^here: there is a byte order mark \(U\+FEFF\) at its beginning; take it out\.$"),
        ("[" * 100_000, "here: the JSON is nested too deeply"),
        ("1" * 5000, "here: a number of the JSON has too many digits"),
        (r'["\ud800"]', "here: half a character"),
        (r'{"a\udc00": 1}', "here: half a character"),
    ],
)
def test_json_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, "here")


def test_a_whole_character_in_two_halves_is_a_character() -> None:
    assert parse_json(r'"\ud83d\ude00"', "here") == "😀"


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        (1, int, True),
        (True, int, False),
        (1, float, True),
        (True, float, False),
        (float("inf"), float, False),
        (float("nan"), float, False),
        (10**400, float, True),
        (None, None, True),
        (0, None, False),
        ("a", (int, str), True),
        ([1, "a"], [int], False),
        ([], [int], True),
        ({"a": 1, "b": 2}, {"a": int}, True),
        ({"b": 2}, {"a": int}, False),
        ({"b": "x"}, {str: int}, False),
        ([], {"a": int}, False),
        ({}, object, True),
    ],
)
def test_shapes(value: object, shape: object, expected: bool) -> None:
    assert matches(value, shape) is expected


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(__file__)
    for path, message in (
        (tmp_path, "not a file"),
        (tmp_path / "pipe", "not a file"),  # and it does not wait for someone to write
        (Path("/dev/zero"), "not a file"),
        (tmp_path / "none", "no such file"),
        (Path(__file__) / "x", "Not a directory"),
        (tmp_path / "a\0b", "not a name that a file can have"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(InputError, match=message):
            open_file(path)
    assert read_text(tmp_path / "link") == Path(__file__).read_text("utf-8")
    with pytest.raises(InputError, match="a symbolic link"):
        open_file(tmp_path / "link", follow=False)


def test_large_files_and_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345\xff")
    assert read_bytes(path, 6) == b"12345\xff"
    with pytest.raises(InputError, match="x: larger than 5 bytes"):
        read_bytes(path, 5)
    with pytest.raises(InputError, match=r"x: not valid UTF-8 \(byte 6\)"):
        read_text(path)
    with pytest.raises(InputError, match="the source is not valid UTF-8"):
        require_text("a\ud800", "the source")


def test_a_file_is_hashed_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a")
    young = hash_file(path)
    path.write_bytes(b"b")  # within the resolution of the clock, perhaps
    assert hash_file(path) != young
    monkeypatch.setattr(time, "time_ns", lambda: path.stat().st_ctime_ns + 3_000_000_000)
    old = hash_file(path)
    with path.open("rb") as file:
        monkeypatch.setattr("hashlib.file_digest", lambda *arguments: pytest.fail("hashed twice"))
        assert digest(file) == old
        assert file.read() == b"b"


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_lines_come_back_from_every_type_of_file(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    texts = [text.removeprefix("\ufeff") for text in texts]
    content = "".join(text + "\n" for text in texts).encode()
    folder = tmp_path_factory.mktemp("lines")
    (folder / "a.txt").write_bytes(content)
    (folder / "a.txt.gz").write_bytes(gzip.compress(content))
    half = len(content) // 2  # two streams, with padding, are one file
    packed = lzma.compress(content[:half]) + b"\0" * 8 + lzma.compress(content[half:]) + b"\0" * 4
    (folder / "a.txt.xz").write_bytes(packed)
    for path in folder.iterdir():
        assert [line for _, line in read_lines(path)] == texts


class Arriving(io.BytesIO):
    """A pipe: each read returns one piece."""

    def __init__(self, pieces: list[bytes]):
        super().__init__()
        self.pieces = [piece for piece in pieces if piece]

    def read1(self, size: int | None = -1) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@given(st.lists(st.text("ab\n", max_size=9).map(str.encode)))
def test_lines_that_arrive_in_pieces_are_those_of_the_whole(pieces: list[bytes]) -> None:
    found = [line for part in lines.arriving_lines(Arriving(pieces)) for line in part]
    assert found == [line.removesuffix(b"\n") for line in io.BytesIO(b"".join(pieces))]


def test_a_line_is_handed_on_before_the_next_one_arrives() -> None:
    pipe = Arriving([b"a\nb", b"c\n", b"d"])
    arriving = lines.arriving_lines(pipe)
    assert next(arriving) == [b"a"]
    assert pipe.pieces == [b"c\n", b"d"]
    assert list(arriving) == [[b"bc"], [b"d"]]


def test_of_a_line_that_is_too_long_only_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 4)
    (found,) = lines.arriving_lines(Arriving([b"abc", b"def", b"ghi", b"j\nkl\n"]))
    assert found == [b"abcde", b"kl"]
    with pytest.raises(InputError, match="here:7: the line is longer than 4 bytes"):
        lines.decode_line(found[0], "here", 7)
    assert lines.decode_line(found[1], "here", 8) == "kl"


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_a_packed_line_does_not_fill_the_memory(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"bomb.jsonl.{ending}"
    with (gzip.open if ending == "gz" else lzma.open)(path, "wb") as file:
        for _ in range(400):
            file.write(b" " * (1 << 20))
    program = (
        "import sys; from pathlib import Path; from exadec.reading.lines import read_lines\n"
        "try: list(read_lines(Path(sys.argv[1])))\n"
        "except ValueError as error: print(error)\n"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    message, peak = done.stdout.splitlines()
    assert message == f"{path}:1: the line is longer than 33,554,432 bytes."
    assert int(peak) < 200 << 10  # KiB; the line has 400 MiB


def test_an_xz_file_cannot_ask_for_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xz"
    path.write_bytes(lzma.compress(b"a\n", preset=6))
    monkeypatch.setattr(lines, "_UNPACKING", 1 << 20)
    with pytest.raises(InputError, match=r"a.xz: the compressed file is damaged or truncated"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", ["gz", "xz"])
@given(data=st.data())
def test_damaged_packed_files_are_refused(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("packed") / f"a.{ending}"
    whole = (gzip.compress if ending == "gz" else lzma.compress)(b"some text\n" * 50)
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    with pytest.raises(InputError, match="the compressed file is damaged or truncated"):
        list(read_lines(path))


def saved(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "a.npy", array)
    return folder / "a.npy"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5),
        np.zeros((2, 3), np.float32),
        np.zeros((3, 2), "i4").T,
        np.zeros(0, bool),
        np.zeros((4, 0), np.uint8),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays_come_back(tmp_path: Path, array: np.ndarray) -> None:
    with saved(tmp_path, array).open("rb") as file:
        found = map_array(file, array.dtype.type, (None,) * array.ndim)
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", "not an array"),
        (lambda content: content[:-1], "its size is not what its header says"),
        (lambda content: content + b"\0", "its size is not what its header says"),
        (lambda content: content.replace(b"(5,)", b"(6,)"), "its size"),
        (lambda content: content.replace(b"<i8", b"<i4"), "its numbers are <i4"),
        (lambda content: content.replace(b"'<i8'", b"'|O8'"), "not an array of numbers"),
        (lambda content: content.replace(b"(5,), ", b"(1,5),"), "not an array of numbers"),
        (lambda content: content.replace(b"(5,)", b"(-5)"), "not an array of numbers"),
        (lambda content: content[:8] + b"\xff\xff" + content[10:], "not an array of numbers"),
        (lambda content: content.replace(b"False", b"id(1)"), "not an array of numbers"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    path = saved(tmp_path, np.arange(5))
    path.write_bytes(change(path.read_bytes()))
    with path.open("rb") as file, pytest.raises(ValueError, match=message):
        map_array(file, np.int64, (None,))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([print], object), allow_pickle=True)
    with (
        (tmp_path / "a.npy").open("rb") as file,
        pytest.raises(ValueError, match="not an array of numbers"),
    ):
        map_array(file, np.object_, (None,))


def test_flags_are_0_or_1(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros(3, bool))
    path.write_bytes(path.read_bytes()[:-1] + b"\2")
    with path.open("rb") as file, pytest.raises(ValueError, match="not from 0 to 1"):
        map_array(file, np.bool_, (3,))


@given(st.lists(st.lists(st.integers(0, 9))))
def test_offsets_and_ascending_sequences(rows: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, rows)])
    values = np.array([number for row in rows for number in row], np.int32)
    require_offsets(offsets, len(values))
    with pytest.raises(ValueError, match="do not ascend"):
        require_offsets(offsets, len(values) + 1)
    if all(row == sorted(set(row)) for row in rows):
        require_ascending(values, offsets)
    else:
        with pytest.raises(ValueError, match="do not ascend"):
            require_ascending(values, offsets)


@pytest.mark.parametrize("values", [[-1], [3], [np.nan], [0, 1, 4]])
def test_numbers_out_of_range_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="not from 0 to 2"):
        require_within(np.array(values), 0, 2)


def test_folder_refuses_what_is_not_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    path.write_text('["a", "b"]', "utf-8")
    facts = {"names.json": {"bytes": 10, "sha256": hash_file(path)}}
    folder = Folder(tmp_path, "make it again", facts)
    assert folder.read_names("names.json") == ["a", "b"]
    path.write_text('["a", "c"]', "utf-8")
    for other, message in (
        (folder, "the file is damaged: it is not what was written; make it again."),
        (Folder(tmp_path, "make it again", {}), "the manifest does not list it; make it again."),
    ):
        with pytest.raises(InputError, match=message):
            other.read_names("names.json")
    unsigned = Folder(tmp_path, "make it again")
    assert unsigned.read_names("names.json") == ["a", "c"]
    for content, message in (
        ('["a", "a"]', "a name is in it twice; make it again"),
        ("[1]", "it does not hold what it should; make it again"),
        ("[", "not JSON .*; make it again"),
    ):
        path.write_text(content, "utf-8")
        with pytest.raises(InputError, match=f"names.json: .*{message}"):
            unsigned.read_names("names.json")
    path.unlink()
    with pytest.raises(InputError, match=r"names.json: no such file; make it again"):
        unsigned.read_names("names.json")


def test_folder_maps_arrays_with_their_check(tmp_path: Path) -> None:
    saved(tmp_path, np.array([1, 2]))
    folder = Folder(tmp_path, "make it again")
    assert folder.map_array("a.npy", np.int64, (2,), partial(require_within, low=1, high=2)).tolist() == [1, 2]
    with pytest.raises(
        InputError, match=r"a.npy: the file is damaged: a number in it is not from 2 to 3; make it again"
    ):
        folder.map_array("a.npy", np.int64, (2,), partial(require_within, low=2, high=3))


def test_links_are_refused_wherever_they_lead(tmp_path: Path) -> None:
    refuse_links(tmp_path / "none")
    refuse_links(tmp_path)
    (tmp_path / "x.draft").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"x.draft: a symbolic link"):
        refuse_links(tmp_path)


def test_a_part_of_a_file_is_a_file(tmp_path: Path) -> None:
    """It ends where it should, and its arrays are mapped where they are."""
    for name, content in (("array", np.arange(5)), ("other", np.arange(3))):
        np.save(tmp_path / f"{name}.npy", content)
    array, other = ((tmp_path / f"{name}.npy").read_bytes() for name in ("array", "other"))
    (tmp_path / "whole").write_bytes(b"x" * 64 + array + other)
    with (tmp_path / "whole").open("rb") as file:
        part = Part(file, 64, len(array))
        assert part.read() == array
        assert (part.read(), part.read(5)) == (b"", b"")
        assert (part.seek(-3, os.SEEK_END), part.read(99), part.tell()) == (len(array) - 3, array[-3:], len(array))
        assert (part.seek(10**6), part.read(9)) == (10**6, b"")
        part.seek(0)
        assert digest(part) == hash_file(tmp_path / "array.npy")
        mapped = map_array(part, np.int64, (5,))
        np.testing.assert_array_equal(mapped, np.arange(5))
        assert isinstance(mapped.base, np.memmap)
        with pytest.raises(ValueError, match="its size is not what its header says"):
            map_array(Part(file, 64, len(array) - 8), np.int64, (5,))
        np.testing.assert_array_equal(map_array(Part(file, 64 + len(array), len(other)), np.int64, (3,)), np.arange(3))
