"""What a score is, and the checks every score shares.

In: numbers per instance. Out: a `Score`: name, corpus value, signature, and the value of any resample.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Score(ABC):
    """One number for a corpus, with the recipe that made it."""

    name: str
    """The heading of a table's column, for example `ROUGE-L`."""
    value: float
    """The corpus value, 0 to 100."""
    signature: str
    """The recipe. Two values may be compared only when their signatures are equal."""
    lower_is_better: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def instances(self) -> int:
        """Number of instances the value was computed from."""

    @abstractmethod
    def resampled_values(self, weights: FloatArray) -> FloatArray:
        """Corpus values (R,) if instance n occurs weights[r, n] times; every row of `weights` (R, N) sums to N."""

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.2f} [{self.signature}]"


@dataclass(frozen=True, eq=False)
class MeanScore(Score):
    """A score whose corpus value is the mean over instances: ROUGE, or any rate."""

    per_instance: FloatArray = field(repr=False)
    """(N,) values from 0 to 100."""

    @property
    def instances(self) -> int:
        return len(self.per_instance)

    def resampled_values(self, weights: FloatArray) -> FloatArray:
        values: FloatArray = weights @ self.per_instance / len(self.per_instance)  # (R,)
        return values


@dataclass(frozen=True, eq=False)
class RatioScore(Score):
    """A score whose corpus value is a ratio of sums over instances: the share of cases of which something is true."""

    hits: FloatArray = field(repr=False)
    """(N,) weight of the cases of which it is true; a case may be true in part."""
    cases: FloatArray = field(repr=False)
    """(N,) weight of all cases: their number, where each counts the same; 0 for an instance that has none."""
    count: int
    """Number of cases in the corpus: with few, the value means little."""

    @property
    def instances(self) -> int:
        return len(self.cases)

    def resampled_values(self, weights: FloatArray) -> FloatArray:
        hits, cases = weights @ self.hits, weights @ self.cases  # (R,) each
        # A resample without a case says nothing, so it takes the value of the corpus.
        values = np.full(len(weights), self.value)
        return np.divide(100 * hits, cases, out=values, where=cases > 0)


def ratio_score(
    name: str,
    hits: ArrayLike,
    cases: ArrayLike,
    signature: str,
    *,
    count: int | None = None,
    value_of_none: float = 0.0,
    lower_is_better: bool = False,
) -> RatioScore:
    """Make a score from each instance's hits and cases; it is `value_of_none` if there are no cases at all.

    `count` is the number of cases, if `cases` are weights rather than numbers.
    """
    counts = [np.array(numbers, dtype=np.float64) for numbers in (hits, cases)]
    if counts[0].ndim != 1 or not len(counts[0]) or counts[0].shape != counts[1].shape:
        raise ValueError(
            "`hits` and `cases` must be non-empty lists of the same length, "
            f"but have shapes {counts[0].shape} and {counts[1].shape} instead."
        )
    if not ((counts[0] >= 0) & (counts[0] <= counts[1] + 1e-9)).all():  # false for NaN, too
        raise ValueError("`hits` must lie between 0 and `cases` for every instance.")
    for numbers in counts:
        numbers.flags.writeable = False
    total = counts[1].sum()
    value = float(100 * counts[0].sum() / total) if total else value_of_none
    number = int(total) if count is None else count
    return RatioScore(name, value, signature, counts[0], counts[1], number, lower_is_better=lower_is_better)


def relative_score(name: str, score: MeanScore, baseline: MeanScore) -> RatioScore:
    """The value of `score` as a percentage of that of `baseline`, both of the same instances; it may exceed 100.

    A resample takes the same instances for both, so the interval is that of a paired comparison.
    """
    if score.signature != baseline.signature or score.instances != baseline.instances:
        raise ValueError("Two scores to divide must have the same signature and be of the same instances.")
    value = 100 * score.value / baseline.value if baseline.value else 0.0
    signature = f"percentage of the baseline|{score.signature}"
    return RatioScore(name, value, signature, score.per_instance, baseline.per_instance, score.instances)


def mean_score(name: str, per_instance: ArrayLike, signature: str) -> MeanScore:
    """Make a score from one value per instance, 0 to 100; for a rate, 0 or 100 each."""
    values = np.array(per_instance, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"`per_instance` must be a non-empty list of numbers, but has shape {values.shape} instead.")
    if not np.isfinite(values).all():
        raise ValueError(f"`per_instance` must be finite, but value {np.isfinite(values).argmin()} is not.")
    values.flags.writeable = False
    return MeanScore(name=name, value=float(values.mean()), signature=signature, per_instance=values)


def check_texts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse input that cannot be scored: no instances, lists of different lengths, no reference for an instance."""
    if len(hypotheses) != len(references):
        raise ValueError(
            "`hypotheses` and `references` must have the same length, "
            f"but have {len(hypotheses)} and {len(references)} instead."
        )
    if not len(hypotheses):
        raise ValueError("`hypotheses` must hold at least 1 text, but is empty instead.")
    for index, texts in enumerate(references):
        # A bare string is a sequence of one-letter strings: without this check it would be scored silently.
        if isinstance(texts, str):
            raise ValueError(
                f"`references[{index}]` must be a list of texts, but is the single text {texts!r} instead."
            )
        if not len(texts):
            raise ValueError(f"`references[{index}]` must hold at least 1 text, but is empty instead.")


def package_version() -> str:
    """Version of the installed package, or `source` if it is not installed."""
    try:
        return version("exadec")
    except PackageNotFoundError:
        return "source"
