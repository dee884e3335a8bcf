"""How certain is the difference of two models that were each trained with several seeds?

In: the score of both for each seed, and its values on resamples of the instances. Out: the difference of their means,
and a 95% interval.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from exadec.textmetrics.scores import FloatArray


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

    With one seed, this is the paired bootstrap over instances: means over seeds, on the same resamples. Otherwise the
    interval is d ± t·√v, where v is the variance of these resampled differences plus s²/S for each model. `s`, the
    standard deviation over S seeds, is known badly if there are two or three, so t is that of Student's distribution
    with as many degrees of freedom as Welch and Satterthwaite give v. Resampling seeds instead would call 95% what
    covers 87% with three seeds, and 79% with two.

    `same_runs`: seed by seed, both are the same trained model, decoded in two ways. Then s is that of their difference.
    """
    value = float(ours.values.mean() - theirs.values.mean())
    resampled = ours.resampled.mean(axis=0) - theirs.resampled.mean(axis=0)  # (R,)
    if min(len(ours.values), len(theirs.values)) == 1:
        low, high = np.quantile(resampled, [0.025, 0.975])
        return Difference(value, float(low), float(high), covers_seeds=False)
    parts = [ours.values - theirs.values] if same_runs else [ours.values, theirs.values]
    of_seeds = np.array([part.var(ddof=1) / len(part) for part in parts])
    freedom = np.array([len(part) - 1 for part in parts])
    variance = resampled.var() + of_seeds.sum()
    uncertainty = (of_seeds**2 / freedom).sum()  # that of the variance over instances is negligible
    student = stdtrit(variance**2 / uncertainty if uncertainty > 0 else np.inf, 0.975)
    margin = float(student * np.sqrt(variance))
    return Difference(value, value - margin, value + margin, covers_seeds=True)
