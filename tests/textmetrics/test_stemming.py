"""Stems: published examples, and those of nltk."""

import pydoc_data.topics
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem import PorterStemmer

from exadec.textmetrics.stemming import stem_like_nltk, stem_like_script

ENDINGS = re.findall(
    r"\w+",
    "ational tional enci anci izer bli abli alli entli eli ousli ization ation ator alism iveness fulness ousness "
    "aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment "
    "ent ion ou ism ate iti ous ive ize e ed ing eed ied ies sses ss s y yy ll at bl iz tt w x 7 b a i",
)


def test_stem_published_examples() -> None:
    examples = {
        "caresses": "caress",
        "ponies": "poni",
        "agreed": "agre",
        "motoring": "motor",
        "conflated": "conflat",
        "hopping": "hop",
        "falling": "fall",
        "filing": "file",
        "relational": "relat",
        "vietnamization": "vietnam",
        "hopefulness": "hope",
        "electriciti": "electr",
        "adoption": "adopt",
        "controlling": "control",
        # Where rouge-score's stemmer leaves the paper:
        "dies": "die",
        "died": "die",
        "spied": "spi",
        "enjoy": "enjoy",
        "flying": "fli",
        "news": "news",
        "geology": "geolog",
    }
    assert {word: stem_like_nltk(word) for word in examples} == examples


def test_stem_of_the_script() -> None:
    examples = {
        "caresses": "caress",
        "dies": "di",
        "died": "di",
        "enjoy": "enjoi",
        "flying": "fly",
        "news": "new",
        "geology": "geologi",
        "archaeology": "archaeolog",
        "nationally": "nation",
        "hopefully": "hopefulli",
        "agreement": "agreem",  # -ent falls after -ement and -ment did not
        "replacement": "replac",
        "adoption": "adopt",
        "yelling": "yell",
        "1990s": "1990",
    }
    assert {word: stem_like_script(word) for word in examples} == examples


def test_stem_equals_nltk_on_english() -> None:
    words = sorted(set(re.findall("[a-z0-9]+", " ".join(pydoc_data.topics.topics.values()).lower())))
    assert len(words) > 3000
    reference = PorterStemmer()
    assert [stem_like_nltk(word) for word in words] == [reference.stem(word) for word in words]


@settings(max_examples=2000, deadline=None)
@given(st.text("aeioubcdlstyz7", max_size=5), st.lists(st.sampled_from(ENDINGS), max_size=4))
def test_stem_equals_nltk_on_any_pile_of_endings(start: str, endings: list[str]) -> None:
    word = start + "".join(endings)
    assert stem_like_nltk(word) == PorterStemmer().stem(word)
