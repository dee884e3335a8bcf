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
    ("subject", "Oak Airport"),
    ("cityServed", "Oak, Elm"),
    ("runwayLength", "2776.0"),
    ("subject", "Elm"),
    ("leaderName", "Ada Ash"),
)


def test_webnlg_texts_are_training_records(tmp_path: Path) -> None:
    write(tmp_path / "train" / "3triples" / "Airport.xml", ENTRIES)
    records = list(read_webnlg(tmp_path, "train"))
    assert [record.table for record in records] == [TRIPLES, TRIPLES]
    assert [record.target for record in records] == ["Oak Airport serves Oak, Elm & more.", "Ada Ash leads Elm."]
    assert [record.uid for record in records] == ["Airport/Id1/1", "Airport/Id1/2"]
    assert records[0].references == ()


@pytest.mark.parametrize(("split", "home"), [("valid", "dev"), ("valid", "valid"), ("test", "test")])
def test_webnlg_texts_of_an_entry_are_references(tmp_path: Path, split: str, home: str) -> None:
    write(tmp_path / home / "rdf-to-text-generation-test-data-with-refs-en.xml", ENTRIES)
    write(tmp_path / home / "rdf-to-text-generation-test-data-without-refs-en.xml", "not read")
    write(tmp_path / home / "semantic-parsing-test-data-with-refs-en.xml", "not read")
    (record,) = read_webnlg(tmp_path, split)
    assert record.references == ("Oak Airport serves Oak, Elm & more.", "Ada Ash leads Elm.")
    assert record.target == record.references[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE b [\n<!ENTITY a 'lol'>\n]>\n<b/>", "a.xml:2: the file defines entities"),
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
