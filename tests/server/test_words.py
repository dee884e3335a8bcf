"""Where words come from, against the score Leak, and where they stand in the text."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from exadec.corpus.segment import BpeSegmenter, Segmenter, WordSegmenter
from exadec.generation import Explanation, Generation
from exadec.request import Request
from exadec.server.words import describe_words, find_words, place_pieces
from exadec.styles import Mixture
from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker
from exadec.textmetrics.truth import leaked_words

SEGMENTER = WordSegmenter(pretokenized=False, lower_case=False)


def written(text: str, exemplars: list[str], segmenter: Segmenter = SEGMENTER) -> Generation:
    pieces, memory = segmenter.segment(text), segmenter.segment("A flood reached Porto.")
    attention = np.zeros((len(pieces) + 1, len(memory)), np.float32)
    attention[:, 1], attention[:, 3:] = 0.6, 0.2
    gate = np.linspace(0, 1, len(pieces) + 1, dtype=np.float32)
    return Generation(
        text=text,
        score=0.0,
        exemplar=exemplars[0] if exemplars else None,
        exemplars=exemplars,
        similarity=None,
        pieces=[*pieces, "</s>"],
        memory=memory,
        coefficients=None,
        alternatives=[],
        truncated=0,
        exemplar_truncated=0,
        explain=lambda: Explanation(attention, gate),
    )


def test_words_say_where_they_come_from() -> None:
    words = describe_words(
        written("Porto: storms kill two in the Floods", ["Storm kills 53 people in Jaipur"]),
        Request("A flood reached Porto."),
        SEGMENTER,
    )
    assert [(word["text"], word["origin"]) for word in words] == [
        ("Porto", "source"),
        ("storms", "exemplar"),
        ("kill", "exemplar"),
        ("two", "other"),
        ("in", "other"),
        ("the", "other"),
        ("Floods", "source"),
    ]
    assert all(word["fact"] is None for word in words)


@pytest.mark.parametrize(
    ("text", "exemplar"),
    [
        ("U.S. storm kills 12-year-old, Ada's father says", "U.S. man kills father"),
        ('"No storm" — Bob & Co. don\'t mind...', "Bob doesn't mind the storm"),
        ("Storm/flood: 5,000 flee (again)", "5,000 flee Storm again"),
        ("naïve café", "Café naïve"),
    ],
)
def test_words_from_the_exemplar_are_those_that_leak_counts(text: str, exemplar: str) -> None:
    source = "A flood reached Porto."
    words = describe_words(written(text, [exemplar]), Request(source), SEGMENTER)
    found = [word["text"] for word in words if word["origin"] == "exemplar"]
    assert found == leaked_words(text, source, exemplar)
    assert found


def test_all_exemplars_of_a_mixture_count() -> None:
    mixture = Mixture((("One storm", 1.0), ("One quake", 3.0)))
    words = describe_words(
        written("Storm and quake", ["One quake"]), Request("A flood reached Porto.", mixture=mixture), SEGMENTER
    )
    assert [word["origin"] for word in words] == ["exemplar", "other", "exemplar"]


def test_a_licensed_fact_is_the_sources_in_another_form() -> None:
    generation = written("Flood: 12 dead, Mon", ["Storm: 12 dead, Mon"])
    source = "A flood killed twelve people on Monday."
    object.__setattr__(generation, "facts", Checker(source, Names()).check(generation.text))
    words = describe_words(generation, Request(source), SEGMENTER)
    assert [(word["text"], word["origin"]) for word in words] == [
        ("Flood", "source"),
        ("12", "source"),
        ("dead", "exemplar"),
        ("Mon", "source"),
    ]


def test_facts_are_those_of_the_generation() -> None:
    generation = written("Ada wins 12 of 13", [])
    assert generation.facts is None
    facts = [
        SimpleNamespace(begin=0, end=3, licensed=True),
        SimpleNamespace(begin=9, end=11, licensed=False),
    ]
    object.__setattr__(generation, "facts", facts)
    words = describe_words(generation, Request("Ada"), SEGMENTER)
    assert [word["fact"] for word in words] == ["licensed", None, "unlicensed", None, None]


def test_places_are_those_of_the_text() -> None:
    text = ' "U.S. aid" (12,000 tons…) goes—slowly—to Ada\'s town. '
    places = find_words(text)
    assert [text[start:end] for start, end in places] == [
        *("U.S.", "aid", "12,000", "tons", "goes", "slowly", "to", "Ada's", "town"),
    ]
    assert find_words("") == find_words(" — ... !") == []


def test_pieces_have_places_whatever_the_segmenter() -> None:
    text = "Café Zürich, 12 people"
    bpe = BpeSegmenter.learn([text, "people of Zürich"], 280, lower_case=False)
    for segmenter in (SEGMENTER, bpe):
        pieces = segmenter.segment(text)
        places = place_pieces(pieces, segmenter)
        assert len(places) == len(pieces)
        assert places[0][0] == 0
        assert places[-1][1] == len(text)
        assert all(one[1] == other[0] for one, other in pairwise(places))


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_attention_is_told_in_words_and_the_gate_per_word(kind: str) -> None:
    text = "Porto flood"
    bpe = BpeSegmenter.learn([text, "A flood reached Porto."], 270, lower_case=False)
    segmenter: Segmenter = SEGMENTER if kind == "words" else bpe
    generation = written(text, [], segmenter)
    first, second = describe_words(generation, Request("x"), segmenter)
    assert first["copied"] < second["copied"]
    joined = {one["text"]: one["weight"] for one in first["attended"]}
    assert set(joined) <= {"A", "flood", "reached", "Porto."}
    if kind == "words":
        assert joined == {"flood": pytest.approx(0.6), "Porto.": pytest.approx(0.4)}


def test_a_model_without_copying_explains_nothing() -> None:
    generation = replace(written("Porto", []), explain=lambda: Explanation(None, None))
    (word,) = describe_words(generation, Request("Porto"), SEGMENTER)
    assert word["copied"] is None
    assert word["attended"] == []
