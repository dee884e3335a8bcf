"""Figures: bins, and labels that do not overlap."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.exemplars.audit import Distribution
from exadec.textmetrics import rouge
from exadec.views.coefficients import map_coefficients
from exadec.views.plots import (
    DrawnDifference,
    bin_by_similarity,
    plot_coefficients,
    plot_differences,
    plot_histograms,
    plot_learning_curves,
    plot_manner,
    plot_similarity,
    plot_swaps,
    spread_apart,
)
from exadec.views.results import Results, compare_runs
from support.swaps import make_study


def test_bins_hold_equally_many_instances_and_average_to_the_score(results: Results) -> None:
    system = results.baseline
    many = [dataclasses.replace(output, similarity=number / 100) for number, output in enumerate(system.outputs * 5)]
    score = rouge([o.text for o in many], [o.references for o in many])["L"]
    measures = {"ROUGE-L": dataclasses.replace(system.measures["ROUGE-L"], score=score)}
    centres, means, lows, highs = bin_by_similarity(dataclasses.replace(system, outputs=many, measures=measures))
    assert len(centres) == 8
    assert centres == sorted(centres)
    assert np.mean(means) == pytest.approx(score.value)
    assert all(low <= mean <= high for low, mean, high in zip(lows, means, highs, strict=True))


def test_development_loss_is_dashed_where_it_was_logged(copies: list[Path]) -> None:
    systems = compare_runs(copies).systems
    assert plot_learning_curves(systems).count("stroke-dasharray") == 2
    metrics = copies[0] / "metrics.jsonl"
    metrics.write_text(re.sub(r', "surprise": [^}]*}', "", metrics.read_text("utf-8")), "utf-8")  # an earlier version's
    assert plot_learning_curves(systems).count("stroke-dasharray") == 1


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 0.3))
def test_labels_are_spread_apart_in_order(places: list[float], gap: float) -> None:
    spread = spread_apart(sorted(places), gap)
    assert len(spread) == len(places)
    needed = min(gap, 1 / max(1, len(places)))
    assert all(after - before >= needed - 1e-9 for before, after in pairwise(spread))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in spread)


def test_manner_is_drawn_for_each_trait_that_an_exemplar_has(results: Results) -> None:
    drawn = plot_manner(results)
    rates = {row.trait: row.if_exemplar_has for row in results.manner[0].traits}
    seen = [trait for trait, rate in rates.items() if rate is not None and rate.score.count]
    unseen = [trait for trait, rate in rates.items() if rate is None or not rate.score.count]
    assert seen
    assert unseen
    assert all(f">{trait}</text>" in drawn for trait in seen)
    assert not any(f">{trait}</text>" in drawn for trait in unseen)
    for column in results.manner:
        assert f">{column.name}</text>" in drawn


def texts_of(drawn: str) -> list[str]:
    svg = "{http://www.w3.org/2000/svg}text"
    return ["".join(node.itertext()) for node in ElementTree.fromstring(drawn).iter(svg)]


def test_far_points_are_drawn_hollow_and_the_others_stay_apart(results: Results) -> None:
    mapped = map_coefficients(results.systems[1], results.split)
    places = np.random.default_rng(2).uniform(-1, 1, size=(100, 2))
    plain, far = (
        dataclasses.replace(mapped, points=points, labels=[])
        for points in (places, np.concatenate([places[:99], [[500.0, 0.0]]]))
    )
    hollow = "fill: #ffffff; stroke: #0072b2"
    assert hollow not in plot_coefficients(plain)
    drawn = plot_coefficients(far)
    assert hollow in drawn
    across = [float(x) for x in re.findall(r'<use [^>]*x="([\d.]+)"', drawn)]
    assert len(across) == 100
    assert np.median(np.abs(np.array(across) - np.median(across))) > 50


def test_names_of_groups_are_drawn_as_they_are(results: Results) -> None:
    """Though matplotlib would read some as formulas, leave out others, and lacks the letters of the last one."""
    mapped = map_coefficients(results.systems[1], results.split)
    names = ["A$^$B", "$5 and $6", "_under_", "\N{PACKAGE} \u65e5\u672c"]
    labels = [names[number % len(names)] for number in range(len(mapped.points))]
    drawn = plot_coefficients(dataclasses.replace(mapped, labels=labels, meaning="group"))
    assert {*names} <= {text.strip() for text in texts_of(drawn)}


def test_narrow_figures_say_the_same_in_less_than_half_the_width(results: Results) -> None:
    mapped = map_coefficients(results.systems[1], results.split)
    shape = Distribution(1.5, 1, 1, 1.5, 2, 2, 2, (1.0, 2.0, 3.0), (3, 4))
    figures: list[Callable[[bool], str]] = [
        lambda narrow: plot_learning_curves(results.systems, narrow),
        lambda narrow: plot_similarity(results.systems, narrow),
        lambda narrow: plot_manner(results, narrow),
        lambda narrow: plot_coefficients(mapped, narrow),
        lambda narrow: plot_histograms([("one", shape), ("two", None)], "lengths", narrow),
    ]
    for draw in figures:
        wide, narrow = draw(False), draw(True)
        assert narrow == draw(True)
        widths = [float(re.search(r'viewBox="0 0 ([\d.]+)', drawn)[1]) for drawn in (wide, narrow)]
        assert widths[1] < widths[0] / 2
        ids = [set(re.findall(r' id="([^"]*)"', drawn)) for drawn in (wide, narrow)]
        assert ids[0].isdisjoint(ids[1])
        words = [set(" ".join(texts_of(drawn)).split()) for drawn in (wide, narrow)]
        numbers = re.compile(r"[−\d.]+")  # noqa: RUF001 - ticks depend on the width
        assert {word for word in words[0] ^ words[1] if not numbers.fullmatch(word)} == set()


def test_differences_are_drawn_in_order_and_the_same_every_time() -> None:
    rows = [DrawnDifference("AdaDec, a < b", "adadec", 2.0, 1.0, 3.0), DrawnDifference("AttExp", "attexp", -1, -2, 0.5)]
    drawn = plot_differences(rows, "ROUGE-L")
    assert drawn == plot_differences(rows, "ROUGE-L")
    texts = texts_of(drawn)
    assert texts.index("AdaDec, a < b") < texts.index("AttExp")
    assert "ROUGE-L minus that of the baseline, with 95% interval" in texts
    assert plot_differences(rows[::-1], "ROUGE-L") != drawn


def test_swaps_are_drawn_by_strength_for_traits_that_an_exemplar_has() -> None:
    study = make_study()
    drawn = plot_swaps(study)
    assert drawn == plot_swaps(make_study())
    texts = texts_of(drawn)
    for text in ("colon", "question mark", "Leak", "Support", "ROUGE-1 recall", "Recall kept", "Content", "0.5"):
        assert text in texts
    assert "Title Case" not in texts
