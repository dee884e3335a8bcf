"""Examples as blocks of HTML.

In: swaps, and instances of results. Out: HTML with source, exemplar and texts of each; all data is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

from exadec.corpus.readers import KnownStyles
from exadec.corpus.record import Table, linearize
from exadec.training.evaluation import Output, follows_style
from exadec.views.faults import describe_faults, mark_foreign_words
from exadec.views.page import swatch
from exadec.views.plots import looks_of
from exadec.views.results import MAIN, Results
from exadec.views.swap import Swap, mark_new_words, style_name

_PAIR, _TRIPLE = ("Field", "Value"), ("Subject", "Property", "Object")


def source_block(source: str, table: Table | None) -> str:
    """A source as text, as a table, or as both if the text is not the table written out."""
    if table is None:
        return escape(source)
    text = "" if source.split() == linearize(table).split() else f"<p>{escape(source)}</p>"
    return text + _record_table(table)


def _record_table(table: Table) -> str:
    columns = _PAIR if all(len(entry) == 2 for entry in table) else _TRIPLE
    rows = []
    for entry in table:
        *subject, name, value = [""] * (len(columns) - len(entry)) + [escape(cell) for cell in entry]
        cells = "".join(f"<td>{cell}</td>" for cell in subject)
        rows.append(f'<tr>{cells}<th scope="row">{name}</th><td>{value}</td></tr>')
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return f'<table class="record"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def swap_card(swap: Swap) -> str:
    """Exemplar and output side by side. Words that the first output does not have are marked."""
    first = swap.generations[0].text if swap.generations else ""
    rows = []
    for generation in swap.generations:
        notes = [] if generation.similarity is None else [f"retrieved, similarity {generation.similarity:.2f}"]
        verdict = ""
        if swap.styles is not None:
            notes.insert(0, f"style: {style_name(swap.styles, generation.exemplar or '')}")
            verdict = _style_verdict(swap.styles, generation.text, generation.exemplar)
        exemplar = escape(generation.exemplar or "(no exemplar found)")
        written = _mark(mark_new_words(generation.text, first))
        rows.append(
            f'<div class="rule"></div><div>{exemplar}{_note(notes)}</div><div class="arrow" aria-hidden="true">→</div>'
            f'<div class="written">{written}{verdict}</div>'
        )
    return (
        '<article class="card"><div class="source"><div class="label">Source: what to say</div>'
        f'{source_block(swap.source, swap.table)}</div><div class="pairs"><div class="label">Exemplar: how to say it'
        f'</div><div class="arrow"></div><div class="label">Output</div>{"".join(rows)}</div></article>'
    )


def _mark(runs: Iterable[tuple[str, bool]]) -> str:
    return " ".join(f"<mark>{escape(words)}</mark>" if marked else escape(words) for words, marked in runs)


def _note(parts: Sequence[str]) -> str:
    return f'<span class="note">{escape(" · ".join(parts))}</span>' if parts else ""


def _style_verdict(styles: KnownStyles, text: str, exemplar: str | None) -> str:
    """The style of a text, with a tick if it is its exemplar's style."""
    css_class, sign = ("good", "✓") if follows_style(styles, text, exemplar) else ("bad", "✗")
    return f'<span class="note"><span class="{css_class}">{sign}</span> {escape(style_name(styles, text))}</span>'


def sample_cards(results: Results, indices: Sequence[int]) -> str:
    """Selected instances: source, exemplar, reference, and the output of each system with its score and its faults."""
    return "".join(_sample_card(results, index) for index in indices)


def _sample_card(results: Results, index: int) -> str:
    shown: Output = results.baseline.outputs[index]
    styles = results.styles
    notes = [] if styles is None else [f"style: {style_name(styles, shown.exemplar or '')}"]
    exemplar = escape(shown.exemplar or "(no exemplar found)") + _note([*notes, f"similarity {shown.similarity:.2f}"])
    rows = [
        f"<dt>Source</dt><dd>{source_block(shown.source, shown.table)}</dd>",
        f"<dt>Exemplar</dt><dd>{exemplar}</dd>",
    ]
    for number, reference in enumerate(shown.references):
        rows.append(f"<dt>{'Reference' if number == 0 else ''}</dt><dd>{escape(reference)}</dd>")
    for number, (system, look) in enumerate(zip(results.systems, looks_of(results.systems), strict=True)):
        first = "first" if number == 0 else ""
        output = system.outputs[index]
        verdict = _style_verdict(styles, output.text, output.exemplar) if styles is not None else ""
        judged = [f"{MAIN} {system.rouge_l.per_instance[index]:.1f}", *describe_faults(output)]
        if output.exemplar != shown.exemplar:
            judged.append(f"written with another exemplar: {output.exemplar or 'none'}")
        if output.other_exemplars:
            judged.append(f"exemplars read besides: {' / '.join(output.other_exemplars)}")
        written = _mark(mark_foreign_words(output)) or "(nothing)"
        rows.append(
            f'<dt class="{first}">{swatch(look.colour)}<span>{escape(system.name)}</span></dt>'
            f'<dd class="written {first}">{written}{verdict}{_note(judged)}</dd>'
        )
    return f'<article class="card"><dl class="sample">{"".join(rows)}</dl></article>'
