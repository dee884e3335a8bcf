"""Leak, support and content: small corpora counted by hand, and what must hold for any texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics import compare, content, leak, leaked_words, licensed, support
from exadec.textmetrics.metrics import score_all
from exadec.textmetrics.truth import content_stems

SOURCE = "The mayor of Lowmoor said on Thursday that 12 bridges would open, as Ada Brack had promised."


def test_leak_counts_words_of_the_exemplar_that_the_source_does_not_have() -> None:
    text = "Highmoor mayor opens the bridge with dancers"  # highmoor, mayor, opens, bridge, dancers
    score = leak([text], [SOURCE], ["The dancer of Highmoor opens a mayor's fête"])
    assert (score.value, score.count) == (pytest.approx(100 * 2 / 5), 5)
    assert score.lower_is_better


def test_leak_is_a_ratio_of_sums_over_instances_with_an_exemplar() -> None:
    texts = ["fire", "fire and a bridge of old stones", "fire"]
    score = leak(texts, ["smoke", "bridge stones", "smoke"], ["Fire!", "no", None])
    assert (score.value, score.count) == (pytest.approx(100 * 1 / 5), 5)
    assert leak(["the"], ["a"], ["the"]).value == 0


def test_leaked_words_are_named_as_the_text_writes_them() -> None:
    text = "Highmoor mayor's Dancers open the bridge for dancers"
    assert leaked_words(text, SOURCE, "The dancer of Highmoor opens a mayor's fête") == [
        "Highmoor",
        "Dancers",
        "dancers",
    ]
    assert leaked_words(text, SOURCE, None) == []


@given(*[st.lists(st.sampled_from(["fire", "smoke", "bridge-fire", "the", "Bridges"]), max_size=5).map(" ".join)] * 3)
def test_words_are_named_exactly_where_there_is_leak(text: str, source: str, exemplar: str) -> None:
    named = leaked_words(text, source, exemplar)
    assert bool(named) == (leak([text], [source], [exemplar]).value > 0)
    assert set(named) <= set(text.split())


def test_content_is_what_reference_and_text_took_from_the_source() -> None:
    reference = "Brack opens 12 Lowmoor bridges at last"  # the source has all but `last`
    score = content(["At last: Lowmoor bridge, BRIDGE, Brack"], [SOURCE], [reference])
    assert (score.value, score.count) == (pytest.approx(100 * 3 / 5), 5)
    both = content(["open", "stones"], [SOURCE, "stones"], [reference, "old stones"])
    assert (both.value, both.count) == (pytest.approx(100 * 2 / 6), 6)
    assert content(["x"], [SOURCE], ["nothing new"]).value == 100


def test_stems_are_of_content_words() -> None:
    assert content_stems("The nurses' union-led walk-out at Ada's") == ("nurs", "union", "led", "walk", "ada")


def test_support_counts_facts() -> None:
    score = support(["Brack: twelve Lowmoor bridges open Thu, 3 shut on Friday in Highmoor"], [SOURCE])
    # brack (the sources write it with a capital), 12, lowmoor, Thursday; not 3, Friday, highmoor
    assert (score.value, score.count) == (pytest.approx(100 * 4 / 7), 7)
    assert not score.lower_is_better


def test_texts_without_facts_are_supported() -> None:
    assert support(["nothing new"], [SOURCE]).value == 100
    mixed = support(["nothing new", "7 days"], [SOURCE, SOURCE])
    assert (mixed.value, mixed.count) == (0, 1)


def test_a_better_leak_is_a_negative_difference() -> None:
    more, less = (leak([text] * 9, ["bridge"] * 9, ["fire"] * 9) for text in ("fire", "bridge"))
    assert compare(less, more).difference == -100


def test_lengths_must_match() -> None:
    with pytest.raises(ValueError, match="same length, but have 1 and 2"):
        leak(["a"], ["a", "b"], ["a"])
    with pytest.raises(ValueError, match="same length, but have 1 and 2"):
        leak(["a"], ["a"], ["a", "b"])
    with pytest.raises(ValueError, match="same length, but have 2 and 1"):
        support(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="same length, but have 2 and 1"):
        content(["a", "b"], ["a"], ["a", "b"])


def test_signatures_have_the_version() -> None:
    assert "|definition:1|" in leak(["a"], ["a"], ["a"]).signature
    assert "|definition:2|" in support(["a"], ["a"]).signature


TRIPLES = st.lists(st.tuples(*[st.text(max_size=40)] * 3), min_size=1, max_size=6)


@given(TRIPLES)
def test_scores_lie_between_0_and_100(triples: list[tuple[str, str, str]]) -> None:
    texts, sources, exemplars = (list(side) for side in zip(*triples, strict=True))
    assert 0 <= leak(texts, sources, exemplars).value <= 100
    assert 0 <= support(texts, sources).value <= 100


WORDS = st.lists(st.sampled_from(["fire", "Fires", "the", "Ada's", "12", "co-op", ":", "?"]), max_size=8).map(" ".join)


@given(WORDS, WORDS, WORDS)
def test_nothing_leaks_from_an_exemplar_that_the_source_contains(text: str, source: str, exemplar: str) -> None:
    assert leak([text], [f"{source} {exemplar}"], [exemplar]).value == 0
    assert leak([text], [source], [source]).value == 0


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_a_copy_of_the_source_is_supported(sources: list[str]) -> None:
    assert support(sources, sources).value == 100


def test_licensed_counts_texts() -> None:
    sources = [
        "They left Porto on Sunday.",
        "They left Oslo on Friday.",
        "Nobody left.",
        "They left the U.K. on Friday.",
    ]
    texts = ["Porto: left Sun", "Porto: left Fri", "nobody left", "they left United Kingdom, Sat"]
    score = licensed(texts, sources)
    assert score.value == 50.0
    assert "definition:4" in score.signature
    [by_name] = score_all(["facts"], texts, [[text] for text in texts], sources=sources)
    assert (by_name.value, by_name.signature) == (score.value, score.signature)
    with pytest.raises(ValueError, match="same length"):
        licensed(texts, sources[:1])
