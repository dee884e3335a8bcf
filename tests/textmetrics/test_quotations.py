"""Which words stand in quotation marks, however the marks look and however often they are nested."""

# ruff: noqa: RUF001 -- marks that look alike are the subject of this file

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.facts import Names, read_words
from exadec.textmetrics.licensing import Checker
from exadec.textmetrics.quotations import find_quotations, plain_marks

SOURCE = 'Rossi said: "The old plan was ready."'
MARKS = ["「{}」", "『{}』", "‹{}›", "›{}‹", "‚{}‘", "‚{}’", "‘{}", "`{}", "&quot;{}&quot;", "&ldquo;{}&rdquo;"]


@pytest.mark.parametrize("marks", MARKS)
def test_words_in_rarer_marks_are_quoted(marks: str) -> None:
    checker = Checker(SOURCE, Names())
    for text in (marks.format("old"), f"of the {marks.format('old plan')} here"):
        assert checker.accepts(text)
        changed = text.replace("old", "doom")
        assert not checker.accepts(changed)
        assert [fact.words for fact in checker.check(changed) if not fact.licensed] == ["doom"]
        assert not checker.accepts_beginning(changed)


@pytest.mark.parametrize(
    "text",
    [
        "\"The 'evil' plan was ready\"",
        '"The ‘evil’ plan was ready"',
        "“The «evil» plan was ready”",
        "‘The “evil” plan was ready’",
        "'The \"evil\" plan was ready'",
        "`` The ` evil ' plan was ready ''",
        "„The ‚evil‘ plan was ready“",
        "「The 『evil』 plan was ready」",
        "«The ‹evil› plan was ready»",
    ],
)
def test_the_innermost_words_of_nested_quotations_are_quoted(text: str) -> None:
    checker = Checker(SOURCE, Names())
    assert not checker.accepts(f"Rossi said: {text}")
    assert [fact.words for fact in checker.check(text) if not fact.licensed] == ["evil"]
    assert checker.accepts(f"Rossi said: {text.replace('evil', 'old')}")


@pytest.mark.parametrize(
    "text", ["rock ‘n’ roll", "‘til dawn, ‘cause they said so", "the players’ doom", "in ‘22", "home › doom", "don't"]
)
def test_an_apostrophe_or_an_arrow_opens_no_quotation(text: str) -> None:
    assert Checker(SOURCE, Names()).accepts(f"they took {text.replace('‘22', 'it')}")
    assert find_quotations(plain_marks(text)) == ()


@pytest.mark.parametrize("text", ['"\u200d\u200d A', '\u0301\u200d "\u200d\u200d A', '"__ A"'])
def test_words_without_letters_and_digits_are_no_facts(text: str) -> None:
    assert [fact.words for fact in Checker("x y.", Names()).check(text)] == ["A"]


@given(st.text(st.sampled_from("ab1 .,\"'‘’“”«»‹›‚「」`&;$")), st.sampled_from(["", "&quot;", "``", "''"]))
def test_any_text_has_its_quotations_within_its_words(text: str, mark: str) -> None:
    plain = plain_marks(mark + text)
    assert len(plain) == len(mark + text)
    words = read_words(plain)
    assert all(0 <= one.words.start <= one.words.stop <= len(words) for one in find_quotations(plain))
    for fact in Checker("nothing", Names()).check(mark + text):
        assert (mark + text)[fact.begin : fact.end] == fact.words != ""
