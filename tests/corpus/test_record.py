"""Records: what is written is read back, and bad input is refused with its line number."""

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.corpus.record import Record, linearize, read_records, write_records
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
        (b'{"target": "a"}\n', r":1: the record has no 'source'"),
        (b'{"source": "a", "target": " "}\n', r":1: the record's 'target' is empty"),
        (b'{"source": 3, "target": "b"}\n', r":1: 'source' must be text, but is a int"),
        (b'{"table": [], "target": "b"}\n', r":1: 'table' is empty"),
        (b'{"table": [["a"]], "target": "b"}\n', r":1: 'table' must be a list of \[attribute, value\] pairs"),
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
        ("source\ttitle\na\tb\n", ":1: unknown column 'title'"),
        ("source\na\n", ":2: the record has no 'target'"),
        ("", "holds no records"),
    ],
)
def test_bad_tsv_is_refused_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_records(tmp_path / "bad.tsv"))


@given(
    st.lists(
        st.builds(
            Record,
            uid=st.text(min_size=1, max_size=5),
            source=texts.filter(bool),
            target=texts.filter(bool),
            references=st.lists(texts, max_size=2).map(tuple),
            group=st.none() | st.text(max_size=5),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_records_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    assert write_records(path, records) == len(records)
    assert list(read_records(path)) == records


def test_tables_are_kept_and_linearised(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"table": [["name", "Ada"], ["born", "1815"]], "target": "x"}\n', "utf-8")
    (record,) = read_records(tmp_path / "t.jsonl")
    assert record.table == (("name", "Ada"), ("born", "1815"))
    assert record.source == linearize(record.table) == "name : Ada | born : 1815"
    write_records(tmp_path / "u.jsonl", [record])
    assert list(read_records(tmp_path / "u.jsonl")) == [record]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r'{"source": "a\ud800", "target": "b"}', "half a character"),
        ('{"source": ' + "[" * 100_000, "nested too deeply"),
        ('{"source": "a", "target": "b", "n": ' + "9" * 5000 + "}", "too many digits"),
        ('{"table": [["a", ' + "[" * 500 + "]" * 500 + ']], "target": "b"}', "must be text or a number, but is a list"),
        ('{"source": "a", "target": "b", "uid": ["c"]}', "'uid' must be text or a number, but is a list"),
        ('{"source": "a", "target": "b", "group": {"c": 1}}', "'group' must be text or a number, but is a dict"),
    ],
)
def test_records_that_cannot_be_used_are_refused_by_their_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a", "target": "b"}\n' + line + "\n", "utf-8")
    with pytest.raises(InputError, match=f"a.jsonl:2: .*{message}"):
        list(read_records(path))
