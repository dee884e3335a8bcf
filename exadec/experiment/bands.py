"""Does a similar exemplar help more? The main score in bands of the exemplars' similarity.

In: the results of a model and of its baseline. Out: for each band the scores of both, of the exemplars themselves, and
the difference with an interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exadec.experiment.results import Result, unpack
from exadec.textmetrics import confidence_interval, mean_score

BANDS = 4
"""Of equal size."""


@dataclass(frozen=True)
class Band:
    """The instances whose exemplars are about equally similar."""

    low: float
    """Cosine of the least similar exemplar."""
    high: float
    instances: int
    copied: float
    """Score of the exemplars themselves, as if someone had copied them."""
    baseline: float
    score: float
    difference: tuple[float, float]
    """95% interval over instances of score minus baseline, both means over seeds."""


def divide_by_similarity(ours: Sequence[Result], theirs: Sequence[Result], metric: str) -> list[Band]:
    """Bands of equal size, the least similar first; none if one of the two has no scores of the metric per instance."""
    if not (ours and theirs and ours[0].similarities and "exemplars" in ours[0].per_instance):
        return []
    if not all("texts" in result.per_instance and result.main in (None, metric) for result in (*ours, *theirs)):
        return []
    similarities, copied = unpack(ours[0].similarities) / 100, unpack(ours[0].per_instance["exemplars"])
    score, baseline = (np.mean([unpack(one.per_instance["texts"]) for one in some], axis=0) for some in (ours, theirs))
    order = np.argsort(similarities, kind="stable")
    return [
        Band(
            low=float(similarities[rows[0]]),
            high=float(similarities[rows[-1]]),
            instances=len(rows),
            copied=float(copied[rows].mean()),
            baseline=float(baseline[rows].mean()),
            score=float(score[rows].mean()),
            difference=confidence_interval(mean_score(metric, score[rows] - baseline[rows], metric)),
        )
        for rows in np.array_split(order, BANDS)
        if len(rows)
    ]
