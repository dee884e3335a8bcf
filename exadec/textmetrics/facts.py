"""Facts that show by their form: numbers, weekdays, months and names; and which of them a source licenses.

In: sources, texts. Out: the facts of a text, and whether a source has each of them, in whatever form it writes it.

These are the same: Thu and Thursday, 12 and twelve, 1,000 and 1000, 5m and 5 million, 5% and 5 per cent, Ada's and Ada,
a name and its plural. A source with European Union licenses EU, but not the other way round. Each word of a name is a
fact. Currency and unit are not compared, nor is who did what: `Ada beat Bob` licenses both names of `Bob beat Ada`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from exadec.textmetrics.stemming import stem_like_script
from exadec.textmetrics.tokens import (
    NUMBER_WORDS,
    is_function_word,
    is_word,
    letter_case,
    split_text,
    without_possessive,
)

_WEEKDAYS = {
    "monday": "mon",
    "tuesday": "tue tues",
    "wednesday": "wed weds",
    "thursday": "thu thur thurs",
    "friday": "fri",
    "saturday": "sat",
    "sunday": "sun",
}
_MONTHS = {
    "january": "jan",
    "february": "feb",
    "march": "mar",
    "april": "apr",
    "may": "",
    "june": "jun",
    "july": "jul",
    "august": "aug",
    "september": "sep sept",
    "october": "oct",
    "november": "nov",
    "december": "dec",
}
_AMBIGUOUS = frozenset(("mon", "wed", "sat", "sun", "may", "march", "mar", "jan", "dec"))
"""Other words, too: in a text they are a date only beside a number. In a source they license it anyway."""
_SCALES = {
    "hundred": 100,
    **dict.fromkeys(("thousand", "k"), 10**3),
    **dict.fromkeys(("million", "m", "mn", "mln"), 10**6),
    **dict.fromkeys(("billion", "b", "bn", "bln"), 10**9),
    **dict.fromkeys(("trillion", "tn", "trn"), 10**12),
}
_ORDINALS = {
    **{"first": "1", "second": "2", "third": "3", "fourth": "4", "fifth": "5"},
    **{"sixth": "6", "seventh": "7", "eighth": "8", "ninth": "9", "tenth": "10"},
}
"""They license a number, but state none: the `second` may be a part of a minute, and `first` is nearly everywhere."""
_ENDINGS = frozenset(("", "st", "nd", "rd", "th", "s", "pc", "p", "am", "pm", "c", "cm", "ft", "kg", "km", "mm", "mph"))
"""What may stand behind digits without making them part of a name, as in `49ers` or `5G`."""
_DIGITS = re.compile(r"(\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)([^\W\d]*)")
_NAMES_IN_CAPITALS = frozenset(("us", "it", "who"))
"""Function words that are a name if they have capitals where other words have none."""
_INSIDE_NAMES = frozenset(("of", "the", "and", "for"))
_BEFORE_A_START = frozenset('.?!…:;"([-–—|')  # noqa: RUF001

Kind = Literal["number", "weekday", "month", "name"]


class Fact(NamedTuple):
    """One number, weekday, month or word of a name."""

    kind: Kind
    key: str
    """Equal for all forms of the same fact."""


def _date_forms(kind: Kind, names: Mapping[str, str]) -> dict[str, Fact]:
    forms = {name: (name, f"{name}s", *short.split()) for name, short in names.items()}
    return {form: Fact(kind, name) for name, written in forms.items() for form in written}


_DATES = _date_forms("weekday", _WEEKDAYS) | _date_forms("month", _MONTHS)


class _Word(NamedTuple):
    """A word, or a part of one between hyphens, without its possessive ending and the full stops of an abbreviation."""

    written: str
    lower: str
    starts: bool
    """It opens the text, a sentence, a quotation, or what follows a colon or a dash. There any word has a capital."""


class FactFinder:
    """Finds the facts of texts about given sources.

    Numbers, weekdays and months show by themselves. A name shows by its capital, but not at the beginning of a
    sentence, in Title Case, in all capitals, or in lower-cased text. There a word counts as a name if the sources write
    it with a capital more than three times as often as without; only capitals that say something are counted. A word
    that no source has does not count as a name there.
    """

    def __init__(self, sources: Iterable[str]):
        self._capital: Counter[str] = Counter()
        self._small: Counter[str] = Counter()
        for source in sources:
            if letter_case(source) == "sentence":
                words = [word for word in _read_words(source) if not word.starts]
                self._capital.update([word.lower for word in words if word.written != word.lower])
                self._small.update([word.lower for word in words if word.written == word.lower])

    def find(self, text: str) -> list[Fact]:
        """In order, as often as they are stated."""
        words = _read_words(text)
        telling = letter_case(text) == "sentence"
        facts: list[Fact] = []
        numbers = dict(_read_numbers(words))
        taken = {place for begin, (end, _) in numbers.items() for place in range(begin, end)}
        for place, word in enumerate(words):
            date = _DATES.get(word.lower)
            if place in numbers:
                end, fact = numbers[place]
                if word.lower != "one" or end > place + 1:  # `one of them` is no number
                    facts.append(fact)
            elif date and (word.lower not in _AMBIGUOUS or taken & {place - 1, place + 1}):
                facts.append(date)
            elif place not in taken and self._is_name(word, telling):
                facts.append(_as_name(word.lower))
        return facts

    def _is_name(self, word: _Word, telling: bool) -> bool:
        """`telling`: whether capitals mean anything in this text."""
        in_capitals = len(word.lower) > 1 and word.written == word.written.upper()
        if is_function_word(word.lower):
            return telling and in_capitals and word.lower in _NAMES_IN_CAPITALS
        if word.written[0].isdigit():
            return True  # `49ers`
        if telling and word.written == word.lower:
            return False
        known = self._capital[word.lower] > 3 * self._small[word.lower]
        if telling and not word.starts and not in_capitals:
            return True
        if telling and in_capitals:
            return known or not self._small[word.lower]  # `NASA`, but not `in 50 YEARS`
        return known


class Licence:
    """The facts that a source allows a text to state."""

    def __init__(self, source: str):
        words = _read_words(source)
        self.facts = {_as_name(word.lower) for word in words}
        self.facts |= {fact for _, (_, fact) in _read_numbers(words)}
        self.facts |= {_DATES[word.lower] for word in words if word.lower in _DATES}
        self.facts |= {Fact("number", _ORDINALS[word.lower]) for word in words if word.lower in _ORDINALS}
        self.facts |= {_as_name(letters) for letters in _initials(words)}

    def allows(self, fact: Fact) -> bool:
        return fact in self.facts


@lru_cache(maxsize=1 << 16)
def licence_of(source: str) -> Licence:
    """Kept, because several systems write from the same sources."""
    return Licence(source)


@lru_cache(maxsize=1 << 16)
def _read_words(text: str) -> tuple[_Word, ...]:
    words: list[_Word] = []
    starts = True
    for token in split_text(text):
        if not is_word(token):
            starts = starts or token in _BEFORE_A_START
            continue
        words += _split_word(token)[starts]
        starts = False
    return tuple(words)


@lru_cache(maxsize=1 << 17)
def _split_word(token: str) -> tuple[tuple[_Word, ...], tuple[_Word, ...]]:
    """The parts of a token between hyphens, inside a sentence and where one starts. Words recur, so they are kept."""
    parts = [part.replace(".", "") if part.endswith(".") else part for part in without_possessive(token).split("-")]
    inside = tuple(_Word(part, part.lower(), starts=False) for part in parts if part)
    return inside, tuple(word._replace(starts=place == 0) for place, word in enumerate(inside))


@lru_cache(maxsize=1 << 17)
def _as_name(word: str) -> Fact:
    return Fact("name", stem_like_script(word) if len(word) > 3 else word)


def _initials(words: Sequence[_Word]) -> Iterator[str]:
    """Of two to five words with capitals in a row: `eu` for European Union, `fa` for The Football Association."""
    runs = [""]
    for word in words:
        if word.written == word.lower and word.lower not in _INSIDE_NAMES:
            runs.append("")
        elif word.lower not in _INSIDE_NAMES:
            runs[-1] += word.lower[0]
    for run in runs:
        for begin in range(len(run) - 1):
            yield from (run[begin:end] for end in range(begin + 2, min(begin + 5, len(run)) + 1))


def _read_numbers(words: Sequence[_Word]) -> Iterator[tuple[int, tuple[int, Fact]]]:
    """(begin, (end, number)) of each run of words that is one number: `12`, `twenty one`, `2.5 million`."""
    place = 0
    while place < len(words):
        begin, value = place, _read_digits(words[place].lower)
        place += 1
        if value is None:
            continue
        if isinstance(value, str):
            yield begin, (place, Fact("number", value))
            continue
        if place < len(words) and 20 <= value < 100 and words[begin].lower in NUMBER_WORDS:
            unit = NUMBER_WORDS.get(words[place].lower, 0)
            if 0 < unit < 10:
                value, place = value + unit, place + 1
        while place < len(words) and words[place].lower in _SCALES:
            value, place = value * _SCALES[words[place].lower], place + 1
        yield begin, (place, Fact("number", _as_key(value)))


def _as_key(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(maxsize=1 << 16)
def _read_digits(word: str) -> Decimal | str | None:
    """The value of a word; the word itself for digits with no one value, such as `10:30`; None if it is no number."""
    if word in NUMBER_WORDS:
        return Decimal(NUMBER_WORDS[word])
    if not word[0].isdigit():
        return None
    match = _DIGITS.fullmatch(word)
    if match is None:
        return None if any(map(str.isalpha, word)) else word
    digits, ending = match.groups()
    if ending in _SCALES:
        return Decimal(digits.replace(",", "")) * _SCALES[ending]
    return Decimal(digits.replace(",", "")) if ending in _ENDINGS else None
