"""Rules that a text must obey: how it begins, what it must say, what it may not say, how long it may be.

In: a text so far, and a word that could come next. Out: whether it may; words to try even if they are unlikely.

Words are ids of the vocabulary or of a batch's `PieceTable`. `rule_for` makes the rule of one request.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import torch

from exadec.corpus.segment import JOINER, Segmenter
from exadec.corpus.vocabulary import EOS, PAD, PieceTable
from exadec.request import Request

_Offer = tuple[float, int, int]
"""A hypothesis with one more word: total, parent, word."""


class Rule:
    """A rule without demands; others override what they need."""

    def allows(self, ids: Sequence[int], word: int) -> bool:
        """Whether `word` may follow `ids`. The end symbol asks whether the text may end."""
        return True

    def proposes(self, ids: Sequence[int]) -> Iterable[int]:
        """Words that must be tried after `ids`."""
        return ()

    def progress(self, ids: Sequence[int]) -> int:
        """How many demanded words `ids` has so far. Hypotheses that have more than others are kept in the beam."""
        return 0

    def accepts(self, ids: Sequence[int]) -> bool:
        """Whether a finished text, without its end symbol, obeys."""
        return all(self.allows(ids[:place], word) for place, word in enumerate([*ids, EOS]))


@dataclass(frozen=True)
class Together(Rule):
    """Several rules at once."""

    rules: Sequence[Rule]

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return all(rule.allows(ids, word) for rule in self.rules)

    def proposes(self, ids: Sequence[int]) -> Iterable[int]:
        return [word for rule in self.rules for word in rule.proposes(ids)]

    def progress(self, ids: Sequence[int]) -> int:
        return sum(rule.progress(ids) for rule in self.rules)

    def accepts(self, ids: Sequence[int]) -> bool:
        return all(rule.accepts(ids) for rule in self.rules)


class Spelling:
    """How ids are spelt."""

    def __init__(self, segmenter: Segmenter, table: PieceTable):
        self.segmenter, self.table = segmenter, table

    def text(self, ids: Sequence[int]) -> str:
        return self.segmenter.join(self.table.decode(ids))

    def ids(self, text: str) -> list[int]:
        """Numbers unknown words, too; those that the source does not have cannot be written."""
        return self.table.encode(self.segmenter.segment(" ".join(text.split())))

    def complete(self, ids: Sequence[int], word: int) -> str | None:
        """The text so far if `word` follows `ids` and its last word can grow no more; None if it can."""
        if word == EOS:
            return self.text(ids)
        if self.segmenter.whole_words:
            return self.text([*ids, word])
        return self.text(ids) if all(map(self.segmenter.starts_word, self.table.decode([word]))) else None


@dataclass(frozen=True)
class Beginning(Rule):
    """The text begins with these words."""

    words: Sequence[int]
    spelling: Spelling

    def allows(self, ids: Sequence[int], word: int) -> bool:
        place = len(ids)
        if place < len(self.words):
            return word == self.words[place]
        if place > len(self.words) or word == EOS:
            return True
        return not _joined(self.spelling.text(ids), self.spelling.text([*ids, word]))

    def proposes(self, ids: Sequence[int]) -> Iterable[int]:
        return self.words[len(ids) : len(ids) + 1]

    def progress(self, ids: Sequence[int]) -> int:
        return min(len(ids), len(self.words))


@dataclass(frozen=True)
class Required(Rule):
    """The text has all of these phrases."""

    phrases: Sequence[Sequence[int]]
    spelling: Spelling

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return word != EOS or not self._missing(ids)

    def proposes(self, ids: Sequence[int]) -> Iterable[int]:
        return [phrase[place] for phrase in self._missing(ids) for place in {0, _begun(ids, phrase)}]

    def progress(self, ids: Sequence[int]) -> int:
        missing = self._missing(ids)
        there = sum(map(len, self.phrases)) - sum(map(len, missing))
        return there + max((_begun(ids, phrase) for phrase in missing), default=0)

    def _missing(self, ids: Sequence[int]) -> list[Sequence[int]]:
        return [phrase for phrase in self.phrases if not self._has(ids, phrase)]

    def _has(self, ids: Sequence[int], phrase: Sequence[int]) -> bool:
        """Whether the phrase is there, and neither its first nor its last word is part of a longer one."""
        size = len(phrase)
        for place in range(len(ids) - size + 1):
            if list(ids[place : place + size]) == list(phrase):
                before, after = self.spelling.text(ids[:place]), self.spelling.text(ids[: place + size])
                whole = self.spelling.text(ids)
                if not (_joined(before, whole) or _joined(after, whole)):
                    return True
        return False


@dataclass(frozen=True)
class Forbidden(Rule):
    """The text has none of these phrases as whole words, in whatever case."""

    phrases: re.Pattern[str]
    spelling: Spelling

    def allows(self, ids: Sequence[int], word: int) -> bool:
        text = self.spelling.complete(ids, word)
        return text is None or self.phrases.search(text) is None


@dataclass(frozen=True)
class Characters(Rule):
    """The text has at most so many characters, and one at least."""

    most: int
    spelling: Spelling

    def allows(self, ids: Sequence[int], word: int) -> bool:
        if word == EOS:
            return bool(self.spelling.text(ids).strip())
        return len(self.spelling.text([*ids, word])) <= self.most


@dataclass(frozen=True)
class Renumbered(Rule):
    """A rule for a search that numbers words in another way."""

    rule: Rule
    there: Callable[[int], int]
    """From the search's number of a word to the rule's."""
    back: Callable[[int], int | None]
    """And the other way round; None if the search cannot write it."""

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return self.rule.allows([*map(self.there, ids)], self.there(word))

    def proposes(self, ids: Sequence[int]) -> Iterable[int]:
        words = map(self.back, self.rule.proposes([*map(self.there, ids)]))
        return [word for word in words if word is not None]

    def progress(self, ids: Sequence[int]) -> int:
        return self.rule.progress([*map(self.there, ids)])


def rule_for(request: Request, spelling: Spelling, read: Sequence[Sequence[int]] = ()) -> tuple[Rule, list[int]]:
    """The rule of a request, and the words that it demands. `read` are the texts that words can be copied from."""
    rules: list[Rule] = []
    phrases = [_as_read(spelling.ids(phrase), spelling, read) for phrase in request.required]
    given = spelling.ids(request.beginning or "")
    beginning = _as_read(given, spelling, read)[-len(given) :]  # what begins a text needs no mark before it
    if beginning:
        rules.append(Beginning(beginning, spelling))
    if phrases:
        rules.append(Required(phrases, spelling))
    if request.forbidden:
        rules.append(forbid(request.forbidden, spelling))
    if request.max_characters is not None:
        rules.append(Characters(request.max_characters, spelling))
    return Together(rules), [word for words in (beginning, *phrases) for word in words]


def _as_read(ids: list[int], spelling: Spelling, read: Sequence[Sequence[int]]) -> list[int]:
    """The ids of a phrase, or of the same phrase after a mark, `"Please` for `Please`, if a text has it only so.

    A word outside the vocabulary can only be copied, and then it joins what is before it as it does where it was read.
    """
    known = len(spelling.table.vocabulary)
    if not ids or ids[0] < known or any(ids[0] in text for text in read):
        return ids
    [joined] = spelling.table.look_up(JOINER + piece for piece in spelling.table.decode(ids[:1]))
    for mark, word in (pair for text in read for pair in pairwise(text)):
        if word == joined and not any(map(str.isalnum, spelling.text([mark]))):
            return [mark, joined, *ids[1:]]
    return ids


def propose(rules: Sequence[Rule], words: torch.Tensor) -> torch.Tensor:
    """The words that each hypothesis (N, t) must try: (N, W), padded. All instances have as many hypotheses."""
    texts = words[:, 1:].tolist()
    each = len(texts) // len(rules)
    proposed = [list(rules[place // each].proposes(ids)) for place, ids in enumerate(texts)]
    width = max(map(len, proposed))
    padded = [one + [PAD] * (width - len(one)) for one in proposed]
    return torch.tensor(padded, dtype=torch.long, device=words.device).view(len(texts), width)


def choose_allowed(
    rules: Sequence[Rule],
    words: torch.Tensor,
    totals: torch.Tensor,
    parents: torch.Tensor,
    chosen: torch.Tensor,
    beam: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The continuations that the rules allow, out of all, best first: total, parent, word, (B, 2K) each.

    Those that end come first, if they are among the K best. Up to K others follow. `words` are the hypotheses (N, t).
    """
    texts = words[:, 1:].unflatten(0, (len(rules), -1)).tolist()
    rows = [
        _choose(rule, ids, zip(*parts, strict=True), beam)
        for rule, ids, *parts in zip(rules, texts, totals.tolist(), parents.tolist(), chosen.tolist(), strict=True)
    ]
    nothing = (-math.inf, 0, PAD)
    padded = [row + [nothing] * (2 * beam - len(row)) for row in rows]
    columns = [[list(column) for column in zip(*row, strict=True)] for row in padded]
    best, origin, word = zip(*columns, strict=True)
    return totals.new_tensor(best), parents.new_tensor(origin), chosen.new_tensor(word)


def _choose(rule: Rule, texts: list[list[int]], offers: Iterable[_Offer], beam: int) -> list[_Offer]:
    ended: list[_Offer] = []
    live: dict[int, list[_Offer]] = {}  # by progress
    seen = set()
    demands = any(map(rule.progress, texts)) or any(any(True for _ in rule.proposes(ids)) for ids in texts)
    for offer in offers:
        total, parent, word = offer
        if total == -math.inf or (not demands and len(live.get(0, ())) >= beam):
            break
        if (parent, word) in seen or word == PAD or not rule.allows(texts[parent], word):
            continue
        seen.add((parent, word))
        if word == EOS:
            # Only those that are as far may be better: others have yet to pay for what is demanded.
            better = len(ended) + len(live.get(rule.progress(texts[parent]), ()))
            ended += [offer] if better < beam else []
        else:
            live.setdefault(rule.progress([*texts[parent], word]) if demands else 0, []).append(offer)
    return ended + sorted(_deal(live, beam), reverse=True)


def _deal(live: Mapping[int, Sequence[_Offer]], beam: int) -> list[_Offer]:
    """The hypotheses to keep, of all states of progress in turn: the furthest, the least, then those in between.

    In order of log p alone, those that have yet to write what is demanded would always come first, until they have
    gone on for so long beyond the end of their text that they are worse than those that have written it.
    """
    furthest, *others = sorted(live, reverse=True) or [0]
    order = [furthest, *others[-1:], *others[:-1]]
    rounds = zip_longest(*(live.get(state, ()) for state in order))
    return [offer for dealt in rounds for offer in dealt if offer is not None][:beam]


def forbid(phrases: Iterable[str], spelling: Spelling) -> Forbidden:
    """Phrases have single spaces. A word at either end of one is a whole word; a mark may touch others, as in `5%`."""
    pattern = "|".join(rf"(?!(?<=\w)\w){re.escape(' '.join(phrase.split()))}(?!(?<=\w)\w)" for phrase in phrases)
    return Forbidden(re.compile(pattern, re.IGNORECASE), spelling)


def _joined(beginning: str, text: str) -> bool:
    """Whether the last word of the beginning goes on in the text."""
    return beginning[-1:].isalnum() and text[len(beginning) : len(beginning) + 1].isalnum()


def _begun(ids: Sequence[int], phrase: Sequence[int]) -> int:
    """How many words at the end of the text so far are the first ones of the phrase, but not all."""
    longest = min(len(ids), len(phrase) - 1)
    ends = (size for size in range(longest, 0, -1) if list(ids[-size:]) == list(phrase[:size]))
    return next(ends, 0)
