"""WikiBio: boxes become tables, in the original layout and in the derived one."""

import re
from pathlib import Path

import pytest

from exadec.corpus.readers.wikibio import read_wikibio
from exadec.corpus.record import linearize, read_records, to_line
from support.corpora import DATA
from support.reader_files import published_files, refusal, write

BOX = (
    "name_1:ada\tname_2:lovelace\timage:<none>\tborn_1:1815\tborn_2:-lrb-\tborn_3:london\tborn_4:-rrb-\n"
    "time_1:8:31.43\tsite_2:org\tsite_1:x\tcaption_1:<none>\tarticle_title_1:b\n"
)


TABLES = [
    (("name", "ada lovelace"), ("born", "1815 -lrb- london -rrb-")),
    (("time", "8:31.43"), ("site", "x org"), ("article_title", "b")),
]


def test_wikibio_derivative(tmp_path: Path) -> None:
    write(tmp_path / "valid.box", BOX)
    write(tmp_path / "valid.summary", "ada -lrb- 1815 -rrb- wrote .\nb ran .\n")
    records = list(read_wikibio(tmp_path, "valid"))
    assert [record.table for record in records] == TABLES
    assert [record.target for record in records] == ["ada -lrb- 1815 -rrb- wrote .", "b ran ."]
    assert records[0].source == linearize(TABLES[0]) == "name : ada lovelace | born : 1815 -lrb- london -rrb-"


@pytest.mark.parametrize("home", ["", "train"])
def test_wikibio_original_takes_first_sentences(tmp_path: Path, home: str) -> None:
    write(tmp_path / home / "train.box", BOX)
    write(tmp_path / home / "train.nb", "3\n1\x1f\n")  # fuzzing found this space, which `int` does not take for one
    write(tmp_path / home / "train.sent", "first .\nsecond .\n\nb ran .\n")
    records = list(read_wikibio(tmp_path, "train"))
    assert [(record.uid, record.target) for record in records] == [("0", "first ."), ("1", "b ran .")]
    assert [record.table for record in records] == TABLES


@pytest.mark.parametrize(
    ("box", "numbers", "sentences", "message"),
    [
        (BOX, "2\n2\n", "a\nb\nc\n", "train.nb:2: 4 sentences are announced up to here, but train.sent has only 3"),
        (BOX, "1\n1\n", "a\nb\nc\nd\n", "train.sent:3: train.nb announces 2 sentences, but train.sent has 4"),
        (BOX, "1\n", "a\n", "train.box:2: .*train.nb has no such line: train.box has 2 lines, but train.nb has 1"),
        (BOX, "1\n1\n1\n", "a\nb\nc\n", "train.nb:3: .*train.nb has 3 lines, but train.box has 2"),
        (BOX, "1\nx\n", "a\nb\n", "train.nb:2: expected a number of sentences of at least 1, but found 'x'"),
        (BOX, "1\n0\n", "a\n", "train.nb:2: expected a number of sentences of at least 1, but found '0'"),
        (
            BOX,
            f"1\n{'9' * 5000}\n",
            "a\nb\n",
            "train.nb:2: expected a number of sentences of at least 1, but found '999",
        ),
        (BOX, "1\n\n", "a\nb\n", "train.nb:2: expected a number of sentences of at least 1, but found ''"),
        (BOX + "name_1:a\tname\n", "1\n1\n1\n", "a\nb\nc\n", "train.box:3: expected field:token .* found 'name'"),
        (BOX + ":a\n", "1\n1\n1\n", "a\nb\nc\n", "train.box:3: expected field:token .* found ':a'"),
        (BOX + "a:<none>\n", "1\n1\n1\n", "a\nb\nc\n", "train.box:3: no field of the table has a value"),
        (BOX.encode() + b"n_1:\xe9\n", "1\n1\n1\n", "a\nb\nc\n", "train.box:3: not valid UTF-8"),
    ],
)
def test_damaged_wikibio_is_refused_by_its_line(
    tmp_path: Path, box, numbers: str, sentences: str, message: str
) -> None:
    write(tmp_path / "train.box", box)
    write(tmp_path / "train.nb", numbers)
    write(tmp_path / "train.sent", sentences)
    assert re.search(message, refusal(read_wikibio, tmp_path))


def test_a_field_with_a_very_long_number_is_a_name_like_any_other(tmp_path: Path) -> None:
    name = f"name_{'9' * 5000}"
    write(tmp_path / "train.box", f"{name}:a\n")
    write(tmp_path / "train.nb", "1\n")
    write(tmp_path / "train.sent", "a\n")
    (record,) = read_wikibio(tmp_path, "train")
    assert record.table == ((name, "a"),)


def test_empty_boxes_and_sentences_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    box = write(tmp_path / "train.box", "name_1:a\n\nname_1:c\nname_1:d\n")
    write(tmp_path / "train.nb", "2\n2\n1\n1\n")
    sentences = write(tmp_path / "train.sent", "a .\nmore .\nb .\nmore .\n \nd .\n")
    records = list(read_wikibio(tmp_path, "train"))
    assert [(record.uid, record.target) for record in records] == [("0", "a ."), ("3", "d .")]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == f"2 empty texts were skipped: {box}:2, {sentences}:5."


def test_wikibio_summaries_must_be_as_many_as_tables(tmp_path: Path) -> None:
    write(tmp_path / "train.box", BOX)
    write(tmp_path / "train.summary", "a .\n")
    assert "train.box has 2 lines, but train.summary has 1" in refusal(read_wikibio, tmp_path)


@pytest.mark.realdata
@pytest.mark.skipif(not (DATA / "wikibio_100").is_dir(), reason="the real WikiBio files are not here")
def test_real_wikibio_files(tmp_path: Path) -> None:
    records = [record for split in ("train", "valid", "test") for record in read_wikibio(DATA / "wikibio_100", split)]
    assert len(records) == 300
    assert any("-lrb-" in record.target for record in records)
    for record in records:
        assert record.table is not None
        attributes = [attribute for attribute, _ in record.table]
        assert "article_title" in attributes
        assert len(set(attributes)) == len(attributes)
        assert not any(re.search(r"_\d+$", attribute) or "<none>" in value for attribute, value in record.table)
    # What is written is what was read, tables included.
    (tmp_path / "all.jsonl").write_bytes(b"".join(map(to_line, records)))
    assert list(read_records(tmp_path / "all.jsonl")) == records
    assert len(published_files("wikibio", DATA / "wikibio_100")) == 6
