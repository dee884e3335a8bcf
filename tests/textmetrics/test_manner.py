"""Manner against the formula written plainly, and what must hold for any texts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics import agreements, confidence_interval, manner
from exadec.textmetrics.traits import KINDS, YES_OR_NO, find_traits

TEXTS = [
    "River floods town",
    "How to Cook the Perfect Egg",
    "Flood: 12 hurt - Daily Post",
    "'No deal' says mayor",
    "Is it over?",
    "",
]
EXEMPLARS = [
    "Fire: two hurt - Daily Post",
    "Why You Should Not Fry an Egg",
    "Storm: 3 missing - Daily Post",
    "Mayor says no",
    None,
    "One more thing",
]


def lcs(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    if not first or not second:
        return 0
    if first[0] == second[0]:
        return 1 + lcs(first[1:], second[1:])
    return max(lcs(first[1:], second), lcs(first, second[1:]))


def agree(name: str, text: str, exemplar: str) -> float:
    own, other = find_traits(text), find_traits(exemplar)
    if name == "length":
        lengths = sorted((own.words, other.words))
        return lengths[0] / lengths[1] if lengths[1] else 1
    if name == "skeleton":
        total = len(own.skeleton) + len(other.skeleton)
        return 2 * lcs(own.skeleton, other.skeleton) / total if total else 1
    return float(getattr(own, name) == getattr(other, name))


@pytest.mark.parametrize("times", [1, 40])
def test_manner_is_the_formula(times: int) -> None:
    """Few exemplars of each kind, and then enough of each for its full weight."""
    texts, exemplars = TEXTS * times, EXEMPLARS * times
    pairs = [(text, exemplar) for text, exemplar in zip(texts, exemplars, strict=True) if exemplar]
    above = below = 0.0
    expected = []
    for name in (*YES_OR_NO, *KINDS, "length", "skeleton"):
        kinds = [getattr(find_traits(exemplar), name, "all") if name != "skeleton" else "all" for _, exemplar in pairs]
        counts = Counter(kinds)
        hits = weight = 0.0
        for kind, count in counts.items():
            share = min(1, count / 30) / len(counts)
            rate = sum(agree(name, *pair) for pair, own in zip(pairs, kinds, strict=True) if own == kind) / count
            hits, weight = hits + share * rate, weight + share
        expected.append(100 * hits / weight)
        above, below = above + hits, below + weight
    assert manner(texts, exemplars).value == pytest.approx(100 * above / below)
    assert [row.agreement.value for row in agreements(texts, exemplars)] == pytest.approx(expected)


def test_rates_count_their_cases() -> None:
    texts = ["A: b", "A b", "A: b", "A b", "A b", "A: b"]
    exemplars = ["C: d", "C: d", "C: d", "C d", "C d", ""]
    (colon,) = [row for row in agreements(texts, exemplars) if row.trait == "colon"]
    assert colon.if_exemplar_has is not None
    assert colon.if_exemplar_has_not is not None
    assert (colon.if_exemplar_has.value, colon.if_exemplar_has.count) == (pytest.approx(200 / 3), 3)
    assert (colon.if_exemplar_has_not.value, colon.if_exemplar_has_not.count) == (0, 2)
    assert colon.agreement.count == 5
    (first,) = [row for row in agreements(texts, exemplars) if row.trait == "first word"]
    assert first.if_exemplar_has is None


def test_ignoring_the_exemplar_gives_half() -> None:
    """However rare a trait is: never to write it, always to write it, or at random."""
    exemplars = ["Town: flood"] * 40 + ["Town flood"] * 400
    for texts in (["Town flood"] * 440, ["Town: flood"] * 440, ["Town flood", "Town: flood"] * 220):
        (colon,) = [row for row in agreements(texts, exemplars) if row.trait == "colon"]
        assert colon.agreement.value == pytest.approx(50)


def test_instances_without_exemplar_change_nothing() -> None:
    some = manner(TEXTS[:4], EXEMPLARS[:4])
    more = manner([*TEXTS[:4], "Why?", "x"], [*EXEMPLARS[:4], None, "  "])
    assert more.value == pytest.approx(some.value)
    assert (more.count, more.instances) == (4, 6)
    assert manner(["x"], [None]).value == 0


def test_signature_has_the_version_and_lengths_must_match() -> None:
    assert "|definition:1|" in manner(TEXTS, EXEMPLARS).signature
    assert len({row.agreement.signature for row in agreements(TEXTS, EXEMPLARS)}) == 11
    with pytest.raises(ValueError, match="same length, but have 1 and 2"):
        manner(["a"], ["a", "b"])


ANY = st.lists(st.tuples(st.text(max_size=40), st.one_of(st.none(), st.text(max_size=40))), min_size=1, max_size=8)


@given(ANY)
def test_manner_lies_between_0_and_100(pairs: list[tuple[str, str | None]]) -> None:
    texts, exemplars = [text for text, _ in pairs], [exemplar for _, exemplar in pairs]
    score = manner(texts, exemplars)
    low, high = confidence_interval(score, resamples=20)
    assert -1e-9 <= low <= high <= 100 + 1e-9
    assert 0 <= score.value <= 100 + 1e-9


@given(st.lists(st.text(min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=8))
def test_a_text_has_the_manner_of_itself(texts: list[str]) -> None:
    assert manner(texts, texts).value == pytest.approx(100)
