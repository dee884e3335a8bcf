"""Manner: does a text look like its exemplar?

In: texts and their exemplars. Out: the score `Manner`, and for each trait how often a text shares it with its exemplar.

Manner is the mean agreement of text and exemplar over the 11 traits, from 0 to 100. A trait that is there or not, or is
one of several kinds, agrees with 1 or 0. Length agrees with shorter / longer, in words. Skeletons agree with 2 * LCS /
(sum of their lengths), where LCS is their longest common subsequence.

All traits have the same weight. Within a trait, all kinds of exemplar have the same weight: those with a colon as much
as those without. Otherwise a system that never writes a colon would score high, because most exemplars have none. With
equal weights it gets 50, as does any that ignores the exemplar. A kind with n < 30 exemplars has n / 30 of its weight.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress

import numpy as np

from exadec.textmetrics.matching import TokenRows, count_matches
from exadec.textmetrics.scores import BoolArray, FloatArray, IntArray, RatioScore, package_version, ratio_score
from exadec.textmetrics.traits import KINDS, YES_OR_NO, find_traits

VERSION = 1
"""Of the definition. Values of different versions must not be compared."""
FEW = 30
"""A rate of fewer cases than this is noise."""
LENGTH, SKELETON = "length", "skeleton"


@dataclass(frozen=True)
class Agreement:
    """One trait of texts and exemplars."""

    trait: str
    """What to call it."""
    agreement: RatioScore
    """How far text and exemplar agree; each kind of exemplar has the same weight."""
    if_exemplar_has: RatioScore | None
    """Share of texts that have the trait, where the exemplar has it. None for graded traits and for kinds."""
    if_exemplar_has_not: RatioScore | None
    """Share of texts that have the trait, where the exemplar has not."""


def manner(texts: Sequence[str], exemplars: Sequence[str | None]) -> RatioScore:
    """The mean agreement of texts with their exemplars; an instance without an exemplar is left out."""
    rows = _compare_traits(tuple(texts), tuple(exemplars))
    weights = [row.weights for row in rows.values()]
    hits = np.sum([row.values * row.weights for row in rows.values()], axis=0)  # (N,)
    count = int(find_given(texts, exemplars).sum())
    return ratio_score("Manner", hits, np.sum(weights, axis=0), _signature("mean of 11 traits|balanced"), count=count)


def agreements(texts: Sequence[str], exemplars: Sequence[str | None]) -> list[Agreement]:
    """Trait by trait, with the number of cases in each score's `count`."""
    given = find_given(texts, exemplars)
    rows = []
    for name, row in _compare_traits(tuple(texts), tuple(exemplars)).items():
        called = {**YES_OR_NO, **KINDS}.get(name, name)
        recipe = _signature(f"agreement:{name}|balanced")
        agreement = ratio_score(called, row.values * row.weights, row.weights, recipe, count=int(given.sum()))
        rates: list[RatioScore | None] = [None, None]
        if name in YES_OR_NO:
            has = np.array([getattr(find_traits(text), name) for text in texts], dtype=bool)
            wanted = has == (row.values > 0)  # agreement says what the exemplar has
            for place, (cases, condition) in enumerate(((given & wanted, "has"), (given & ~wanted, "has-not"))):
                rates[place] = ratio_score(called, has & cases, cases, _signature(f"share:{name}|exemplar:{condition}"))
        rows.append(Agreement(called, agreement, *rates))
    return rows


def find_given(texts: Sequence[str], exemplars: Sequence[str | None]) -> BoolArray:
    """(N,) whether an instance has an exemplar; blank text is none."""
    if len(texts) != len(exemplars):
        raise ValueError(
            f"`texts` and `exemplars` must have the same length, but have {len(texts)} and {len(exemplars)} instead."
        )
    return np.array([bool(exemplar and exemplar.strip()) for exemplar in exemplars], dtype=bool)


@dataclass(frozen=True)
class _Compared:
    """One trait of all instances."""

    values: FloatArray
    """(N,) agreement from 0 to 1."""
    weights: FloatArray
    """(N,) 0 for an instance without an exemplar."""


@lru_cache(maxsize=2)
def _compare_traits(texts: tuple[str, ...], exemplars: tuple[str | None, ...]) -> dict[str, _Compared]:
    """By the name of the trait. Kept, because the score and the table are made from the same."""
    given = find_given(texts, exemplars)
    pairs = [(find_traits(text), find_traits(exemplar or "")) for text, exemplar in zip(texts, exemplars, strict=True)]
    found = {}
    for name in (*YES_OR_NO, *KINDS):
        wanted = [getattr(other, name) for _, other in pairs]
        same = [getattr(own, name) == kind for (own, _), kind in zip(pairs, wanted, strict=True)]
        found[name] = _Compared(np.array(same, dtype=np.float64), _balance(wanted, given))
    alike = _balance([None] * len(pairs), given)
    lengths = np.array([(own.words, other.words) for own, other in pairs], dtype=np.int64).reshape(-1, 2)  # (N, 2)
    found[LENGTH] = _Compared(_ratio(lengths.min(axis=1), lengths.max(axis=1)), alike)
    rows = _number([own.skeleton for own, _ in pairs] + [other.skeleton for _, other in pairs])
    texts_rows, exemplar_rows = rows.select(slice(len(pairs))), rows.select(slice(len(pairs), None))
    shared = count_matches(texts_rows, exemplar_rows, ["L"])["L"]
    found[SKELETON] = _Compared(_ratio(2 * shared, texts_rows.lengths + exemplar_rows.lengths), alike)
    return found


def _balance(kinds: Sequence[str | bool | None], given: BoolArray) -> FloatArray:
    """Weights (N,) that give each kind of exemplar the same sum, and all kinds together at most 1."""
    known = given.tolist()
    counts = Counter(compress(kinds, known))
    weights = {kind: 1 / (len(counts) * max(count, FEW)) for kind, count in counts.items()}
    return np.array([weights[kind] if is_given else 0.0 for kind, is_given in zip(kinds, known, strict=True)])


def _ratio(part: FloatArray | IntArray, whole: FloatArray | IntArray) -> FloatArray:
    """part / whole; 1 where both are 0, because two empty texts are alike."""
    ratio: FloatArray = np.where(whole > 0, part / np.maximum(whole, 1), 1.0)
    return ratio


def _number(skeletons: Sequence[Sequence[str]]) -> TokenRows:
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(token, len(numbers)) for skeleton in skeletons for token in skeleton]
    lengths = np.array([len(skeleton) for skeleton in skeletons], dtype=np.int64)
    return TokenRows(np.array(ids, dtype=np.int64), np.cumsum(lengths) - lengths, lengths, len(numbers))


def _signature(what: str) -> str:
    return f"manner|{what}|definition:{VERSION}|v:{package_version()}"
