"""Scores that are means over instances."""

import pytest

from exadec.textmetrics import mean_score


def test_mean_score_of_a_rate() -> None:
    score = mean_score("follows style", [100, 0, 100, 100], "style|v:1")
    assert (score.value, score.instances) == (75, 4)
    assert str(score) == "follows style = 75.00 [style|v:1]"


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, float("nan")]])
def test_mean_score_refuses(values: list) -> None:
    with pytest.raises(ValueError, match="per_instance"):
        mean_score("x", values, "x")
