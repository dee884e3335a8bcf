"""Facts of texts and what licenses them: by hand, and while a text is being written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker, _plain

NAMES = Names.from_sources(
    ["They flew to Norway and to Ghana on Friday.", "In Ghana the Norway deal and the Porto flood were news."]
)
SOURCE = 'On Thursday twelve of 1,500 people left Porto for the U.K., and envoy Rossi said: "We paid $2.5 million."'


def unlicensed(text: str, source: str = SOURCE) -> list[str]:
    return [fact.words for fact in Checker(source, NAMES).check(text) if not fact.licensed]


@pytest.mark.parametrize(
    "text",
    [
        "Porto: 12 leave on Thu",
        "twelve people and 12 more and 1500, not 1.5k",
        "Rossi's people paid 2.5m",
        "paid $2.5 mln, or 2,500,000",
        "Porto people go to UK",
        "they leave for the United Kingdom",
        "They Leave For The United Kingdom",
        '"We paid," says Rossi',
        "'We paid for people,' Rossi said",
        "THURSDAY: ROSSI LEAVES PORTO",
        "May is over, march on, they sat in the sun and wed",
        "",
    ],
)
def test_form_changes_are_licensed(text: str) -> None:
    assert unlicensed(text) == []
    assert Checker(SOURCE, NAMES).accepts(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Porto: 12 leave on Fri", ["Fri"]),
        ("they left on Sat", ["Sat"]),
        ("Porto, 12 left, Sun", ["Sun"]),
        ("13 leave Porto", ["13"]),
        ("Rossi paid 2.5 billion", ["2.5 billion"]),
        ("Rossi paid 2.5", ["2.5"]),
        ("people in Lisbon paid", ["Lisbon"]),
        ("Ghana: people left", ["Ghana"]),
        ("Ghana People Leave Porto", ["Ghana"]),
        ("they leave for the United States", ["United", "States"]),
        ("they leave for the United Arab Kingdom", ["United", "Arab", "Kingdom"]),
        ('"We lost," says Rossi', ["lost"]),
        ("“We paid nothing,” says Rossi", ["nothing"]),
        ("'We lost people,' Rossi said", ["lost"]),
        ("on 3 May", ["3", "May"]),
        ("the US envoy", ["US"]),
    ],
)
def test_what_the_source_does_not_have_is_found(text: str, words: list[str]) -> None:
    assert unlicensed(text) == words
    assert not Checker(SOURCE, NAMES).accepts(text)


def test_a_word_that_is_also_a_short_date_is_licensed_by_itself() -> None:
    assert unlicensed("Sun shines, they say", "The sun was shining.") == []
    assert unlicensed("Sun shines, they say", "It was shining on Sunday.") == []
    assert unlicensed("Sun shines, they say", "It was shining on Monday.") == ["Sun"]


@pytest.mark.parametrize(
    ("text", "source", "words"),
    [
        ("Porto: they left, Sat", "They sat in Porto.", ["Sat"]),
        ("Porto: they left on Saturday", "They sat in Porto.", ["Saturday"]),
        ("Porto: they left on 5 May", "On the 5th they may leave Porto.", ["May"]),
        ("Porto: they left on 5 May", "On May 5 they left Porto.", []),
        ("Porto: they left, Sat", "PORTO: THEY LEFT, SAT", []),  # capitals say nothing in the source
        ("Envoys Sat in the Morning Sun", "The envoys sat in the morning sun.", []),  # nor in this text
        ("the US paid", "They told us that it was paid.", ["US"]),
        ("the US paid", "The US was told to pay.", []),
    ],
)
def test_a_word_with_another_meaning_does_not_license_a_date_or_a_name(
    text: str, source: str, words: list[str]
) -> None:
    assert unlicensed(text, source) == words


def test_after_a_sum_of_money_any_word_of_the_source_may_begin() -> None:
    """`b` after a number could be billion, but also the first letter of another word."""
    checker = Checker("Rolls cost £3 at bakers.", NAMES)
    assert checker.accepts("£3 bakers")
    assert checker.accepts_letters("£3 b")
    assert not checker.accepts_letters("£3 m")


def test_a_word_with_digits_must_be_in_the_source() -> None:
    checker = Checker("The flood reached the G20 site.", NAMES)
    for text in ("flood75 at the G20 site", "a Flood75 Reached It"):
        assert [fact.words for fact in checker.check(text) if not fact.licensed] == [text.split(" ")["a " in text]]
    assert not checker.accepts_letters("the flood7")
    assert checker.accepts_letters("the G2")
    assert checker.accepts_beginning("the G20")


@pytest.mark.parametrize("marks", ['"{}"', "“{}”", "'{}'", "`` {} ''"])
def test_a_quotation_of_function_words_alone_must_be_in_the_source_as_it_is(marks: str) -> None:
    source = "She said no to them, and wants to be there."
    for words in ("no", "To be", "no to them"):
        assert unlicensed(f"She says {marks.format(words)} again", source) == []
    for words in ("be to", "not", "not to be", "no, them"):
        stated = Checker(source, NAMES).check(f"She says {marks.format(words)} again")
        assert [(fact.words, fact.kind, fact.licensed) for fact in stated] == [(words, "quotation", False)]


def test_a_quotation_of_function_words_may_go_on() -> None:
    checker = Checker("She wants to be left alone.", NAMES)
    for beginning in ('she: "not', 'she: "to be', 'she: "not to be left'):
        assert checker.accepts_beginning(beginning)
        assert checker.accepts_letters(beginning)
    assert checker.accepts_letters('she: "y')  # it can become `you`, though the source has no such word
    assert not checker.accepts('she: "not')  # it is never closed
    assert not checker.accepts_beginning('she: "not" ,')
    assert not checker.accepts_letters('she: "z')


def test_places_are_those_of_the_text() -> None:
    text = "  Rossi's  twenty-one men said “cafe\u0301s” in the U.S. , on Thu ."
    stated = Checker(SOURCE, NAMES).check(text)
    assert [(fact.words, fact.kind, fact.licensed) for fact in stated] == [
        ("twenty-one", "number", False),
        ("cafe\u0301s", "quotation", False),
        ("U.S.", "name", False),
        ("Thu", "weekday", True),
    ]
    for fact in stated:
        assert text[fact.begin : fact.end] == fact.words


def test_every_place_is_found_however_a_text_is_written() -> None:
    for text in (
        "Bob did n't pay `` Ada ''",
        "A & T paid 1 @-@ 2 @,@ 5 for Ada",
        'a 55" screen with Ada…Bob',
        "Élan’s men saw Ünï at 10:30 with Ada",
        "It\u02bcs raining on Ada, 12 dead",
    ):
        stated = Checker("nothing", NAMES).check(text)
        assert stated
        assert all(text[fact.begin : fact.end] == fact.words and fact.words.strip() for fact in stated)
        assert any("Ada" in fact.words for fact in stated)


@pytest.mark.parametrize(
    "text",
    [
        "Rossi paid 2.5",
        "Rossi paid $2.5",
        "Norwegians Leave",
        "People Leave Big",
        "they leave for the United",
        'Rossi: "We',
        "at 2",
    ],
)
def test_what_may_become_licensed_is_not_refused(text: str) -> None:
    checker = Checker(SOURCE, NAMES)
    # 2 could become 2 hundred... only where the source has such a number.
    assert checker.accepts_beginning(text) == (text != "at 2")


@pytest.mark.parametrize(
    "text", ["Rossi paid 2.5 people", "left Porto on Fri", "they leave for Big", "the United people"]
)
def test_what_cannot_become_licensed_is_refused(text: str) -> None:
    assert not Checker(SOURCE, NAMES).accepts_beginning(text)


def test_tens_wait_for_their_units() -> None:
    checker = Checker("There were 21 of them.", NAMES)
    assert checker.accepts_beginning("about twenty")
    assert checker.accepts_beginning("about twenty one")
    assert not checker.accepts_beginning("about twenty two")
    assert not checker.accepts_beginning("about thirty")
    assert not checker.accepts("about twenty")


def test_letters_of_a_word_that_can_become_nothing_are_refused() -> None:
    checker = Checker(SOURCE, NAMES)
    for text in ("left on Th", "left on Thu", "on 1", "on 15", "Por", "Rossi in P", "2", "0.0025"):
        assert checker.accepts_letters(text)
    for text in ("left on Fri", "left on Sat", "on 7", "Rossi left for Gha", "eleven"):
        assert not checker.accepts_letters(text)


def test_all_beginnings_of_a_licensed_text_are_accepted() -> None:
    checker = Checker(SOURCE, NAMES)
    for text in (
        "12 people leave Porto for the United Kingdom , Thu",
        '"We paid $2.5 million," Rossi says',
        "Twelve People Leave Porto For United Kingdom",
        "ROSSI PAID 2,500,000 ON THURSDAY",
    ):
        assert checker.accepts(text)
        words = text.split(" ")
        assert all(checker.accepts_beginning(" ".join(words[:count])) for count in range(1, len(words) + 1))


def test_looking_at_words_one_by_one_only_accepts_what_reading_accepts() -> None:
    """The short cut must never be more lenient than reading the whole text."""
    checker = Checker(SOURCE, NAMES)
    parts = [
        "12",
        "million",
        "Thu",
        "Fri",
        '"We',
        'lost"',
        "people",
        "left",
        "Porto",
        "Ghana",
        "twenty",
        "May",
        "US",
        "2.5",
        "$2.5",
        "€2.5",
        "12€",
        "$",
    ]
    plain = 0
    for first in parts:
        for second in parts:
            for third in parts:
                text = f"they {first} {second} {third} left"  # `left` settles the case
                if checker._is_plain(text):
                    plain += 1
                    assert checker.accepts(text), text
    assert plain > 300


@pytest.mark.parametrize(
    ("source", "text", "licensed"),
    [
        ("José left.", "then Jose left", True),
        ("Jose left.", "then José left", True),
        ("It was in Zürich.", "then Zurich left", True),
        ("It was in Lima.", "then Zürich left", False),
        ('He said: "A café."', 'he said "cafe"', True),
    ],
)
def test_a_word_may_lose_or_gain_its_accents(source: str, text: str, licensed: bool) -> None:
    checker = Checker(source, Names())
    assert checker.accepts(text) == licensed
    assert not licensed or all(checker.accepts_letters(text[:count]) for count in range(1, len(text) + 1))


WORDS = (
    *("12", "million", "a", "A", "half", "dozen", "Dozens", "one", "hundred", "and", "twenty", "five", "thousand", "$"),
    *(
        "£",
        "5",
        "3½",
        "1'000",
        "20",
        "m",
        "10:30",
        "'90s",
        "people",
        "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}old",
    ),
    *("`old", '"the', "'evil'", 'plan"', "José", "euros", "left"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=7), st.lists(st.sampled_from(WORDS), max_size=7))
def test_ways_to_ask_agree(source: list[str], text: list[str]) -> None:
    """What `check` marks is never accepted, and a short cut is never more lenient than reading the whole text."""
    checker, written = Checker(f"They left {' '.join(source)}.", NAMES), f"they left {' '.join(text)}"
    assert checker.accepts(written) == all(fact.licensed for fact in checker.check(written))
    assert not checker._is_plain(_plain(f"{written} left")) or checker.accepts(f"{written} left")
    # `20 m hundred` is metres in a source, and millions in a text.
    assert "m" in text or Checker(written, NAMES).accepts(written)
