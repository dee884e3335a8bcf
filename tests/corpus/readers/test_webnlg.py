"""WebNLG: triples become tables."""

import re
from pathlib import Path

import pytest

from exadec.corpus.readers.webnlg import read_webnlg
from support.reader_files import refusal, write

ENTRIES = """<?xml version="1.0" encoding="utf-8"?>
<benchmark>
  <entries>
    <entry category="Airport" eid="Id1" size="3">
      <originaltripleset><otriple>not | used | here</otriple></originaltripleset>
      <modifiedtripleset>
        <mtriple>Oak_Airport | cityServed | "Oak, Elm"</mtriple>
        <mtriple>Oak_Airport | runwayLength | 2776.0</mtriple>
        <mtriple>Elm | leaderName | Ada_Ash</mtriple>
      </modifiedtripleset>
      <lex comment="good" lid="Id1">Oak Airport serves Oak, Elm &amp; more.</lex>
      <lex comment="good" lid="Id2" lang="en">Ada Ash leads Elm.</lex>
      <lex comment="good" lid="Id3" lang="ru">Ada возглавляет Elm.</lex>
    </entry>
  </entries>
</benchmark>
"""


TRIPLES = (
    ("Oak Airport", "cityServed", "Oak, Elm"),
    ("Oak Airport", "runwayLength", "2776.0"),
    ("Elm", "leaderName", "Ada Ash"),
)
SOURCE = "subject : Oak Airport | cityServed : Oak, Elm | runwayLength : 2776.0 | subject : Elm | leaderName : Ada Ash"


def test_webnlg_texts_are_training_records(tmp_path: Path) -> None:
    write(tmp_path / "train" / "3triples" / "Airport.xml", ENTRIES)
    records = list(read_webnlg(tmp_path, "train"))
    assert [record.table for record in records] == [TRIPLES, TRIPLES]
    assert records[0].source == SOURCE
    assert [record.target for record in records] == ["Oak Airport serves Oak, Elm & more.", "Ada Ash leads Elm."]
    assert [record.uid for record in records] == ["Airport/Id1/1", "Airport/Id1/2"]
    assert records[0].references == ()


ENRICHED = """<lex comment="good" lid="Id1">
  <sortedtripleset>
    <sentence ID="1"><striple>Oak_Airport | cityServed | "Oak, Elm"</striple></sentence>
  </sortedtripleset>
  <references><reference entity="Oak_Airport" number="1" tag="AGENT-1" type="name">Oak Airport</reference></references>
  <text>Oak Airport
  serves Oak, Elm &amp; more.</text>
  <template>AGENT-1 serves PATIENT-1 &amp; more .</template>
  <lexicalization>AGENT-1 VP[tense=present] serve PATIENT-1 &amp; more .</lexicalization>
</lex>"""


def test_the_text_of_an_enriched_release_is_taken_without_its_markup(tmp_path: Path) -> None:
    plain = '<lex comment="good" lid="Id1">Oak Airport serves Oak, Elm &amp; more.</lex>'
    assert plain in ENTRIES
    write(tmp_path / "train" / "a.xml", ENTRIES.replace(plain, ENRICHED))
    write(tmp_path / "dev" / "a.xml", ENTRIES)
    enriched = [record.target for record in read_webnlg(tmp_path, "train")]
    assert enriched == list(next(read_webnlg(tmp_path, "valid")).references)


@pytest.mark.parametrize(("split", "home"), [("valid", "dev"), ("valid", "valid"), ("test", "test")])
def test_webnlg_texts_of_an_entry_are_references(tmp_path: Path, split: str, home: str) -> None:
    write(tmp_path / home / "rdf-to-text-generation-test-data-with-refs-en.xml", ENTRIES)
    write(tmp_path / home / "rdf-to-text-generation-test-data-without-refs-en.xml", "not read")
    write(tmp_path / home / "semantic-parsing-test-data-with-refs-en.xml", "not read")
    (record,) = read_webnlg(tmp_path, split)
    assert record.references == ("Oak Airport serves Oak, Elm & more.", "Ada Ash leads Elm.")
    assert record.target == record.references[0]


def test_empty_texts_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = "Oak Airport serves Oak, Elm &amp; more.", "Ada Ash leads Elm."
    path = write(tmp_path / "train" / "a.xml", ENTRIES.replace(first, " "))
    assert [record.target for record in read_webnlg(tmp_path, "train")] == [second]
    assert [record.getMessage() for record in caplog.records] == [f"1 empty text was skipped: {path}:14."]
    write(tmp_path / "dev" / "a.xml", ENTRIES.replace(first, "<text/>").replace(second, ""))
    assert not list(read_webnlg(tmp_path, "valid"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE b [\n<!ENTITY a 'lol'>\n]>\n<b/>", "a.xml:2: declares an XML entity"),
        (ENTRIES[:600], r"a.xml:13: not well-formed XML \(unclosed token"),
        (ENTRIES.replace("</lex>", "</text>", 1), "a.xml:11: not well-formed XML .mismatched tag"),
        (ENTRIES.replace(" | leaderName", ""), "a.xml:14: expected subject . property . object, but found 'Elm"),
        (ENTRIES.replace("mtriple>", "triple>"), "a.xml:14: entry 'Id1' has no triples"),
        (ENTRIES.replace("lex", "text"), "a.xml:14: entry 'Id1' has no text"),
        ("<benchmark><entries/></benchmark>\n", "a.xml: the file holds no entries"),
        (ENTRIES.encode().replace(b"Ada", b"\xe4da"), "a.xml:9: not valid UTF-8"),
    ],
)
def test_damaged_webnlg_is_refused_by_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    write(tmp_path / "train" / "a.xml", content)
    assert re.search(message, refusal(read_webnlg, tmp_path))


def test_webnlg_folder_without_files_is_refused(tmp_path: Path) -> None:
    assert re.search("dev: no such folder", refusal(read_webnlg, tmp_path, "valid"))
    (tmp_path / "test").mkdir()
    assert re.search("test: the folder holds no XML files", refusal(read_webnlg, tmp_path, "test"))
