"""What a text states, fact by fact, and whether its source licenses it; also while the text is still being written.

In: a source, and a text, finished or not. Out: the text's facts with their places, or whether it may go on like this.

`search.facts` and the score `facts` are about these facts. Beyond those of `support`, words of quotations are facts,
and so are short dates with a capital that are other words, too (`Sun`). A source with U.K. licenses United Kingdom, and
one with a dozen 12 (`forms.py`). A number with a currency sign is licensed by the same currency only (`money.py`).
Every content word of a quotation must be in the source (`quotations.py`). A word may lose or gain its Latin accents.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from string import ascii_lowercase
from typing import NamedTuple

from exadec.textmetrics.facts import (
    DATES,
    INSIDE_NAMES,
    NAMES_IN_CAPITALS,
    SCALES,
    Fact,
    Kind,
    Names,
    Place,
    Word,
    as_name,
    find_places,
    license_facts,
    number_key,
    read_numbers,
    read_words,
    split_word,
)
from exadec.textmetrics.forms import (
    BEFORE_SCALES,
    DOZEN,
    SCALE_WORDS,
    SPELT,
    find_spelt,
    glued_units,
    join_thousands,
    name_metres,
    numbers_of_source,
    other_spellings,
    plain_numbers,
)
from exadec.textmetrics.money import SIGNS, as_money, find_money, find_signs, plain_signs
from exadec.textmetrics.quotations import MARKS, find_quotations, plain_marks
from exadec.textmetrics.tokens import (
    FUNCTION_WORDS,
    NUMBER_WORDS,
    is_function_word,
    is_word,
    letter_case,
    remember,
    split_text,
    unify_marks,
)

_UNKNOWN, _SCALE, _NUMBER, _SAFE = range(4)
"""How safe a word is: not known; million and the like, of which the word before decides; a number or date, safe if it
is licensed; safe outside quotations"""
_FACTORS = {Decimal(one) * other for one in (1, *SCALES.values()) for other in (1, *SCALES.values())}
"""What the words after a number can multiply it by"""
_LONGEST_INITIALS = 5
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_RESTS: tuple[list[str], ...] = ([], ["and"], ["and", "a"])
"""What may stand behind a number that goes on: one hundred and five, two and a half."""


class Stated(NamedTuple):
    """A fact of a text, as the text writes it."""

    words: str
    begin: int
    """Its first character's place in the text"""
    end: int
    """The place behind its last character"""
    kind: Kind
    licensed: bool
    """Whether the source has it, in whatever form"""


class Checker:
    """Checks texts against one source."""

    def __init__(self, source: str, names: Names):
        self._names = names
        self._facts: set[Fact] = set()
        self._words: set[str] = set()
        self._spellings: set[str] = set()
        source = _plain(source)
        for reading in {source, join_thousands(source)}:
            self._read_source(reading)
        self._words |= {_without_accents(word) for word in self._words if not word.isascii()}
        words = read_words(source)
        self._said = f" {' '.join(word.lower for word in words)} "
        self._initials = {word.lower for word in words if _is_initials(word)}
        self._numbers = {fact.key for fact in self._facts if fact.kind == "number"}
        self._beginnings: dict[str, bool] = {}
        self._safety: dict[str, int] = {}
        self._stretches: dict[tuple[str, bool], bool] = {}

    def _read_source(self, source: str) -> None:
        words = name_metres(source, plain_numbers(read_words(source)))
        units, spellings = glued_units(words), other_spellings(words)
        numbers = [Place(fact, begin, end) for begin, (end, fact) in read_numbers(words)] + numbers_of_source(words)
        self._facts |= license_facts(words, letter_case(source) == "sentence")
        self._facts |= {place.fact for place in numbers} | {*map(as_name, units)}
        self._facts |= {as_name(_without_accents(word.lower)) for word in words if not word.lower.isascii()}
        self._facts.update(find_money(source, words, numbers))
        self._spellings |= spellings
        self._words |= {word.lower for word in words} | units | spellings

    def check(self, text: str) -> list[Stated]:
        """All facts of a finished text, in order."""
        plain = _plain(text)
        words, spans, telling = _read(plain), _locate_words(plain), letter_case(plain) == "sentence"
        stated = []
        for place in self._places(plain, words, telling, finished=True):
            begin, end = spans[place.begin][0], spans[place.end - 1][1]
            stated.append(Stated(text[begin:end], begin, end, place.fact.kind, self._licenses(place, words, telling)))
        return stated

    def accepts(self, text: str) -> bool:
        """Whether the source licenses all facts of a finished text."""
        text = _plain(text)
        words, telling = _read(text), letter_case(text) == "sentence"
        places = self._places(text, words, telling, finished=True)
        return all(self._licenses(place, words, telling) for place in places)

    def accepts_beginning(self, text: str) -> bool:
        """Whether all facts of a text that goes on are licensed, or may become so. Its last word is complete."""
        known = self._beginnings.get(text)  # with pieces of words, a search asks once for each next piece
        if known is None:
            plain = _plain(text)
            known = self._beginnings[text] = self._is_plain(plain) or self._may_go_on(plain)
        return known

    def _may_go_on(self, text: str) -> bool:
        words, telling = _read(text), _is_settled(text)
        places = self._places(text, words, telling)
        if text[-1:] in SIGNS and not any(key.startswith(text[-1]) for key in self._numbers):
            return False  # no number could follow
        return all(self._licenses(place, words, telling) or self._may_grow(place, words) for place in places)

    def accepts_letters(self, text: str) -> bool:
        """Whether the last word of a text, which may still grow, can become something that is licensed.

        It cannot if it is a fact by itself and nothing in the source begins like it.
        """
        text = _plain(text)
        if self._look_at(text.rsplit(" ", 1)[-1]) == _SAFE:
            return True
        if text[-1:] in SIGNS:
            return self._may_go_on(text)
        words, telling = _read(text), _is_settled(text)
        for place in self._places(text, words, telling):
            if place.end == len(words) and not (self._licenses(place, words, telling) or self._may_grow(place, words)):
                letters, sign = _without_accents(words[-1].lower), _sign_of(place.fact)
                # Letters may become an ending: `12t` for 12th.
                digits = letters.replace(",", "").replace(".", "").rstrip(ascii_lowercase)
                # Function words are free in a quotation, and 0.5 million is 500000.
                free = FUNCTION_WORDS if place.fact.kind == "quotation" else frozenset[str]()
                begins = (not sign or place.end > place.begin + 1) and any(
                    word.startswith(letters) for word in (*self._words, *free)
                )
                counts = digits.isdigit() and (
                    digits[0] == "0" or any(key.startswith(sign + digits) for key in self._numbers)
                )
                if not begins and not counts:
                    return False
        return True

    def _places(self, text: str, words: Sequence[Word], telling: bool, finished: bool = False) -> list[Place]:
        """The facts of a text, quotations included."""
        found = find_places(words, telling, self._names, short_dates=True)
        if spelt := find_spelt(words):
            taken = _words_of(spelt)
            found = sorted([*spelt, *(one for one in found if taken.isdisjoint(range(one.begin, one.end)))], key=_begin)
        if not SIGNS.isdisjoint(text):
            signs = find_signs(text)
            found = [as_money(place, signs) for place in found]
        return found if MARKS.isdisjoint(text) else self._with_quotations(found, text, words, finished)

    def _with_quotations(self, found: list[Place], text: str, words: Sequence[Word], finished: bool) -> list[Place]:
        taken, quotations = _words_of(found), dict[tuple[int, int], Place]()
        for quotation in find_quotations(text):
            quoted = [number for number in quotation.words if any(_letters(words[number].written))]
            content = [number for number in quoted if not is_function_word(words[number].lower)]
            for one in set(content) - taken:
                quotations[one, one + 1] = Place(_as_quotation(words[one].lower), one, one + 1)
            if quoted and not content and taken.isdisjoint(quoted) and (quotation.closed or finished):
                phrase = " ".join(words[number].lower for number in quoted)
                quotations[quoted[0], quoted[-1] + 1] = Place(Fact("quotation", phrase), quoted[0], quoted[-1] + 1)
        return sorted([*found, *quotations.values()], key=_begin)

    def _licenses(self, place: Place, words: Sequence[Word], telling: bool) -> bool:
        """`telling`: whether capitals mean anything in the text, as for `find_places`."""
        fact = place.fact
        if fact in self._facts:
            return True
        if fact.kind == "number":
            written = "".join(word.lower for word in words[place.begin : place.end]).replace(",", "")
            return not _sign_of(fact) and written in self._spellings
        if fact.kind == "quotation" and is_function_word(words[place.begin].lower):
            return f" {fact.key} " in self._said  # single function words are everywhere
        word = words[place.begin]
        # Where a capital says nothing, the word itself may be meant: `the sun` licenses Sun in Title Case.
        plain = fact.kind in ("weekday", "month") and (word.starts or not telling)
        if (plain or fact.kind == "quotation") and as_name(word.lower) in self._facts:
            return True
        if not word.lower.isascii() and as_name(_without_accents(word.lower)) in self._facts:
            return True
        return fact.kind == "name" and any(run in self._initials for run in _initials_around(place.begin, words))

    def _may_grow(self, place: Place, words: Sequence[Word]) -> bool:
        """Whether words that follow can still make a licensed fact of the last one."""
        if place.fact.kind == "name":  # of `United Kingdom`, only the first word is there
            return any(
                one.startswith(run) for run in _initials_to_the_end(place.begin, words) for one in self._initials
            )
        rest = [word.lower for word in words[place.end :]]
        if place.fact.kind != "number" or rest not in _RESTS:
            return False
        sign = _sign_of(place.fact)
        try:
            value = Decimal(place.fact.key.removeprefix(sign))
        except InvalidOperation:  # digits with no one value, such as `10:30`
            return False
        values = [*_may_become(value, [word.lower for word in words[place.begin : place.end]], rest)]
        if any(sign + number_key(one * factor) in self._numbers for one in values for factor in _FACTORS):
            return True
        if not rest and sign + number_key(value * DOZEN) in self._numbers:
            return True
        # One hundred may become any number up to two hundred, and that many thousand.
        scale = max((SCALE_WORDS.get(word.lower, 0) for word in words[place.begin : place.end]), default=0)
        return (scale > 0 and len(rest) < 2) and any(
            value * factor <= known < (value + scale) * factor
            for known in _values(sign, self._numbers)
            for factor in _FACTORS
        )

    def _is_plain(self, text: str) -> bool:
        """Whether a look at the words one by one shows that a text that goes on states nothing unlicensed.

        Most texts are so. Of others nothing is said: then the text has to be read as a whole.
        """
        dates_and_numbers = before = ""
        for word in text.split(" "):
            safety = self._look_at(word)
            if safety == _SCALE and any(one.lower in BEFORE_SCALES for one in read_words(before)):
                return False
            before = word
            if safety in (_SCALE, _NUMBER):
                dates_and_numbers += f" {word}"
                continue
            if safety == _UNKNOWN:
                return False
            if dates_and_numbers and not self._licenses_all(dates_and_numbers, at_the_end=False):
                return False
            dates_and_numbers = ""
        return not dates_and_numbers or self._licenses_all(dates_and_numbers, at_the_end=True)

    def _look_at(self, word: str) -> int:
        """How safe a word between spaces is. Quotation marks say something about others; so does a sign by itself."""
        known = self._safety.get(word)
        if known is None:
            parts = {*map(self._look_at_part, read_words(word))}
            known = min(parts, default=_SAFE)
            if _SCALE in parts and len(read_words(word)) > 1:
                known = _UNKNOWN
            if not MARKS.isdisjoint(word) or not (SIGNS.isdisjoint(word) or parts == {_NUMBER}):
                known = _UNKNOWN
            self._safety[word] = known
        return known

    def _look_at_part(self, word: Word) -> int:
        if word.lower in SPELT:  # the words around it may belong to it
            return _SCALE if word.lower in SCALE_WORDS else _UNKNOWN
        if word.lower in DATES or word.lower in NUMBER_WORDS or word.lower in SCALES or word.written.isdigit():
            return _NUMBER
        if any(map(str.isdigit, word.written)):
            return _UNKNOWN
        if is_function_word(word.lower):
            is_name = word.written == word.written.upper() and word.lower in NAMES_IN_CAPITALS
            return _UNKNOWN if is_name else _SAFE
        if as_name(word.lower) in self._facts:
            return _SAFE
        return _SAFE if word.written == word.lower and word.lower not in self._names.names else _UNKNOWN

    def _licenses_all(self, stretch: str, at_the_end: bool) -> bool:
        """Whether numbers and dates in a row, with neither to the left nor to the right, are all licensed."""
        key = (stretch, at_the_end)
        known = self._stretches.get(key)
        if known is None:
            words = read_words(stretch)
            places = self._places(stretch, words, telling=False)
            # Whether capitals mean anything here shows elsewhere in the text.
            known = all(
                self._licenses(place, words, telling=True) or (at_the_end and self._may_grow(place, words))
                for place in places
            )
            self._stretches[key] = known
        return known


def _plain(text: str) -> str:
    """The text with plain quotation marks and currency signs, at the same places."""
    return plain_signs(plain_marks(text))


@remember(1 << 12)
def _read(text: str) -> Sequence[Word]:
    return plain_numbers(read_words(text))


@remember(1 << 16)
def _without_accents(word: str) -> str:
    """Other scripts keep their marks: there these make other letters."""
    return word if word.isascii() else _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", word))


def _words_of(places: Iterable[Place]) -> set[int]:
    return {number for place in places for number in range(place.begin, place.end)}


def _begin(place: Place) -> int:
    return place.begin


def _values(sign: str, keys: Iterable[str]) -> Iterator[Decimal]:
    """The numbers with this sign."""
    for key in keys:
        digits = key.removeprefix(sign)
        if key.startswith(sign) and digits.replace(".", "", 1).isdecimal():
            yield Decimal(digits)


def _may_become(value: Decimal, words: Sequence[str], rest: Sequence[str]) -> Iterator[Decimal]:
    """What a number may become with words that multiply nothing: twenty-one, two and a half."""
    if not rest:
        yield value
    if words[-1] in NUMBER_WORDS:
        if not rest and 20 <= NUMBER_WORDS[words[-1]] < 100:
            yield from (value + unit for unit in range(10))
        yield value + Decimal("0.5")


def _sign_of(fact: Fact) -> str:
    """The currency sign of a sum of money; empty for other facts."""
    return fact.key[0] if fact.kind == "number" and fact.key[0] in SIGNS else ""


def _as_quotation(word: str) -> Fact:
    return Fact("quotation", as_name(word).key)


@remember(1 << 16)
def _is_settled(text: str) -> bool:
    """Whether a text that goes on is in sentence case for good: a word that Title Case would give a capital has none.

    Before that, a capital may be one of Title Case, and says nothing.
    """
    if letter_case(text) != "sentence":
        return False
    words = [token for token in split_text(text) if is_word(token)]
    return any(word[0].isalpha() and word == word.lower() and not is_function_word(word) for word in words[1:])


def _is_initials(word: Word) -> bool:
    return 2 <= len(word.written) <= _LONGEST_INITIALS and word.written.isalpha() and word.written.isupper()


def _initials_around(place: int, words: Sequence[Word]) -> Iterator[str]:
    """Of all runs of two to five words with capitals that this word is part of."""
    for begin in range(place, -1, -1):
        yield from (run for end, run in _runs(begin, words) if end > place and len(run) > 1)
        if not _belongs(words[begin]):
            return


def _initials_to_the_end(place: int, words: Sequence[Word]) -> Iterator[str]:
    """Of all runs of words with capitals that this word is part of and that end with the last word."""
    for begin in range(place, -1, -1):
        yield from (run for end, run in _runs(begin, words) if end == len(words))
        if not _belongs(words[begin]):
            return


def _runs(begin: int, words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """(end, initials) of the runs of words that begin here; words such as `of` do not count."""
    initials = ""
    for end in range(begin, len(words)):
        word = words[end]
        if not _belongs(word) or len(initials) == _LONGEST_INITIALS:
            return
        if word.written != word.lower:
            initials += word.lower[0]
        elif not initials:
            return
        yield end + 1, initials


def _belongs(word: Word) -> bool:
    return word.written != word.lower or word.lower in INSIDE_NAMES


def _locate_words(text: str) -> list[tuple[int, int]]:
    """(begin, end) of each of `read_words` in the text as it is.

    Reading a text changes its marks and spaces, but neither letters and digits nor their order. So these are counted.
    """
    places = [place for place, character in enumerate(text) for _ in _letters(character)]
    spans, count = [], 0
    for token in filter(is_word, split_text(text)):
        start = count
        for word in split_word(token)[0]:
            size = sum(1 for _ in _letters(word.written))
            # The parts of a token stand one after the other; before each there may be nothing but a hyphen.
            begin, end = (places[start], places[start + size - 1] + 1) if size else (0, 0)
            spans.append((begin, end + text.startswith(".", end)) if token.endswith(".") else (begin, end))
            start += size
        count += sum(1 for _ in _letters(token))
    return spans


def _letters(text: str) -> Iterator[str]:
    """Letters and digits, without accents: a letter with an accent can be spelt as one character or as two."""
    plain = unify_marks(unicodedata.normalize("NFD", text))  # some marks count as letters in Unicode
    return (one for one in plain if one.isalnum())
