"""Columns by name: found whatever their capitals, ignored if nobody asks for them, refused if they are missing."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.corpus.columns import find_columns, rename_keys, require_column
from exadec.errors import InputError

PATH = Path("data.csv")


def test_capitals_do_not_count_and_the_rest_is_ignored_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert find_columns(["ID", "Target", " SOURCE "], ("source", "target"), {}, PATH) == {"source": 2, "target": 1}
    assert [record.getMessage() for record in caplog.records] == ["data.csv: ignored columns: ID."]
    caplog.clear()
    find_columns(["source", "target"], ("source", "target"), {}, PATH)
    assert not caplog.records


def test_named_columns_come_before_the_usual_ones() -> None:
    header = ["source", "article", "Headline"]
    assert find_columns(header, ("source", "target"), {"source": "article", "target": "headline"}, PATH) == {
        "source": 1,
        "target": 2,
    }
    assert find_columns(["Source", "source"], ("source",), {}, PATH) == {"source": 1}  # the exact name wins


@pytest.mark.parametrize(
    ("header", "named", "message"),
    [
        (["a", "b"], {"source": "article"}, "data.csv:1: there is no column 'article' .*`corpus.columns.source`.*a, b"),
        ([], {"source": "article"}, "there are no names"),
        (["source", "source"], {}, "data.csv:1: 2 columns are named 'source'"),
        (["Source", "SOURCE"], {}, "data.csv:1: 2 columns are named 'source'"),
    ],
)
def test_missing_and_ambiguous_columns_are_refused(header: list[str], named: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_columns(header, ("source", "target"), named, PATH)


def test_a_file_needs_one_of_the_wanted_columns() -> None:
    require_column(("source", "table"), {"table": 3}, ["x"], PATH)
    with pytest.raises(InputError, match=r"data\.csv:1: .* 'source' or 'table'; the names there are a, b"):
        require_column(("source", "table"), {"target": 0}, ["a", "b"], PATH)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(), min_size=2))
def test_keys_are_renamed_all_at_once(row: dict[str, object]) -> None:
    first, second = list(row)[:2]
    swapped = rename_keys(row, {first: second, second: first}, "x:1")
    assert swapped == {**row, first: row[second], second: row[first]}
    assert rename_keys(row, {}, "x:1") == row
    with pytest.raises(InputError, match=r"x:1: there is no 'e' \(named by `corpus\.columns\.source`\)"):
        rename_keys(row, {"source": "e"}, "x:1")
