"""Intervals over instances and seeds, against the variance they should have."""

import numpy as np
import pytest
from scipy import stats

from exadec.experiment.intervals import Sampled, compare_over_seeds
from exadec.textmetrics import bleu, compare, mean_score
from exadec.textmetrics.bootstrap import resample_all


def sample(scores: np.ndarray, resamples: int = 1000) -> Sampled:
    """What results hold of scores (seeds, N)."""
    found = resample_all([mean_score("x", row, "s") for row in scores], resamples)
    return Sampled(scores.mean(axis=1), np.stack(found))


def scores(seeds: int, instances: int, spread: float, seed: int) -> np.ndarray:
    """(seeds, N): each instance has its own level, each seed its own shift."""
    random = np.random.default_rng(seed)
    return (
        random.normal(40, 8, instances) + random.normal(0, spread, (seeds, 1)) + random.normal(0, 2, (seeds, instances))
    )


@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 5), (20, 3)])
def test_without_doubt_about_instances_it_is_welchs_interval(ours: int, theirs: int) -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(3, 2, ours), random.normal(0, 0.5, theirs)
    found = compare_over_seeds(*(Sampled(one, np.repeat(one[:, None], 10, axis=1)) for one in (a, b)))
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(a.mean() - b.mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_variance_is_that_of_instances_plus_that_of_seeds() -> None:
    a, b = scores(40, 400, 1.5, 0), scores(50, 400, 0.5, 1)
    found = compare_over_seeds(sample(a, 20_000), sample(b, 20_000))
    instances = (a.mean(0) - b.mean(0)).var() / 400
    seeds = sum(x.mean(1).var(ddof=1) / len(x) for x in (a, b))
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(instances + seeds), rel=0.03)


def test_width_for_the_same_runs_is_that_of_their_differences() -> None:
    a = scores(4, 400, 5.0, 0)
    b = a - scores(4, 400, 0.3, 1)
    found = compare_over_seeds(sample(a, 20_000), sample(b, 20_000), same_runs=True)
    gains = a - b
    instances, seeds = gains.mean(0).var() / 400, gains.mean(1).var(ddof=1) / 4
    freedom = (instances + seeds) ** 2 / (seeds**2 / 3)
    margin = stats.t.ppf(0.975, freedom) * np.sqrt(instances + seeds)
    assert found.high - found.low == pytest.approx(2 * margin, rel=0.03)
    apart = compare_over_seeds(sample(a), sample(b))
    assert found.high - found.low < (apart.high - apart.low) / 3


def test_one_seed_gives_the_paired_bootstrap_over_instances() -> None:
    a, b = scores(1, 300, 0, 2), scores(3, 300, 1.0, 3)
    found = compare_over_seeds(sample(a), sample(b))
    expected = compare(mean_score("x", a[0], "s"), mean_score("x", b.mean(0), "s"))
    assert not found.covers_seeds
    assert (found.value, found.low, found.high) == pytest.approx((expected.difference, expected.low, expected.high))


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0])
def test_interval_covers_the_true_difference_about_as_often_as_it_says(seeds: int, spread: float) -> None:
    """Models whose seeds and instances are drawn afresh; the true difference is 1, and the mean over instances ± 1."""
    random = np.random.default_rng(4)
    hits, trials = 0, 1000
    for _ in range(trials):
        drawn = random.normal()
        a, b = random.normal(1 + drawn, spread, seeds), random.normal(0, spread, seeds)
        resampled = a[:, None] + random.normal(0, 1, 300)
        found = compare_over_seeds(Sampled(a, resampled), Sampled(b, np.repeat(b[:, None], 300, 1)))
        hits += found.low <= 1 <= found.high
    assert 0.93 <= hits / trials <= 0.99


def test_same_scores_give_the_same_interval() -> None:
    a, b = scores(3, 50, 1, 5), scores(3, 50, 1, 6)
    assert compare_over_seeds(sample(a), sample(b)) == compare_over_seeds(sample(a), sample(b))


def test_scores_that_are_no_means_are_compared_resample_by_resample() -> None:
    references = [[f"the cat {n} sat on the mat"] for n in range(30)]
    ours, theirs = (bleu([text[0].replace(*change) for text in references], references) for change in SLIPS)
    values = (Sampled(np.array([one.value]), np.stack(resample_all([one]))) for one in (ours, theirs))
    found, expected = compare_over_seeds(*values), compare(ours, theirs)
    assert (found.value, found.low, found.high) == pytest.approx((expected.difference, expected.low, expected.high))
    assert found.low > 0


SLIPS = [("mat", "rug"), ("cat", "dog")]
