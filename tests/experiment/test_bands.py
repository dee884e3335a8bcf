"""Scores by similarity, against a plain loop."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exadec.experiment.bands import BANDS, divide_by_similarity
from exadec.experiment.plan import list_trials, load_plan
from exadec.experiment.results import Result, pack
from support.plans import made_up_result, write_plan, write_task


@pytest.fixture
def results(tmp_path: Path) -> tuple[list[Result], list[Result], np.ndarray]:
    """Two seeds of a model that gains with similarity, one seed of its baseline, and the similarities."""
    write_task(tmp_path)
    theirs, ours = list_trials(load_plan(write_plan(tmp_path)))
    random = np.random.default_rng(0)
    similarities = random.permutation(np.linspace(0, 1, 41).round(4))
    level = random.uniform(10, 40, 41).round(2)
    gains = [level + 8 * similarities + shift for shift in (0.0, 1.0)]
    changes = {"similarities": pack(100 * similarities)}
    models = [made_up_result(ours, list(values.round(2)), **changes) for values in gains]
    return models, [made_up_result(theirs, list(level), similarities="")], similarities


def test_bands_are_equal_in_size_and_add_up(results: tuple[list[Result], list[Result], np.ndarray]) -> None:
    ours, theirs, similarities = results
    bands = divide_by_similarity(ours, theirs, "rougeL")
    assert [band.instances for band in bands] == [11, 10, 10, 10]
    assert len(bands) == BANDS
    edges = np.sort(similarities)
    assert (bands[0].low, bands[0].high, bands[1].low) == pytest.approx((edges[0], edges[10], edges[11]), abs=1e-4)
    for band in bands:
        inside = similarities[(similarities >= band.low - 1e-6) & (similarities <= band.high + 1e-6)]
        assert band.score - band.baseline == pytest.approx(8 * inside.mean() + 0.5, abs=0.02)
        low, high = band.difference
        assert low < band.score - band.baseline < high
        assert band.copied == pytest.approx(band.score / 2, abs=0.3)
    assert sum(band.score * band.instances for band in bands) / 41 == pytest.approx(
        np.mean([one.scores["rougeL"].value for one in ours]), abs=0.01
    )


def test_without_scores_of_instances_there_are_no_bands(
    results: tuple[list[Result], list[Result], np.ndarray],
) -> None:
    ours, theirs, _ = results
    assert divide_by_similarity(theirs, ours, "rougeL") == []
    assert divide_by_similarity(ours, [], "rougeL") == []
    others = [replace(one, main="rouge1") for one in ours]
    assert divide_by_similarity(others, theirs, "rougeL") == []
