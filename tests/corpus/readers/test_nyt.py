"""The New York Times: split by date, tested on long summaries."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exadec.corpus.readers.nyt import read_nyt
from exadec.corpus.record import Record
from support.reader_files import published_files, refusal, write


def nitf(
    uid: int, date: str, article: str = "<p>Rain fell.</p><p>Rivers &amp; lakes rose.</p>", summary: str = ""
) -> str:
    abstract = f"<abstract><p>{summary}</p></abstract>" if summary else ""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nitf SYSTEM "http://www.nitf.org/IPTC/NITF/3.3/specification/dtd/nitf-3-3.dtd">
<nitf>
  <head>
    <docdata><doc-id id-string="{uid}"/></docdata>
    <pubdata date.publication="{date}T000000"/>
  </head>
  <body>
    <body.head><hedline><hl1>Weather</hl1></hedline>{abstract}</body.head>
    <body.content>
      <block class="lead_paragraph"><p>Rain fell.</p></block>
      <block class="full_text">{article}</block>
    </body.content>
  </body>
</nitf>
"""


def write_nyt(folder: Path, uid: int, date: str, **parts: str) -> None:
    write(folder / date[:4] / date[4:6] / date[6:] / f"{uid}.xml", nitf(uid, date, **parts))


@pytest.fixture
def nyt(tmp_path: Path) -> Path:
    for uid in range(10):
        write_nyt(tmp_path, uid, f"200{3 + uid % 4}010{1 + uid % 9}", summary=f"Storm {uid}")
    write_nyt(tmp_path, 20, "20061231", summary="Last of the year")
    write_nyt(tmp_path, 21, "20061231")  # no abstract
    write_nyt(tmp_path, 22, "20061231", article="", summary="No article")
    write_nyt(tmp_path, 23, "20021231", summary="Too early")
    write_nyt(tmp_path, 30, "20070101", summary=" ".join(["word"] * 50))
    write_nyt(tmp_path, 31, "20070101", summary=" ".join(["word"] * 51))
    write_nyt(tmp_path, 32, "20070619", summary=" ".join(["word"] * 50) + ".")  # the full stop is a token
    return tmp_path


def test_documents_without_an_article_or_an_abstract_are_counted(nyt: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        list(read_nyt(nyt, "train", development=3))
    (message,) = [record.getMessage() for record in caplog.records]
    places = [nyt / "2006" / "12" / "31" / name for name in ("21.xml", "22.xml")]
    assert message == f"2 empty texts were skipped: {places[0]}, {places[1]}."


def uids(records: Iterator[Record]) -> list[int]:
    return [int(record.uid) for record in records]


def test_nyt_is_split_by_date_and_development_is_drawn_from_training(nyt: Path) -> None:
    train, valid = uids(read_nyt(nyt, "train", development=3)), uids(read_nyt(nyt, "valid", development=3))
    assert sorted(train + valid) == [*range(10), 20]
    assert len(valid) == 3
    assert valid == uids(read_nyt(nyt, "valid", development=3))
    others = {tuple(uids(read_nyt(nyt, "valid", development=3, seed=seed))) for seed in range(5)}
    assert len(others) > 1


def test_nyt_text_is_the_full_text_and_the_abstract(nyt: Path) -> None:
    record = next(record for record in read_nyt(nyt, "train", development=0) if record.uid == "4")
    assert (record.source, record.target) == ("Rain fell. Rivers & lakes rose.", "Storm 4")


def test_nyt_tests_on_long_summaries_and_reports_both_counts(nyt: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert uids(read_nyt(nyt, "test")) == [31, 32]
    assert "3 test documents (Table 1: 9,706), of which 2 have summaries over 50 tokens" in caplog.text
    assert "3,452" in caplog.text


def test_nyt_folder_may_be_flat_and_may_list_its_documents(nyt: Path, tmp_path_factory) -> None:
    flat = tmp_path_factory.mktemp("flat")
    for path in sorted(nyt.rglob("*.xml")):
        write(flat / path.name, path.read_bytes())
    assert sorted(uids(read_nyt(flat, "train", development=0))) == [*range(10), 20]
    drawn = sorted(uids(read_nyt(flat, "valid", development=3)))
    assert drawn == sorted(uids(read_nyt(nyt, "valid", development=3)))
    write(flat / "train.ids", "3\n5\n31\n")
    write(flat / "test.ids", "31\n")
    assert sorted(uids(read_nyt(flat, "train", development=0))) == [3, 5]
    assert uids(read_nyt(flat, "test")) == [31]
    assert {"train.ids", "test.ids"} <= {path.name for path in published_files("nyt", flat)}


def test_years_that_are_not_used_are_not_opened(nyt: Path) -> None:
    write(nyt / "1999" / "01" / "01" / "1.xml", b"\xff<")
    assert uids(read_nyt(nyt, "test")) == [31, 32]
    assert not [path for path in published_files("nyt", nyt) if "1999" in path.parts or "2002" in path.parts]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nitf(1, "20050101").partition("</body>")[0], r"bad.xml:15: not well-formed XML \(no element found"),
        (nitf(1, "20050101").replace("</head>", "</had>"), "bad.xml:7: not well-formed XML .mismatched tag"),
        (nitf(1, "20050101").replace("Weather", "A & B"), "bad.xml:9: not well-formed XML"),
        (nitf(1, "20050101").encode().replace(b"Weather", b"\xe9t\xe9"), "bad.xml:9: not valid UTF-8"),
        (nitf(1, "20050101").replace("date.publication", "date"), "bad.xml:15: no date of publication"),
        ("<html>\n</html>\n", "bad.xml: no `nitf` element"),
        ("", "bad.xml:1: not well-formed XML .no element found"),
    ],
)
def test_damaged_nitf_is_refused_by_its_line(nyt: Path, content: str | bytes, message: str) -> None:
    write(nyt / "2005" / "06" / "01" / "bad.xml", content)
    assert re.search(message, refusal(read_nyt, nyt))


def test_nyt_folder_that_cannot_give_the_split_is_refused(nyt: Path, tmp_path: Path) -> None:
    message = "9,000 training documents must be drawn for development, but there are only 11"
    assert message in refusal(read_nyt, nyt)
    assert "no such folder" in refusal(read_nyt, tmp_path / "absent")
    write(tmp_path / "packed" / "2003" / "01.tgz", b"")
    assert "1 .tgz archives: unpack them first" in refusal(read_nyt, tmp_path / "packed")
    write_nyt(tmp_path / "short", 1, "20070101", summary="Rain")
    assert "none of the 1 test documents" in refusal(read_nyt, tmp_path / "short", "test")
