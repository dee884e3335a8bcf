"""Intervals over instances and seeds, against the variance they should have."""

import numpy as np
import pytest

from exadec.experiment.intervals import SEED, Sampled, compare_over_seeds, resample_differences
from exadec.textmetrics import bleu, compare, mean_score
from exadec.textmetrics.bootstrap import resample_all


def sample(scores: np.ndarray, resamples: int = 1000) -> Sampled:
    """What results hold of scores (seeds, N)."""
    found = resample_all([mean_score("x", row, "s") for row in scores], resamples, SEED)
    return Sampled(scores.mean(axis=1), np.stack(found))


def scores(seeds: int, instances: int, spread: float, seed: int) -> np.ndarray:
    """(seeds, N): each instance has its own level, each seed its own shift."""
    random = np.random.default_rng(seed)
    return (
        random.normal(40, 8, instances) + random.normal(0, spread, (seeds, 1)) + random.normal(0, 2, (seeds, instances))
    )


@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 5), (20, 20)])
def test_variance_is_that_of_instances_plus_that_of_seeds(ours: int, theirs: int) -> None:
    a, b = scores(ours, 400, 1.5, 0), scores(theirs, 400, 0.5, 1)
    found = resample_differences(sample(a, 20_000), sample(b, 20_000))
    instances = (a.mean(0) - b.mean(0)).var() / 400
    seeds = sum(x.mean(1).var(ddof=1) / len(x) for x in (a, b))
    assert found.var() == pytest.approx(instances + seeds, rel=0.05)
    assert found.mean() == pytest.approx(a.mean() - b.mean(), abs=0.05)


def test_variance_of_the_same_runs_is_that_of_their_differences() -> None:
    a = scores(4, 400, 5.0, 0)
    b = a - scores(4, 400, 0.3, 1)
    found = resample_differences(sample(a, 20_000), sample(b, 20_000), same_runs=True)
    gains = a - b
    expected = gains.mean(0).var() / 400 + gains.mean(1).var(ddof=1) / 4
    assert found.var() == pytest.approx(expected, rel=0.05)
    assert found.var() < resample_differences(sample(a), sample(b)).var() / 4


def test_one_seed_gives_the_paired_bootstrap_over_instances() -> None:
    a, b = scores(1, 300, 0, 2), scores(3, 300, 1.0, 3)
    found = compare_over_seeds(sample(a), sample(b))
    expected = compare(mean_score("x", a[0], "s"), mean_score("x", b.mean(0), "s"))
    assert not found.covers_seeds
    assert (found.value, found.low, found.high) == pytest.approx((expected.difference, expected.low, expected.high))


def test_interval_covers_the_true_difference_about_as_often_as_it_says() -> None:
    """Systems whose seeds and instances are drawn afresh; the true difference is 1."""
    random = np.random.default_rng(4)
    hits, trials = 0, 200
    for _ in range(trials):
        level = random.normal(40, 5, 100)
        a, b = (level + gain + random.normal(0, 1, (8, 1)) + random.normal(0, 5, (8, 100)) for gain in (1, 0))
        found = compare_over_seeds(sample(a, 300), sample(b, 300))
        hits += found.low <= 1 <= found.high
    assert 0.88 <= hits / trials <= 0.99


def test_same_scores_give_the_same_interval() -> None:
    a, b = scores(3, 50, 1, 5), scores(3, 50, 1, 6)
    assert compare_over_seeds(sample(a), sample(b)) == compare_over_seeds(sample(a), sample(b))


def test_scores_that_are_no_means_are_compared_resample_by_resample() -> None:
    references = [[f"the cat {n} sat on the mat"] for n in range(30)]
    ours, theirs = (bleu([text[0].replace(*change) for text in references], references) for change in SLIPS)
    values = (Sampled(np.array([one.value]), np.stack(resample_all([one], seed=SEED))) for one in (ours, theirs))
    found, expected = compare_over_seeds(*values), compare(ours, theirs, seed=SEED)
    assert (found.value, found.low, found.high) == pytest.approx((expected.difference, expected.low, expected.high))
    assert found.low > 0


SLIPS = [("mat", "rug"), ("cat", "dog")]
