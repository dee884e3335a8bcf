"""Bags of words: what counts as a term, and what it weighs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exadec.exemplars.bow import BagOfWords, terms


def test_terms_are_lower_cased_words_without_punctuation() -> None:
    assert terms('The U.S. "aid", Norway\'s: 4.86 million!') == ["the", "u.s", "aid", "norway's", "4.86", "million"]


@given(st.text(max_size=60))
def test_terms_of_a_text_are_those_of_its_words(text: str) -> None:
    assert [term for word in text.split() for term in terms(word)] == terms(text)


def test_tfidf_weights_are_the_fields_smoothed_ones_in_steps() -> None:
    bag = BagOfWords("tfidf")
    bag.fit(["a b", "a c", "a a"])
    expected = [np.log(4 / 4) + 1, np.log(4 / 2) + 1, np.log(4 / 2) + 1]
    np.testing.assert_allclose(bag.weights / 64, expected, atol=1 / 128)
