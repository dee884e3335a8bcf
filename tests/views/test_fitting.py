"""Tables on terminals of any width: nothing of a cell is lost."""

import re

import pytest
from rich import box
from rich.table import Table
from rich.text import Text

from exadec.views.fitting import Fitting
from exadec.views.manner import Written, compare_manner, render_measures, render_traits
from exadec.views.results import Results, render_table
from support.shown import show

NAMES = ("AdaDec+AttExp", "Seq2seq [red]")
SCORES = ("ROUGE-1", "ROUGE-2", "ROUGE-L\nvs baseline")


def make_table(**column: object) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title="Scores", caption="All of them.")
    table.add_column("Model", overflow="fold", min_width=14)
    for score in SCORES:
        table.add_column(score, justify="right", **column)
    for row, name in enumerate(NAMES):
        table.add_row(Text(name), *(Text(f"{row}{i}.5\n({row}{i}.1-{row}{i}.9)") for i in range(3)))
    return table


@pytest.mark.parametrize("no_wrap", [True, False])
def test_nothing_is_cut_at_any_width(no_wrap: bool) -> None:
    layouts = set()
    for width in range(32, 90):
        shown = show(Fitting(make_table(no_wrap=no_wrap)), width=width)
        assert max(map(len, shown.splitlines())) <= width
        assert "…" not in shown
        for text in (*NAMES, "ROUGE-1", "baseline", "Scores", "All of them.", "02.5", "(02.1-02.9)", "(10.1-10.9)"):
            assert text in shown, width
        layouts.add("Model" in shown)
    assert layouts == {True, False}


def test_a_wide_terminal_shows_the_table_itself() -> None:
    assert show(Fitting(make_table())) == show(make_table())


def test_a_narrow_one_shows_each_cell_beside_its_heading() -> None:
    lines = [" ".join(line.split()) for line in show(Fitting(make_table()), width=40).splitlines()]
    start = lines.index(NAMES[1])
    assert lines[start + 1 : start + 4] == [
        "ROUGE-1 10.5 (10.1-10.9)",
        "ROUGE-2 11.5 (11.1-11.9)",
        "ROUGE-L vs baseline 12.5 (12.1-12.9)",
    ]


def test_tables_of_models_keep_names_and_numbers_at_40_columns(results: Results) -> None:
    shown = show(render_table(results), width=40)
    for system in results.systems:
        assert re.search(rf"^{re.escape(system.name)}$", shown, re.MULTILINE), shown
        for measured in system.measures.values():
            assert f"{measured.score.value:.1f}" in shown
    columns = compare_manner([Written("AdaDec+AttExp", ["a b", "c: d"], ["e", "f: g"])], ["a", "c"], ["a b", "c d"])
    for renderable in (render_measures(columns), render_traits(columns)):
        assert "AdaDec+AttExp" in show(renderable, width=40)
