"""The names of a corpus, counted from its distinct words.

In: distinct words between spaces, and texts as numbers of words. Out: `Names`, as `Names.from_sources` finds them.

Each distinct word is read once, and the rest is arithmetic on arrays: a few seconds for millions of words. What only
shows across a space, such as a quotation in single marks, is not seen; it hardly ever decides about a name.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from exadec.textmetrics.facts import BEFORE_A_START, Names, Word, split_word
from exadec.textmetrics.tokens import (
    LEAST_CONTENT_WORDS,
    TITLE_CASE_SHARE,
    is_function_word,
    is_word,
    split_text,
)

LEAST = 3
"""Rarer words are not looked at: among them are slips, and most of the work in a large corpus."""


class _Reading(NamedTuple):
    """What there is to know about a distinct word."""

    first: Word | None
    """Its first part: whether it counts depends on the word before"""
    others: list[Word]
    """The parts that count wherever the word stands"""
    opens: bool
    """A mark before its first part makes that the start of something."""
    closes: bool
    """A mark at its end makes the next word the start of something."""
    case: tuple[int, ...]
    """For the case of its text: has capitals, has small letters; content words, telling ones, telling ones with a
    capital; the latter two again for its first word alone"""


def count_names(words: Sequence[str], ids: np.ndarray, offsets: np.ndarray, least: int = LEAST) -> Names:
    """`words`: distinct words. `ids`: the numbers of all words of all texts. `offsets`: where each text begins, and
    where the last one ends; no text is empty."""
    used = np.bincount(ids, minlength=len(words)).tolist()
    readings = [_read(word if count >= least else "") for word, count in zip(words, used, strict=True)]
    case = np.array([one.case for one in readings], np.int32)  # (W, 7)
    opens, closes = (np.array([getattr(one, name) for one in readings]) for name in ("opens", "closes"))
    starts = opens[ids]  # (all words,)
    starts[1:] |= closes[ids[:-1]]
    starts[offsets[:-1]] = True
    telling = np.repeat(_in_sentence_case(case, ids, offsets), np.diff(offsets))
    anywhere = np.bincount(ids[telling], minlength=len(words)).tolist()
    after_another = np.bincount(ids[telling & ~starts], minlength=len(words)).tolist()
    capital, small = Counter[str](), Counter[str]()
    for reading, count, after in zip(readings, anywhere, after_another, strict=True):
        parts = [(word, count) for word in reading.others] + ([(reading.first, after)] if reading.first else [])
        for word, times in parts:
            if times:
                (small if word.written == word.lower else capital)[word.lower] += times
    kept = Names.from_counts({word: count for word, count in capital.items() if count >= least}, small)
    return kept._replace(common=frozenset(word for word in kept.common if small[word] >= least))


def _in_sentence_case(case: np.ndarray, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(N,): whether `letter_case` of each text is sentence case."""
    sums = np.stack([np.add.reduceat(column[ids], offsets[:-1]) for column in case[:, :5].T])
    upper, lower, content, telling, capitals = sums
    telling, capitals = telling - case[ids[offsets[:-1]], 5], capitals - case[ids[offsets[:-1]], 6]
    is_title = (telling > 0) & (capitals >= TITLE_CASE_SHARE * telling)
    decided: np.ndarray = (upper > 0) & ((content < LEAST_CONTENT_WORDS) | ((lower > 0) & ~is_title))
    return decided


def _read(word: str) -> _Reading:
    tokens = split_text(word)
    parts: list[Word] = []
    opens = starts = False
    for token in tokens:
        if is_word(token):
            opens = opens or (starts and not parts)
            found = split_word(token)[starts or not parts]
            parts += found
            starts = False
        else:
            starts = starts or token in BEFORE_A_START
    return _Reading(
        parts[0] if parts else None,
        [part for part in parts[1:] if not part.starts],
        opens,
        starts,
        _case_of([token for token in tokens if is_word(token)]),
    )


def _case_of(words: Sequence[str]) -> tuple[int, ...]:
    letters = "".join(words)
    content = [word[0].isalpha() and not is_function_word(word) for word in words]
    telling = [one and (word[0].isupper() or word == word.lower()) for one, word in zip(content, words, strict=True)]
    capitals = [one and word[0].isupper() for one, word in zip(telling, words, strict=True)]
    first = (sum(telling[:1]), sum(capitals[:1]))
    return letters != letters.lower(), letters != letters.upper(), sum(content), sum(telling), sum(capitals), *first
