"""What can be seen of a text's manner without understanding it.

In: any text. Out: its `Traits`: case, punctuation, ending, first word, length, skeleton. docs/scores.md explains each.
"""

from dataclasses import dataclass

from exadec.textmetrics.tokens import (
    DETERMINERS,
    NUMBER_WORDS,
    QUESTION_WORDS,
    is_function_word,
    is_number,
    is_word,
    letter_case,
    remember,
    split_text,
    without_possessive,
)

LONG = 12
"""A text with more words than this is long."""

YES_OR_NO = {
    "title_case": "Title Case",
    "capitals": "all capitals",
    "colon": "colon",
    "quotation": "quotation marks",
    "tail": "dash or bar before a tail",
    "question": "question mark",
    "long": f"more than {LONG} words",
}
"""Traits that a text has or has not -> what to call them."""

KINDS = {"opening": "first word", "ending": "ending"}
"""Traits that are one of several kinds -> what to call them."""

_ENDINGS = {".": "full stop", "?": "question mark", "!": "exclamation mark", "…": "ellipsis"}
_DASHES = frozenset("-–—|")  # noqa: RUF001
_KINDS_BY_SHAPE = {"Xx": "capitalised", "XX": "all capitals", "x": "lower case", "9": "number", "o": "other script"}
_LEAST_ING = 5
"""Letters of an -ing form: `king` and `ring` are none."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The manner of one text."""

    title_case: bool
    capitals: bool
    colon: bool
    quotation: bool
    tail: bool
    question: bool
    long: bool
    opening: str
    """The kind of the first word."""
    ending: str
    """The kind of the last character."""
    words: int
    skeleton: tuple[str, ...]
    """The tokens, with each content word replaced by its shape."""


@remember(1 << 16)
def find_traits(text: str) -> Traits:
    tokens = split_text(text)
    case = letter_case(text)
    words = sum(map(is_word, tokens))
    return Traits(
        title_case=case == "title",
        capitals=case == "capitals",
        colon=_has_colon(tokens),
        quotation='"' in tokens,
        tail=_has_tail(tokens),
        question="?" in tokens,
        long=words > LONG,
        opening=_kind_of_opening(tokens),
        ending=_kind_of_ending(tokens),
        words=words,
        skeleton=tuple(part for token in tokens for part in _skeleton_of(token)),
    )


def _between_numbers(tokens: tuple[str, ...], place: int) -> bool:
    """`10 : 30` and `3 - 2` in tokenised text: a time and a result."""
    inside = 0 < place < len(tokens) - 1
    return inside and is_number(tokens[place - 1]) and is_number(tokens[place + 1])


def _has_colon(tokens: tuple[str, ...]) -> bool:
    return any(
        token == ":" and not _between_numbers(tokens, place) and tokens[place + 1 : place + 2] != ("/",)  # noqa: S105 - a token of text
        for place, token in enumerate(tokens)
    )


def _has_tail(tokens: tuple[str, ...]) -> bool:
    return any(
        token in _DASHES
        and not _between_numbers(tokens, place)
        and any(map(is_word, tokens[:place]))
        and any(map(is_word, tokens[place:]))
        for place, token in enumerate(tokens)
    )


def _kind_of_ending(tokens: tuple[str, ...]) -> str:
    if not tokens:
        return "nothing"
    last = tokens[-1][-1]
    if last in _ENDINGS:
        return _ENDINGS[last]
    # The apostrophe of `players'` is not in the tokens, so it cannot hide the letter before it.
    return "letter or digit" if is_word(tokens[-1]) else "other"


def _kind_of_opening(tokens: tuple[str, ...]) -> str:
    place = next((place for place, token in enumerate(tokens) if is_word(token)), None)
    if place is None:
        return "nothing"
    if '"' in tokens[:place]:
        return "quoted"
    word = tokens[place]
    lower = without_possessive(word).lower()
    if is_number(word) or lower in NUMBER_WORDS:
        return "number"
    if lower in QUESTION_WORDS:
        return "question word"
    if lower in DETERMINERS:
        return "determiner"
    if is_function_word(word):
        return "function word"
    if len(lower) >= _LEAST_ING and lower.endswith("ing"):
        return "-ing form"
    return _KINDS_BY_SHAPE[shape(word)]


@remember(1 << 17)
def shape(word: str) -> str:
    """`9` for what begins with a digit, `XX` for capitals, `Xx`, `x`, and `o` for a script without case."""
    if is_number(word):
        return "9"
    if word.lower() == word.upper():
        return "o"
    if word == word.upper() and sum(map(str.isalpha, word)) > 1:
        return "XX"
    return "Xx" if word[0].isupper() else "x"


def _skeleton_of(token: str) -> tuple[str, ...]:
    """Function words in lower case and marks as they are; content words as shapes, with `'s` as a token of its own."""
    if not is_word(token):
        return (token,)
    if is_function_word(token):
        return (token.lower(),)
    bare = without_possessive(token)
    return (shape(bare),) if bare == token else (shape(bare), "'s")
