"""Scores that are means over instances, or ratios of sums."""

import numpy as np
import pytest

from exadec.textmetrics import confidence_interval, mean_score, ratio_score, relative_score


def test_mean_score_of_a_rate() -> None:
    score = mean_score("follows style", [100, 0, 100, 100], "style|v:1")
    assert (score.value, score.instances) == (75, 4)
    assert str(score) == "follows style = 75.00 [style|v:1]"


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, float("nan")]])
def test_mean_score_refuses(values: list) -> None:
    with pytest.raises(ValueError, match="per_instance"):
        mean_score("x", values, "x")


def test_ratio_score_weights_instances_by_their_cases() -> None:
    score = ratio_score("leak", [1, 0, 3], [1, 5, 4], "leak|v:1", lower_is_better=True)
    assert (score.value, score.count, score.instances) == (40, 10, 3)
    assert score.lower_is_better
    assert not mean_score("x", [1], "x").lower_is_better


def test_ratio_score_of_resamples() -> None:
    score = ratio_score("x", [1, 0, 0], [1, 5, 0], "x")
    weights = np.array([[3.0, 0, 0], [1, 1, 1], [0, 2, 1], [0, 0, 3]])
    # The last resample has no case: it takes the value of the corpus.
    np.testing.assert_allclose(score.resampled_values(weights), [100, 100 / 6, 0, 100 / 6])


def test_relative_score_is_the_ratio_of_two_means() -> None:
    score, baseline = mean_score("x", [30, 0, 90], "x"), mean_score("x", [40, 20, 20], "x")
    relative = relative_score("kept", score, baseline)
    assert (relative.value, relative.instances, relative.count) == (150, 3, 3)
    weights = np.array([[3.0, 0, 0], [0, 3, 0], [1, 2, 0]])
    np.testing.assert_allclose(relative.resampled_values(weights), [75, 0, 100 * 30 / 80])
    # Instance by instance the same percentage: however they are drawn, the ratio is the same.
    halves = relative_score("kept", mean_score("x", [20, 10, 10], "x"), baseline)
    assert confidence_interval(halves) == (pytest.approx(50), pytest.approx(50))
    assert relative_score("kept", score, mean_score("x", [0, 0, 0], "x")).value == 0


def test_relative_score_refuses_what_cannot_be_divided() -> None:
    score = mean_score("x", [30, 0], "x")
    for other in (mean_score("x", [30, 0], "y"), mean_score("x", [30], "x")):
        with pytest.raises(ValueError, match="same signature and be of the same instances"):
            relative_score("kept", score, other)


def test_ratio_score_without_cases_has_the_value_given_for_it() -> None:
    assert ratio_score("x", [0], [0], "x").value == 0
    none = ratio_score("x", [0], [0], "x", value_of_none=100)
    assert (none.value, none.count) == (100, 0)


@pytest.mark.parametrize(
    ("hits", "cases", "message"),
    [
        ([], [], "shapes"),
        ([1], [1, 2], "shapes"),
        ([2], [1], "between 0"),
        ([-1], [1], "between 0"),
        ([float("nan")], [1], "between 0"),
    ],
)
def test_ratio_score_refuses(hits: list, cases: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ratio_score("x", hits, cases, "x")
