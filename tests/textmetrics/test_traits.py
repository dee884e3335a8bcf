"""Traits of small texts, each judged by hand."""

# ruff: noqa: RUF001 -- marks that look alike are the subject of this file

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.traits import KINDS, YES_OR_NO, Traits, find_traits, shape

HAVE = {
    "title_case": ["River Floods Town", "How to Cook the Perfect Egg", "River Floods Town - the Daily Post Reports"],
    "capitals": ["RIVER FLOODS TOWN"],
    "colon": ["Flood: town cut off", "Flood : town cut off", "Flood：town", "Live: 10:30 start"],
    "quotation": ["'No deal' says mayor", "Mayor: “no”", "mayor : `` no deal ''", "« Non » dit la maire", '"Half open'],
    "tail": ["Town cut off - Daily Post", "Town cut off | Sport", "Town – cut off", "Town—cut off", "Town -- cut off"],
    "question": ["Is it over?", "is it over ?", "Over? Not yet", "終わり？"],
    "long": ["one two three four five six seven eight nine ten eleven twelve thirteen"],
}
HAVE_NOT = {
    "title_case": [
        "River floods town",
        "RIVER FLOODS TOWN",
        "Ada Smith",
        "river floods town",
        "",
        "Ada Smith meets Bob",
    ],
    "capitals": ["River Floods Town", "NATO meets", "NATO", "123", ""],
    "colon": ["A 10:30 start", "a 10 : 30 start", "see https://example.org", "Flood; town cut off"],
    "quotation": ["Don't go", "the nurses' union", "the nurses ' union", 'a 55" screen', "rock 'n' roll", "’90s hits"],
    "tail": ["A 3 - 2 win", "co-op shop", "pre- and post-war", "Town cut off -", "- Town cut off", "2019–20 season"],
    "question": ["Why it is over", "It is over!", ""],
    "long": ["one two three four five six seven eight nine ten eleven - twelve !", ""],
}


@pytest.mark.parametrize("name", YES_OR_NO)
def test_yes_or_no(name: str) -> None:
    assert [text for text in HAVE[name] if not getattr(find_traits(text), name)] == []
    assert [text for text in HAVE_NOT[name] if getattr(find_traits(text), name)] == []


@pytest.mark.parametrize(
    ("text", "opening", "ending"),
    [
        ("River floods town.", "capitalised", "full stop"),
        ("12 hurt in flood", "number", "letter or digit"),
        ("Twelve hurt in flood!", "number", "exclamation mark"),
        ("Why is it over?", "question word", "question mark"),
        ("The end of 2020", "determiner", "letter or digit"),
        ("In the north", "function word", "letter or digit"),
        ("Don't go...", "function word", "ellipsis"),
        ("Cooking for two …", "-ing form", "ellipsis"),
        ("King meets Ada", "capitalised", "letter or digit"),
        ("'No deal' says mayor", "quoted", "letter or digit"),
        ("Mayor says 'no deal'", "capitalised", "other"),
        ("The house is the nurses'", "determiner", "letter or digit"),
        ("river floods town .", "lower case", "full stop"),
        ("NATO meets (again)", "all capitals", "other"),
        ("iPhone sales", "lower case", "letter or digit"),
        ("[Watch] River floods", "capitalised", "letter or digit"),
        ("火事で三人がけが。", "other script", "full stop"),
        ("?", "nothing", "question mark"),
        ("", "nothing", "nothing"),
    ],
)
def test_opening_and_ending(text: str, opening: str, ending: str) -> None:
    traits = find_traits(text)
    assert (traits.opening, traits.ending) == (opening, ending)


def test_skeleton_keeps_function_words_and_marks_and_masks_the_rest() -> None:
    assert " ".join(find_traits("Ada's NATO plan for the 12 of us: 'go on'").skeleton) == (
        'Xx \'s XX x for the 9 of us : " x on "'
    )
    assert find_traits("The iPhone, then").skeleton == ("the", "x", ",", "then")
    assert [shape(word) for word in ("Ada", "McKay", "A", "UN", "12", "5m", "river", "火")] == [
        "Xx", "Xx", "Xx", "XX", "9", "9", "x", "o",
    ]  # fmt: skip


def test_words_are_counted_without_marks() -> None:
    assert [find_traits(text).words for text in ("", "?", "a - b , c", "don't go")] == [0, 0, 3, 2]


@given(st.text())
def test_any_text_has_traits(text: str) -> None:
    traits = find_traits(text)
    assert all(isinstance(getattr(traits, name), bool) for name in YES_OR_NO)
    assert all(getattr(traits, name) for name in KINDS)
    assert len(traits.skeleton) >= traits.words
    assert set(Traits.__slots__) == {*YES_OR_NO, *KINDS, "words", "skeleton"}
