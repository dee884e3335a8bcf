"""Tables and figures of an experiment.

In: a `Plan` and its results. Out: a Markdown page with a table for each of the plan's, and a figure beside each.

The same results give the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from exadec.errors import InputError
from exadec.experiment.bands import divide_by_similarity
from exadec.experiment.intervals import Difference, Sampled, compare_over_seeds
from exadec.experiment.plan import Plan, Row, TablePlan, baseline_of, describe_row, list_rows, make_trial
from exadec.experiment.results import FURTHER_INPUTS, Measure, Result, read_results, unpack
from exadec.files import write_text
from exadec.textmetrics.bootstrap import RESAMPLES
from exadec.textmetrics.metrics import METRICS
from exadec.views.plots import DrawnDifference, plot_differences
from exadec.views.results import VARIANT_NAMES, format_difference, heading

PAGE = "tables.md"
_HEADINGS = {"corpus": "Corpus", "preset": "Preset", "variant": "Model", "policy": "Exemplars"}
_HEADINGS |= {"setting": "Setting", "search": "Search"}


@dataclass(frozen=True)
class Filled:
    """A row with the results of its seeds."""

    row: Row
    results: list[Result]
    wanted: int
    """Number of seeds in the plan"""

    def values(self, metric: str) -> list[float]:
        """For each seed; none if a seed does not have it yet."""
        scores = [result.scores.get(metric) for result in self.results]
        return [] if None in scores else [score.value for score in scores if score is not None]

    def mean(self, metric: str) -> float | None:
        values = self.values(metric)
        return fmean(values) if values else None

    def surprises(self, split: str) -> list[float]:
        """-log p of a text in nats, for each seed. Unlike that of a piece, it compares between segmentations."""
        return [result.surprise[split] * result.pieces[split] for result in self.results]


def write_tables(plan: Plan, title: str, command: str) -> Path:
    """Write the page and its figures into the folder of results. `command` is what makes them again."""
    folder = Path(plan.results)
    results = read_results(folder)
    if not results:
        raise InputError(f"{folder}: there are no results yet; run the experiment first.")
    parts = [f"# {title}\n\nMade by `{command}`; do not edit.\n"]
    used: list[Result] = []
    for name, table in plan.tables.items():
        filled = fill_rows(plan, table, results)
        used += [result for row in filled for result in row.results]
        parts.append(render_table(plan, name, table, filled))
        if table.bands:
            parts.append(render_bands(plan, table, filled))
        figure = draw_table(plan, table, filled)
        path = folder / f"{name}.svg"
        if figure is None:
            path.unlink(missing_ok=True)
        else:
            write_text(path, figure + "\n")
            parts.append(f"![{name}: differences from the baseline, with 95% intervals]({path.name})\n")
    parts.append(_render_notes(plan, used))
    write_text(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def fill_rows(plan: Plan, table: TablePlan, results: dict[str, Result]) -> list[Filled]:
    """Each row of a table with the results that there are, on the same data: those that most of its seeds have."""
    filled = []
    for row in list_rows(plan, table):
        keys = dict.fromkeys(make_trial(plan, row, seed).key for seed in table.seeds)
        found = [results[key] for key in keys if key in results]
        data = Counter((_hash_of_data(result), result.references) for result in found).most_common(1)
        same = [result for result in found if (_hash_of_data(result), result.references) == data[0][0]]
        filled.append(Filled(row, same, len(keys)))
    return filled


def find_difference(filled: Filled, others: Sequence[Filled], table: TablePlan, metric: str) -> Difference | None:
    """To the row's baseline; None if there is nothing to compare with."""
    baseline = find_baseline(filled, others, table)
    if baseline is None:
        return None
    ours, theirs = filled.results, baseline.results
    measures = [one.scores.get(metric) for one in (*ours, *theirs)]
    if len({measure and _without_version(measure.signature) for measure in measures}) > 1 or None in measures:
        return None
    if replace(filled.row, search=baseline.row.search) == baseline.row:  # two searches: of the runs that have both
        ours, theirs = _of_same_settings(ours, theirs), _of_same_settings(theirs, ours)
        if not ours:
            return None
    # A run that was trained again for another search may have other weights. Then it has another -log p.
    runs = ([(result.settings, result.surprise) for result in some] for some in (ours, theirs))
    return compare_over_seeds(_sample(ours, metric), _sample(theirs, metric), same_runs=next(runs) == next(runs))


def _without_version(signature: str) -> str:
    """What is computed is said by the rest; results of several versions of exadec belong in one table."""
    return "|".join(part for part in signature.split("|") if not part.startswith("v:"))


def _of_same_settings(results: Sequence[Result], others: Sequence[Result]) -> list[Result]:
    return [result for result in results if any(result.settings == other.settings for other in others)]


def find_baseline(filled: Filled, others: Sequence[Filled], table: TablePlan) -> Filled | None:
    """A row's baseline. None for a baseline itself, without results, and if the data are not the same.

    Rows of two corpora may have other training data, but not other tests.
    """
    wanted = baseline_of(filled.row, table)
    if wanted is None or wanted == filled.row:
        return None
    baseline = next((other for other in others if other.row == wanted), None)
    if baseline is None or not filled.results or not baseline.results:
        return None
    every = (*filled.results, *baseline.results)
    together = [every] if filled.row.corpus == baseline.row.corpus else [filled.results, baseline.results]
    same_training = all(len({_hash_of_data(result) for result in results}) == 1 for results in together)
    return baseline if same_training and len({result.references for result in every}) == 1 else None


def _hash_of_data(result: Result) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in result.inputs.items() if name not in FURTHER_INPUTS)


def _sample(results: Sequence[Result], metric: str) -> Sampled:
    measures = [result.scores[metric] for result in results]
    values = np.array([measure.value for measure in measures])
    return Sampled(values, np.stack([unpack(measure.resampled) for measure in measures]))


def render_table(plan: Plan, name: str, table: TablePlan, filled: Sequence[Filled]) -> str:
    """A heading and a Markdown table."""
    rows = [one.row for one in filled]
    metrics = _metrics(plan, filled)
    axes = list(describe_row(rows[0], rows))
    compares = baseline_of(rows[0], table) is not None
    columns = [_HEADINGS[axis] for axis in axes] + [_metric_heading(metric, filled) for metric in metrics]
    columns += [f"{_metric_heading(plan.main, filled)} against baseline"] * compares
    columns += ["−log p dev", "−log p test", "Parameters", "Seeds", "Minutes"]  # noqa: RUF001
    lines = [columns, ["---"] * len(axes) + ["---:"] * (len(columns) - len(axes))]
    best = _find_best(plan, metrics, filled)
    usual = {metric: _find_usual_definition(metric, filled) for metric in metrics}
    for number, one in enumerate(filled):
        cells = [_label(axis, value) for axis, value in describe_row(one.row, rows).items()]
        for metric in metrics:
            mark = " ‡" if _definitions(metric, one) - {usual[metric]} else ""
            cells.append(_bold(_with_spread(one.values(metric)), number in best[metric]) + mark)
        if compares:
            cells.append(_difference_cell(one, filled, table, plan.main))
        cells += [_bold(_surprise_cell(one, split), number in best[split]) for split in ("valid", "test")]
        lines.append([*cells, *_cost_cells(one)])
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"## {name}\n\n{body}\n"


def render_bands(plan: Plan, table: TablePlan, filled: Sequence[Filled]) -> str:
    """A Markdown table of all rows with exemplars, each in bands of their similarity."""
    rows = [one.row for one in filled]
    axes = list(describe_row(rows[0], rows))
    heading_of_main = _metric_heading(plan.main, filled)
    columns = [_HEADINGS[axis] for axis in axes] + ["Similarity", "Instances", "Copied exemplar", "Baseline"]
    lines = [[*columns, heading_of_main, "Difference"], ["---"] * (len(axes) + 1) + ["---:"] * 5]
    for one in filled:
        baseline = find_baseline(one, filled, table)
        labels = [_label(axis, value) for axis, value in describe_row(one.row, rows).items()]
        for band in divide_by_similarity(one.results, baseline.results, plan.main) if baseline else ():
            lines.append(
                [
                    *labels,
                    f"{band.low:.2f} to {band.high:.2f}",
                    f"{band.instances:,}",
                    *(f"{value:.2f}" for value in (band.copied, band.baseline, band.score)),
                    f"{format_difference(band.score - band.baseline, 2)} ({_show_ends(band.difference)}) †",
                ]
            )
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"### {heading_of_main} by similarity of the exemplar\n\n{body}\n"


def draw_table(plan: Plan, table: TablePlan, filled: Sequence[Filled]) -> str | None:
    """The differences to the baseline as SVG; None if there are none."""
    rows = [one.row for one in filled]
    drawn = []
    for one in filled:
        difference = find_difference(one, filled, table, plan.main)
        if difference is not None:
            label = ", ".join(_label(axis, value) for axis, value in describe_row(one.row, rows).items())
            drawn.append(DrawnDifference(label, one.row.variant, difference.value, difference.low, difference.high))
    return plot_differences(drawn, _metric_heading(plan.main, filled)) if drawn else None


def _metrics(plan: Plan, filled: Sequence[Filled]) -> list[str]:
    has_style = any("style" in result.scores for one in filled for result in one.results)
    return [*plan.metrics, *["style"] * has_style]


def _metric_heading(metric: str, filled: Sequence[Filled]) -> str:
    found = [result.scores[metric] for one in filled for result in one.results if metric in result.scores]
    return heading(found[0].heading) if found else metric


def _definitions(metric: str, one: Filled) -> set[str]:
    """How the scores of a row were computed."""
    return {_without_version(result.scores[metric].signature) for result in one.results if metric in result.scores}


def _find_usual_definition(metric: str, filled: Sequence[Filled]) -> str | None:
    """That of most rows."""
    counts = Counter(definition for one in filled for definition in _definitions(metric, one))
    return max(counts, key=lambda definition: (counts[definition], definition), default=None)


def _find_best(plan: Plan, metrics: Sequence[str], filled: Sequence[Filled]) -> dict[str, set[int]]:
    """Column -> the rows that are best on their corpus. Scores that have no best value do not take part."""
    best: dict[str, set[int]] = {column: set() for column in (*metrics, "valid", "test")}
    for corpus in {one.row.corpus for one in filled}:
        numbers = [number for number, one in enumerate(filled) if one.row.corpus == corpus and one.results]
        if len(numbers) < 2:
            continue
        for metric in metrics:
            if metric in (plan.main, "style") or METRICS[metric].steers_training:
                values = {number: filled[number].mean(metric) for number in numbers}
                known = {number: value for number, value in values.items() if value is not None}
                falls = metric != "style" and METRICS[metric].lower_is_better
                best[metric] |= _find_extreme(known, min if falls else max)
        for split in ("valid", "test"):
            surprises = {number: fmean(filled[number].surprises(split)) for number in numbers}
            best[split] |= _find_extreme(surprises, min)
    return best


def _find_extreme(values: dict[int, float], extreme: Callable[[Iterable[float]], float]) -> set[int]:
    """The numbers with the extreme value; none if all values are equal."""
    if len(set(values.values())) < 2:
        return set()
    return {number for number, value in values.items() if value == extreme(values.values())}


def _label(axis: str, value: str) -> str:
    return VARIANT_NAMES[value] if axis == "variant" else value


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def _surprise_cell(one: Filled, split: str) -> str:
    return _with_spread(one.surprises(split))


def _with_spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds."""
    if not values:
        return "not yet"
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}"


def _difference_cell(one: Filled, others: Sequence[Filled], table: TablePlan, metric: str) -> str:
    if baseline_of(one.row, table) == one.row:
        return "baseline"
    difference = find_difference(one, others, table, metric)
    if difference is None:
        return "not comparable" if one.results else "not yet"
    return show_difference(difference)


def show_difference(difference: Difference) -> str:
    """With its interval; † marks one that covers instances only."""
    ends = _show_ends((difference.low, difference.high))
    return f"{format_difference(difference.value, 2)} ({ends}){'' if difference.covers_seeds else ' †'}"


def _show_ends(ends: tuple[float, float]) -> str:
    return " to ".join(format_difference(end, 2).removeprefix("+") for end in ends)


def _cost_cells(one: Filled) -> list[str]:
    seeds = str(len(one.results)) if len(one.results) == one.wanted else f"{len(one.results)} of {one.wanted}"
    if not one.results:
        return ["", seeds, ""]
    minutes = fmean(result.seconds["training"] for result in one.results) / 60
    return [f"{one.results[0].parameters:,}", seeds, f"{minutes:.1f}"]


def _render_notes(plan: Plan, used: Sequence[Result]) -> str:
    """How to read the tables, and how the numbers were made."""
    lines = [
        "## How to read this",
        "",
        "- Scores and −log p are means over seeds ± the standard deviation over seeds.",  # noqa: RUF001
        "- −log p is in nats per target text. It compares only between corpora with the same texts.",  # noqa: RUF001
        "- Bold: the best mean on its corpus.",
        "- *Against baseline* is the difference of means with a 95% interval. It covers which test instances were "
        f"drawn (paired, by {RESAMPLES:,} bootstrap resamples of the means over seeds) and which seeds were (by "
        "Student's t: for each model by itself, or for both together if they are the same runs with two searches). It "
        "does not cover other training data or settings.",
        "- † marks an interval that covers instances only: one of the two models has a single seed, or it is one band.",
        "- ‡ marks a score that some seeds have by another definition than the rest of the column: see the signatures.",
        "- *Seeds*: how many the row has, and of how many if not all. Those on other data than most are left out.",
        "- *not comparable*: the baseline is missing, or has other data, or a score of another signature.",
        "- *Minutes* is the training time of a run, without decoding. Runs may have shared their device.",
        "",
        "## How it was made",
        "",
        f"- Devices: {_join(result.device for result in used)}.",
    ]
    for package in ("exadec", "torch", "code"):
        found = [result.versions[package] for result in used if package in result.versions]
        if found:
            lines.append(f"- {package}: {_join(found)}.")
    for metric in (*plan.scores, "style"):
        measures: list[Measure] = [result.scores[metric] for result in used if metric in result.scores]
        if measures:
            lines.append(f"- {heading(measures[0].heading)}: {_join(f'`{one.signature}`' for one in measures)}.")
    sizes = {result.references: result.instances for result in used}
    lines.append(f"- Test instances: {', '.join(f'{size:,}' for size in sorted(sizes.values()))}.")
    return "\n".join(lines) + "\n"


def _join(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts)))
