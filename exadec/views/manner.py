"""Manner and truth of several systems, beside those of the references.

In: texts of systems, references, sources, exemplars. Out: a `Column` for each system and the references; tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exadec.textmetrics import Measured, RatioScore, agreements, leak, manner, measure_all, support
from exadec.textmetrics.manner import FEW
from exadec.views.fitting import Fitting

REFERENCE = "Reference"
IF_HAS, IF_HAS_NOT, AGREES = (
    "% of texts that have it, where the exemplar has it",
    "% of texts that have it, where the exemplar has not",
    "% agreement with the exemplar, each kind of exemplar weighted alike",
)


@dataclass(frozen=True)
class Written:
    """What one system wrote, and the exemplars it was given; a system that reads none shows what chance gives."""

    name: str
    texts: Sequence[str]
    exemplars: Sequence[str | None]


@dataclass(frozen=True)
class TraitRates:
    """One trait, measured."""

    trait: str
    agreement: Measured
    if_exemplar_has: Measured | None
    if_exemplar_has_not: Measured | None


@dataclass(frozen=True)
class Column:
    """One system, or the references for the same exemplars."""

    name: str
    is_reference: bool
    measures: dict[str, Measured]
    """By name: Manner, and where there are sources Leak and Support."""
    traits: list[TraitRates]


def compare_manner(
    systems: Sequence[Written], references: Sequence[str], sources: Sequence[str] | None
) -> list[Column]:
    """Systems in order; before the first of those with the same exemplars, the references for these exemplars."""
    groups: dict[tuple[str | None, ...], list[Written]] = {}
    for system in systems:
        groups.setdefault(tuple(system.exemplars), []).append(system)
    columns = []
    for exemplars, members in groups.items():
        named = f"{REFERENCE} for {', '.join(member.name for member in members)}" if len(groups) > 1 else REFERENCE
        columns.append(measure_manner(Written(named, references, exemplars), sources, is_reference=True))
        columns += [measure_manner(member, sources) for member in members]
    return columns


def measure_manner(written: Written, sources: Sequence[str] | None, is_reference: bool = False) -> Column:
    """One system, or the references, against the exemplars named with it."""
    scores: list[RatioScore] = [manner(written.texts, written.exemplars)]
    if sources is not None:
        scores += [leak(written.texts, sources, written.exemplars), support(written.texts, sources)]
    found = agreements(written.texts, written.exemplars)
    parts = [(row.agreement, row.if_exemplar_has, row.if_exemplar_has_not) for row in found]
    measured = measure_all([*scores, *(score for row in parts for score in row if score is not None)])
    by_recipe = {one.score.signature: one for one in measured}
    traits = [
        TraitRates(
            row.trait,
            by_recipe[row.agreement.signature],
            None if row.if_exemplar_has is None else by_recipe[row.if_exemplar_has.signature],
            None if row.if_exemplar_has_not is None else by_recipe[row.if_exemplar_has_not.signature],
        )
        for row in found
    ]
    return Column(written.name, is_reference, {one.score.name: one for one in measured[: len(scores)]}, traits)


def column_to_json(column: Column) -> dict[str, Any]:
    """Raw numbers, with their cases and their signatures."""
    return {
        "name": column.name,
        "is_reference": column.is_reference,
        "measures": {name: measured_to_json(measured) for name, measured in column.measures.items()},
        "traits": {
            rates.trait: {
                "agreement": measured_to_json(rates.agreement),
                "if_exemplar_has": rates.if_exemplar_has and measured_to_json(rates.if_exemplar_has),
                "if_exemplar_has_not": rates.if_exemplar_has_not and measured_to_json(rates.if_exemplar_has_not),
            }
            for rates in column.traits
        },
    }


def measured_to_json(measured: Measured) -> dict[str, Any]:
    """A value with its interval, the number of its cases and its signature."""
    numbers = {"value": measured.score.value, "low": measured.low, "high": measured.high}
    return {**numbers, "cases": count_cases(measured), "signature": measured.score.signature}


def count_cases(measured: Measured) -> int:
    """From how many instances, words or facts a value was computed."""
    score = measured.score
    return score.count if isinstance(score, RatioScore) else score.instances


def trait_rows(columns: Sequence[Column]) -> list[tuple[str, list[list[str]]]]:
    """(question, rows) of the tables: trait, number of cases, and a rate with its interval for each column."""
    tables = []
    for question, field in ((IF_HAS, "if_exemplar_has"), (IF_HAS_NOT, "if_exemplar_has_not"), (AGREES, "agreement")):
        rows = []
        for number, first in enumerate(columns[0].traits):
            rates = [getattr(column.traits[number], field) for column in columns]
            if rates[0] is not None:
                counts = dict.fromkeys(
                    f"{count_cases(rate):,}" for rate in rates
                )  # one, if all have the same exemplars
                rows.append([first.trait, " / ".join(counts), *map(format_rate, rates)])
        tables.append((question, rows))
    return tables


def format_rate(measured: Measured) -> str:
    """`62 (58-66)` with an en dash; a dash alone if there are no cases, and a mark if there are few."""
    cases = count_cases(measured)
    if not cases:
        return "–"  # noqa: RUF001
    mark = "*" if cases < FEW else ""
    return f"{measured.score.value:.0f}{mark} ({measured.low:.0f}–{measured.high:.0f})"  # noqa: RUF001


def render_traits(columns: Sequence[Column]) -> Group:
    """For the terminal: the three tables one under the other."""
    tables: list[RenderableType] = []
    for question, rows in trait_rows(columns):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title=question, title_justify="left")
        table.add_column("Trait", width=25)
        table.add_column("Cases", justify="right", min_width=6)
        for column in columns:
            table.add_column(Text(column.name), justify="right", overflow="fold", min_width=13)
        for row in rows:
            table.add_row(*row)
        tables += [Fitting(table), Text()]
    return Group(*tables, Text(describe_rates(), "dim"))


def render_measures(columns: Sequence[Column]) -> Fitting:
    """For the terminal: manner, leak and support of each system and of the references."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("Model", overflow="fold", min_width=14)
    for heading in measure_headings(columns):
        table.add_column(heading, justify="right")
    for column in columns:
        cells = [Text(column.name, "dim" if column.is_reference else "")]
        for name, measured in column.measures.items():
            cells.append(Text(format_measure(measured), "bold" if is_best(columns, column, name) else ""))
        table.add_row(*cells)
    table.caption = describe_measures()
    table.caption_justify = "left"
    return Fitting(table)


def format_measure(measured: Measured) -> str:
    """A score with its interval, with an en dash."""
    return f"{measured.score.value:.1f} ({measured.low:.1f}–{measured.high:.1f})"  # noqa: RUF001


def measure_headings(columns: Sequence[Column]) -> list[str]:
    """An arrow marks a score that is the better the lower it is."""
    return [f"{name} ↓" if one.score.lower_is_better else name for name, one in columns[0].measures.items()]


def is_best(columns: Sequence[Column], column: Column, measure: str) -> bool:
    """Whether no other system has a better value. References do not compete."""
    values = [other.measures[measure].score.value for other in columns if not other.is_reference]
    score = column.measures[measure].score
    return not column.is_reference and score.value == (min(values) if score.lower_is_better else max(values))


def describe_rates() -> str:
    return f"In brackets: 95% bootstrap intervals. *: fewer than {FEW} cases, too few to trust the interval."


def describe_measures() -> str:
    return (
        "Manner: agreement with the exemplar. Leak: % of content words that the exemplar has and the source has not. "
        "Support: % of numbers, dates and names that the source has. Bold: the best system."
    )
