"""Figures.

In: systems with outputs and metrics, swap studies, maps of coefficients, distributions. Out: SVG for a page or a file.
"""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from exadec.bank import clamp
from exadec.exemplars.audit import Distribution
from exadec.textmetrics import Measured, confidence_interval, mean_score
from exadec.training.events import Evaluated, LossLine
from exadec.views.coefficients import OTHER, CoefficientMap
from exadec.views.manner import count_cases
from exadec.views.results import MAIN, Results, System
from exadec.views.swap_study import Study

# Okabe and Ito's colour-blind-safe colours, without the yellows, which are too pale on white.
_VARIANT_COLOURS = {"seq2seq": "#6b6b6b", "attexp": "#d55e00", "adadec": "#0072b2", "adadec+attexp": "#009e73"}
_FURTHER_COLOURS = ("#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255", "#999933")
# Paul Tol's muted colours. Ten hues are hard to tell apart without shapes, so every label has both.
_LABEL_COLOURS = (
    "#332288", "#cc6677", "#117733", "#ddaa33", "#4aa5d8", "#882255", "#44aa99", "#999933", "#aa4499", "#444444",
)  # fmt: skip
_LABEL_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_INK, _FAINT, _AXIS = "#333333", "#d9d9d9", "#999999"
_BARS = _VARIANT_COLOURS["adadec"]
_WIDE, _NARROW = 9.6, 4.4
"""Inches. A narrow figure is for the screen of a phone: letters stay as large as in a wide one."""
_LONG_NAME = 18
"""Characters of a name that leaves no room for a second one in a line of a narrow figure."""
_MOST_BINS = 8
_PER_BIN = 25

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and uses the reader's font
    "svg.hashsalt": "exadec",  # the same data give the same bytes
    "figure.facecolor": "none",  # transparent: the page sets the background
    "axes.facecolor": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _AXIS,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": _INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "text.color": _INK,
    "xtick.color": "#777777",
    "ytick.color": "#777777",
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Look:
    """How one system is drawn in every figure."""

    colour: str
    marker: str


def looks_of(systems: Sequence[System]) -> list[Look]:
    """A model has the same colour in all figures; a second run of the same model gets a different one."""
    further = iter(_FURTHER_COLOURS * len(systems))
    taken: set[str] = set()
    looks = []
    for index, system in enumerate(systems):
        colour = _VARIANT_COLOURS[system.run.config.model.variant]
        if colour in taken:
            colour = next(further)
        taken.add(colour)
        looks.append(Look(colour, _MARKERS[index % len(_MARKERS)]))
    return looks


def plot_learning_curves(systems: Sequence[System], narrow: bool = False) -> str:
    """Training loss, and the development set's -log p and score, against training steps."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_NARROW, 6.4) if narrow else (_WIDE, 3.5), layout="constrained")
        losses, scores = figure.subplots(*((2, 1) if narrow else (1, 2)))
        ends: list[_End] = []
        metrics = []
        for system, look in zip(systems, looks_of(systems), strict=True):
            events = system.run.metrics()
            lines = [event for event in events if isinstance(event, LossLine)]
            losses.plot([line.step for line in lines], [line.loss for line in lines], color=look.colour, linewidth=1.4)
            evaluations = [event for event in events if isinstance(event, Evaluated)]
            steps, values = [event.step for event in evaluations], [event.value for event in evaluations]
            metrics += [f"{event.metric}{event.sample and ', ' + event.sample}" for event in evaluations]
            surprises = [(event.step, event.surprise) for event in evaluations if event.surprise is not None]
            if surprises:
                losses.plot(*zip(*surprises, strict=True), "--", c=look.colour, lw=1.4, marker=look.marker, ms=3)
            scores.plot(steps, values, color=look.colour, marker=look.marker, markersize=4.5)
            if values:
                ends.append((values[-1], system.name, look))
                best = system.run.best_evaluation()
                scores.plot(best.step, best.value, "o", ms=11, mfc="none", mec=look.colour, mew=1.2)
        losses.set_yscale("log")
        losses.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        losses.yaxis.set_minor_locator(NullLocator())
        losses.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        losses.set_title("Loss in nats per piece (dev dashed)")
        scores.set_title(f"Development score ({'; '.join(dict.fromkeys(metrics)) or 'none yet'})")
        for axes in (losses, scores):
            axes.set_xlabel("training step")
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        _name_lines(figure, scores, ends, narrow)
        description = "Training loss, development loss and development score against training steps"
        return _render(figure, "curves", description, narrow)


def plot_similarity(systems: Sequence[System], narrow: bool = False) -> str:
    """Score against similarity of the exemplar, in bins with equally many instances."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_NARROW, 4.2) if narrow else (_WIDE, 3.8), layout="constrained")
        axes = figure.subplots()
        ends: list[_End] = []
        for system, look in zip(systems, looks_of(systems), strict=True):
            centres, means, lows, highs = bin_by_similarity(system)
            axes.fill_between(centres, lows, highs, color=look.colour, alpha=0.16, linewidth=0)
            axes.plot(centres, means, color=look.colour, marker=look.marker, markersize=5)
            ends.append((means[-1], system.name, look))
        axes.set_title(f"{MAIN} (band: 95% interval)")
        split = "\n" if narrow else " "
        axes.set_xlabel(f"cosine similarity between the source{split}and its exemplar's own source")
        _name_lines(figure, axes, ends, narrow)
        return _render(figure, "similarity", f"{MAIN} against the similarity of the exemplar", narrow)


def plot_coefficients(mapped: CoefficientMap, narrow: bool = False) -> str:
    """Each exemplar's λ as a point in the plane of the first two principal components."""
    with matplotlib.rc_context({**_STYLE, "axes.grid": False}):
        figure = Figure(figsize=(_NARROW, 5.2) if narrow else (_WIDE, 5.0), layout="constrained")
        axes = figure.subplots()
        points, outside = clamp(mapped.points)
        labels = mapped.labels or [""] * len(points)
        named = sorted(set(labels) - {OTHER}) + ([OTHER] if OTHER in labels else [])
        for index, label in enumerate(named):
            colour = _LABEL_COLOURS[index % len(_LABEL_COLOURS)] if mapped.labels else _VARIANT_COLOURS["adadec"]
            colour = "#bbbbbb" if label == OTHER else colour
            marker = _LABEL_MARKERS[index % len(_LABEL_MARKERS)]
            chosen = np.array([other == label for other in labels])
            near, far = points[chosen & ~outside], points[chosen & outside]
            look: dict[str, Any] = {"c": colour, "alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
            name = _legend_name(label, mapped.meaning)
            axes.scatter(near[:, 0], near[:, 1], s=30, marker=marker, label=name, **look)
            hollow: dict[str, Any] = {"c": "white", "linewidths": 1, "edgecolors": colour}
            axes.scatter(far[:, 0], far[:, 1], s=30, marker=marker, **hollow)
        if mapped.labels:
            _add_legend(figure, axes, narrow, title=mapped.meaning, markerscale=1.4)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        first, second = (f"{share:.0%} of the variance" for share in mapped.explained)
        axes.set_xlabel(f"first principal component ({first})")
        axes.set_ylabel(f"second principal component ({second})")
        return _render(figure, "coefficients", "Map of the coefficients of the exemplars", narrow)


def plot_manner(results: Results, narrow: bool = False) -> str:
    """Share of texts that have a trait, where the exemplar has it: systems as points, references as a bar."""
    looks = {system.name: look for system, look in zip(results.systems, looks_of(results.systems), strict=True)}
    rates = [{row.trait: row.if_exemplar_has for row in column.traits} for column in results.manner]
    shown = [trait for trait, rate in rates[0].items() if rate is not None and count_cases(rate)]
    with matplotlib.rc_context({**_STYLE, "axes.grid.axis": "x"}):
        height = 1.2 + 0.55 * max(len(shown), 1)
        figure = Figure(figsize=(_NARROW, height + 0.8) if narrow else (_WIDE, height), layout="constrained")
        axes = figure.subplots()
        offsets = np.linspace(0.28, -0.28, len(results.manner)) if len(results.manner) > 1 else [0.0]
        for column, by_trait, offset in zip(results.manner, rates, offsets, strict=True):
            for place, trait in enumerate(reversed(shown)):
                rate = by_trait[trait]
                if rate is None or not count_cases(rate):
                    continue
                look = Look(_INK, "|") if column.is_reference else looks[column.name]
                size = 13 if column.is_reference else 6
                axes.plot([rate.low, rate.high], [place + offset] * 2, color=look.colour, linewidth=1.2, alpha=0.6)
                label = column.name if place == 0 else None
                axes.plot(
                    rate.score.value, place + offset, look.marker, color=look.colour, ms=size, mew=2, ls="", label=label
                )
        axes.set_yticks(range(len(shown)), list(reversed(shown)))
        axes.set_xlim(-2, 102)
        split = "\n" if narrow else " "
        axes.set_xlabel(f"% of texts that have the trait,{split}where the exemplar has it")
        if shown:
            _add_legend(figure, axes, narrow)
        return _render(figure, "manner", "How often texts have a trait that their exemplar has", narrow)


def plot_swaps(study: Study) -> str:
    """Against the strength of guidance: how often the traits of the exemplar are followed, and what that costs."""
    with matplotlib.rc_context({**_STYLE, "figure.facecolor": "white"}):
        figure = Figure(figsize=(_WIDE, 4.0), layout="constrained")
        followed, costs = figure.subplots(1, 2)
        weights = [one.texts.guidance for one in study.strengths]
        traits: dict[str, list[Measured]] = {}
        for one in study.strengths:
            for row in one.swapped.traits:
                if row.if_exemplar_has is not None and count_cases(row.if_exemplar_has):
                    traits.setdefault(row.trait, []).append(row.if_exemplar_has)
        measures = {name: [one.swapped.measures[name] for one in study.strengths] for name in study.reference.measures}
        measures["ROUGE-1 recall"] = [one.recall for one in study.strengths]
        measures["Recall kept"] = [one.kept for one in study.strengths]
        measures["Content"] = [one.content for one in study.strengths]
        for axes, lines in ((followed, traits), (costs, measures)):
            for place, (name, values) in enumerate(lines.items()):
                colour, marker = _LABEL_COLOURS[place], _LABEL_MARKERS[place]
                lows, highs = [one.low for one in values], [one.high for one in values]
                axes.vlines(weights, lows, highs, color=colour, linewidth=1.2, alpha=0.5)
                axes.plot(weights, [one.score.value for one in values], marker=marker, c=colour, ms=5, label=name)
            axes.set_ylim(bottom=-2)
            axes.set_xticks(weights, [f"{weight:g}" for weight in weights])
            axes.set_xlabel("strength of guidance")
            if lines:
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=9)
        followed.set_title("% of texts with a trait that the exemplar has")
        costs.set_title("Manner, truth and content")
        return _render(figure, "swaps", "Traits followed, and what that costs, against the strength of guidance")


@dataclass(frozen=True)
class DrawnDifference:
    """A model against its baseline, for `plot_differences`."""

    label: str
    variant: str
    value: float
    low: float
    """Lower end of the interval."""
    high: float


def plot_differences(rows: Sequence[DrawnDifference], measure: str) -> str:
    """Differences to a baseline as dots with intervals, one row each, in their order from the top."""
    # A figure in a file has no page behind it, so its background is white.
    with matplotlib.rc_context({**_STYLE, "figure.facecolor": "white", "axes.grid.axis": "x"}):
        figure = Figure(figsize=(_WIDE, 1.1 + 0.32 * len(rows)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color=_AXIS, linewidth=1)
        for place, row in enumerate(rows):
            colour = _VARIANT_COLOURS[row.variant]
            axes.plot([row.low, row.high], [place, place], color=colour)
            axes.plot(row.value, place, "o", color=colour, markersize=6)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"{measure} minus that of the baseline, with 95% interval")
        return _render(figure, "differences", f"{measure} against the baseline")


def plot_histograms(panels: Sequence[tuple[str, Distribution | None]], description: str, narrow: bool = False) -> str:
    """Histograms side by side, or in a narrow figure one below the other.

    This is hand-written SVG: each bar has a tooltip, which matplotlib cannot make.
    """
    width, height, gap = (317 if narrow else 691), 150, 24
    across = width if narrow else (width - gap * (len(panels) - 1)) / len(panels)
    drawn = "".join(
        f'<g transform="translate({0 if narrow else number * (across + gap):.1f} {number * height if narrow else 0})">'
        f"{_draw_panel(title, shape, across)}</g>"
        for number, (title, shape) in enumerate(panels)
    )
    return (
        f'<svg role="img" aria-label="{escape(description)}" '
        f'viewBox="0 0 {width} {height * len(panels) if narrow else height}" '
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
            f'fill="{_BARS}"><title>{label}</title></rect>'
        )
    parts.append(f'<path d="M0 {bottom}H{across:.1f}" stroke="{_AXIS}"/>')
    for place, anchor, edge in ((0.0, "start", shape.edges[0]), (across, "end", shape.edges[-1])):
        parts.append(f'<text x="{place:.1f}" y="{bottom + 13}" text-anchor="{anchor}">{edge:g}</text>')
    return "".join(parts)


def bin_by_similarity(system: System) -> tuple[list[float], list[float], list[float], list[float]]:
    """Mean similarity, mean score and the ends of its interval, for bins with equally many instances."""
    similarities = np.array([output.similarity for output in system.outputs])
    order = np.argsort(similarities, kind="stable")
    count = int(np.clip(len(order) // _PER_BIN, 1, _MOST_BINS))
    centres, means, lows, highs = [], [], [], []
    for chosen in np.array_split(order, count):
        score = mean_score(MAIN, system.rouge_l.per_instance[chosen], system.rouge_l.signature)
        low, high = confidence_interval(score)
        centres.append(float(similarities[chosen].mean()))
        means.append(score.value)
        lows.append(low)
        highs.append(high)
    return centres, means, lows, highs


def _add_legend(figure: Figure, axes: Axes, narrow: bool, **options: Any) -> None:
    """To the right of the axes, or below them in a narrow figure."""
    if narrow:
        names = axes.get_legend_handles_labels()[1]
        columns = 1 if max(map(len, names)) > _LONG_NAME else 2
        legend = figure.legend(loc="outside lower center", ncols=columns, frameon=False, **options)
    else:
        legend = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, **options)
    legend.set_alignment("left")


_End = tuple[float, str, Look]
"""The last value of a line, the line's name, and how it is drawn"""


def _name_lines(figure: Figure, axes: Axes, ends: Sequence[_End], narrow: bool) -> None:
    """Write each line's name at its right end; a narrow figure has no room for that, and names them below."""
    if not narrow:
        _label_ends(axes, ends)
    elif ends:
        handles = [Line2D([], [], color=look.colour, marker=look.marker, label=name) for _, name, look in ends]
        columns = 1 if max(len(name) for _, name, _ in ends) > _LONG_NAME else 2
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def _label_ends(axes: Axes, ends: Sequence[_End]) -> None:
    """Names are moved up or down so that they do not overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ordered = sorted(ends, key=lambda end: end[:2])
    wanted = [(value - low) / (high - low) for value, _, _ in ordered]
    for place, (_, name, look) in zip(spread_apart(wanted, gap=0.085), ordered, strict=True):
        axes.text(
            1.02, place, name, c=look.colour, transform=axes.transAxes, va="center", fontweight="bold", clip_on=False
        )


def spread_apart(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places in 0 to 1, moved as little as possible to keep them a gap apart."""
    if not places:
        return []
    gap = min(gap, 1 / len(places))
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap) if spread else place)
    # Pushing upwards may move places past the top: push them back down from there.
    ceiling = 1.0
    for index in range(len(spread) - 1, -1, -1):
        spread[index] = min(spread[index], ceiling)
        ceiling = spread[index] - gap
    return spread


def _legend_name(label: str, meaning: str) -> str:
    """A group's name as it is, though a legend leaves out what begins with an underscore; a style's in words."""
    return re.sub("^_", " _", label) if meaning == "group" else label.replace("_", " ")


def _render(figure: Figure, name: str, description: str, narrow: bool = False) -> str:
    """SVG without its header. Ids get the figure's name as a prefix, because several figures share a page."""
    name = f"{name}-narrow" if narrow else name
    buffer = io.StringIO()
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # names of runs and groups are the user's: $ is a $
    with warnings.catch_warnings():
        # The page's fonts draw the text, not matplotlib's, so it does not matter which characters these have.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg[svg.index("<svg") :])
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1).strip()
