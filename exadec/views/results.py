"""Systems side by side.

In: run folders with the outputs of one split. Out: `Results`: each score with its interval, and tables of them.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from exadec.corpus.readers import KnownStyles, known_styles
from exadec.errors import InputError
from exadec.model.backends.choice import pick_device
from exadec.model.seq2seq import Seq2seq
from exadec.textmetrics import Comparison, MeanScore, Measured, compare
from exadec.training.checkpoint import Run, open_corpus, open_run
from exadec.training.evaluation import Output, measure_outputs, outputs_path, read_outputs
from exadec.views.fitting import Fitting
from exadec.views.manner import Column, Written, column_to_json, compare_manner

VARIANT_NAMES = {"seq2seq": "Seq2seq", "attexp": "AttExp", "adadec": "AdaDec", "adadec+attexp": "AdaDec+AttExp"}
MAIN = "ROUGE-L"
"""The score that systems are compared by."""
STYLE = "style"
"""The name `score_style` gives its score."""
FACTS = "Facts"
"""The name of the score that counts texts all of whose facts the source licenses."""
HEADINGS = {STYLE: "Style %", FACTS: "Facts %"}
COPIED = "Copied exemplar"
"""The name of the row in which the exemplar itself is the output."""


@dataclass(frozen=True)
class System:
    """One run, and how good its outputs are."""

    name: str
    """The paper's name of the model, followed by the folder's name if two runs would have the same name."""
    run: Run
    outputs: list[Output]
    measures: dict[str, Measured]
    """By the score's name."""
    difference: Comparison | None
    """In ROUGE-L, to the first system; None for the first system itself."""
    device: str | None = None
    """Where the model computes; by default a GPU if there is one."""

    @cached_property
    def model(self) -> Seq2seq:
        """The run's model with its best weights, loaded lazily and cached."""
        return self.run.load_model(device=self.device)

    @property
    def rouge_l(self) -> MeanScore:
        score = self.measures[MAIN].score
        assert isinstance(score, MeanScore)
        return score


@dataclass(frozen=True)
class Copying:
    """The exemplar itself, scored as if it were the output: what a system has to beat."""

    name: str
    measures: dict[str, Measured]
    """By the score's name, as for systems. An instance without an exemplar scores as an empty text."""
    difference: Comparison
    """In ROUGE-L, to the first system."""


@dataclass(frozen=True)
class MajorityStyle:
    """The trivial way to follow styles: write everything in the most frequent house style."""

    style: str
    """The most frequent house style among the references."""
    among_exemplars: float
    """Percentage of exemplars in this style: the style-following rate of a system that always writes in it."""


@dataclass(frozen=True)
class Results:
    """All systems on the same instances. The first system is the baseline."""

    split: str
    systems: list[System]
    majority: MajorityStyle | None
    """For a corpus with known styles only."""
    styles: KnownStyles | None
    """The corpus's styles, if they are known."""
    manner: list[Column]
    """Manner and truth of each system and of the references; empty if no output has an exemplar."""
    copying: list[Copying]
    """One for all systems, unless they have different exemplars; empty if no output has an exemplar."""

    @property
    def baseline(self) -> System:
        return self.systems[0]

    @property
    def instances(self) -> int:
        return len(self.baseline.outputs)

    @property
    def scored(self) -> list[System | Copying]:
        """The rows of a table of scores."""
        return [*self.systems, *self.copying]

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each score of each system: what a DataFrame takes."""
        return [
            {
                "model": system.name,
                "variant": system.run.config.model.variant,
                "run": str(system.run.folder),
                "split": self.split,
                **measured.to_row(),
            }
            for system in self.systems
            for measured in system.measures.values()
        ]

    def to_json(self) -> dict[str, Any]:
        """Raw numbers, with signatures that say how they were computed."""
        return {
            "split": self.split,
            "instances": self.instances,
            "baseline": self.baseline.name,
            "interval": "95%, percentile bootstrap over instances",
            "majority_style": None if self.majority is None else asdict(self.majority),
            "systems": [_system_to_json(system) for system in self.systems],
            "copying": [{"name": one.name, **_scores_to_json(one.measures, one.difference)} for one in self.copying],
            "manner": [column_to_json(column) for column in self.manner],
        }


def compare_runs(
    folders: Sequence[Path | str] | Path | str,
    split: str = "test",
    corpus: Path | str | None = None,
    device: str | None = None,
) -> Results:
    """Score the outputs of runs on one split; an error if the runs have different instances.

    `evaluate` writes the outputs. `pandas.DataFrame(exadec.compare_runs(runs).to_rows())` is a table of the scores.
    `corpus` is the folder of the runs' corpus, if it is not where they say. `device` is where a report computes.
    """
    if isinstance(folders, str | Path):
        folders = [folders]
    if not folders:
        raise InputError("there is nothing to compare: name at least one run.")
    pick_device(device)  # or the reason why not, before anything is scored
    runs = [open_run(Path(folder), corpus=None if corpus is None else Path(corpus)) for folder in folders]
    for run in runs if corpus is not None else ():
        open_corpus(run)  # a report is made without a corpus, too; but one that was named must be the runs' own
    runs.sort(key=lambda run: run.config.model.variant != "seq2seq")  # stable: a plain model is the baseline
    outputs = [_read_split(run, split) for run in runs]
    for run, others in zip(runs[1:], outputs[1:], strict=True):
        _refuse_other_instances(runs[0], outputs[0], run, others)
    styles = _shared_styles(runs)
    trained_for = [run.config.training.metric for run in runs]
    systems: list[System] = []
    for run, name, texts in zip(runs, display_names(runs), outputs, strict=True):
        measures = measure_outputs(texts, run, trained_for, styles)
        baseline = systems[0] if systems else None
        difference = compare(measures[MAIN].score, baseline.measures[MAIN].score) if baseline else None
        systems.append(System(name, run, texts, measures, difference, device))
    majority = None if styles is None else find_majority_style(outputs[0], styles)
    copying = _score_copying(systems, trained_for, styles)
    return Results(split, systems, majority, styles, _compare_manner(systems), copying)


def _score_copying(systems: Sequence[System], trained_for: Sequence[str], styles: KnownStyles | None) -> list[Copying]:
    """A row for each different list of exemplars."""
    groups: dict[tuple[str | None, ...], list[System]] = {}
    for system in systems:
        groups.setdefault(tuple(output.exemplar for output in system.outputs), []).append(system)
    rows = []
    for exemplars, members in groups.items():
        if not any(exemplars):
            continue
        named = f"{COPIED} of {', '.join(member.name for member in members)}" if len(groups) > 1 else COPIED
        copies = [replace(output, text=output.exemplar or "") for output in members[0].outputs]
        measures = measure_outputs(copies, members[0].run, trained_for, styles)
        rows.append(Copying(named, measures, compare(measures[MAIN].score, systems[0].measures[MAIN].score)))
    return rows


def _compare_manner(systems: Sequence[System]) -> list[Column]:
    written = [
        Written(system.name, [o.text for o in system.outputs], [o.exemplar for o in system.outputs])
        for system in systems
    ]
    if not any(any(system.exemplars) for system in written):
        return []
    first = systems[0].outputs
    return compare_manner(written, [o.references[0] for o in first], [o.source for o in first])


def _shared_styles(runs: Sequence[Run]) -> KnownStyles | None:
    """The known styles, if they are the same for all runs."""
    first, *others = [known_styles(run.config.corpus) for run in runs]
    return first if all(other is first for other in others) else None


def display_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: its model, with as much of its folder as needed to tell runs apart."""
    names = [VARIANT_NAMES[run.config.model.variant] for run in runs]
    folders = [Path(os.path.abspath(run.folder)).parts[1:] for run in runs]
    chosen = []
    for index, name in enumerate(names):
        alike = [folder for other, folder in zip(names, folders, strict=True) if other == name]
        chosen.append(name if len(alike) == 1 else f"{name} ({_tell_apart(folders[index], alike)})")
    return chosen


def _tell_apart(folder: tuple[str, ...], folders: Sequence[tuple[str, ...]]) -> str:
    """The shortest end of a path that none of the others has."""
    for depth in range(1, len(folder) + 1):
        if sum(other[-depth:] == folder[-depth:] for other in folders) == 1:
            return "/".join(folder[-depth:])
    return "/".join(folder[-1:])  # the same run twice


def find_majority_style(outputs: Sequence[Output], styles: KnownStyles) -> MajorityStyle | None:
    """The most frequent style among references; None when no reference has one."""
    counts = Counter(filter(None, (styles.style_of(output.references[0]) for output in outputs)))
    if not counts:
        return None
    style = min(counts, key=lambda one: (-counts[one], one))
    same = sum(output.exemplar is not None and styles.style_of(output.exemplar) == style for output in outputs)
    return MajorityStyle(style, 100 * same / len(outputs))


def _read_split(run: Run, split: str) -> list[Output]:
    path = outputs_path(run.folder, split)
    outputs = read_outputs(path)
    if not outputs:
        raise InputError(f"{path}: the file holds no outputs.")
    return outputs


def _refuse_other_instances(run: Run, outputs: Sequence[Output], other: Run, others: Sequence[Output]) -> None:
    if len(outputs) != len(others):
        raise InputError(
            f"{other.folder}: has outputs for {len(others)} instances, but {run.folder} for {len(outputs)}; "
            "only runs on the same instances can be compared."
        )
    for number, (one, another) in enumerate(zip(outputs, others, strict=True), start=1):
        # Records without a uid are numbered, so two data sets may share all uids. Compare references, too.
        if (one.uid, one.references) != (another.uid, another.references):
            raise InputError(
                f"{other.folder}: output {number} is of instance {another.uid!r}, but in {run.folder} of {one.uid!r} "
                "or with other references; only runs on the same instances can be compared."
            )


def _system_to_json(system: System) -> dict[str, Any]:
    return {
        "name": system.name,
        "variant": system.run.config.model.variant,
        "folder": str(system.run.folder),
        **_scores_to_json(system.measures, system.difference),
    }


def _scores_to_json(measures: Mapping[str, Measured], difference: Comparison | None) -> dict[str, Any]:
    return {
        "measures": {
            name: {
                "value": measured.score.value,
                "low": measured.low,
                "high": measured.high,
                "signature": measured.score.signature,
            }
            for name, measured in measures.items()
        },
        "difference": None if difference is None else {"measure": MAIN, **asdict(difference)},
    }


def heading(measure: str) -> str:
    """The heading of a score's column."""
    return HEADINGS.get(measure, measure)


def format_range(low: float, high: float) -> str:
    """An interval of scores, such as `33.4-35.0`, with an en dash."""
    return f"{low:.1f}–{high:.1f}"  # noqa: RUF001


def format_difference(value: float, digits: int = 1) -> str:
    """With its sign, using a true minus sign."""
    return f"{value:+.{digits}f}".replace("-", "−")  # noqa: RUF001


def format_p_value(comparison: Comparison) -> str:
    return "p < 0.001" if comparison.p_value < 0.001 else f"p = {comparison.p_value:.3f}"


def format_difference_range(comparison: Comparison) -> str:
    """Plus signs are left out."""
    ends = (format_difference(comparison.low), format_difference(comparison.high))
    return " to ".join(end.removeprefix("+") for end in ends)


def render_table(results: Results) -> Fitting:
    """For a terminal: each score above its interval."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("Model", overflow="fold", min_width=14)
    shown = _fit_measures(list(results.baseline.measures))
    for measure in shown:
        table.add_column(heading(measure), justify="right", no_wrap=True)
    if len(results.systems) > 1:
        table.add_column(f"{MAIN}\nvs baseline", justify="right", no_wrap=True)
    for row in results.scored:
        adaptive = isinstance(row, System) and row.run.config.model.adaptive
        cells = [Text(row.name, "bold" if adaptive else "")]
        for measured in (row.measures[measure] for measure in shown):
            below = Text(format_range(measured.low, measured.high).replace("100.0", "100"), "dim")  # to save room
            cells.append(Text(f"{measured.score.value:.1f}\n", "bold").append_text(below))
        if len(results.systems) > 1:
            cells.append(_difference_cell(row.difference, with_range=isinstance(row, System)))
        table.add_row(*cells)
    table.caption = "\n" + _describe_table(results)
    table.caption_justify = "left"
    return Fitting(table)


def _fit_measures(measures: list[str]) -> list[str]:
    """Those that fit into 80 columns: with a style and facts, ROUGE-2 is left to the report."""
    return [name for name in measures if name != "ROUGE-2"] if {STYLE, FACTS} <= set(measures) else measures


def _difference_cell(comparison: Comparison | None, with_range: bool) -> Text:
    if comparison is None:
        return Text("baseline", "dim")
    below = format_p_value(comparison)
    if with_range:  # two minus signs more, as copies often have, and a table of five scores is too wide for 80 columns
        below = f"{format_difference_range(comparison)}\n{below}"
    return Text(f"{format_difference(comparison.difference)}\n", "bold").append(below, "dim")


def _describe_table(results: Results) -> str:
    lines = [f"{results.instances} {results.split} instances; below each score is its 95% bootstrap interval."]
    if FACTS in results.baseline.measures:
        lines.append("Facts: texts of which the source licenses every number, date, name and quoted word.")
    if results.copying:
        lines.append(f"{COPIED}: the exemplar itself, scored as if it were the output.")
    if results.majority is not None:
        lines.append(describe_majority(results.majority))
    return "\n".join(lines)


def describe_majority(majority: MajorityStyle) -> str:
    """A sentence on the reference line of the style column."""
    named = majority.style.replace("_", " ")
    return (
        f"Always writing in the majority style ({named}) would follow {majority.among_exemplars:.1f}% of the exemplars."
    )
