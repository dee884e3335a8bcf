"""Where each word of a text comes from.

In: a `Generation` and its request. Out: its words with their places, as JSON.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from exadec.corpus.segment import Segmenter
from exadec.generation import Generation
from exadec.request import Request
from exadec.textmetrics.licensing import Stated
from exadec.textmetrics.truth import content_stems

_STRETCH = re.compile(r"[^\s—…|/]+")
_MOST_ATTENDED = 4
_LEAST_ATTENTION = 0.01
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.){2,}")
_AROUND = ".\"'`´“”„‘’«»()[]{}<>,;:!?-–*_"  # noqa: RUF001


def describe_words(generation: Generation, request: Request, segmenter: Segmenter) -> list[dict[str, Any]]:
    """Each word with its place, what it says, and what the model did when it wrote it.

    `origin` is `source` for a content word that the source has, `exemplar` for one that only the exemplar has (what
    the score Leak counts), and `other` for the rest. A fact that the source licenses is the source's, in whatever form:
    `Mon` for `Monday`. `fact` is `licensed` or `unlicensed` for a word of a fact that was checked, otherwise None.
    `copied` is the copy gate, and `attended` has the words with the most attention.
    """
    text = generation.text
    mixed = [] if request.mixture is None else [one for one, _ in request.mixture.parts]
    own = frozenset(content_stems(request.source))
    borrowed = _all_stems([*generation.exemplars, *mixed]) - own
    facts = generation.facts or []
    places = place_pieces(generation.pieces[:-1], segmenter)
    return [
        {
            "text": text[start:end],
            "start": start,
            "end": end,
            "origin": "source" if fact == "licensed" else _origin(text[start:end], own, borrowed),
            "fact": fact,
            **_explain(generation, _overlapping(start, end, places), segmenter),
        }
        for start, end in find_words(text)
        for fact in [_fact(start, end, facts)]
    ]


def find_words(text: str) -> list[tuple[int, int]]:
    """The place of each word, without the marks around it."""
    found = []
    for stretch in _STRETCH.finditer(text):
        word = stretch.group().strip(_AROUND)
        start = stretch.start() + stretch.group().index(word)
        end = start + len(word)
        if _ABBREVIATION.fullmatch(text[start : end + 1]):
            end += 1  # `U.S.` keeps its full stop
        if any(map(str.isalnum, word)):
            found.append((start, end))
    return found


def place_pieces(pieces: Sequence[str], segmenter: Segmenter) -> list[tuple[int, int]]:
    """Where each piece is in the text that they make."""
    ends = [len(segmenter.join(pieces[:count]).rstrip("\ufffd")) for count in range(len(pieces) + 1)]
    return list(pairwise(ends))


def _all_stems(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(stem for text in texts for stem in content_stems(text))


def _origin(word: str, own: frozenset[str], borrowed: frozenset[str]) -> str:
    stems = content_stems(word)
    if not borrowed.isdisjoint(stems):
        return "exemplar"
    return "source" if not own.isdisjoint(stems) else "other"


def _fact(start: int, end: int, facts: Sequence[Stated]) -> str | None:
    stated = [fact.licensed for fact in facts if fact.begin < end and start < fact.end]
    return None if not stated else "licensed" if all(stated) else "unlicensed"


def _overlapping(start: int, end: int, places: Sequence[tuple[int, int]]) -> list[int]:
    return [number for number, (begin, stop) in enumerate(places) if begin < end and start < stop]


def _explain(generation: Generation, numbers: list[int], segmenter: Segmenter) -> dict[str, Any]:
    """Copy gate and attention of some pieces, on average."""
    if generation.attention is None or generation.copy_gate is None or not numbers:
        return {"copied": None, "attended": []}
    weights = generation.attention[numbers].mean(0)  # (memory,)
    total: dict[str, float] = defaultdict(float)
    for word, first, behind in _join_pieces(generation.memory, segmenter):
        total[word] += float(weights[first:behind].sum())
    ranked = sorted(total.items(), key=lambda one: -one[1])[:_MOST_ATTENDED]
    attended = [{"text": word, "weight": round(weight, 4)} for word, weight in ranked if weight >= _LEAST_ATTENTION]
    return {"copied": round(float(generation.copy_gate[numbers].mean()), 4), "attended": attended}


def _join_pieces(pieces: Sequence[str], segmenter: Segmenter) -> Iterator[tuple[str, int, int]]:
    """Words with the numbers of their pieces."""
    starts = [number for number, piece in enumerate(pieces) if number == 0 or segmenter.starts_word(piece)]
    for first, behind in pairwise([*starts, len(pieces)]):
        yield segmenter.join(pieces[first:behind]).strip(), first, behind
