"""Records: what is written is read back, and bad input is refused with its line number."""

import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.corpus.record import Reading, Record, linearize, log_skipped, read_records, to_line
from exadec.errors import InputError

GOOD = '{"source": "a b", "target": "c"}\n'


def spaced(text: str) -> str:
    return " ".join(text.split())


texts = st.text(max_size=60).map(spaced)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no records"),
        (b"\n \n", "holds no records"),
        (GOOD.encode() + b"{oops}\n", r":2: not JSON"),
        (b"[1, 2]\n", r":1: expected a JSON object, but found a list"),
        (b'{"source": "a"}\n', r":1: the record has no 'target'"),
        (b'{"target": "a"}\n', r":1: the record has no 'source' and no 'table'\."),
        (b'{"source": "a", "target": " "}\n', r":1: the record's 'target' is empty"),
        (b'{"source": 3, "target": "b"}\n', r":1: 'source' must be text, but is a number"),
        (b'{"table": [], "target": "b"}\n', r":1: 'table' is empty"),
        (b'{"table": [["a"]], "target": "b"}\n', r":1: 'table' must be a list of \[attribute, value\] pairs, or of"),
        (b'{"table": [["a", "b"], ["a", "b", "c"]], "target": "b"}\n', r":1: 'table' must be a list of"),
        (b'{"table": 3, "target": "b"}\n', r":1: 'table' must be a list of"),
        (b'{"source": "a", "target": "b", "references": [1]}\n', r":1: 'references' must be a list of texts"),
        (GOOD.encode() * 2 + b'{"source": "\xff", "target": "b"}\n', r":3: not valid UTF-8 \(byte 13"),
    ],
)
def test_bad_jsonl_is_refused_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(read_records(path))
    assert "\n" not in str(caught.value)


def test_missing_file_and_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_records(tmp_path / "absent.jsonl"))
    (tmp_path / "data.parquet").touch()
    with pytest.raises(InputError, match="unknown format"):
        list(read_records(tmp_path / "data.parquet"))


def test_truncated_compressed_file_is_refused(tmp_path: Path) -> None:
    whole = lzma.compress((GOOD * 1000).encode())
    (tmp_path / "cut.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged or truncated"):
        list(read_records(tmp_path / "cut.jsonl.xz"))


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bytes], ids=["gz", "xz", "plain"])
def test_compression_follows_the_ending(tmp_path: Path, compress) -> None:
    ending = {gzip.compress: ".gz", lzma.compress: ".xz", bytes: ""}[compress]
    path = tmp_path / f"data.jsonl{ending}"
    path.write_bytes(compress((GOOD * 3).encode()))
    assert [record.uid for record in read_records(path)] == ["0", "1", "2"]


def test_tsv_takes_quotation_marks_as_text_and_csv_follows_rfc_4180(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('source\ttarget\n"so" he said\tHe said "so"\n', "utf-8")
    (tmp_path / "a.csv").write_text('source,target,group\n"one, ""two""\nthree",x,g\n', "utf-8")
    assert next(read_records(tmp_path / "a.tsv")).source == '"so" he said'
    assert next(read_records(tmp_path / "a.csv")) == Record("0", 'one, "two" three', "x", group="g")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("source\ttarget\na\tb\nc\n", ":3: expected 2 columns, but found 1"),
        ("source\ttitle\na\tb\n", ":1: there is no column 'target'; the names there are source, title; name it by"),
        ("source\na\n", ":1: there is no column 'target'"),
        ("target\na\n", ":1: there is no column 'source' or 'table'"),
        ("source\ttarget\na\t \n", ":2: the record's 'target' is empty"),
        ("", "holds no records"),
    ],
)
def test_bad_tsv_is_refused_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_records(tmp_path / "bad.tsv"))


RENAMED = Reading(columns={"source": "article", "target": "headline"})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'Group,headline,"source",article\ng,x,not read,"one, two"\n'),
        ("a.tsv", "headline\tid\tArticle\tGROUP\nx\t7\tone, two\tg\n"),
        ("a.jsonl", '{"article": "one, two", "headline": "x", "group": "g", "source": 3}\n'),
    ],
)
def test_fields_may_have_other_names(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    assert list(read_records(tmp_path / name, RENAMED)) == [Record("0", "one, two", "x", group="g")]
    with pytest.raises(InputError, match=f"{name}:1: "):
        list(read_records(tmp_path / name))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_name_that_the_file_does_not_have_is_refused_with_those_it_has(tmp_path: Path, ending: str) -> None:
    content = {"csv": "article,title\na,b\n", "jsonl": '{"article": "a", "title": "b"}\n'}[ending]
    (tmp_path / f"a.{ending}").write_text(content, "utf-8")
    with pytest.raises(InputError, match=r":1: there is no .*'headline' \(named by .*columns.target.*article, title"):
        list(read_records(tmp_path / f"a.{ending}", RENAMED))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_empty_texts_are_skipped_counted_and_placed(
    tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [("a", "b"), ("", "c"), ("d", " "), ("e", "f")]
    lines = [f"{source},{target}" for source, target in texts]
    if ending == "jsonl":
        lines = [json.dumps({"source": source, "target": target}) for source, target in texts]
    path = tmp_path / f"a.{ending}"
    path.write_text("\n".join([*(["source,target"] if ending == "csv" else []), *lines]) + "\n", "utf-8")
    records = list(read_records(path, Reading(skip_empty=True)))
    assert [(record.uid, record.target) for record in records] == [("0", "b"), ("3", "f")]
    first = 2 if ending == "jsonl" else 3
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == f"2 empty texts were skipped: {path}:{first}, {path}:{first + 1}."
    with pytest.raises(InputError, match=f":{first}: the record's 'source' is empty"):
        list(read_records(path))


def test_of_many_places_the_first_are_named(caplog: pytest.LogCaptureFixture) -> None:
    log_skipped([])
    log_skipped(["a:1"])
    log_skipped([f"a:{number}" for number in range(1, 1201)])
    assert [record.getMessage() for record in caplog.records] == [
        "1 empty text was skipped: a:1.",
        "1,200 empty texts were skipped: a:1, a:2, a:3, a:4, a:5 and 1,195 more.",
    ]


@given(
    st.lists(
        st.builds(
            Record,
            uid=st.text(min_size=1, max_size=5).filter(str.strip),
            source=texts.filter(bool),
            target=texts.filter(bool),
            references=st.lists(texts, max_size=2).map(tuple),
            group=st.none() | st.text(max_size=5).filter(str.strip),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_records_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    path.write_bytes(b"".join(map(to_line, records)))
    assert list(read_records(path)) == records


def test_an_empty_cell_of_a_csv_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target,group,uid,references\na,b,,,\nc,d,Oak,7,e\n", "utf-8")
    assert list(read_records(tmp_path / "a.csv")) == [
        Record("0", "a", "b"),
        Record("7", "c", "d", group="Oak", references=("e",)),
    ]


def test_a_cell_may_hold_several_references_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('source,target,references\na,b,"[""c d"", ""e""]"\na,b,[laughs] f\na,b,12\n', "utf-8")
    assert [record.references for record in read_records(path)] == [("c d", "e"), ("[laughs] f",), ("12",)]
    path.write_text('source,target,references\na,b,"[""c"", 3]"\n', "utf-8")
    with pytest.raises(InputError, match=r"a\.csv:2: 'references' must be a list of texts"):
        list(read_records(path))


def test_a_field_of_a_csv_file_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'source,target\n"{"word " * 60_000}",x\n', "utf-8")
    (record,) = read_records(tmp_path / "a.csv")
    assert len(record.source.split()) == 60_000
    (tmp_path / "a.csv").write_text('source,target\n"a,x\n', "utf-8")
    with pytest.raises(InputError, match=r"a\.csv:2: this is not CSV .*quotation mark"):
        list(read_records(tmp_path / "a.csv"))


def test_tables_are_kept_and_linearised(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"table": [["name", "Ada"], ["born", "1815"]], "target": "x"}\n', "utf-8")
    (record,) = read_records(tmp_path / "t.jsonl")
    assert record.table == (("name", "Ada"), ("born", "1815"))
    assert record.source == linearize(record.table) == "name : Ada | born : 1815"
    (tmp_path / "u.jsonl").write_bytes(to_line(record))
    assert list(read_records(tmp_path / "u.jsonl")) == [record]


def test_the_subject_of_triples_is_said_where_it_changes(tmp_path: Path) -> None:
    triples = (("Ada", "born", "1815"), ("Ada", "spouse", "King"), ("King", "title", "Earl"), ("Ada", "died", "1852"))
    source = "subject : Ada | born : 1815 | spouse : King | subject : King | title : Earl | subject : Ada | died : 1852"
    assert linearize(triples) == source
    (tmp_path / "t.jsonl").write_bytes(to_line(Record("0", source, "x", table=triples)))
    assert list(read_records(tmp_path / "t.jsonl")) == [Record("0", source, "x", table=triples)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r'{"source": "a\ud800", "target": "b"}', "half a character"),
        ('{"source": ' + "[" * 100_000, "nested too deeply"),
        ('{"source": "a", "target": "b", "n": ' + "9" * 5000 + "}", "too many digits"),
        ('{"table": [["a", ' + "[" * 500 + "]" * 500 + ']], "target": "b"}', "must be text or a number, but is a list"),
        ('{"table": [["a", null]], "target": "b"}', "must be text or a number, but is null"),
        ('{"table": [["a", "b", ""]], "target": "b"}', "'table' has no attribute with a name and a value"),
        ('{"table": {"a": true}, "target": "b"}', "must be text or a number, but is true or false"),
        ('{"table": {"a": {"b": "c"}}, "target": "b"}', "must be text or a number, but is an object"),
        ('{"source": "a", "target": "b", "uid": ["c"]}', "'uid' must be text or a number, but is a list"),
        ('{"source": "a", "target": "b", "group": {"c": 1}}', "'group' must be text or a number, but is an object"),
    ],
)
def test_records_that_cannot_be_used_are_refused_by_their_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a", "target": "b"}\n' + line + "\n", "utf-8")
    with pytest.raises(InputError, match=f"a.jsonl:2: .*{message}"):
        list(read_records(path))
