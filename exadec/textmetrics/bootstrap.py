"""The paired bootstrap: how certain is a score, or the difference of two scores?

In: one or two `Score`s. Out: percentile intervals, and a p-value for the difference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exadec.textmetrics.scores import FloatArray, Score

RESAMPLES = 1000
SEED = 12345
_CELLS_PER_BLOCK = 1 << 21  # 16 MiB of weights at a time


@dataclass(frozen=True)
class Comparison:
    """System a against system b on the same instances."""

    difference: float
    """Value of a minus value of b."""
    low: float
    """Lower end of the interval of the difference."""
    high: float
    """Upper end of the interval of the difference."""
    p_value: float
    """Two-sided, see `compare`."""
    signature: str
    """How it was resampled, and the signature of both scores."""


@dataclass(frozen=True)
class Measured:
    """A score and its interval."""

    score: Score
    low: float
    """Lower end of the 95% bootstrap interval."""
    high: float
    """Upper end."""

    def to_row(self) -> dict[str, Any]:
        """As a row of a table: a list of rows is what a DataFrame takes."""
        score = self.score
        row = {"measure": score.name, "value": score.value, "low": self.low, "high": self.high}
        return {**row, "instances": score.instances, "signature": score.signature}


def confidence_interval(
    score: Score, resamples: int = RESAMPLES, seed: int = SEED, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the corpus value; each resample draws N of the N instances with replacement."""
    (interval,) = _intervals([score], resamples, seed, level)
    return interval


def measure_all(scores: Sequence[Score]) -> list[Measured]:
    """95% intervals of scores of the same instances. Drawing the resamples is most of the work: it is done once."""
    sizes = {score.instances for score in scores}
    if len(sizes) > 1:
        raise ValueError(
            f"Scores that share resamples must be of the same instances, but have {sorted(sizes)} instead."
        )
    intervals = _intervals(scores, RESAMPLES, SEED, level=0.95)
    return [Measured(score, *interval) for score, interval in zip(scores, intervals, strict=True)]


def _intervals(scores: Sequence[Score], resamples: int, seed: int, level: float) -> list[tuple[float, float]]:
    _check(resamples, level)
    return [_percentiles(values, level) for values in resample_all(scores, resamples, seed)]


def resample_all(scores: Sequence[Score], resamples: int = RESAMPLES, seed: int = SEED) -> list[FloatArray]:
    """The values (R,) of each score on the same resamples; all scores are of the same instances.

    The resamples depend only on the seed and the number of instances, so scores of different systems can be compared
    resample by resample.
    """
    if not scores:
        return []
    values: list[list[FloatArray]] = [[] for _ in scores]
    for weights in resample_weights(scores[0].instances, resamples, seed):
        for score, found in zip(scores, values, strict=True):
            found.append(score.resampled_values(weights))
    return [np.concatenate(found) for found in values]


def compare(
    score_a: Score, score_b: Score, resamples: int = RESAMPLES, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Paired bootstrap of the difference d = a - b: every resample takes the same instances for both systems.

    `low` and `high` are percentiles of the resampled differences d*. The p-value is two-sided. The null hypothesis is
    that the systems do not differ; subtracting d from the resampled differences moves them there. So
    p = (1 + number of resamples with |d* - d| >= |d|) / (1 + resamples), which is never 0.
    """
    _check(resamples, level)
    if score_a.signature != score_b.signature:
        raise ValueError(
            "Two scores to compare must have the same signature, "
            f"but have {score_a.signature!r} and {score_b.signature!r} instead."
        )
    if score_a.instances != score_b.instances:
        raise ValueError(
            "Two scores to compare must be of the same instances, "
            f"but have {score_a.instances} and {score_b.instances} instead."
        )
    difference = score_a.value - score_b.value
    differences = np.concatenate(
        [
            score_a.resampled_values(weights) - score_b.resampled_values(weights)
            for weights in resample_weights(score_a.instances, resamples, seed)
        ]
    )
    # The margin keeps rounding errors from deciding whether a resample with |d* - d| = |d| counts.
    extreme = int((np.abs(differences - difference) >= abs(difference) - 1e-9).sum())
    low, high = _percentiles(differences, level)
    recipe = f"bootstrap:paired|resamples:{resamples}|seed:{seed}|level:{level:g}|{score_a.signature}"
    return Comparison(difference, low, high, (1 + extreme) / (1 + resamples), recipe)


def resample_weights(instances: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks (rows, N): how often each instance is drawn in each resample.

    The draws depend only on the seed and the number of instances, so two systems get the same resamples.
    """
    generator = np.random.default_rng(seed)
    rows_per_block = max(1, _CELLS_PER_BLOCK // instances)
    for begin in range(0, resamples, rows_per_block):
        weights = np.empty((min(rows_per_block, resamples - begin), instances))
        for row in weights:
            row[:] = np.bincount(generator.integers(instances, size=instances), minlength=instances)
        yield weights


def _percentiles(values: FloatArray, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _check(resamples: int, level: float) -> None:
    if resamples < 1:
        raise ValueError(f"`resamples` must be at least 1, but is {resamples} instead.")
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level} instead.")
