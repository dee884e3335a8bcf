"""Tables, figures and other blocks of HTML.

In: results, an inspection. Out: HTML, with all data escaped.
"""

from collections.abc import Callable, Sequence
from html import escape

from exadec.exemplars.audit import Distribution
from exadec.textmetrics import Comparison, Measured
from exadec.views.inspection import Inspection
from exadec.views.inspection_tables import SEEN, copy_rows, describe_vocabulary, fact_rows, histogram_rows
from exadec.views.manner import (
    describe_measures,
    describe_rates,
    format_measure,
    is_best,
    measure_headings,
    trait_rows,
)
from exadec.views.plots import looks_of, plot_histograms, plot_manner
from exadec.views.results import (
    MAIN,
    STYLE,
    Results,
    format_difference,
    format_difference_range,
    format_p_value,
    format_range,
    heading,
)

_FEW_COLUMNS = 3
"""So many columns fit on the screen of a phone."""


def score_table(results: Results) -> str:
    """All scores with their intervals; a bar under each shows its place between 0 and 100."""
    compared = len(results.systems) > 1
    columns = [heading(measure) for measure in results.baseline.measures]
    if compared:
        columns.append(f"{MAIN} vs baseline")
    rows = []
    for system, look in zip(results.systems, looks_of(results.systems), strict=True):
        cells = [_score_cell(measured, look.colour) for measured in system.measures.values()]
        if compared:
            cells.append(_difference_cell(system.difference))
        rows.append(f'<tr><th scope="row">{swatch(look.colour)}{escape(system.name)}</th>{"".join(cells)}</tr>')
    for copying in results.copying:
        cells = [_score_cell(measured, "var(--soft)") for measured in copying.measures.values()]
        if compared:
            cells.append(_difference_cell(copying.difference))
        rows.append(f'<tr class="copied"><th scope="row">{escape(copying.name)}</th>{"".join(cells)}</tr>')
    if results.majority is not None:
        rows.append(_majority_row(results))
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in ("Model", *columns))
    table = f'<table class="scores"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return scrolling(table, "Scores of the systems", len(columns) + 1)


def scrolling(table: str, name: str, columns: int) -> str:
    """A box in which a wide table scrolls sideways, also with the keyboard. On a narrow screen a hint says so."""
    hint = '<p class="hint" aria-hidden="true">Scroll the table sideways to see all columns →</p>'
    return (
        f"{hint if columns > _FEW_COLUMNS else ''}"
        f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">{table}</div>'
    )


def _score_cell(measured: Measured, colour: str) -> str:
    value, low, high = measured.score.value, measured.low, measured.high
    return (
        f'<td><span class="value">{value:.1f}</span><span class="track">'
        f'<i style="width:{value:.2f}%;background:{colour}"></i>'
        f'<b style="left:{low:.2f}%;width:{high - low:.2f}%;background:{colour}"></b></span>'
        f'<span class="range">{format_range(low, high)}</span></td>'
    )


def _difference_cell(difference: Comparison | None) -> str:
    if difference is None:
        return '<td><span class="soft">baseline</span></td>'
    return (
        f'<td><span class="value">{format_difference(difference.difference)}</span>'
        f'<span class="range">{format_difference_range(difference)}</span>'
        f'<span class="range">{escape(format_p_value(difference))}</span></td>'
    )


def _majority_row(results: Results) -> str:
    assert results.majority is not None
    before = list(results.baseline.measures).index(STYLE)
    after = len(results.baseline.measures) - before - 1 + (len(results.systems) > 1)
    named = escape(results.majority.style.replace("_", " "))
    return (
        f'<tr class="line"><th scope="row">Always the majority style ({named})</th>{"<td></td>" * before}'
        f"<td>{results.majority.among_exemplars:.1f}</td>{'<td></td>' * after}</tr>"
    )


def swatch(colour: str) -> str:
    """A dot in the colour of a system."""
    return f'<span class="swatch" style="background:{colour}"></span>'


def figure_block(draw: Callable[[bool], str], title: str, caption: str) -> str:
    """A figure on a light background, so that it is readable in dark mode, too. `caption` is plain text.

    `draw(narrow)` draws it for a wide and for a narrow screen, of which the style sheet shows one.
    """
    return (
        f'<figure><div class="plate"><div class="wide">{draw(False)}</div><div class="narrow">{draw(True)}</div></div>'
        f"<figcaption><strong>{escape(title)}</strong>{escape(caption)}</figcaption></figure>"
    )


def plain_table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text. Its name is for those who hear the page."""
    return _table_of(name, columns, [[escape(cell) for cell in cells] for cells in rows])


def _table_of(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table whose cells are HTML."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    table = f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return scrolling(table, name, len(columns))


def details(summary: str, inner: str) -> str:
    """A collapsible block. `inner` is HTML."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def manner_block(results: Results) -> str:
    """Manner, leak and support, and each trait: the systems beside the references."""
    columns = results.manner
    rows = []
    for column in columns:
        cells = [escape(column.name)]
        for name, measured in column.measures.items():
            value = escape(format_measure(measured))
            cells.append(f"<strong>{value}</strong>" if is_best(columns, column, name) else value)
        rows.append(cells)
    blocks = [
        _table_of("Manner and truth", ["Model", *measure_headings(columns)], rows),
        f'<p class="soft"><small>{escape(describe_measures())}</small></p>',
        figure_block(
            lambda narrow: plot_manner(results, narrow),
            "Following the exemplar",
            "How many texts have a trait, among those whose exemplar has it. The black bar is the references’ rate: a "
            "system need not follow an exemplar more often than people do. Bars are 95% intervals.",
        ),
    ]
    names = [column.name for column in columns]
    for question, table in trait_rows(columns):
        blocks.append(f"<h3>{escape(question)}</h3>{plain_table(question, ['Trait', 'Cases', *names], table)}")
    return f'{"".join(blocks)}<p class="soft"><small>{escape(describe_rates())}</small></p>'


def inspection_block(inspection: Inspection, data_set: str) -> str:
    """The tables of a corpus's inspection, and histograms of lengths and similarities."""
    rows = [[first.replace("  ", "\u2003"), *cells] for first, *cells in fact_rows(inspection)]
    blocks = [
        f"<p>{escape(data_set)}: {describe_vocabulary(inspection)}.</p>",
        plain_table("Statistics of the corpus", ["", *inspection.splits], rows),
    ]
    (_, sources), (_, targets), *similarity = histogram_rows(inspection)
    panels = [("Source length in pieces", sources[0]), ("Target length in pieces", targets[0])]
    caption = "How many training instances have sources and targets of these lengths, after truncation."
    blocks.append(_histogram_block(panels, "Lengths", caption))
    if inspection.audit is None:
        blocks.append(f"<p>Exemplars: {escape(inspection.note)}</p>")
    blocks += [f"<p>Warning: {escape(fault)}</p>" for fault in inspection.faults]
    for _, shapes in similarity:
        blocks.insert(2, f'<p class="soft"><small>{escape(SEEN)}</small></p>')
        caption = "Cosine between the source and its exemplar’s own source, over the instances that have an exemplar."
        blocks.append(
            _histogram_block(list(zip(inspection.splits, shapes, strict=True)), "Similarity of exemplars", caption)
        )
    if inspection.copying:
        blocks.append("<p>ROUGE F1 of copying the exemplar as it is, overall and by quartile of similarity.</p>")
        blocks.append(plain_table("ROUGE of the copied exemplar", *copy_rows(inspection)))
    return f"<h2>Data</h2>{''.join(blocks)}"


def _histogram_block(panels: Sequence[tuple[str, Distribution | None]], title: str, caption: str) -> str:
    return figure_block(lambda narrow: plot_histograms(panels, f"Histogram: {title}", narrow), title, caption)
