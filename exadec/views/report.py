"""The report: one self-contained HTML file.

In: results of runs, exemplar swaps. Out: a page with table, figures, swaps, samples, and how to reproduce it.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np

from exadec.api import Writer
from exadec.bank import LITTLE, clamp
from exadec.corpus.naming import name_data_set
from exadec.errors import InputError
from exadec.files import make_folder_for, write_text
from exadec.model.seq2seq import count_parameters
from exadec.textmetrics import Comparison, Measured
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.events import Evaluated
from exadec.views.cards import sample_cards, swap_card
from exadec.views.coefficients import CoefficientMap, choose_adaptive, map_coefficients
from exadec.views.faults import choose_worst
from exadec.views.inspection import inspect_corpus
from exadec.views.manner import count_cases
from exadec.views.page import (
    details,
    figure_block,
    inspection_block,
    manner_block,
    plain_table,
    score_table,
)
from exadec.views.plots import plot_coefficients, plot_learning_curves, plot_similarity
from exadec.views.provenance import describe_days, hide_paths, name_data_sets, show_settings
from exadec.views.results import (
    COPIED,
    MAIN,
    STYLE,
    Results,
    System,
    describe_majority,
    format_difference_range,
)
from exadec.views.swap import Swap, pick_swaps

SAMPLES = 8
_SEED = 2019

_EXPLANATION = (
    "Each system writes a text from a source, which says what to say. An exemplar, {found}, shows how to say it. "
    "Seq2seq never sees the exemplar; AttExp attends to it and can copy its words; AdaDec builds the weights of its "
    "decoder from it, by way of a vector of coefficients λ; AdaDec+AttExp does both."
)
_SEVERAL = " A system that reads several exemplars is judged by the nearest of them, unless we say otherwise."
_TICKS = " A tick says that an output is in its exemplar’s house style, a cross that it is in another."


def choose_swaps(results: Results) -> list[Swap]:
    """Swaps by the adaptive system, whose model the report loads anyway; none if no system adapts."""
    system = choose_adaptive(results.systems)
    return [] if system is None else pick_swaps(Writer(system.run, system.model))


def write_report(results: Results, out: Path, swaps: Sequence[Swap] = ()) -> Path:
    """Write the report on runs, atomically, and return its path."""
    page = render_report(results, swaps)
    out = Path(out)
    make_folder_for(out)
    write_text(out, page)
    return out


def render_report(results: Results, swaps: Sequence[Swap]) -> str:
    """The page as HTML text."""
    mapped, note = _try_map(results)
    body = "\n".join(
        [
            _opening(results),
            _findings(results, mapped),
            _manner(results),
            _figures(results, mapped, note),
            _swaps(swaps),
            _samples(results),
            _worst(results),
            _data(results),
            _recipe(results),
        ]
    )
    static = resources.files("exadec.views") / "static"
    template = Template((static / "report.html").read_text(encoding="utf-8"))
    css = (static / "report.css").read_text(encoding="utf-8")
    title = f"exadec report: {name_data_sets([system.run for system in results.systems])}"
    return template.substitute(title=escape(title), css=css, body=body)


def _opening(results: Results) -> str:
    runs = [system.run for system in results.systems]
    systems = "1 system" if len(runs) == 1 else f"{len(runs)} systems"
    facts = (
        f"data set: {name_data_sets(runs)} · {systems}, {results.instances:,} {results.split} instances · "
        f"{describe_days(runs)}"
    )
    about = "" if results.styles is None else f"<p>{escape(results.styles.about)}</p>"
    return (
        "<h1>What the exemplar is worth</h1>"
        f'<p class="facts">exadec report · {escape(facts)}</p><p class="lead">{_explain(runs)}</p>{about}'
    )


def _explain(runs: Sequence[Run]) -> str:
    readers = [run.config for run in runs if run.config.model.reads_exemplars]
    nearest = all(config.exemplars.policy == "nearest" for config in readers)
    found = "the target of the most similar training source" if nearest else "the target of another training instance"
    several = any(config.model.exemplars_read > 1 for config in readers)
    return _EXPLANATION.format(found=found) + (_SEVERAL if several else "")


def _findings(results: Results, mapped: CoefficientMap | None) -> str:
    found = [_describe_difference(system, results.baseline) for system in results.systems if system.difference]
    found += _describe_style(results)
    if mapped is not None and mapped.agreement is not None and mapped.chance is not None:
        found.append(
            f"{mapped.agreement:.1f}% of exemplars have the same {mapped.meaning} as the exemplar whose coefficients λ "
            f"are nearest; by chance it would be {mapped.chance:.1f}%."
        )
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in found)
    listed = f'<ul class="findings">{items}</ul>' if found else ""
    reading = (
        "Scores run from 0 to 100; higher is better. Under each is its 95% interval: where we would expect the score "
        "if the test instances were drawn again. Differences and p-values come from a paired bootstrap. All of this "
        "covers chance in the instances, not in training: another seed gives another model."
    )
    if results.copying:
        reading += (
            f" {COPIED}: the exemplar itself, scored as if it were the output; an instance without an exemplar scores "
            "as an empty text. A system that scores no higher gains nothing from writing."
        )
    return f'<h2>Results</h2>{listed}{score_table(results)}<p class="soft"><small>{reading}</small></p>'


def _describe_difference(system: System, baseline: System) -> str:
    difference = system.difference
    assert isinstance(difference, Comparison)
    spread = f"95% interval {format_difference_range(difference)}"
    if difference.low <= 0 <= difference.high:
        return f"{system.name} and {baseline.name} cannot be told apart in {MAIN} (difference: {spread})."
    where = "above" if difference.difference > 0 else "below"
    return f"{system.name} scores {abs(difference.difference):.1f} points of {MAIN} {where} {baseline.name} ({spread})."


def _describe_style(results: Results) -> list[str]:
    if results.majority is None:
        return []
    rates = ", ".join(f"{system.name} {system.measures[STYLE].score.value:.1f}%" for system in results.systems)
    return [f"Outputs in the house style of their exemplar: {rates}. {describe_majority(results.majority)}"]


def _manner(results: Results) -> str:
    if not results.manner:
        return ""
    explanation = (
        "Does a text look like its exemplar, and what does that cost? Every trait is read off the text: its case, its "
        "punctuation, its first word, its length. The references show how often people write as the exemplar does. "
        "Seq2seq never sees the exemplar, so its rates are those of chance. "
        f"{count_cases(results.manner[0].measures['Manner']):,} of {results.instances:,} instances have an exemplar; "
        "the others are left out of manner and leak."
    )
    return f"<h2>Manner</h2><p>{explanation}</p>{manner_block(results)}"


def _try_map(results: Results) -> tuple[CoefficientMap | None, str]:
    """The map of λ, or the reason there is none: the report is useful without it, too."""
    system = choose_adaptive(results.systems)
    if system is None:
        return None, "None of these systems adapts its decoder, so there is no map of coefficients."
    try:
        return map_coefficients(system, results.split), f"Coefficients λ of {system.name}"
    except InputError as error:
        return None, f"There is no map of coefficients: {hide_paths(str(error), system.run)}"


def _data(results: Results) -> str:
    """Statistics of the corpus, if it is still where the runs found it."""
    run = results.baseline.run
    try:
        inspection = inspect_corpus(open_corpus(run).folder, run.config.exemplars)
    except InputError as error:
        reason = hide_paths(str(error), run)
        return f"<h2>Data</h2><p>There are no statistics of the corpus: {escape(reason)}</p>"
    shown = replace(
        inspection,
        note=hide_paths(inspection.note, run),
        faults=tuple(hide_paths(fault, run) for fault in inspection.faults),
    )
    return inspection_block(shown, name_data_set(run.config))


def _figures(results: Results, mapped: CoefficientMap | None, note: str) -> str:
    blocks = [
        figure_block(
            lambda narrow: plot_learning_curves(results.systems, narrow),
            "Learning curves",
            "Loss: how surprised each model is by the next piece of a target; lower is better. Solid lines are the "
            "training targets, read with dropout; dashed lines are the development set’s, read without. A dashed line "
            "that rises while its solid one falls has begun to overfit. Score: that of the texts it writes for "
            "the development set; the ring marks the weights that were kept. See where the curves level out, and "
            f"whether the gap between them stays.{_describe_samples(results)}",
        ),
        figure_block(
            lambda narrow: plot_similarity(results.systems, narrow),
            "Score against exemplar similarity",
            "Instances in bins of equal size, from those with the least similar exemplar to those with the most "
            "similar one. A system that benefits from exemplars should gain on the baseline towards the right.",
        ),
    ]
    if mapped is None:
        blocks.append(f"<p>{escape(note)}</p>")
    else:
        blocks.append(figure_block(lambda narrow: plot_coefficients(mapped, narrow), note, _describe_map(mapped)))
    return f"<h2>Figures</h2>{''.join(blocks)}"


def _describe_samples(results: Results) -> str:
    """Which part of the development set the curves are of, if it is not all of it."""
    events = (event for system in results.systems for event in system.run.metrics() if isinstance(event, Evaluated))
    samples = " or ".join(dict.fromkeys(event.sample for event in events if event.sample))
    return samples and f" The development set’s values are of {samples} instances, drawn at random."


def _describe_map(mapped: CoefficientMap) -> str:
    shared = (
        f"Each of the {len(mapped.points):,} points is one exemplar. Points that are close make the decoder write in "
        f"the same manner. Two components show {sum(mapped.explained):.0%} of the variance, so points that overlap "
        "here may be far apart in the other dimensions. "
    )
    outside = int(clamp(mapped.points)[1].sum())
    if outside:
        shared += f"Hollow points at the border lie farther out: {outside:,}. "
    if mapped.spread < LITTLE:
        shared += "This model makes almost no difference between exemplars, so places on the map mean little. "
    if not mapped.labels:
        return f"{shared}The data does not say whose voice an exemplar is, so all points have one colour."
    look = f"{shared}Look for {mapped.meaning}s that are apart from each other: "
    if mapped.told:
        return f"{look}sources name their {mapped.meaning}, but λ depends on the exemplar alone."
    return f"{look}the model is never told the {mapped.meaning}, so it can only have found them by learning to write."


def _swaps(swaps: Sequence[Swap]) -> str:
    if not swaps:
        return ""
    explanation = (
        "One source, several exemplars: the facts should stay, the wording should follow the exemplar. Words that the "
        "first output does not have are marked."
    )
    ticked = _TICKS if any(swap.styles for swap in swaps) else ""
    return f"<h2>Exemplar swaps</h2><p>{explanation}{ticked}</p>{''.join(map(swap_card, swaps))}"


def _samples(results: Results) -> str:
    count = min(SAMPLES, results.instances)
    chosen = np.random.default_rng(_SEED).choice(results.instances, size=count, replace=False)
    explanation = (
        f"{count} of the {results.instances:,} {results.split} instances, drawn at random with a fixed seed. Content "
        f"words that neither the source nor a reference has are marked. Below each output are its {MAIN} and what is "
        "wrong with it."
    )
    ticked = _TICKS if results.majority is not None else ""
    indices = sorted(int(index) for index in chosen)
    return f"<h2>Sample of outputs</h2><p>{escape(explanation)}{ticked}</p>{sample_cards(results, indices)}"


def _worst(results: Results) -> str:
    """The worst outputs of one system: the adaptive one, which the report is about, or else the last."""
    system = choose_adaptive(results.systems) or results.systems[-1]
    scores = system.rouge_l.per_instance
    indices = choose_worst(system, SAMPLES)
    explanation = (
        f"The {len(indices)} outputs of {system.name} with the lowest {MAIN}; equals are drawn at random with a fixed "
        f"seed. {int((scores == 0).sum()):,} of {len(scores):,} outputs score 0, and a tenth score at most "
        f"{np.quantile(scores, 0.1):.1f}. Before you blame the system, see whether the reference says what the source "
        "says."
    )
    heading = f"Worst outputs of {system.name}"
    return f"<h2>{escape(heading)}</h2><p>{escape(explanation)}</p>{sample_cards(results, indices)}"


def _manner_measures(results: Results) -> dict[str, Measured]:
    return results.manner[0].measures if results.manner else {}


def _recipe(results: Results) -> str:
    """How to reproduce the report: signatures, parameters, configurations."""
    signatures = "".join(
        f"<p>{escape(name)}<br><code>{escape(measured.score.signature)}</code></p>"
        for name, measured in {**results.baseline.measures, **_manner_measures(results)}.items()
    )
    compared = [system.difference.signature for system in results.systems if system.difference]
    for signature in dict.fromkeys(compared):
        signatures += f"<p>Differences<br><code>{escape(signature)}</code></p>"
    counts = [count_parameters(system.model) for system in results.systems]
    rows = [[part, *(f"{count[part]:,}" for count in counts)] for part in counts[0]]
    blocks = [
        details("Score signatures", signatures),
        details("Parameters", plain_table("Parameters", ["Part", *(system.name for system in results.systems)], rows)),
    ]
    shortened = '<p class="soft"><small>Of an absolute path only the last name is shown.</small></p>'
    for system in results.systems:
        text = f"{shortened}<pre>{escape(show_settings(system.run))}</pre>"
        blocks.append(details(f"Configuration of {system.name}", text))
    return f"<h2>How it was made</h2>{''.join(blocks)}"
