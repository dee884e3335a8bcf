"""What a corpus is made of.

In: a prepared corpus folder, with exemplars beside it if there are any. Out: an `Inspection`, as text, JSON and HTML.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.corpus.record import read_lines
from exadec.corpus.stage import MANIFEST, is_fresh, read_manifest
from exadec.errors import InputError
from exadec.exemplars.audit import Audit, Distribution, Side, SplitFacts, audit, measure_splits
from exadec.exemplars.retrieve import DEFAULT, ExemplarMap, exemplar_folder, open_exemplars
from exadec.textmetrics import rouge

HELD_OUT = ("valid", "test")
NOT_RETRIEVED = "not retrieved yet"
_BANDS = 4
_LEVELS = "▁▂▃▄▅▆▇█"
_SEEN = "* inside the training set: earlier in it"
_COLOUR, _INK, _FAINT = "#0072b2", "#333333", "#999999"


@dataclass(frozen=True)
class Band:
    """Instances whose exemplars are about equally similar, and the scores of copying those exemplars."""

    low: float
    high: float
    instances: int
    rouge: dict[str, float]


@dataclass(frozen=True)
class CopyScores:
    """What writing down the exemplar, word for word, would score; nothing is written where there is no exemplar."""

    overall: Band
    bands: tuple[Band, ...]
    """A quarter of the instances each, from the least to the most similar exemplars."""
    signatures: dict[str, str]


@dataclass(frozen=True)
class Inspection:
    """All that is known of a corpus before training."""

    folder: Path
    segmentation: str
    vocabulary: int
    unknown_types: int
    """Different pieces outside the vocabulary."""
    splits: dict[str, SplitFacts]
    audit: Audit | None
    copying: dict[str, CopyScores]
    """By held-out split."""
    note: str
    """Why there is no audit."""


def inspect_corpus(folder: Path, exemplar_config: ExemplarConfig = DEFAULT) -> Inspection:
    """Look at a prepared corpus and, where they have been retrieved in this way, at its exemplars."""
    corpus = _open_corpus(Path(folder))
    exemplars, note = _find_exemplars(corpus, exemplar_config)
    facts = corpus.manifest["vocabulary"]
    return Inspection(
        folder=corpus.folder,
        segmentation=corpus.config.segmentation,
        vocabulary=facts["size"],
        unknown_types=facts["unknown_types"],
        splits=measure_splits(corpus),
        audit=None if exemplars is None else audit(corpus, exemplars),
        copying={} if exemplars is None else score_copying(corpus, exemplars),
        note=note,
    )


def _open_corpus(folder: Path) -> Corpus:
    manifest = read_manifest(folder)
    if not {"key", "config", "records", "vocabulary"} <= manifest.keys():
        raise InputError(f"{folder}: not a corpus folder; `exadec prepare` makes one.")
    if not is_fresh(folder, manifest["key"]):
        raise InputError(f"{folder}: files are missing or damaged; run `exadec prepare` again.")
    return Corpus(folder)


def _find_exemplars(corpus: Corpus, config: ExemplarConfig) -> tuple[ExemplarMap | None, str]:
    folder = exemplar_folder(corpus, config)
    if not (folder / MANIFEST).is_file():
        return None, NOT_RETRIEVED
    try:
        return open_exemplars(corpus, folder), ""
    except InputError as error:  # the corpus itself is still worth looking at
        return None, str(error)


def score_copying(corpus: Corpus, exemplars: ExemplarMap) -> dict[str, CopyScores]:
    """ROUGE of the exemplar itself, for the held-out splits: what a model has to beat."""
    indices = {split: exemplars.indices(split) for split in HELD_OUT}
    texts = _training_targets(corpus, set(np.concatenate(list(indices.values())).tolist()))
    scores = {}
    for split in HELD_OUT:
        references = [record.scoring_references() for record in corpus.records(split)]
        scored = rouge([texts.get(index, "") for index in indices[split].tolist()], references)
        similarities = exemplars.similarities(split)
        order = np.argsort(similarities, kind="stable")
        values = {score.name: score.per_instance for score in scored.values()}
        scores[split] = CopyScores(
            overall=_band(similarities, values, order),
            bands=tuple(_band(similarities, values, rows) for rows in np.array_split(order, _BANDS) if len(rows)),
            signatures={score.name: score.signature for score in scored.values()},
        )
    return scores


def _training_targets(corpus: Corpus, wanted: set[int]) -> dict[int, str]:
    # A prepared split has one record a line, so lines nobody wants need not be parsed.
    lines = read_lines(corpus.folder / "train.jsonl")
    return {number - 1: json.loads(line)["target"] for number, line in lines if number - 1 in wanted}


def _band(similarities: np.ndarray, values: dict[str, np.ndarray], rows: np.ndarray) -> Band:
    chosen = similarities[rows]
    means = {name: float(scores[rows].mean()) for name, scores in values.items()}
    return Band(float(chosen.min()), float(chosen.max()), len(rows), means)


def inspection_to_json(inspection: Inspection) -> dict[str, Any]:
    """Raw counts, and the rates made of them (0 to 1; None where there is nothing to divide by)."""
    content = {**asdict(inspection), "folder": str(inspection.folder)}
    for split, facts in inspection.splits.items():
        content["splits"][split]["rates"] = {name: rate for name, (_, _, rate) in _rates(facts).items()}
    return content


def _rates(facts: SplitFacts) -> dict[str, tuple[int, int, float | None]]:
    """By name: how many, of how many, and the share."""
    sources, targets = facts.sources, facts.targets
    pairs = {
        "source_coverage": (sources.pieces - sources.unknown, sources.pieces),
        "target_coverage": (targets.pieces - targets.unknown, targets.pieces),
        "target_unknown": (targets.unknown, targets.pieces),
        "unknown_copyable": (facts.copyable_unknown, targets.unknown),
        "target_copyable": (facts.copyable, targets.pieces),
    }
    return {name: (part, whole, part / whole if whole else None) for name, (part, whole) in pairs.items()}


def _share(part: int, whole: int) -> str:
    """Percent; what is little does not look like nothing."""
    if not whole:
        return "–"  # noqa: RUF001
    return "<0.1%" if 0 < 1000 * part < whole else f"{part / whole:.1%}"


def _count(part: int, whole: int) -> str:
    """With its share, which has no decimals where the count itself is long."""
    if not part:
        return "0"
    share = f"{part / whole:.0%}" if 10 * part >= whole else _share(part, whole)
    return f"{part:,} ({share})"


def fact_rows(inspection: Inspection) -> Iterator[list[str]]:
    """What is said and one cell a split; a row without cells opens a part."""
    splits = list(inspection.splits.values())
    yield ["Instances", *(f"{facts.instances:,}" for facts in splits)]
    for name, field in (("a table", "tables"), ("several references", "several_references")):
        if any(getattr(facts, field) for facts in splits):
            yield [f"  with {name}", *(_count(getattr(facts, field), facts.instances) for facts in splits)]
    if any(facts.groups for facts in splits):
        yield ["  different groups", *(f"{facts.groups:,}" for facts in splits)]
    for side in ("sources", "targets"):
        yield from _side_rows(side, [getattr(facts, side) for facts in splits])
    rates = [_rates(facts) for facts in splits]
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
    """What is counted, and its distribution in each split."""
    splits = inspection.splits.values()
    yield "source length", [facts.sources.lengths for facts in splits]
    yield "target length", [facts.targets.lengths for facts in splits]
    if inspection.audit is not None:
        yield "similarity", [one.similarity for one in inspection.audit.splits.values()]


def sparkline(counts: Sequence[int]) -> str:
    """A bar a count; only nothing at all gets no bar."""
    highest = max(counts, default=0)
    return "".join(_LEVELS[-(-count * len(_LEVELS) // highest) - 1] if count else "·" for count in counts)


def render_inspection(inspection: Inspection) -> RenderableType:
    """For a terminal of 80 columns."""
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
        _describe_vocabulary(inspection),
        "",
        facts,
    ]
    if inspection.audit is None:
        parts.append(Text(f"Exemplars: {inspection.note}", overflow="fold"))
    else:
        parts.append(Text(_SEEN, "dim"))
    parts += ["", histograms]
    if inspection.copying:
        parts += ["", Text("ROUGE F1 of copying the exemplar, by its similarity", "bold"), _copy_table(inspection)]
    return Group(*parts)


def _terminal_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _copy_table(inspection: Inspection) -> Table:
    columns, rows = copy_rows(inspection)
    table = _terminal_table(*columns)
    for row in rows:
        table.add_row(*(Text(cell, "bold" if row[0] else "") for cell in row))
    return table


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


def _describe_vocabulary(inspection: Inspection) -> str:
    return (
        f"{inspection.vocabulary:,} pieces ({inspection.segmentation}) in the vocabulary, "
        f"{inspection.unknown_types:,} outside it"
    )


def _describe_edges(shown: Distribution) -> str:
    low, high, width = shown.edges[0], shown.edges[-1], shown.edges[1] - shown.edges[0]
    return f"{low:g} to {high - width:g} by {width:g}" if width >= 1 else f"{low:g} to {high:g}"


def inspection_html(inspection: Inspection) -> str:
    """A block for the report: the tables, and histograms of lengths and of similarities."""
    # What makes pages also makes figures of runs, and so needs torch: a terminal table should not wait for that.
    from exadec.views.page import figure_block, plain_table

    rows = [[first.replace("  ", "\u2003"), *cells] for first, *cells in fact_rows(inspection)]
    blocks = [
        f"<p><code>{escape(str(inspection.folder))}</code>: {_describe_vocabulary(inspection)}.</p>",
        plain_table(["", *inspection.splits], rows),
    ]
    (_, sources), (_, targets), *similarity = histogram_rows(inspection)
    panels = [("Source length in pieces", sources[0]), ("Target length in pieces", targets[0])]
    caption = "How many training instances have sources and targets of these lengths, after cutting."
    blocks.append(figure_block(draw_histograms(panels, "Histogram of lengths"), "Lengths", caption))
    if inspection.audit is None:
        blocks.append(f"<p>Exemplars: {escape(inspection.note)}</p>")
    for _, shapes in similarity:
        blocks.insert(2, f'<p class="soft"><small>{escape(_SEEN)}</small></p>')
        caption = "Cosine between the source and its exemplar’s own source, over the instances that have an exemplar."
        drawn = draw_histograms(list(zip(inspection.splits, shapes, strict=True)), "Histogram of similarities")
        blocks.append(figure_block(drawn, "Similarity of exemplars", caption))
    if inspection.copying:
        blocks.append("<p>ROUGE F1 of copying the exemplar as it is, in all and by quarters of similarity.</p>")
        blocks.append(plain_table(*copy_rows(inspection)))
    return f"<h2>Data</h2>{''.join(blocks)}"


def draw_histograms(panels: Sequence[tuple[str, Distribution | None]], description: str) -> str:
    """SVG with one histogram beside the other, as wide as the other figures of a page."""
    width, height, gap = 691, 150, 24
    across = (width - gap * (len(panels) - 1)) / len(panels)
    drawn = "".join(
        f'<g transform="translate({number * (across + gap):.1f} 0)">{_draw_panel(title, shape, across)}</g>'
        for number, (title, shape) in enumerate(panels)
    )
    return (
        f'<svg role="img" aria-label="{escape(description)}" viewBox="0 0 {width} {height}" '
        f'xmlns="http://www.w3.org/2000/svg" font-size="10" fill="{_INK}">{drawn}</svg>'
    )


def _draw_panel(title: str, shape: Distribution | None, across: float) -> str:
    top, bottom = 24, 130
    parts = [f'<text x="0" y="11" font-size="11" font-weight="bold">{escape(title)}</text>']
    if shape is None:
        return f'{parts[0]}<text x="0" y="{top + 12}">none</text>'
    bar = across / len(shape.counts)
    for number, count in enumerate(shape.counts):
        tall = (bottom - top) * count / max(shape.counts)
        label = f"{shape.edges[number]:g} to {shape.edges[number + 1]:g}: {count:,}"
        parts.append(
            f'<rect x="{number * bar + 0.5:.1f}" y="{bottom - tall:.1f}" width="{bar - 1:.1f}" height="{tall:.1f}" '
            f'fill="{_COLOUR}"><title>{label}</title></rect>'
        )
    parts.append(f'<path d="M0 {bottom}H{across:.1f}" stroke="{_FAINT}"/>')
    for place, anchor, edge in ((0.0, "start", shape.edges[0]), (across, "end", shape.edges[-1])):
        parts.append(f'<text x="{place:.1f}" y="{bottom + 13}" text-anchor="{anchor}">{edge:g}</text>')
    return "".join(parts)
