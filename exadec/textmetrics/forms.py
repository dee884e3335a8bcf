"""Further forms in which a text may state the numbers of its source.

In: the words of a source. Out: the numbers that they spell out, and digits together with their unit.

`facts.py` reads a number from one word and those that multiply it. A source says more than that: a million is 1m, a
dozen 12, one hundred and twenty-five 125, and 20 GB 20GB. The score `support` does without these forms.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from exadec.textmetrics.facts import SCALES, Fact, Place, Word, number_key
from exadec.textmetrics.tokens import NUMBER_WORDS

_SCALE_WORDS = {word: value for word, value in SCALES.items() if len(word) > 4}
"""Without the short forms: nobody says `a bn`."""
_DOZEN = 12
_LONGEST_UNIT = 4
"""Letters; `mbps` has four."""


def spelt_out(words: Sequence[Word]) -> Iterator[Place]:
    """The numbers that several words make."""
    for place, word in enumerate(words):
        value = NUMBER_WORDS.get(word.lower)
        after = words[place + 1].lower if place + 1 < len(words) else ""
        if value is not None or (word.lower in ("a", "an") and after in _SCALE_WORDS):
            yield from _sums(words, place)
        if word.lower == "dozen":
            yield _number(_DOZEN * _times(words, place), place, place + 1)


def _sums(words: Sequence[Word], begin: int) -> Iterator[Place]:
    """The number that begins here, if it has a scale: `one hundred and twenty-five`, `a million`, `half a million`."""
    total, current, place, scaled = 0, NUMBER_WORDS.get(words[begin].lower, 1), begin + 1, False
    while place < len(words):
        word = words[place].lower
        after = words[place + 1].lower if place + 1 < len(words) else ""
        if word == "hundred" and 0 < current < 100:
            current, scaled = 100 * current, True
        elif word in _SCALE_WORDS and 0 < current < _SCALE_WORDS[word]:
            total, current, scaled = total + current * _SCALE_WORDS[word], 0, True
        elif word in NUMBER_WORDS and _fits(current, NUMBER_WORDS[word]):
            current += NUMBER_WORDS[word]
        elif not (word == "and" and scaled and after in NUMBER_WORDS):
            break
        place += 1
    before = [word.lower for word in words[max(begin - 1, 0) : begin]]
    if scaled and before != ["of"]:  # `a quarter of a million` is something else
        yield _number(Decimal(total + current) / (2 if before == ["half"] else 1), begin, place)


def _fits(current: int, value: int) -> bool:
    """Whether a number word can follow: twenty-five, one hundred and five, but not `five ten` or `twenty fifteen`."""
    tens = current % 100
    return tens == 0 or (0 < value < 10 and tens >= 20 and tens % 10 == 0)


def _times(words: Sequence[Word], place: int) -> Decimal:
    """What multiplies the dozen at this place."""
    before = [word.lower for word in words[max(place - 2, 0) : place]]
    if before[-1:] == ["half"] or before == ["half", "a"]:
        return Decimal("0.5")
    last = before[-1] if before else ""
    return Decimal(last) if last.isascii() and last.isdigit() else Decimal(NUMBER_WORDS.get(last, 1))


def glued_units(words: Sequence[Word]) -> set[str]:
    """Digits together with the unit that follows them: `20gb` for 20 GB."""
    return {
        number.lower + unit.lower
        for number, unit in pairwise(words)
        if number.lower[0].isdigit() and unit.lower.isalpha() and len(unit.lower) <= _LONGEST_UNIT
    }


def _number(value: Decimal, begin: int, end: int) -> Place:
    return Place(Fact("number", number_key(value)), begin, end)
