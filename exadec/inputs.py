"""What the model reads for a request.

In: requests as text. Out: ids of sources and exemplars, given, mixed or retrieved, and the rules of the texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from exadec.corpus.prepare import Sequences
from exadec.corpus.record import announce, fingerprint
from exadec.corpus.segment import JOINER
from exadec.corpus.vocabulary import NONE, PieceTable
from exadec.errors import InputError, RequestError
from exadec.exemplars.retriever import Found, Retriever
from exadec.loading.batch import Instance, mark
from exadec.request import Request, find_blank
from exadec.search.facts import Licensed, licensing_text
from exadec.search.rules import Rule, Spelling, Together, rule_for
from exadec.styles import Mixture, Styles
from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker, Stated
from exadec.training.checkpoint import Run

One = TypeVar("One")
_NO_TARGET = np.array([], np.int64)
_SHOWN = 60
"""Characters of a text in a message about it"""


class Shown(NamedTuple):
    """The exemplars of one text."""

    ids: tuple[np.ndarray, ...]
    """As many as the model reads."""
    texts: list[str]
    """Each once, the nearest or heaviest first."""
    id: str | None = None
    """Names the first one, if it was retrieved."""
    similarity: float | None = None
    truncated: int = 0
    mixture: list[tuple[np.ndarray, float]] | None = None
    """Exemplars and their shares, if λ is to be that of a mixture."""


@dataclass(frozen=True)
class Input:
    """What the model reads for one text, and the strings to show for it."""

    instance: Instance
    """Has no target. The batch's `PieceTable` numbers its unknown words."""
    opening: int
    """Pieces of the source that say for which group it is."""
    shown: Shown
    truncated: int
    """Pieces of the source that were cut."""
    rule: Rule
    """What its text must obey."""
    licensing: str
    """What licenses the facts of its text."""
    seed: int
    """For drawing."""


class Inputs:
    """Reads requests for the model of a run."""

    def __init__(self, run: Run, retriever: Callable[[], Retriever], styles: Styles):
        """`retriever` is called when an exemplar is looked for; a model without exemplars needs none."""
        self.run, self._open_retriever, self._styles = run, retriever, styles

    @cached_property
    def _retriever(self) -> Retriever:
        return self._open_retriever()

    @cached_property
    def _targets(self) -> Sequences:
        return self._retriever.corpus.targets("train")

    def read(self, requests: Sequence[Request], table: PieceTable, strict: bool = False) -> list[Input | RequestError]:
        """Ids of each source and of its exemplars. With `strict`, a text may state only what its source licenses."""
        asked = [or_error(self._settle_style, one) for one in requests]
        found = self._find(asked)
        return [
            one if isinstance(one, RequestError) else or_error(self._read_one, one, found.get(number), table, strict)
            for number, one in enumerate(asked)
        ]

    def refuse(self, exemplar: str | None, group: str | None) -> None:
        """Raise the error that every request with this exemplar or this group would get, whatever its source.

        With neither of them, every request looks for an exemplar.
        """
        Request("", exemplar, group)
        self._announce(group)
        if exemplar is not None:
            self.read_given(exemplar, PieceTable(self.run.vocabulary))
        elif self.run.config.model.reads_exemplars:
            if group is not None:
                self._retriever.members(group)
            _ = self._retriever.index

    def text(self, number: int) -> str:
        """The text of an exemplar that the retriever found, as the model reads it."""
        accepted = self._retriever.accepted_text(number)
        return accepted if accepted is not None else self._retriever.corpus.text(self._targets[number])

    def found_text(self, found: Found) -> str | None:
        return None if found.number is None else self.text(found.number)

    def as_given(self, ids: np.ndarray) -> np.ndarray:
        """Ids of an exemplar as the model reads them if the exemplar is given.

        A model that has learnt to tell them apart follows a given exemplar more closely than a retrieved one.
        """
        return mark(ids) if self.run.config.exemplars.marks_given else ids

    def _settle_style(self, request: Request) -> Request:
        """The request with the mixture of its style."""
        if (blank := find_blank(request)) is not None:
            raise blank
        return request if request.style is None else request.with_mixture(self._styles.get(request.style))

    def _find(self, asked: Sequence[Request | RequestError]) -> dict[int, list[Found] | RequestError]:
        """The exemplars of those requests that have none, retrieved for each group at once."""
        found: dict[int, list[Found] | RequestError] = {}
        if not self.run.config.model.reads_exemplars:
            return found
        requests = {number: one for number, one in enumerate(asked) if isinstance(one, Request)}
        without = {i: one for i, one in requests.items() if one.exemplar is None and one.mixture is None}
        if without:
            try:  # here, because other requests of the batch may do without a retriever
                _ = self._retriever.index
            except InputError as error:
                return {number: RequestError(str(error)) for number in without}
        for group in dict.fromkeys(one.group for one in without.values()):
            numbers = [i for i, one in without.items() if one.group == group]
            texts, count = [without[i].source for i in numbers], self.run.config.model.exemplars_read
            several = or_error(self._retriever.find_several, texts, group, count)
            found |= {i: several if isinstance(several, RequestError) else several[j] for j, i in enumerate(numbers)}
        return found

    def _read_one(
        self, request: Request, found: list[Found] | RequestError | None, table: PieceTable, strict: bool
    ) -> Input:
        if isinstance(found, RequestError):
            raise found
        opening = self._announce(request.group)
        ids, truncated = self._read_source(request.source, opening, table)
        shown = self._show(request, found, table)
        instance = Instance(ids, shown.ids, _NO_TARGET)
        licensing = licensing_text(request.source, request.group, self.run.config.corpus.group_in_source)
        spelling = Spelling(self.run.segmenter, table)
        rules: list[Rule] = []
        if strict:
            checker = Checker(licensing, self._names)
            _refuse_unlicensed(request, checker)
            rules.append(Licensed(checker, spelling))
        if not request.is_free:
            rules.insert(0, self._demands(request, instance, truncated, spelling))  # it is the quicker one
        rule = Together(rules) if rules else Rule()
        return Input(instance, len(opening), shown, truncated, rule, licensing, fingerprint(request.source) >> 1)

    def check_facts(self, one: Input, text: str) -> list[Stated]:
        """What a text states, and whether the source of its request licenses it."""
        return Checker(one.licensing, self._names).check(text)

    @cached_property
    def _names(self) -> Names:
        return self.run.read_names()

    def _show(self, request: Request, found: list[Found] | None, table: PieceTable) -> Shown:
        count = self.run.config.model.exemplars_read
        if request.mixture is not None:
            return self._mix(request.mixture, table)
        if request.exemplar is not None:
            given, cut = self.read_given(request.exemplar, table)
            return Shown((given,) * count, [request.exemplar], truncated=cut)
        if found is None:
            return Shown((np.array([NONE]),) * count, [])
        texts = [text for one in dict.fromkeys(found) if (text := self.found_text(one)) is not None]
        name = None if found[0].number is None else self._retriever.name(found[0].number)
        read = [self._read_found(one, table) for one in found]
        return Shown(tuple(ids for ids, _ in read), texts, name, found[0].similarity, max(cut for _, cut in read))

    def refuse_mixture(self) -> None:
        """Raise the error that every mixture would get."""
        model = self.run.config.model
        if not model.reads_exemplars:
            raise RequestError(f"this model ({model.variant}) does not read exemplars; leave out mixture and style.")
        if not model.adaptive:
            raise RequestError(
                f"this model ({model.variant}) has no coefficients to mix, so it takes no mixture and no style; give "
                "it one exemplar with each text."
            )

    def _mix(self, mixture: Mixture, table: PieceTable) -> Shown:
        self.refuse_mixture()
        model = self.run.config.model
        read = {text: self.read_given(text, table) for text, _ in mixture.parts}
        heaviest = mixture.heaviest(model.exemplars_read)
        shown = tuple(read[heaviest[place % len(heaviest)]][0] for place in range(model.exemplars_read))
        parts = [(read[text][0], share) for (text, _), share in zip(mixture.parts, mixture.shares, strict=True)]
        return Shown(shown, heaviest, truncated=max(cut for _, cut in read.values()), mixture=parts)

    def _demands(self, request: Request, instance: Instance, truncated: int, spelling: Spelling) -> Rule:
        known = len(self.run.vocabulary)
        read = [instance.source.tolist()]
        if self.run.config.model.attend_exemplar:
            read += [ids.tolist() for ids in instance.exemplars]
        copied = {word for ids in read for word in ids}
        rule, words = rule_for(request, spelling, read)
        strange = [word for word in words if word >= known and word not in copied]
        if strange:
            [piece, *_] = spelling.table.decode(strange)
            unread = self.run.segmenter.segment(request.source) if truncated else []
            reason = _why_not_written(piece, {*spelling.table.decode(copied)}, {*unread})
            raise RequestError(f"the model cannot write {piece.removeprefix(JOINER)!r}: {reason}")
        return rule

    def _announce(self, group: str | None) -> list[str]:
        """The pieces that tell the model the group, as in the sources it was trained on."""
        if group is None:
            return []
        if not self.run.config.corpus.group_in_source:
            model = self.run.config.model
            if not model.reads_exemplars:
                raise RequestError(
                    f"this model ({model.variant}) reads neither exemplars nor groups; leave the group out."
                )
            return []
        if group not in self.run.facts["groups"]:
            raise RequestError(f"no exemplar has the group {group!r}.")
        return self.run.segmenter.segment(announce(group))

    def _read_source(self, source: str, opening: list[str], table: PieceTable) -> tuple[np.ndarray, int]:
        limit = self.run.config.corpus.max_source
        pieces = self.run.segmenter.segment(" ".join(source.split()))
        if not pieces:
            raise RequestError("the source is empty.")
        pieces = opening + pieces
        return np.array(table.encode(pieces[:limit])), max(0, len(pieces) - limit)

    def read_given(self, exemplar: str, table: PieceTable) -> tuple[np.ndarray, int]:
        """The ids of an exemplar, and how many of its pieces were cut."""
        model = self.run.config.model
        if not model.reads_exemplars:
            raise RequestError(f"this model ({model.variant}) does not read exemplars; leave the exemplar out.")
        ids, cut = self._cut(exemplar, table)
        if not len(ids):
            raise RequestError("the exemplar is empty; leave it out, or give another one.")
        if not (ids < len(self.run.vocabulary)).any():
            shown = exemplar if len(exemplar) <= _SHOWN else f"{exemplar[:_SHOWN]}..."
            raise RequestError(f"the exemplar {shown!r} has no word the model knows; give another one.")
        return self.as_given(ids), cut

    def _read_found(self, found: Found, table: PieceTable) -> tuple[np.ndarray, int]:
        """The ids of an exemplar, and how many of its pieces were cut.

        Those of the prepared corpus are as in training, except that this batch renumbers unknown words. They were cut
        when the corpus was made, and so is the text that is shown.
        """
        if found.number is None:
            return np.array([NONE]), 0
        if (accepted := self._retriever.accepted_text(found.number)) is not None:
            return self._cut(accepted, table)
        size, unknown = len(self.run.vocabulary), self._retriever.corpus.table.unknown
        ids = self._targets[found.number].tolist()
        return np.array([i if i < size else table.encode([unknown[i - size]])[0] for i in ids]), 0

    def _cut(self, exemplar: str, table: PieceTable) -> tuple[np.ndarray, int]:
        limit = self.run.config.corpus.max_target
        pieces = self.run.segmenter.segment(" ".join(exemplar.split()))
        return np.array(table.encode(pieces[:limit])), max(0, len(pieces) - limit)


def _why_not_written(piece: str, copied: set[str], unread: set[str]) -> str:
    """Why a piece outside the vocabulary is not written: `copied` can be copied, `unread` are those of a cut source."""
    word = piece.removeprefix(JOINER)
    forms = {word, JOINER + word}
    if forms & copied:
        space = "with" if piece.startswith(JOINER) else "without"
        return f"it can be copied only as it was read, {space} a space before it; ask for it so."
    if forms & unread:
        return "the source was cut as too long, and it is in the part that was not read; shorten the source."
    return "it is neither in its vocabulary nor in the source."


def _refuse_unlicensed(request: Request, checker: Checker) -> None:
    """A demand that no text can fulfil would be searched for in vain, and long."""
    for phrase in filter(None, (request.beginning, *request.required)):
        for stated in checker.check(phrase):
            if not stated.licensed:
                raise RequestError(f"the source does not license {stated.words!r}, so strict search cannot write it.")


def or_error(read: Callable[..., One], *arguments: Any) -> One | RequestError:
    """What the call returns, or the `RequestError` that it raises."""
    try:
        return read(*arguments)
    except RequestError as error:
        return error
