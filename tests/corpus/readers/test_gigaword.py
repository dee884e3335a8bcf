"""Gigaword: pairs of lines, kept as they come."""

import gzip
import re
from pathlib import Path

import pytest

from exadec.corpus.readers.gigaword import read_gigaword
from exadec.corpus.record import Record
from support.reader_files import refusal, write

ARTICLES = "the UNK rose #.# percent in #### .\n\ufeffmarkets fell\x85 again .\n"


TITLES = "UNK up #.# pct\nmarkets down\n"


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("train", ("train.article.txt", "train.title.txt")),
        ("train", ("train/train.article.txt", "train/train.title.txt")),
        ("valid", ("train/valid.article.filter.txt", "train/valid.title.filter.txt")),
        ("test", ("input.txt", "task1_ref0.txt")),
        ("test", ("Giga/input.txt", "Giga/task1_ref0.txt")),
    ],
)
def test_gigaword_keeps_unknown_words_and_digits_as_they_come(
    tmp_path: Path, split: str, names: tuple[str, str]
) -> None:
    write(tmp_path / names[0], ARTICLES)
    write(tmp_path / names[1], TITLES)
    first, second = read_gigaword(tmp_path, split)
    assert first == Record(uid="0", source="the UNK rose #.# percent in #### .", target="UNK up #.# pct")
    assert (second.uid, second.target) == ("1", "markets down")


def test_gigaword_reads_compressed_files(tmp_path: Path) -> None:
    write(tmp_path / "train.article.txt.gz", gzip.compress(ARTICLES.encode()))
    write(tmp_path / "train.title.txt", TITLES)
    assert len(list(read_gigaword(tmp_path, "train"))) == 2
    write(tmp_path / "train.article.txt.gz", gzip.compress(ARTICLES.encode() * 1000)[:-20])
    assert "damaged or truncated" in refusal(read_gigaword, tmp_path)


def test_pairs_with_an_empty_line_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    articles = write(tmp_path / "train.article.txt", "a\n \nc\nd\n\n")
    titles = write(tmp_path / "train.title.txt", "w\nx\n\nz\n\n")
    records = list(read_gigaword(tmp_path, "train"))
    assert [(record.uid, record.target) for record in records] == [("0", "w"), ("3", "z")]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == f"3 empty texts were skipped: {articles}:2, {titles}:3, {articles}:5."


@pytest.mark.parametrize(
    ("articles", "titles", "message"),
    [
        ("a\nb\nc\nd\n", "x\ny\n", "train.article.txt:3: .*train.title.txt has no such line: .*4 lines, but .* has 2"),
        ("a\n", "x\ny\nz\n", "train.title.txt:2: .*train.article.txt has no such line: .*3 lines, but .* has 1"),
        (b"a\nb \xe9t\xe9\n", "x\ny\n", r"train.article.txt:2: not valid UTF-8 \(byte 3"),
        ("a\nb\n", b"x\n\xff\n", "train.title.txt:2: not valid UTF-8"),
        ("", "", "train.article.txt: the file holds no lines"),
    ],
)
def test_misaligned_or_damaged_gigaword_is_refused_by_its_line(tmp_path: Path, articles, titles, message: str) -> None:
    write(tmp_path / "train.article.txt", articles)
    write(tmp_path / "train.title.txt", titles)
    assert re.search(message, refusal(read_gigaword, tmp_path))
