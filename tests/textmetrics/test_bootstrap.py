"""The bootstrap against plain loops."""

import numpy as np
import pytest

from exadec.textmetrics import bleu, compare, confidence_interval, mean_score, measure_all, ratio_score, rouge
from exadec.textmetrics.bootstrap import resample_weights


def random_texts(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(list("abcdefgh"), generator.integers(3, 12))) for _ in range(count)]


def test_weights_are_counts_of_n_draws_and_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resample_weights(30, 40, seed=1)))
    assert whole.shape == (40, 30)
    assert (whole.sum(axis=1) == 30).all()
    monkeypatch.setattr("exadec.textmetrics.bootstrap._CELLS_PER_BLOCK", 100)
    blocks = list(resample_weights(30, 40, seed=1))
    assert [len(block) for block in blocks] == [3] * 13 + [1]
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    assert (np.concatenate(list(resample_weights(30, 40, seed=2))) != whole).any()


def test_interval_equals_a_plain_loop() -> None:
    values = np.random.default_rng(0).uniform(0, 100, 37)
    weights = np.concatenate(list(resample_weights(37, 200, seed=5)))
    means = []
    for row in weights:
        drawn = [value for value, times in zip(values, row, strict=True) for _ in range(int(times))]
        means.append(sum(drawn) / len(drawn))
    expected = (np.percentile(means, 2.5), np.percentile(means, 97.5))
    assert confidence_interval(mean_score("x", values, "x"), 200, seed=5) == pytest.approx(expected)


def test_scores_measured_together_have_the_intervals_they_have_alone() -> None:
    generator = np.random.default_rng(4)
    cases = generator.integers(0, 5, 30)
    scores = [
        mean_score("a", generator.uniform(0, 100, 30), "a"),
        ratio_score("b", generator.integers(0, cases + 1), cases, "b"),
    ]
    assert [(one.low, one.high) for one in measure_all(scores)] == [confidence_interval(score) for score in scores]
    assert [one.score for one in measure_all(scores)] == scores
    assert measure_all([]) == []
    with pytest.raises(ValueError, match=r"same instances, but have \[2, 30\]"):
        measure_all([*scores, mean_score("c", [1, 2], "c")])


def test_comparison_equals_a_plain_loop() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.uniform(0, 100, 25), generator.uniform(5, 100, 25)
    difference = first.mean() - second.mean()
    differences = []
    for row in np.concatenate(list(resample_weights(25, 300, seed=9))):
        drawn = np.repeat(np.arange(25), row.astype(int))
        differences.append(first[drawn].mean() - second[drawn].mean())
    extreme = sum(abs(resampled - difference) >= abs(difference) for resampled in differences)
    result = compare(mean_score("x", first, "x"), mean_score("x", second, "x"), 300, seed=9)
    assert result.difference == pytest.approx(difference)
    assert (result.low, result.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    assert result.p_value == pytest.approx((1 + extreme) / 301)
    assert result.signature == "bootstrap:paired|resamples:300|seed:9|level:0.95|x"


def test_interval_covers_the_true_mean_about_as_often_as_promised() -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        low, high = confidence_interval(mean_score("x", generator.normal(50, 10, 60), "x"), 300, seed=trial)
        covered += low <= 50 <= high
    assert 180 <= covered <= 199  # 95 % of 200, give or take three standard deviations and the bootstrap's bias


def test_p_value_is_small_for_a_true_difference_and_spread_for_none() -> None:
    generator = np.random.default_rng(3)
    base = generator.normal(50, 10, 100)
    better = mean_score("x", base + generator.normal(3, 2, 100), "x")
    assert compare(better, mean_score("x", base, "x")).p_value == pytest.approx(1 / 1001)
    p_values = []
    for trial in range(200):
        noise = generator.normal(0, 5, (2, 60))
        p_values.append(compare(mean_score("x", noise[0], "x"), mean_score("x", noise[1], "x"), 200, trial).p_value)
    assert np.mean(np.array(p_values) < 0.05) < 0.12
    assert 0.4 < np.mean(p_values) < 0.6


@pytest.mark.parametrize("metric", ["rouge", "bleu"])
def test_comparison_is_symmetric_and_paired(metric: str) -> None:
    references = [[text] for text in random_texts(60, seed=0)]
    systems = [random_texts(60, seed=1), random_texts(60, seed=2)]
    first, second = [rouge(t, references)["1"] if metric == "rouge" else bleu(t, references) for t in systems]
    forward, backward = compare(first, second, 200), compare(second, first, 200)
    assert forward.difference == pytest.approx(-backward.difference)
    assert (forward.low, forward.high) == pytest.approx((-backward.high, -backward.low))
    assert forward.p_value == backward.p_value
    assert compare(first, second, 200) == forward
    same = compare(first, first, 50)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_comparison_refuses_what_is_not_comparable() -> None:
    one, two = mean_score("x", [1, 2], "x"), mean_score("x", [1, 2, 3], "x")
    with pytest.raises(ValueError, match="have 2 and 3 instead"):
        compare(one, two)
    with pytest.raises(ValueError, match="'x' and 'y'"):
        compare(one, mean_score("y", [1, 2], "y"))
    with pytest.raises(ValueError, match="resamples"):
        compare(one, one, resamples=0)
    with pytest.raises(ValueError, match="level"):
        confidence_interval(one, level=95)
