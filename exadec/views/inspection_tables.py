"""An inspection as tables.

In: an `Inspection`. Out: rows of text, also for reports, and a rendering for the terminal.
"""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exadec.exemplars.audit import Distribution, Side
from exadec.views.fitting import Fitting
from exadec.views.inspection import Inspection, rates_of

SEEN = "* for training instances: seen earlier in the training set"
_LEVELS = "▁▂▃▄▅▆▇█"


def _share(part: int, whole: int) -> str:
    """A percentage; a small one is not rounded to zero."""
    if not whole:
        return "–"  # noqa: RUF001
    return "<0.1%" if 0 < 1000 * part < whole else f"{part / whole:.1%}"


def _count(part: int, whole: int) -> str:
    """A count and its share; a large share has no decimals."""
    if not part:
        return "0"
    share = f"{part / whole:.0%}" if 10 * part >= whole else _share(part, whole)
    return f"{part:,} ({share})"


def fact_rows(inspection: Inspection) -> Iterator[list[str]]:
    """A label, then one cell per split."""
    splits = list(inspection.splits.values())
    yield ["Instances", *(f"{facts.instances:,}" for facts in splits)]
    for name, field in (("a table", "tables"), ("several references", "several_references")):
        if any(getattr(facts, field) for facts in splits):
            yield [f"  with {name}", *(_count(getattr(facts, field), facts.instances) for facts in splits)]
    if any(facts.groups for facts in splits):
        yield ["  different groups", *(f"{facts.groups:,}" for facts in splits)]
    for side in ("sources", "targets"):
        yield from _side_rows(side, [getattr(facts, side) for facts in splits])
    rates = [rates_of(facts) for facts in splits]
    for name, key in (
        ("  not in the vocabulary", "target_unknown"),
        ("    of these copyable", "unknown_copyable"),
        ("  copyable (in the source)", "target_copyable"),
    ):
        yield [name, *(_share(part, whole) for part, whole, _ in (rate[key] for rate in rates))]
    yield from _audit_rows(inspection)


def _side_rows(side: str, texts: Sequence[Side]) -> Iterator[list[str]]:
    lengths = [text.lengths for text in texts]
    yield [f"{side.capitalize()}, pieces", *(f"{text.pieces:,}" for text in texts)]
    yield ["  mean length", *(f"{length.mean:.1f}" for length in lengths)]
    ends = [f"{length.median:.0f} {length.high:.0f} {length.maximum}" for length in lengths]
    yield ["  median, 95%, longest", *ends]
    if any(text.truncated for text in texts):
        yield ["  texts that were cut", *(f"{text.truncated:,}" for text in texts)]
    yield ["  pieces in the vocabulary", *(_share(text.pieces - text.unknown, text.pieces) for text in texts)]


def _audit_rows(inspection: Inspection) -> Iterator[list[str]]:
    if inspection.audit is None:
        return
    audits = list(inspection.audit.splits.values())
    shapes = [one.similarity for one in audits]
    yield ["Exemplars, mean similarity", *("–" if shape is None else f"{shape.mean:.3f}" for shape in shapes)]  # noqa: RUF001
    for name, fields in (
        ("5%, median, 95%", ("low", "median", "high")),
        ("quartiles", ("lower_quartile", "upper_quartile")),
    ):
        cells = ("–" if s is None else " ".join(f"{getattr(s, field):.2f}" for field in fields) for s in shapes)  # noqa: RUF001
        yield [f"  {name}", *cells]
    for name, field in (
        ("without exemplar", "without_exemplar"),
        ("exemplar = target (leakage)", "same_target"),
        ("exemplar's source = source", "same_source"),
        ("target seen in training *", "seen_targets"),
        ("source seen in training *", "seen_sources"),
        ("both together *", "seen_pairs"),
    ):
        yield [f"  {name}", *(_count(getattr(one, field), one.instances) for one in audits)]


def histogram_rows(inspection: Inspection) -> Iterator[tuple[str, list[Distribution | None]]]:
    """The name of each quantity, and its distribution in each split."""
    splits = inspection.splits.values()
    yield "source length", [facts.sources.lengths for facts in splits]
    yield "target length", [facts.targets.lengths for facts in splits]
    if inspection.audit is not None:
        similarities = [one.similarity for one in inspection.audit.splits.values()]
        if any(similarities):
            yield "similarity", similarities


def sparkline(counts: Sequence[int]) -> str:
    """One bar per count; only zero gets no bar."""
    highest = max(counts, default=0)
    return "".join(_LEVELS[-(-count * len(_LEVELS) // highest) - 1] if count else "·" for count in counts)


def render_inspection(inspection: Inspection) -> RenderableType:
    """For a terminal, of 80 columns or of fewer."""
    facts = _terminal_table("", *inspection.splits)
    for first, *cells in fact_rows(inspection):
        facts.add_row(Text(first, "" if first.startswith(" ") else "bold"), *map(Text, cells))
    histograms = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("", *inspection.splits):
        histograms.add_column(name, no_wrap=True)
    for name, shapes in histogram_rows(inspection):
        histograms.add_row(name, *(Text("" if shape is None else sparkline(shape.counts), "cyan") for shape in shapes))
        shown = next(shape for shape in shapes if shape is not None)
        histograms.add_row("", Text(_describe_edges(shown), "dim"))
    parts: list[RenderableType] = [
        Text(str(inspection.folder), "bold", overflow="fold"),
        describe_vocabulary(inspection),
        "",
        Fitting(facts),
    ]
    if inspection.audit is None:
        parts.append(Text(f"Exemplars: {inspection.note}", overflow="fold"))
    else:
        parts.append(Text(SEEN, "dim"))
    parts += [Text(f"Warning: {fault}", "yellow") for fault in inspection.faults]
    parts += ["", Fitting(histograms)]
    if inspection.copying:
        parts += ["", Text("ROUGE F1 of copying the exemplar, by its similarity", "bold"), _copy_table(inspection)]
    return Group(*parts)


def _terminal_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _copy_table(inspection: Inspection) -> Fitting:
    columns, rows = copy_rows(inspection)
    table = _terminal_table(*columns)
    for row in rows:
        table.add_row(*(Text(cell, "bold" if row[0] else "") for cell in row))
    return Fitting(table)


def copy_rows(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: each split as a whole, then its bands."""
    measures = list(next(iter(inspection.copying.values())).overall.rouge)
    rows = []
    for split, scores in inspection.copying.items():
        for band in (scores.overall, *scores.bands):
            name = split if band is scores.overall else ""
            values = (f"{band.rouge[measure]:.1f}" for measure in measures)
            rows.append([name, f"{band.low:.2f}–{band.high:.2f}", f"{band.instances:,}", *values])  # noqa: RUF001
    return ["Split", "Similarity", "Instances", *measures], rows


def describe_vocabulary(inspection: Inspection) -> str:
    return (
        f"{inspection.vocabulary:,} pieces ({inspection.segmentation}) in the vocabulary, "
        f"{inspection.unknown_types:,} outside it"
    )


def _describe_edges(shown: Distribution) -> str:
    low, high, width = shown.edges[0], shown.edges[-1], shown.edges[1] - shown.edges[0]
    return f"{low:g} to {high - width:g} by {width:g}" if width >= 1 else f"{low:g} to {high:g}"
