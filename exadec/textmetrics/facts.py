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
from typing import Any, Literal, NamedTuple

from exadec.textmetrics.stemming import stem_like_script
from exadec.textmetrics.tokens import (
    NUMBER_WORDS,
    is_function_word,
    is_word,
    letter_case,
    remember,
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
"""Other words, too: in a text they are a date only beside a number; of a source, see `_is_date`."""
_SHORT = _AMBIGUOUS - {"may", "march"}
"""Short forms. `May` and `March` have a capital in many a headline."""
SCALES = {
    "hundred": 100,
    **dict.fromkeys(("thousand", "k"), 10**3),
    **dict.fromkeys(("million", "m", "mn", "mln"), 10**6),
    **dict.fromkeys(("billion", "b", "bn", "bln"), 10**9),
    **dict.fromkeys(("trillion", "tn", "trn"), 10**12),
}
ORDINALS = {
    **{"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8},
    **{"ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15},
    **{"sixteenth": 16, "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30},
    **{"fortieth": 40, "fiftieth": 50, "sixtieth": 60, "seventieth": 70, "eightieth": 80, "ninetieth": 90},
    "hundredth": 100,
}
"""They license a number, but state none: the `second` may be a part of a minute, and `first` is nearly everywhere."""
_ENDINGS = frozenset(("", "st", "nd", "rd", "th", "s", "pc", "p", "am", "pm", "c", "cm", "ft", "kg", "km", "mm", "mph"))
"""What may stand behind digits without making them part of a name, as in `49ers` or `5G`."""
_DIGITS = re.compile(r"(\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)([^\W\d]*)")
NAMES_IN_CAPITALS = frozenset(("us", "it", "who"))
"""Function words that are a name if they have capitals where other words have none."""
INSIDE_NAMES = frozenset(("of", "the", "and", "for"))
BEFORE_A_START = frozenset('.?!…:;"([-–—|')  # noqa: RUF001

Kind = Literal["number", "weekday", "month", "name", "quotation"]


class Fact(NamedTuple):
    """One number, weekday, month, word of a name, or word of a quotation."""

    kind: Kind
    key: str
    """Equal for all forms of the same fact."""


class Place(NamedTuple):
    """A fact, and which words of its text state it: from `begin` up to `end`."""

    fact: Fact
    begin: int
    end: int


def _date_forms(kind: Kind, names: Mapping[str, str]) -> dict[str, Fact]:
    forms = {name: (name, f"{name}s", *short.split()) for name, short in names.items()}
    return {form: Fact(kind, name) for name, written in forms.items() for form in written}


DATES = _date_forms("weekday", _WEEKDAYS) | _date_forms("month", _MONTHS)


class Word(NamedTuple):
    """A word, or a part of one between hyphens, without its possessive ending and the full stops of an abbreviation."""

    written: str
    lower: str
    starts: bool
    """It opens the text, a sentence, a quotation, or what follows a colon or a dash. There any word has a capital."""


class Names(NamedTuple):
    """What the sources of a corpus tell about words whose capital says nothing. All are in lower case."""

    names: frozenset[str] = frozenset()
    """Written with a capital more than three times as often as without, where capitals say something"""
    common: frozenset[str] = frozenset()
    """Also written without a capital, so that capitals alone do not make a name of them: `in 50 YEARS`"""

    @staticmethod
    def from_counts(capital: Mapping[str, int], small: Mapping[str, int]) -> "Names":
        """How often each word is written with a capital, and without one."""
        names = frozenset(word for word, count in capital.items() if count > 3 * small.get(word, 0))
        return Names(names, frozenset(word for word, count in small.items() if count) - names)

    @staticmethod
    def from_sources(sources: Iterable[str]) -> "Names":
        capital, small = Counter[str](), Counter[str]()
        for source in sources:
            if letter_case(source) == "sentence":
                words = [word for word in read_words(source) if not word.starts]
                capital.update([word.lower for word in words if word.written != word.lower])
                small.update([word.lower for word in words if word.written == word.lower])
        return Names.from_counts(capital, small)

    @staticmethod
    def from_json(value: Any) -> "Names":
        return Names(*(frozenset(value[part]) for part in Names._fields))

    def to_json(self) -> dict[str, list[str]]:
        return {part: sorted(words) for part, words in zip(self._fields, self, strict=True)}

    def has(self, word: Word, telling: bool) -> bool:
        """Whether a word is one of a name. `telling`: whether capitals mean anything in its text."""
        in_capitals = len(word.lower) > 1 and word.written == word.written.upper()
        if is_function_word(word.lower):
            return telling and in_capitals and word.lower in NAMES_IN_CAPITALS
        if any(map(str.isdigit, word.written)):
            return True  # `49ers`, and `flood75`
        if telling and word.written == word.lower:
            return False
        if telling and not word.starts and not in_capitals:
            return True
        if telling and in_capitals:
            return word.lower not in self.common  # `NASA`, but not `in 50 YEARS`
        return word.lower in self.names


class FactFinder:
    """Finds the facts of texts about given sources.

    Numbers, weekdays and months show by themselves. A name shows by its capital, but not at the beginning of a
    sentence, in Title Case, in all capitals, or in lower-cased text. There a word counts as a name if the sources write
    it with a capital more than three times as often as without; only capitals that say something are counted. A word
    that no source has does not count as a name there.
    """

    def __init__(self, sources: Iterable[str]):
        self.names = Names.from_sources(sources)

    def find(self, text: str) -> list[Fact]:
        """In order, as often as they are stated."""
        return [place.fact for place in find_places(read_words(text), letter_case(text) == "sentence", self.names)]


def find_places(words: Sequence[Word], telling: bool, names: Names, short_dates: bool = False) -> list[Place]:
    """The facts of these words, in order. `telling`: whether capitals mean anything in their text.

    With `short_dates`, a capital makes a date of short forms that are other words, too: `Sun` is a weekday then.
    """
    found: list[Place] = []
    numbers = dict(read_numbers(words))
    taken = {place for begin, (end, _) in numbers.items() for place in range(begin, end)}
    for place, word in enumerate(words):
        date = DATES.get(word.lower)
        shows = word.lower not in _AMBIGUOUS or (short_dates and word.lower in _SHORT and word.written != word.lower)
        if place in numbers:
            end, fact = numbers[place]
            if word.lower != "one" or end > place + 1:  # `one of them` is no number
                found.append(Place(fact, place, end))
        elif date and (shows or taken & {place - 1, place + 1}):
            found.append(Place(date, place, place + 1))
        elif place not in taken and names.has(word, telling):
            found.append(Place(as_name(word.lower), place, place + 1))
    return found


class Licence:
    """The facts that a source allows a text to state."""

    def __init__(self, source: str):
        self.facts = license_facts(read_words(source), letter_case(source) == "sentence")

    def allows(self, fact: Fact) -> bool:
        return fact in self.facts


def license_facts(words: Sequence[Word], telling: bool) -> set[Fact]:
    """The facts that a source of these words allows. `telling`: whether capitals mean anything in it."""
    numbers = dict(read_numbers(words))
    taken = {place for begin, (end, _) in numbers.items() for place in range(begin, end)}
    dates = {
        DATES[word.lower]
        for place, word in enumerate(words)
        if word.lower in DATES
        and (word.lower not in _AMBIGUOUS or taken & {place - 1, place + 1} or _is_date(words, place, telling))
    }
    facts = {
        as_name(word.lower)
        for word in words  # `us` does not license the US
        if word.lower not in NAMES_IN_CAPITALS or not telling or word.written == word.written.upper()
    }
    facts |= {fact for _, fact in numbers.values()} | dates
    facts |= {as_name(form) for form, date in DATES.items() if date in dates and form in _SHORT}
    alone = (word.lower for place, word in enumerate(words) if place not in taken)
    facts |= {Fact("number", str(ORDINALS[word])) for word in alone if word in ORDINALS}
    return facts | {as_name(letters) for letters in _initials(words)}


def _is_date(words: Sequence[Word], place: int, telling: bool) -> bool:
    """Whether a word that is a date or something else (`Sun`, `May`) is a date in a source.

    Where capitals say something, it has one, and nothing shows that it has it for another reason: the beginning of a
    sentence, `the`, or a name that goes on (`Jan Berg`, `Theresa May`).
    """
    if not telling:
        return True
    word, before, after = words[place], words[max(place - 1, 0) : place], words[place + 1 : place + 2]
    in_a_name = any(
        one.written != one.lower and one.lower not in DATES and not is_function_word(one.lower)
        for one in (*before, *after)
    )
    return word.written != word.lower and not word.starts and not in_a_name and [one.lower for one in before] != ["the"]


@remember(1 << 16)
def licence_of(source: str) -> Licence:
    """Kept, because several systems write from the same sources."""
    return Licence(source)


@remember(1 << 16)
def read_words(text: str) -> tuple[Word, ...]:
    words: list[Word] = []
    starts = True
    for token in split_text(text):
        if not is_word(token):
            starts = starts or token in BEFORE_A_START
            continue
        words += split_word(token)[starts]
        starts = False
    return tuple(words)


@remember(1 << 17)
def split_word(token: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The parts of a token between hyphens, inside a sentence and where one starts. Words recur, so they are kept."""
    parts = [part.replace(".", "") if part.endswith(".") else part for part in without_possessive(token).split("-")]
    inside = tuple(Word(part, part.lower(), starts=False) for part in parts if part)
    return inside, tuple(word._replace(starts=place == 0) for place, word in enumerate(inside))


@remember(1 << 17)
def as_name(word: str) -> Fact:
    return Fact("name", stem_like_script(word) if len(word) > 3 else word)


def _initials(words: Sequence[Word]) -> Iterator[str]:
    """Of two to five words with capitals in a row: `eu` for European Union, `fa` for The Football Association."""
    runs = [""]
    for word in words:
        if word.written == word.lower and word.lower not in INSIDE_NAMES:
            runs.append("")
        elif word.lower not in INSIDE_NAMES:
            runs[-1] += word.lower[0]
    for run in runs:
        for begin in range(len(run) - 1):
            yield from (run[begin:end] for end in range(begin + 2, min(begin + 5, len(run)) + 1))


def read_numbers(words: Sequence[Word]) -> Iterator[tuple[int, tuple[int, Fact]]]:
    """(begin, (end, number)) of each run of words that is one number: `12`, `twenty one`, `2.5 million`.

    `twenty-first` is one, too, and `no one` is none.
    """
    place = 0
    while place < len(words):
        begin, value = place, _read_digits(words[place].lower)
        place += 1
        if value is None or (words[begin].lower == "one" and begin and words[begin - 1].lower == "no"):
            continue
        if isinstance(value, str):
            yield begin, (place, Fact("number", value))
            continue
        if place < len(words) and 20 <= value < 100 and words[begin].lower in NUMBER_WORDS:
            unit = NUMBER_WORDS.get(words[place].lower) or ORDINALS.get(words[place].lower, 0)
            if 0 < unit < 10:
                value, place = value + unit, place + 1
        while place < len(words) and words[place].lower in SCALES:
            value, place = value * SCALES[words[place].lower], place + 1
        yield begin, (place, Fact("number", number_key(value)))


def number_key(value: Decimal) -> str:
    """The key of a number."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@remember(1 << 16)
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
    if ending in SCALES:
        return Decimal(digits.replace(",", "")) * SCALES[ending]
    return Decimal(digits.replace(",", "")) if ending in _ENDINGS else None
