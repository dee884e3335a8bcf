"""The quotations of a text, also of one that is still being written.

In: a text. Out: the text with its rarer quotation marks made plain, and which of its words stand in each quotation.

A quotation may stand in another with marks of another kind: the words of the inner one belong to both.
"""

# ruff: noqa: RUF001, RUF003 -- marks that look alike are the subject of this file

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from exadec.textmetrics.facts import split_word
from exadec.textmetrics.tokens import is_word, remember, split_text

_DOUBLE, _ANGLE, _SINGLE = '"“”„‟＂', "«»", "'‘’`´ʼ′＇"
MARKS = frozenset(_DOUBLE + _ANGLE + _SINGLE)
"""What may open a quotation, once `plain_marks` has seen the text"""
_DOUBLED = re.compile(r"[`‘][`‘'＇]|''|’’")
_HIDDEN = "\ue000"
"""Takes the place of a mark of another kind: it is neither part of a word nor a quotation mark."""
_HIDE_DOUBLE, _HIDE_ANGLE = (str.maketrans(dict.fromkeys(kind, _HIDDEN)) for kind in (_DOUBLE, _ANGLE))

_ENTITY = re.compile(r"&(?:quot|ldquo|rdquo|#34|#x22);", re.IGNORECASE)
# The other kind than that of the quotation which these mostly stand in.
_RARE = str.maketrans({"「": "“", "」": "”", "『": "«", "』": "»", "‹": "“", "›": "”"})
_REVERSED = re.compile(r"(?<!\w)›(?=\w)([^‹›]*)‹")
_LOW = re.compile(r"(?<!\w)‚(?=\s?\w)([^‚‘’]*)[‘’]?")
_NEVER_CLOSED = re.compile(
    r"(?<![\w`‘])[`‘](?![`‘'])(?!(?:n|em|til|tis|twas|cause)\b)(?=\s?[^\W\d])(?!.*['’](?!\w))", re.I | re.S
)


class Quotation(NamedTuple):
    """The numbers of its words among `read_words`."""

    words: range
    closed: bool
    """An open one reaches to the end of the text."""


def plain_marks(text: str) -> str:
    """Rarer marks become plainer ones. The text keeps its length, so places in it stay the same."""
    if text.isascii() and "&" not in text and "`" not in text:
        return text
    text = _ENTITY.sub(lambda entity: '"'.ljust(len(entity[0])), text)
    if "›" in text:
        text = _REVERSED.sub(r"“\1”", text)
        text = text if "‹" in text else text.replace("›", "|")  # a path, such as News › Sport
    text = _LOW.sub(lambda low: f"‘{low[1]}’"[: len(low[0])], text.translate(_RARE))
    return _NEVER_CLOSED.sub("«", text) if "‘" in text or "`" in text else text


@remember(1 << 12)
def find_quotations(text: str) -> tuple[Quotation, ...]:
    """Each kind of marks is looked at by itself, if there are several."""
    marks = _count_marks(text)
    plain = _DOUBLED.sub('"', text)
    if not any(marks) or sum(not set(kind).isdisjoint(plain) for kind in (_DOUBLE, _ANGLE, _SINGLE)) < 2:
        return tuple(_pair(marks))
    without_angle, without_double = plain.translate(_HIDE_ANGLE), plain.translate(_HIDE_DOUBLE)
    single = _count_marks(without_angle.translate(_HIDE_DOUBLE))
    double, angle = _count_marks(without_angle), _count_marks(without_double)
    if not len(single) == len(double) == len(angle) == len(marks):  # a mark changed how words are read
        return tuple(_pair(marks))
    # Marks of all kinds read alike once a text is split, and single ones are still among the others.
    double, angle = ([max(all_ - own, 0) for all_, own in zip(kind, single, strict=True)] for kind in (double, angle))
    return tuple(quotation for kind in (double, angle, single) for quotation in _pair(kind))


def _count_marks(text: str) -> list[int]:
    """How many quotation marks stand before each of `read_words`, and after the last."""
    counts = [0]
    for token in split_text(text):
        if is_word(token):
            counts += [0] * len(split_word(token)[0])
        elif token in MARKS:
            counts[-1] += 1
    return counts


def _pair(marks: Sequence[int]) -> Iterator[Quotation]:
    places = [place for place, count in enumerate(marks) for _ in range(count)]
    for number, (begin, end) in enumerate(pairwise([*places, len(marks) - 1])):
        if number % 2 == 0:
            yield Quotation(range(begin, end), closed=number + 1 < len(places))
