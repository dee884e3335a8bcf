"""Further forms of numbers than `facts.py` reads from one word and those that multiply it.

In: the words of a text or of a source. Out: the numbers that several words make, and what else a source licenses.

A million is 1m, a dozen 12, two and a half million 2.5m, 3½ 3.5 and one hundred and twenty-five 125. Millions without a
number are a fact, too. The score `support` does without these forms.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from itertools import chain, pairwise
from unicodedata import numeric

from exadec.textmetrics.facts import SCALES, Fact, Place, Word, number_key
from exadec.textmetrics.money import is_money
from exadec.textmetrics.tokens import DETERMINERS, NUMBER_WORDS

SCALE_WORDS = {word: value for word, value in SCALES.items() if len(word) > 4}
"""Without the short forms: nobody says `a bn`."""
DOZEN = 12
VAGUE = frozenset(f"{word}s" for word in ("dozen", *SCALE_WORDS))
"""Numbers that no source gives in digits; another form of them is another claim."""
SPELT = frozenset(("half", "dozen", *SCALE_WORDS, *VAGUE))
"""Without one of these words, nothing here makes a number of several."""
_HALF = ["and", "a", "half"]
_ARTICLES = frozenset(("a", "an"))
BEFORE_SCALES = frozenset(("half", *_ARTICLES, *NUMBER_WORDS))
"""Together with one of these words, a scale is a number of several words."""
_BEFORE_ONE = DETERMINERS - {"some", "any", "no", "another"}
"""What makes one million of a source's million: `their million-pound house`."""
_LONGEST_UNIT = 4
"""Letters; `mbps` has four."""
_METRES = frozenset(("metre", "metres", "meter", "meters"))
_FRACTION = re.compile(r"(\d+)([¼½¾⅛⅜⅝⅞])")
_APOSTROPHES = re.compile(r"\d{1,3}(?:'\d{3})+")
_SPACES = re.compile(r"(?<![\w.,:'’-])\d{1,3}(?:[^\S\n]\d{3})+(?![\w:'’-]|[.,]\d)")
_TIME = re.compile(r"([01]?\d|2[0-3])([:.])([0-5]\d)")
_DECADE = re.compile(r"(?:1\d|20)(\d0s)")


def plain_numbers(words: Sequence[Word]) -> Sequence[Word]:
    """The same words, with 3½ as 3.5 and 1'000 as 1,000."""
    if all(word.written.isascii() and "'" not in word.written for word in words):
        return words
    return [word._replace(written=_as_digits(word.written), lower=_as_digits(word.lower)) for word in words]


def _as_digits(word: str) -> str:
    if fraction := _FRACTION.fullmatch(word):
        return str(int(fraction[1]) + Decimal(numeric(fraction[2])))
    return word.replace("'", ",") if _APOSTROPHES.fullmatch(word) else word


def join_thousands(source: str) -> str:
    """1 000 000 as 1,000,000."""
    return _SPACES.sub(lambda number: re.sub(r"\s", ",", number[0]), source)


def find_spelt(words: Sequence[Word]) -> list[Place]:
    """The numbers of a text that several words make, and the vague ones, in order. They have no word in common."""
    if not any(word.lower in SPELT for word in words):
        return []
    found: list[Place] = []
    for place in sorted(chain(spelt_out(words), vague(words)), key=lambda place: (place.begin, -place.end)):
        if not found or place.begin >= found[-1].end:
            found.append(place)
    return found


def vague(words: Sequence[Word]) -> Iterator[Place]:
    """Dozens, hundreds, millions."""
    for place, word in enumerate(words):
        if word.lower in VAGUE:
            yield Place(Fact("number", word.lower), place, place + 1)


def spelt_out(words: Sequence[Word], before_one: Collection[str] = _ARTICLES) -> Iterator[Place]:
    """The numbers that several words make. `before_one`: after these words, a million is one million."""
    for place, word in enumerate(words):
        value = NUMBER_WORDS.get(word.lower)
        after = words[place + 1].lower if place + 1 < len(words) else ""
        if value is not None or (word.lower in before_one and after in SCALE_WORDS):
            yield from _sums(words, place)
        if [one.lower for one in words[place + 1 : place + 4]] == _HALF and (value or word.lower.isdecimal()):
            yield _scaled(Decimal(value or word.lower) + Decimal("0.5"), words, place, place + 4)
        if word.lower == "half" and after in SCALE_WORDS and [one.lower for one in words[:place]][-2:] != _HALF[:2]:
            yield _scaled(Decimal("0.5"), words, place, place + 1)
        if word.lower == "dozen":
            begin, times = _times(words, place)
            yield _number(DOZEN * times, begin, place + 1)


def _sums(words: Sequence[Word], begin: int) -> Iterator[Place]:
    """The number that begins here, if it has a scale: `one hundred and twenty-five`, `a million`, `half a million`."""
    total, current, place, scaled = 0, NUMBER_WORDS.get(words[begin].lower, 1), begin + 1, False
    while place < len(words):
        word = words[place].lower
        after = words[place + 1].lower if place + 1 < len(words) else ""
        if word == "hundred" and 0 < current < 100:
            current, scaled = 100 * current, True
        elif word in SCALE_WORDS and 0 < current < SCALE_WORDS[word]:
            total, current, scaled = total + current * SCALE_WORDS[word], 0, True
        elif word in NUMBER_WORDS and _fits(current, NUMBER_WORDS[word]):
            current += NUMBER_WORDS[word]
        elif not (word == "and" and scaled and after in NUMBER_WORDS):
            break
        place += 1
    before = [word.lower for word in words[max(begin - 1, 0) : begin]]
    if scaled and before != ["of"]:  # `a quarter of a million` is something else
        half = before == ["half"]
        yield _number(Decimal(total + current) / (2 if half else 1), begin - half, place)


def _fits(current: int, value: int) -> bool:
    """Whether a number word can follow: twenty-five, one hundred and five, but not `five ten` or `twenty fifteen`."""
    tens = current % 100
    return tens == 0 or (0 < value < 10 and tens >= 20 and tens % 10 == 0)


def _times(words: Sequence[Word], place: int) -> tuple[int, Decimal]:
    """Where the number of the dozen at this place begins, and what multiplies it."""
    before = [word.lower for word in words[max(place - 2, 0) : place]]
    if before[-1:] == ["half"] or before == ["half", "a"]:
        return place - len(before[before.index("half") :]), Decimal("0.5")
    last = before[-1] if before else ""
    if last.isascii() and last.isdigit():
        return place - 1, Decimal(last)
    return place - (last in NUMBER_WORDS or last in _ARTICLES), Decimal(NUMBER_WORDS.get(last, 1))


def _scaled(value: Decimal, words: Sequence[Word], begin: int, end: int) -> Place:
    """A number, together with the scales that follow it."""
    while end < len(words) and words[end].lower in SCALE_WORDS:
        value, end = value * SCALE_WORDS[words[end].lower], end + 1
    return _number(value, begin, end)


def numbers_of_source(words: Sequence[Word]) -> list[Place]:
    return [*spelt_out(words, _BEFORE_ONE), *vague(words)]


def glued_units(words: Sequence[Word]) -> set[str]:
    """Digits together with the unit that follows them: `20gb` for 20 GB."""
    return {
        number.lower + unit.lower
        for number, unit in pairwise(words)
        if number.lower[0].isdigit() and unit.lower.isalpha() and len(unit.lower) <= _LONGEST_UNIT
    }


def name_metres(source: str, words: Sequence[Word]) -> Sequence[Word]:
    """The same words, with `metres` for a small `m` behind digits, unless they are money: then it means million."""
    if not any(word.written == "m" for word in words):
        return words
    named = list(words)
    for place, word in enumerate(words):
        behind_digits = word.written == "m" and place > 0 and words[place - 1].lower[0].isdigit()
        if behind_digits and not is_money(place - 1, source, words):
            named[place] = Word("metres", "metres", word.starts)
    return named


def other_spellings(words: Sequence[Word]) -> set[str]:
    """What a text may write for a number of its source, whatever it reads as: `20m`, `10.30` for 10:30, `90s`."""
    found = {
        number.lower.replace(",", "") + "m"
        for number, unit in pairwise(words)
        if unit.lower in _METRES and number.lower[0].isdigit()
    }
    for word in words:
        if not word.lower[0].isdigit():
            continue
        if time := _TIME.fullmatch(word.lower):
            found.add(time[1] + (":" if time[2] == "." else ".") + time[3])
        if decade := _DECADE.fullmatch(word.lower):
            found.add(decade[1])
    return found


def _number(value: Decimal, begin: int, end: int) -> Place:
    return Place(Fact("number", number_key(value)), begin, end)
