"""Currency signs belong to their numbers, and another currency is another fact."""

import pytest

from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker
from exadec.textmetrics.money import find_signs


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("paid $5 for 6", {1: "$"}),
        ("paid $ 5 for 6", {1: "$"}),
        ("US$5m", {1: "$"}),
        ("5€ or 6 €", {0: "€", 2: "€"}),
        ("5 $6", {1: "$"}),
        ("£20-25", {0: "£", 1: "£"}),
        ("$ people", {}),
        ("5 people paid", {}),
    ],
)
def test_signs_are_found_with_their_numbers(text: str, signs: dict[int, str]) -> None:
    assert find_signs(text) == signs


@pytest.mark.parametrize(
    "source",
    ["They paid $2.5 million.", "They paid 2.5 million US dollars.", "They paid USD 2.5m.", "They paid 2,500,000 $."],
)
def test_the_same_currency_licenses_a_sum(source: str) -> None:
    checker = Checker(source, Names())
    for text in ("paid $2.5m", "paid $ 2.5 million", "paid 2.5m", "2.5m dollars paid"):
        assert checker.accepts(text), text
        words = text.split()
        assert all(checker.accepts_beginning(" ".join(words[:count])) for count in range(1, len(words) + 1))
    for text in ("paid €2.5m", "paid £ 2.5 million", "2.5m € paid", "paid $2.5"):
        assert not checker.accepts(text), text
    assert checker.accepts_letters("paid $2")
    assert not checker.accepts_letters("paid €2")
    assert not checker.accepts_letters("paid €")  # nothing good could follow
    assert not checker.accepts_beginning("paid € 2.5 million people")


def test_a_number_without_a_currency_licenses_none() -> None:
    checker = Checker("About 12 people left, a million stayed.", Names())
    assert checker.accepts("12 leave, 1m stay")
    for text in ("$12 leave", "12€ leave", "$1m stay"):
        assert not checker.accepts(text)
    [fact] = checker.check("they paid $12")
    assert (fact.words, fact.kind, fact.licensed) == ("12", "number", False)


def test_sums_in_words_are_money() -> None:
    checker = Checker("It cost a million euros and one hundred and five pounds.", Names())
    assert checker.accepts("cost: €1m, £105")
    assert not checker.accepts("cost: £1m")
