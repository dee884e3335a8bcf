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


@pytest.mark.parametrize(
    ("text", "source", "other"),
    [
        ("A million people came", "It drew 1,000,000 people.", "It drew 5 people."),
        ("A million people came", "It drew 1m people.", "Half a million people came."),
        ("half a million came", "It drew 500,000 people.", "A million people came."),
        ("a dozen came", "It drew twelve people.", "It drew dozens."),
        ("two dozen came", "It drew 24 people.", "It drew a dozen and two."),
        ("one hundred and twenty-five came", "It drew 125 people.", "It drew 100 of 25 people."),
        ("one million two hundred thousand came", "It drew 1.2m people.", "It drew 1m of 200,000."),
        ("two and a half million came", "It drew 2.5m people.", "Half a million of two came."),
        ("Dozens came", "It drew dozens.", "It drew 48 people."),
        ("Millions came", "It drew millions.", "It drew 5 million people."),
        ("thousands came", "It drew tens of thousands.", "It drew hundreds."),
        ("2.5m came", "Two and a half million came.", "Half a million came."),
        ("3.5 years", "It took 3½ years.", "It took 3 years."),
        ("3½ years", "It took 3.5 years.", "It took 3 years."),
        ("1,000,000 came", "It drew 1 000 000 people.", "It drew 1, 000, 000 people."),
        ("1m came", "It drew 1\u202f000\u00a0000 people.", "It drew 1 000 people."),
        ("1000 came", "It drew 1'000 people.", "It drew 1'001 people."),
        ("at 10.30", "It began at 10:30.", "It began at 10:31."),
        ("at 10:30", "It began at 10.30.", "It began at 10.31."),
        ("the '90s", "It began in the 1990s.", "It began in the 1980s."),
        ("the 20m tower", "The tower is 20 m high.", "The tower is 20 feet high."),
        ("the 100m race", "The race is over 100 metres.", "The race is over 100 miles."),
        ("paid £20m", "They paid £20 m.", "They ran 20 m."),
        ("drew 20 million", "They paid 20 m euros.", "The tower is 20 m high."),
    ],
)
def test_numbers_of_several_words_keep_their_value(text: str, source: str, other: str) -> None:
    """And no beginning of a licensed text is refused."""
    checker = Checker(source, Names())
    assert checker.accepts(text)
    assert all(fact.licensed for fact in checker.check(text))
    words = text.split()
    assert all(checker.accepts_beginning(" ".join(words[:count])) for count in range(1, len(words) + 1))
    assert not Checker(other, Names()).accepts(text)
    assert any(not fact.licensed for fact in Checker(other, Names()).check(text))


def test_an_article_states_no_number() -> None:
    assert Checker("Nothing.", Names()).check("a house, an hour and a few") == []
