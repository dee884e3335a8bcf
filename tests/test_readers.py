"""Published data sets: files in each layout give the right records, and damaged ones are refused by their line."""

import gzip
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exadec.config import Config, ConfigError, CorpusConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.readers import FORMATS, find_format, known_styles
from exadec.corpus.readers.e2e import read_e2e
from exadec.corpus.readers.gigaword import read_gigaword
from exadec.corpus.readers.nyt import read_nyt
from exadec.corpus.readers.published import PublishedFormat
from exadec.corpus.readers.record_files import RecordFiles
from exadec.corpus.readers.webnlg import read_webnlg
from exadec.corpus.readers.wikibio import read_wikibio
from exadec.corpus.record import SPLITS, Record, linearize, read_records, write_records
from exadec.errors import InputError

DATA = Path(__file__).parents[2] / "shared" / "data"
Reader = Callable[[Path, str], Iterator[Record]]
READERS = {name: format.records for name, format in FORMATS.items() if isinstance(format, PublishedFormat)}


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def published_files(format: str, folder: Path) -> list[Path]:
    config = CorpusConfig(format=format, source_folder=str(folder))
    return list(find_format(config).inputs(config).values())


def refusal(reader: Reader, folder: Path, split: str = "train") -> str:
    """The one-line message a reader refuses a folder with."""
    with pytest.raises(InputError) as caught:
        list(reader(folder, split))
    message = str(caught.value)
    assert "\n" not in message
    return message


# Gigaword -------------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("articles", "titles", "message"),
    [
        ("a\nb\nc\nd\n", "x\ny\n", "train.article.txt:3: .*train.title.txt has no such line: .*4 lines, but .* has 2"),
        ("a\n", "x\ny\nz\n", "train.title.txt:2: .*train.article.txt has no such line: .*3 lines, but .* has 1"),
        ("a\n \nc\n", "x\ny\nz\n", "train.article.txt:2: the line is empty"),
        ("a\nb\n", "x\n\n", "train.title.txt:2: the line is empty"),
        (b"a\nb \xe9t\xe9\n", "x\ny\n", r"train.article.txt:2: not valid UTF-8 \(byte 3"),
        ("a\nb\n", b"x\n\xff\n", "train.title.txt:2: not valid UTF-8"),
        ("", "", "train.article.txt: the file holds no lines"),
    ],
)
def test_misaligned_or_damaged_gigaword_is_refused_by_its_line(tmp_path: Path, articles, titles, message: str) -> None:
    write(tmp_path / "train.article.txt", articles)
    write(tmp_path / "train.title.txt", titles)
    assert re.search(message, refusal(read_gigaword, tmp_path))


# New York Times -------------------------------------------------------------------------------------------------------


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


# WikiBio --------------------------------------------------------------------------------------------------------------

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
    write(tmp_path / home / "train.nb", "3\n1\n")
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
        (BOX, "2\n1\n", "a\nb\n \n", "train.sent:3: the line is empty"),
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
    write_records(tmp_path / "all.jsonl", records)
    assert list(read_records(tmp_path / "all.jsonl")) == records
    assert len(published_files("wikibio", DATA / "wikibio_100")) == 6


# E2E ------------------------------------------------------------------------------------------------------------------

ROWS = """mr,ref
"name[The Oak], food[Thai, mild], near[Café Ash]","The Oak, near Café Ash,
 serves ""Thai"" food."
"name[The Oak], food[Thai, mild], near[Café Ash]",Mild Thai food at The Oak.

"name[Elm], customer rating[5 out of 5], area[]",Elm is rated 5.
"""


def test_e2e_rows_are_training_records(tmp_path: Path) -> None:
    write(tmp_path / "trainset.csv", "\ufeff" + ROWS.replace("\n", "\r\n"))
    records = list(read_e2e(tmp_path, "train"))
    assert [record.table for record in records[1:]] == [
        (("name", "The Oak"), ("food", "Thai, mild"), ("near", "Café Ash")),
        (("name", "Elm"), ("customer rating", "5 out of 5")),
    ]
    assert records[0].target == 'The Oak, near Café Ash, serves "Thai" food.'
    assert records[0].references == ()
    assert records[2].source == "name : Elm | customer rating : 5 out of 5"


@pytest.mark.parametrize(("split", "name"), [("valid", "devset.csv"), ("test", "testset_w_refs.csv")])
def test_e2e_rows_of_one_meaning_are_references(tmp_path: Path, split: str, name: str) -> None:
    write(tmp_path / name, ROWS)
    oak, elm = read_e2e(tmp_path, split)
    assert oak.references == (oak.target, "Mild Thai food at The Oak.")
    assert elm.references == (elm.target,) == ("Elm is rated 5.",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("mr,text\n", "trainset.csv:1: expected the columns mr and ref, but found mr, text"),
        ("", "trainset.csv:1: expected the columns mr and ref, but found nothing"),
        ("mr,ref\n", "trainset.csv: the file holds no records"),
        ("mr,ref\nname[A],x\nname[B]\n", "trainset.csv:3: expected 2 columns, but found 1"),
        ("mr,ref\nname[A],x\nname[B],\n", "trainset.csv:3: the description is empty"),
        ("mr,ref\nname[A],x\nname(B),y\n", r"trainset.csv:3: expected attribute\[value\], but found 'name\(B\)'"),
        ('mr,ref\n"name[A], area[B",y\n', r"trainset.csv:2: expected attribute\[value\], but found 'area\[B'"),
        ("mr,ref\nname[],y\n", "trainset.csv:2: the meaning representation is empty"),
        ('mr,ref\nname[A],x\nname[B],"cut', "trainset.csv:3: unexpected end of data"),
        (b"mr,ref\nname[A],x\nname[Caf\xe9],y\n", "trainset.csv:3: not valid UTF-8"),
    ],
)
def test_damaged_e2e_is_refused_by_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    write(tmp_path / "trainset.csv", content)
    assert re.search(message, refusal(read_e2e, tmp_path))


# WebNLG ---------------------------------------------------------------------------------------------------------------

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


# All published formats ------------------------------------------------------------------------------------------------


def test_five_data_sets_can_be_read_as_published() -> None:
    assert list(READERS) == ["gigaword", "nyt", "wikibio", "e2e", "webnlg"]


@pytest.mark.parametrize("format", READERS)
def test_unknown_split_is_refused(tmp_path: Path, format: str) -> None:
    message = "a split is one of train, valid, test, but got 'dev' instead"
    assert message in refusal(READERS[format], tmp_path, "dev")


@pytest.mark.parametrize(
    ("format", "name"),
    [("gigaword", "train.article.txt"), ("wikibio", "train.box"), ("e2e", "trainset.csv"), ("webnlg", "train")],
)
def test_missing_file_is_named(tmp_path: Path, format: str, name: str) -> None:
    message = re.compile(re.escape(str(tmp_path / name)) + ": no such (file|folder)")
    assert message.search(refusal(READERS[format], tmp_path))
    with pytest.raises(InputError, match=message):
        published_files(format, tmp_path)


def test_published_files_are_all_files_of_the_three_splits(tmp_path: Path) -> None:
    names = ["trainset.csv", "devset.csv", "testset_w_refs.csv"]
    for name in names:
        write(tmp_path / name, ROWS)
    assert [path.name for path in published_files("e2e", tmp_path)] == names


def test_readers_stream(tmp_path: Path) -> None:
    """The first record comes before the damage behind it is seen: a reader does not hold the file."""
    write(tmp_path / "train.article.txt", b"a\n\xff\n")
    write(tmp_path / "train.title.txt", "x\ny\n")
    write(tmp_path / "trainset.csv", "mr,ref\nname[A],x\nname[B]\n")
    write(tmp_path / "train.box", "name_1:a\nname\n")
    write(tmp_path / "train.summary", "x\ny\n")
    write(tmp_path / "train" / "a.xml", ENTRIES.replace("</benchmark>", "</oops>"))
    for reader in (read_gigaword, read_e2e, read_wikibio, read_webnlg):
        records = reader(tmp_path, "train")
        assert next(records)
        with pytest.raises(InputError):
            list(records)


@pytest.mark.parametrize("format", READERS)
def test_published_formats_need_their_folder(tmp_path: Path, format: str) -> None:
    with pytest.raises(ConfigError, match=f"`corpus.source_folder` is missing: say where the {format} files are"):
        find_format(CorpusConfig(format=format)).inputs(CorpusConfig(format=format))
    with pytest.raises(InputError, match=r"absent: no such folder \(named by `corpus.source_folder`\)"):
        published_files(format, tmp_path / "absent")


# The list of formats --------------------------------------------------------------------------------------------------


def test_unknown_format_is_refused_with_the_list() -> None:
    names = "records, wire, gigaword, nyt, wikibio, e2e, webnlg"
    with pytest.raises(ConfigError, match=f"`corpus.format` must be one of {names}, but is 'duc' instead"):
        find_format(CorpusConfig(format="duc"))


def test_records_are_read_from_the_files_that_are_named(tmp_path: Path) -> None:
    files = {
        split: str(write(tmp_path / f"{split}.jsonl", f'{{"source": "a", "target": "{split}"}}')) for split in SPLITS
    }
    config = CorpusConfig(**files)
    assert {name: str(path) for name, path in find_format(config).inputs(config).items()} == files
    for split in SPLITS:
        assert [record.target for record in find_format(config).read(config, split)] == [split]
    with pytest.raises(ConfigError, match=r"`corpus\.test` is missing: name the file of test records"):
        find_format(config).inputs(CorpusConfig(train=files["train"], valid=files["valid"]))


def test_the_wire_depends_on_its_generator_and_its_settings() -> None:
    config = CorpusConfig(format="wire", wire_train=5, wire_heldout=3, wire_outlets=10)
    wire = find_format(config)
    assert [path.name for path in wire.inputs(config).values()] == ["wire.py", "wire_lexicon.py"]
    assert {split: len(list(wire.read(config, split))) for split in SPLITS} == {"train": 5, "valid": 3, "test": 3}


def test_styles_are_known_of_the_wire_alone() -> None:
    assert [name for name in FORMATS if known_styles(CorpusConfig(format=name))] == ["wire"]
    config = CorpusConfig(format="wire", wire_train=50)
    styles = known_styles(config)
    assert styles
    records = list(find_format(config).read(config, "train"))
    assert all(styles.style_of(record.target) for record in records)
    assert styles.style_of("What is said in no house style.") is None
    assert len({styles.subject_of(record) for record in records}) > 1


class Shouts(RecordFiles):
    """Records of one's own, some of them in capitals."""

    about = "Some texts are in capitals."

    def style_of(self, text: str) -> str | None:
        return "capitals" if text.isupper() else None

    def subject_of(self, record: Record) -> str:
        return record.source


def test_a_new_format_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its corpus is prepared, and its styles are known, without any other change."""
    monkeypatch.setitem(FORMATS, "shouts", Shouts())
    lines = "".join(f'{{"source": "a b", "target": "{text}"}}\n' for text in ("OH NO", "oh no"))
    files = {split: str(write(tmp_path / f"{split}.jsonl", lines)) for split in SPLITS}
    words = {"segmentation": "words", "vocabulary_size": 20}
    config = Config.from_dict({"folder": str(tmp_path / "work"), "corpus": {"format": "shouts", **files, **words}})
    corpus = prepare(config)
    styles = known_styles(corpus.config)
    assert styles
    assert [styles.style_of(record.target) for record in corpus.records("train")] == ["capitals", None]
