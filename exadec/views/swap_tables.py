"""A swap study to look at.

In: a `Study`. Out: tables for the terminal; a folder with a Markdown page, a figure, all numbers and all texts.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from exadec.files import make_folder_for, write_text
from exadec.views.fitting import Fitting
from exadec.views.manner import (
    Column,
    column_to_json,
    count_cases,
    describe_rates,
    format_measure,
    format_rate,
    measure_headings,
    measured_to_json,
    trait_rows,
)
from exadec.views.plots import plot_swaps
from exadec.views.swap_study import GIVEN, Case, Failure, Study, find_failure, find_worst

NUMBERS, TEXTS, PAGE, FIGURE = "study.json", "texts.jsonl", "study.md", "study.svg"
WORST = 3
"""Failures to show of each kind."""
_CONTENT = ("recall", "own_recall", "kept", "content", "own_content")
_ABSENT = "–"  # noqa: RUF001

_EXPLANATIONS = (
    "Own: with the retrieved exemplar, and measured against it. Swapped: with another one, and measured against that.",
    "Chance: the own texts, measured against the exemplars swapped in, which they were not written with. The reference "
    "is measured against these, too. What a swap does is the difference from both.",
    "ROUGE-1 recall: words of the references. Kept: recall with the swap as a percentage of recall without, with a "
    "paired interval. Content: recall of those content words of the reference that the source has.",
    "w: strength of guidance.",
)
_Rows = list[list[str]]


def trait_columns(study: Study) -> list[Column]:
    """The references, chance, and the swapped texts of each strength, all against the exemplars swapped in."""
    return [study.reference, study.strengths[0].chance, *(one.swapped for one in study.strengths)]


def measure_rows(study: Study) -> _Rows:
    """Headings; then manner and truth of the references, of chance, and of each strength without and with the swap."""
    columns = [study.reference, study.strengths[0].chance]
    columns += [column for one in study.strengths for column in (one.own, one.swapped)]
    rows = [[column.name, *map(format_measure, column.measures.values())] for column in columns]
    return [["Texts", *measure_headings(columns)], *rows]


def content_rows(study: Study) -> _Rows:
    """Headings; then what of the references is in the texts of each strength without and with the swap."""
    rows = [["Texts", "ROUGE-1 recall", "Kept", "Content"]]
    for one in study.strengths:
        rows.append([one.own.name, format_measure(one.own_recall), _ABSENT, format_measure(one.own_content)])
        rows.append([one.swapped.name, *map(format_measure, (one.recall, one.kept, one.content))])
    return rows


def describe_study(study: Study) -> str:
    """How many swaps, and how they were drawn."""
    drawn = ", ".join(f"{count:,} for {name}" for name, count in study.settings["drawn_for"].items() if name != GIVEN)
    return (
        f"{len(study.cases):,} swaps of {study.settings['run']} ({study.settings['model']}), seed "
        f"{study.settings['seed']}. Exemplars: {study.settings['exemplars']}{drawn and f'; drawn {drawn}'}."
    )


def render_study(study: Study) -> RenderableType:
    """For the terminal: manner and truth, content, the traits, and the worst failures."""
    worst = _render_worst("Most traits missed", find_worst(study, "missed", WORST))
    worst += _render_worst("Most words leaked", find_worst(study, "leaked", WORST))
    notes = [Text(text, "dim") for text in (*_EXPLANATIONS, describe_rates())]
    tables = [_render_rows(rows) for rows in (measure_rows(study), content_rows(study))]
    parts: list[RenderableType] = [Text(describe_study(study))]
    for table in (*tables, _render_traits(trait_columns(study))):
        parts += [Text(), table]
    return Group(*parts, Text(), *notes, *worst)


def _render_rows(rows: _Rows) -> Fitting:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows[1:]:
        table.add_row(*row, style="" if row[0].startswith("Swapped") else "dim")
    return Fitting(table)


def _render_traits(columns: Sequence[Column]) -> RenderableType:
    """A row for each trait and column, so that any number of strengths fits."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.title, table.title_justify = "% of texts that have a trait, where the exemplar has it and where not", "left"
    for heading in ("Trait", "Texts"):
        table.add_column(heading)
    for heading in ("Cases", "has it", "Cases", "has not"):
        table.add_column(heading, justify="right")
    absent = []
    for number, first in enumerate(columns[0].traits):
        shown = first.trait
        for column in columns:
            rates = column.traits[number]
            if rates.if_exemplar_has is None or rates.if_exemplar_has_not is None:
                continue
            if not count_cases(rates.if_exemplar_has):
                absent.append(first.trait)
                break
            both = (rates.if_exemplar_has, rates.if_exemplar_has_not)
            cells = [cell for rate in both for cell in (f"{count_cases(rate):,}", format_rate(rate))]
            table.add_row(shown, column.name, *cells, style="" if column.name.startswith("Swapped") else "dim")
            shown = ""
    fitting = Fitting(table)
    return Group(fitting, Text(f"No exemplar has: {', '.join(absent)}.", "dim")) if absent else fitting


def _render_worst(heading: str, failures: Sequence[Failure]) -> list[RenderableType]:
    shown: list[RenderableType] = []
    if failures:
        shown.append(Text(f"\n{heading}", "bold"))
    for failure in failures:
        table = Table.grid(padding=(0, 2, 0, 0))
        for label, text in (
            ("source", failure.case.source),
            ("exemplar", failure.case.exemplar),
            (f"w = {failure.guidance:g}", failure.text),
            ("missed", ", ".join(failure.missed) or _ABSENT),
            ("leaked", ", ".join(dict.fromkeys(failure.leaked)) or _ABSENT),
        ):
            table.add_row(Text(label, "dim"), Text(text))
        shown.append(Padding(table, (1, 0, 0, 2)))
    return shown


def write_study(study: Study, folder: Path, command: str) -> Path:
    """Write the page, its figure, the numbers and the texts; returns the page. `command` is what makes them again.

    The page, the figure and the numbers hold no text of the corpus.
    """
    make_folder_for(folder / PAGE)
    write_text(folder / NUMBERS, json.dumps(study_to_json(study), indent=1) + "\n")
    lines = [json.dumps(_case_to_json(study, number), ensure_ascii=False) for number in range(len(study.cases))]
    write_text(folder / TEXTS, "\n".join(lines) + "\n")
    write_text(folder / FIGURE, plot_swaps(study) + "\n")
    write_text(folder / PAGE, render_page(study, command))
    return folder / PAGE


def study_to_json(study: Study) -> dict[str, Any]:
    """Settings and raw numbers."""
    return {
        "settings": study.settings,
        "swaps": len(study.cases),
        "reference": column_to_json(study.reference),
        "strengths": [
            {
                "guidance": one.texts.guidance,
                **{name: column_to_json(getattr(one, name)) for name in ("swapped", "chance", "own")},
                **{name: measured_to_json(getattr(one, name)) for name in _CONTENT},
            }
            for one in study.strengths
        ],
    }


def _case_to_json(study: Study, number: int) -> dict[str, Any]:
    case: Case = study.cases[number]
    written = []
    for one in study.strengths:
        failure = find_failure(case, one.texts.guidance, one.texts.swapped[number])
        row = {"guidance": failure.guidance, "own_exemplar": one.texts.own_exemplars[number]}
        row |= {"own": one.texts.own[number], "swapped": failure.text}
        written.append({**row, "missed": failure.missed, "leaked": failure.leaked})
    return {**asdict(case), "texts": written}


def render_page(study: Study, command: str) -> str:
    """The tables as Markdown. The same study gives the same bytes."""
    parts = [f"# Swap study of {study.settings['run']}", f"Made by `{command}`; do not edit.", describe_study(study)]
    parts += [_markdown_table(measure_rows(study)), _markdown_table(content_rows(study))]
    parts.append("\n".join(f"- {text}" for text in _EXPLANATIONS))
    parts.append(f"![Traits followed, and what it costs, against the strength of guidance]({FIGURE})")
    columns = trait_columns(study)
    for question, rates in trait_rows(columns):
        parts += [f"## {question}", _markdown_table([["Trait", "Cases", *(column.name for column in columns)], *rates])]
    first = study.strengths[0]
    scores = [one.score for one in (*study.reference.measures.values(), first.recall, first.content)]
    signatures = "\n".join(f"- {score.name}: `{score.signature}`" for score in scores)
    search = ", ".join(f"{key} {value}" for key, value in study.settings["search"].items())
    parts += [describe_rates().replace("*", "\\*"), "## How it was made", f"{signatures}\n- Search: {search}.\n"]
    return "\n\n".join(parts)


def _markdown_table(rows: _Rows) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    lines = [rows[0], rule, *([cell.replace("*", "\\*") for cell in row] for row in rows[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
