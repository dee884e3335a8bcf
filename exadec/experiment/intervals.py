"""How certain is the difference of two models that were each trained with several seeds?

In: the scores of both, for each seed and instance. Out: the difference of their means and a 95% interval.
"""

from dataclasses import dataclass

import numpy as np

from exadec.textmetrics.bootstrap import resample_weights
from exadec.textmetrics.scores import FloatArray

RESAMPLES = 2000
SEED = 12345


@dataclass(frozen=True)
class Difference:
    """Mean score of one model minus that of another, over seeds and instances."""

    value: float
    low: float
    """Lower end of the 95% interval."""
    high: float
    covers_seeds: bool
    """Whether both models have several seeds. Otherwise the interval covers the choice of instances alone."""


def compare_over_seeds(
    ours: FloatArray, theirs: FloatArray, same_runs: bool = False, resamples: int = RESAMPLES
) -> Difference:
    """Compare two models on the same instances, given scores (seeds, N) of each; their numbers of seeds may differ.

    `same_runs`: seed by seed, both are the same trained model, decoded in two ways.
    """
    covers_seeds = len(ours) > 1 and len(theirs) > 1
    differences = resample_differences(ours, theirs, same_runs, resamples)
    low, high = np.quantile(differences, [0.025, 0.975])
    return Difference(float(ours.mean() - theirs.mean()), float(low), float(high), covers_seeds)


def resample_differences(
    ours: FloatArray, theirs: FloatArray, same_runs: bool = False, resamples: int = RESAMPLES
) -> FloatArray:
    """(R,) resampled differences.

    d* = Σₙ wₙ (aₙ - bₙ) / N + e*ₐ - e*_b. The first term is the paired bootstrap over instances; aₙ and bₙ are means
    over seeds. The second draws as many seeds as there are, for each model by itself: e* is the mean deviation of the
    drawn seeds from the model's mean, times √(S / (S - 1)), because S deviations from their own mean are too small.
    So the variance of d* is that of the mean over instances plus s²/S for each model. If both are the same runs, seeds
    are drawn for both together. With a single seed there is nothing to draw from, and only instances are resampled.
    """
    gains = ours.mean(axis=0) - theirs.mean(axis=0)  # (N,)
    drawn = [weights @ gains / len(gains) for weights in resample_weights(len(gains), resamples, SEED)]
    differences: FloatArray = np.concatenate(drawn)
    if min(len(ours), len(theirs)) == 1:
        return differences
    generator = np.random.default_rng(SEED + 1)
    if same_runs:
        return differences + _draw_seeds(ours - theirs, resamples, generator)
    return differences + _draw_seeds(ours, resamples, generator) - _draw_seeds(theirs, resamples, generator)


def _draw_seeds(scores: FloatArray, resamples: int, generator: np.random.Generator) -> FloatArray:
    """(R,) mean deviations of drawn seeds."""
    means = scores.mean(axis=1)  # (S,)
    seeds = len(means)
    deviations = (means - means.mean()) * np.sqrt(seeds / (seeds - 1))
    drawn: FloatArray = deviations[generator.integers(seeds, size=(resamples, seeds))].mean(axis=1)
    return drawn
