"""Words and marks: the same for tokenised and untokenised text, and for every way to write a mark."""

# ruff: noqa: RUF001 -- marks that look alike are the subject of this file

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.tokens import is_function_word, is_word, letter_case, remember, split_text, without_possessive


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Mayor says 'no deal' to £1,000 plan", 'Mayor says " no deal " to £ 1,000 plan'),
        ("Mayor says ' no deal ' to £ 1,000 plan", 'Mayor says " no deal " to £ 1,000 plan'),
        ("“No deal,” says mayor", '" No deal , " says mayor'),
        ("‘Don’t go’ says nurses’ union", '" Don\'t go " says nurses union'),
        ("`` No deal '' , he said", '" No deal " , he said'),
        ("` No deal ' , he said", '" No deal " , he said'),
        ("the nurses' union and the pilots' rota", "the nurses union and the pilots rota"),
        ("the nurses ' union", "the nurses union"),
        ("it 's what we do n't know", "it's what we don't know"),
        ("it's what we don't know", "it's what we don't know"),
        ("here`s how", "here's how"),
        ("shut for '30 days' in ’22", 'shut for " 30 days " in 22'),
        ("a ’sad’ day", 'a " sad " day'),
        ("R & D at the A&E", "R&D at the A&E"),
        ("rock 'n' roll of the '90s in the Lions' den", "rock n roll of the 90s in the Lions den"),
        ("Ada 's plan", "Ada's plan"),
        ("wait... what . . . now…", "wait … what … now …"),
        ("a 10:30 start for a 12-year-old in the U.S.", "a 10:30 start for a 12-year-old in the U.S."),
        ("a 12 @-@ year @-@ old", "a 12-year-old"),
        ("R&D at 3.5% of 1,000.50", "R&D at 3.5 % of 1,000.50"),
        ("pre- and post-war, 2019–20", "pre and post-war , 2019-20"),
        ("late -- too late", "late — too late"),
        ('a 55" screen', "a 55 screen"),
        ('a 55 " screen', "a 55 screen"),
        ('in 2020 "only" two', 'in 2020 " only " two'),
        ("न्यूयॉर्क में", "न्यूयॉर्क में"),
        ("火事：三人", "火事 : 三人"),
        ("", ""),
        ("'", ""),
        ("?!", "? !"),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert list(split_text(text)) == tokens.split()


@given(st.text())
def test_any_text_can_be_split(text: str) -> None:
    tokens = split_text(text)
    assert all(token and not any(map(str.isspace, token)) for token in tokens)
    assert letter_case(text) in ("title", "capitals", "lower", "sentence")


PARTS = st.lists(
    st.one_of(
        st.sampled_from(["River", "floods", "the", "12", "1,000", "don't", "Ada's", "co-op", "U.S.", "is"]),
        st.sampled_from([",", ":", "?", "!", ";", "(", ")", "%", "$"]),
    ),
    max_size=12,
)


@given(PARTS)
def test_spaces_around_marks_change_nothing(parts: list[str]) -> None:
    """Untokenised: a mark touches the word before it, or the word after it if it opens or is a currency."""
    written = ""
    for part in parts:
        touches = not written or part in ",:?!;)%" or written[-1] in "($"
        written += part if touches else f" {part}"
    assert split_text(written) == split_text(" ".join(parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("text", "case"),
    [
        ("River Floods Town in the North", "title"),
        ("River Floods Town In The North", "title"),
        ("River Floods iPhone Shop of Ada", "title"),
        ("River floods Ada Smith and Bob Jones of Paris", "sentence"),
        ("River floods town", "sentence"),
        ("Ada Smith", "sentence"),  # two words cannot tell
        ("RIVER FLOODS TOWN IN THE NORTH", "capitals"),
        ("NATO", "sentence"),
        ("river floods town", "lower"),
        ("12 345 ?", "lower"),
        ("", "lower"),
        ("火事で三人がけが", "lower"),
    ],
)
def test_letter_case(text: str, case: str) -> None:
    assert letter_case(text) == case


def test_kinds_of_words() -> None:
    assert all(map(is_function_word, ["the", "The", "WITH", "don't", "it's", "vs"]))
    assert not any(map(is_function_word, ["river", "Ada's", "12", "thee"]))
    assert [without_possessive(word) for word in ("Ada's", "ADA'S", "Ada", "it's")] == ["Ada", "ADA", "Ada", "it"]
    assert [is_word(token) for token in ("a", "12", "U.S.", ":", "—", "火")] == [True, True, True, False, False, True]


def test_long_texts_are_not_kept() -> None:
    found: list[str] = []

    @remember(2)
    def find(text: str) -> int:
        found.append(text[:1])
        return len(text)

    assert [find(text) for text in ("a", "a", "b" * 5000, "b" * 5000)] == [1, 1, 5000, 5000]
    assert found == ["a", "b", "b"]
