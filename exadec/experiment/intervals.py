"""How certain is the difference of two models that were each trained with several seeds?

In: the score of both for each seed, and its values on resamples of the instances. Out: the difference of their means,
and a 95% interval.
"""

from dataclasses import dataclass

import numpy as np

from exadec.textmetrics.scores import FloatArray

RESAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class Sampled:
    """A score of one model, seed by seed."""

    values: FloatArray
    """(S,) on all instances."""
    resampled: FloatArray
    """(S, R) on resamples of the instances, which are the same for all models and seeds."""


@dataclass(frozen=True)
class Difference:
    """Mean score of one model minus that of another, over seeds and instances."""

    value: float
    low: float
    """Lower end of the 95% interval."""
    high: float
    covers_seeds: bool
    """Whether both models have several seeds. Otherwise the interval covers the choice of instances alone."""


def compare_over_seeds(ours: Sampled, theirs: Sampled, same_runs: bool = False) -> Difference:
    """Compare two models on the same instances; their numbers of seeds may differ.

    `same_runs`: seed by seed, both are the same trained model, decoded in two ways.
    """
    covers_seeds = len(ours.values) > 1 and len(theirs.values) > 1
    low, high = np.quantile(resample_differences(ours, theirs, same_runs), [0.025, 0.975])
    return Difference(float(ours.values.mean() - theirs.values.mean()), float(low), float(high), covers_seeds)


def resample_differences(ours: Sampled, theirs: Sampled, same_runs: bool = False) -> FloatArray:
    """(R,) resampled differences.

    d* = a* - b* + e*ₐ - e*_b. The first two terms are the paired bootstrap over instances: a* and b* are means over
    seeds, on the same resample. The others draw as many seeds as there are, for each model by itself: e* is the mean
    deviation of the drawn seeds from the model's mean, times √(S / (S - 1)), because S deviations from their own mean
    are too small. So the variance of d* is that of the mean over instances plus s²/S for each model. If both are the
    same runs, seeds are drawn for both together. With a single seed there is nothing to draw from, and only instances
    are resampled.
    """
    differences: FloatArray = ours.resampled.mean(axis=0) - theirs.resampled.mean(axis=0)
    if min(len(ours.values), len(theirs.values)) == 1:
        return differences
    generator, resamples = np.random.default_rng(SEED + 1), len(differences)
    if same_runs:
        return differences + _draw_seeds(ours.values - theirs.values, resamples, generator)
    drawn = [_draw_seeds(one.values, resamples, generator) for one in (ours, theirs)]
    return differences + drawn[0] - drawn[1]


def _draw_seeds(values: FloatArray, resamples: int, generator: np.random.Generator) -> FloatArray:
    """(R,) mean deviations of drawn seeds."""
    seeds = len(values)
    deviations = (values - values.mean()) * np.sqrt(seeds / (seeds - 1))
    drawn: FloatArray = deviations[generator.integers(seeds, size=(resamples, seeds))].mean(axis=1)
    return drawn
