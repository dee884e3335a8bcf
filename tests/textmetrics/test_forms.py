"""Numbers that several words of a source make, by hand; and what they do not make."""

import pytest

from exadec.textmetrics.facts import Names, read_words
from exadec.textmetrics.forms import glued_units, spelt_out
from exadec.textmetrics.licensing import Checker


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("a million people", {"1000000"}),
        ("more than half a million", {"500000"}),
        ("a quarter of a million", set()),
        ("a hundred thousand", {"100000"}),
        ("one hundred and twenty-five", {"125"}),
        ("two thousand three hundred and four", {"2304", "304"}),
        ("twenty-five thousand", {"25000", "5000"}),
        ("a dozen", {"12"}),
        ("two dozen", {"24"}),
        ("3 dozen", {"36"}),
        ("half a dozen or half-dozen", {"6"}),
        ("five ten", set()),
        ("twenty", set()),
        ("the bn and a bn", set()),
        ("dozens and millions", set()),
        ("five and six", set()),
    ],
)
def test_numbers_are_those_of_several_words(source: str, numbers: set[str]) -> None:
    assert {place.fact.key for place in spelt_out(read_words(source))} == numbers


def test_digits_are_glued_to_their_unit() -> None:
    assert glued_units(read_words("20 GB of 5 people, and 7.")) == {"20gb"}


@pytest.mark.parametrize(
    ("text", "source", "other"),
    [
        ("1m came", "A million people came.", "Half a million people came."),
        ("12 hurt", "A dozen people were hurt.", "Dozens of people were hurt."),
        ("125 hurt", "One hundred and twenty-five people were hurt.", "One hundred of twenty-five were hurt."),
        ("12th of July", "On the twelfth of July.", "On the tenth of July."),
        ("21st birthday", "On her twenty-first birthday.", "On her twenty-second birthday."),
        ("20GB drive", "A drive of 20 GB was lost.", "A drive of 20 MB was lost."),
    ],
)
def test_the_form_may_change_but_not_the_number(text: str, source: str, other: str) -> None:
    assert Checker(source, Names()).accepts(text)
    assert not Checker(other, Names()).accepts(text)
    words = text.split()
    for licensing in (source, other):
        checker = Checker(licensing, Names())
        # A number may wait for words that multiply it, so the beginning is one word longer.
        assert checker.accepts_beginning(" ".join(words[:2])) == (licensing == source)
    letters = Checker(source, Names())
    assert all(letters.accepts_letters(words[0][:count]) for count in range(1, len(words[0]) + 1))
