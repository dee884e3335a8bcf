"""Columns of manner: the numbers are those of textmetrics, and tables show them with their cases."""

import json

import pytest

from exadec.textmetrics import agreements, confidence_interval, leak, manner, support
from exadec.views.manner import (
    Written,
    column_to_json,
    compare_manner,
    is_best,
    measure_headings,
    render_measures,
    render_traits,
    trait_rows,
)
from support.shown import show

REFERENCES = ["Flood cuts off Lowmoor", "Brack refuses deals", "Is it over?"] * 15
SOURCES = ["A flood cut off Lowmoor.", "Ada Brack refused deals.", "It may be over."] * 15
EXEMPLARS = ["Fire: Highmoor cut off", "Mayor resigns", None] * 15
FIRST = Written("First", ["Flood: Lowmoor cut off", "Deals refused", "Over"] * 15, EXEMPLARS)
SECOND = Written("Second", ["Highmoor cut off", "Brack: no deals", "Over"] * 15, EXEMPLARS)


def test_numbers_are_those_of_textmetrics() -> None:
    reference, first, second = compare_manner([FIRST, SECOND], REFERENCES, SOURCES)
    assert [column.name for column in (reference, first, second)] == ["Reference", "First", "Second"]
    assert [column.is_reference for column in (reference, first, second)] == [True, False, False]
    for column, texts in ((reference, REFERENCES), (first, FIRST.texts), (second, SECOND.texts)):
        expected = [manner(texts, EXEMPLARS), leak(texts, SOURCES, EXEMPLARS), support(texts, SOURCES)]
        assert list(column.measures) == ["Manner", "Leak", "Support"]
        for score, measured in zip(expected, column.measures.values(), strict=True):
            assert measured.score.value == score.value
            assert (measured.low, measured.high) == confidence_interval(score)
        for row, rates in zip(agreements(texts, EXEMPLARS), column.traits, strict=True):
            assert rates.trait == row.trait
            pairs = [(row.agreement, rates.agreement), (row.if_exemplar_has, rates.if_exemplar_has)]
            pairs.append((row.if_exemplar_has_not, rates.if_exemplar_has_not))
            for score, measured in pairs:
                assert (score is None) == (measured is None)
                if score is not None:
                    assert (measured.score.value, measured.score.count) == (score.value, score.count)


def test_systems_with_other_exemplars_get_references_of_their_own() -> None:
    other = Written("Other", FIRST.texts, EXEMPLARS[1:] + EXEMPLARS[:1])
    columns = compare_manner([FIRST, other, SECOND], REFERENCES, None)
    assert [column.name for column in columns] == [
        "Reference for First, Second",
        "First",
        "Second",
        "Reference for Other",
        "Other",
    ]
    assert list(columns[0].measures) == ["Manner"]
    assert columns[0].measures["Manner"].score.value != columns[3].measures["Manner"].score.value


def test_best_knows_that_a_lower_leak_is_better() -> None:
    columns = compare_manner([FIRST, SECOND], REFERENCES, SOURCES)
    reference, first, second = columns
    assert second.measures["Leak"].score.value > first.measures["Leak"].score.value > -1
    assert is_best(columns, first, "Leak")
    assert not is_best(columns, second, "Leak")
    assert not any(is_best(columns, reference, name) for name in reference.measures)
    assert measure_headings(columns) == ["Manner", "Leak ↓", "Support"]


def test_tables_show_rates_with_cases_and_mark_few() -> None:
    columns = compare_manner([FIRST, SECOND], REFERENCES, SOURCES)
    (_, has), (_, has_not), (_, agree) = trait_rows(columns)
    assert [len(rows) for rows in (has, has_not, agree)] == [7, 7, 11]
    colon = next(row for row in has if row[0] == "colon")
    assert colon[1:] == ["15", "0* (0–0)", "100* (100–100)", "0* (0–0)"]  # noqa: RUF001
    assert next(row for row in has if row[0] == "question mark")[1:] == ["0", "–", "–", "–"]  # noqa: RUF001
    assert next(row for row in has_not if row[0] == "question mark")[1:3] == ["30", "0 (0–0)"]  # noqa: RUF001
    terminal = show(render_traits(columns))
    assert max(map(len, terminal.splitlines())) <= 80
    assert "fewer than 30 cases" in terminal
    for text in ("dash or bar before a tail", "skeleton", "First", "100* (100"):
        assert text in terminal
    measures = show(render_measures(columns))
    assert max(map(len, measures.splitlines())) <= 80
    for column in columns:
        for measured in column.measures.values():
            assert f"{measured.score.value:.1f} ({measured.low:.1f}" in measures


def test_names_are_no_markup() -> None:
    (_, column) = compare_manner([Written("[red]x", FIRST.texts, EXEMPLARS)], REFERENCES, None)
    assert "[red]x" in show(render_measures([column]))
    assert "[red]x" in show(render_traits([column]))


@pytest.mark.parametrize("sources", [None, SOURCES])
def test_json_has_values_cases_and_signatures(sources: list[str] | None) -> None:
    column = compare_manner([FIRST], REFERENCES, sources)[1]
    row = json.loads(json.dumps(column_to_json(column)))
    assert row["measures"]["Manner"]["cases"] == 30
    assert ("Leak" in row["measures"]) == (sources is not None)
    assert row["traits"]["colon"]["if_exemplar_has"]["value"] == 100
    assert row["traits"]["colon"]["if_exemplar_has"]["cases"] == 15
    assert row["traits"]["ending"]["if_exemplar_has"] is None
    assert "definition:1" in row["traits"]["ending"]["agreement"]["signature"]
