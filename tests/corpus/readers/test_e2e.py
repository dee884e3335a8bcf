"""E2E: meaning representations become tables, and several texts of one become references."""

import re
from pathlib import Path

import pytest

from exadec.corpus.readers.e2e import read_e2e
from support.reader_files import refusal, write

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


def test_empty_descriptions_are_skipped_and_other_columns_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "fixed,MR,Ref\n0,name[A],x\n1,name[A],\n0, ,y\n1,name[B],z\n0,name[C],\n"
    with caplog.at_level("INFO"):
        for name, split in (("trainset.csv", "train"), ("devset.csv", "valid")):
            write(tmp_path / name, rows)
            assert [record.target for record in read_e2e(tmp_path, split)] == ["x", "z"]
    path = tmp_path / "trainset.csv"
    assert [record.getMessage() for record in caplog.records][:2] == [
        f"{path}: ignored columns: fixed.",
        f"3 empty texts were skipped: {path}:3, {path}:4, {path}:6.",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("mr,text\n", "trainset.csv:1: expected the columns mr and ref, but found mr, text"),
        ("", "trainset.csv:1: expected the columns mr and ref, but found nothing"),
        ("mr,ref\n", "trainset.csv: the file holds no records"),
        ("mr,ref\nname[A],x\nname[B]\n", "trainset.csv:3: expected 2 columns, but found 1"),
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
