"""Currency signs belong to their numbers, and another currency is another fact."""

# ruff: noqa: RUF001 -- signs that look alike are the subject of this file

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


@pytest.mark.parametrize(
    ("source", "text", "licensed"),
    [
        ("It cost $500.", "₽500", False),
        ("It cost $500.", "500₩", False),
        ("It cost $500.", "¢500", False),
        ("It cost $500.", "＄500", True),
        ("It cost £500.", "￡500", True),
        ("It cost ₽500.", "500 ₽", True),
        ("It cost 500 roubles.", "₽500", True),
        ("It cost 50 cents.", "¢50", True),
        ("He paid 5 million dollars 12 years ago.", "$12", False),
        ("He paid 5 million dollars 12 years ago.", "$5m", True),
        ("Raised 3 million euros. 40 firms left.", "€40", False),
        ("Raised 3 million euros. 40 firms left.", "€3m", True),
        ("The bank cut 500 jobs. Sterling fell.", "£500", False),
        ("It cost 5 million, dollars said little.", "$5m", False),
        ("It cost one hundred and five pounds.", "£5", False),
        ("It cost 20-25 dollars.", "$20 or $25", True),
        ("They paid EUR 5 USD 6.", "€5, $6", True),
        ("They paid EUR 5 USD 6.", "€6", False),
        ("They paid 5 EUR 6 times.", "€6", False),
    ],
)
def test_a_currency_belongs_to_one_number(source: str, text: str, licensed: bool) -> None:
    assert Checker(source, Names()).accepts(text) == licensed
