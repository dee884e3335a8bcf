"""Exemplars that come and go while texts are written.

In: a run's `Retriever` and a `Journal`. Out: a `Retriever` that also finds accepted texts, and no deleted ones.
"""

from collections import Counter
from functools import cached_property

import numpy as np

from exadec.errors import RequestError
from exadec.exemplars.journal import Accepted, Journal
from exadec.exemplars.retriever import Retriever


class GrowingRetriever(Retriever):
    """Finds training targets and accepted texts alike: the same features, weights and cosine, and the same policy.

    Accepted texts have the numbers after those of the training instances. One thread at a time may use it.
    """

    def __init__(self, trained: Retriever, journal: Journal):
        super().__init__(trained.corpus, trained.index.in_memory(), trained.config)
        self.journal = journal
        self._training = trained.index.next_id
        """The number of training instances"""
        self._own: list[int] = []
        """The numbers in the journal of accepted texts, in the order in which they were indexed"""
        self._places: dict[int, int] = {}
        """Where each of them is in `_own`"""
        self._read: list[list[str]] = []
        """The pieces of their sources, if the same source is excluded"""
        self._index(list(journal.accepted))
        self.index.delete(number for number in journal.deleted_training if number < self._training)

    def __len__(self) -> int:
        """How many exemplars can be found."""
        return len(self.index)

    def find_accepted(self, text: Accepted) -> str | None:
        """The id of a text that was accepted for the same source and group; None if there is none."""
        same = (number for number, other in self.journal.accepted.items() if other == text)
        return next((f"own-{number}" for number in same), None)

    def accept(self, text: Accepted) -> str:
        """Make a text an exemplar, at once and for good; its id."""
        number = self.journal.accept(text)
        self._index([number])
        return f"own-{number}"

    def delete(self, name: str) -> bool:
        """Never find this exemplar again; False if there is none of this id."""
        number = self.find_number(name)
        if number is None:
            return False
        if number < self._training:
            self.journal.delete_training(number)
        else:
            self.journal.delete(self._own[number - self._training])
        self.index.delete([number])
        self._forget()
        return True

    def find_number(self, name: str) -> int | None:
        """The number of an exemplar that can be found, by its id; None if there is none."""
        kind, _, digits = name.partition("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            return None
        number = int(digits)
        if kind == "own":
            return self._training + self._places[number] if number in self.journal.accepted else None
        return number if kind == "train" and number < self._training and self._alive[number] else None

    def name(self, number: int) -> str:
        own = self._own_number(number)
        return super().name(number) if own is None else f"own-{own}"

    def accepted_text(self, number: int) -> str | None:
        own = self._own_number(number)
        return None if own is None else self.journal.accepted[own].target

    def group_of(self, number: int) -> str | None:
        own = self._own_number(number)
        if own is not None:
            return self.journal.accepted[own].group
        group = int(self.corpus.groups("train")[number])
        return self.corpus.group_names[group] if group >= 0 else None

    def members(self, group: str) -> np.ndarray:
        names = self.corpus.group_names
        trained = self.corpus.groups("train") == (names.index(group) if group in names else None)
        own = [(text := self.journal.accepted.get(one)) is not None and text.group == group for one in self._own]
        members: np.ndarray = np.concatenate([trained, np.array(own, bool)]) & self._alive
        if not members.any():
            raise RequestError(f"no exemplar has the group {group!r}.")
        return members

    def count_groups(self) -> Counter[str]:
        """How many exemplars of each group can be found."""
        groups, names = self.corpus.groups("train"), self.corpus.group_names
        alive = self._alive[: self._training] & (groups >= 0)
        counts = np.bincount(groups[alive], minlength=len(names)).tolist()
        found = Counter({name: count for name, count in zip(names, counts, strict=True) if count})
        found.update(text.group for text in self.journal.accepted.values() if text.group is not None)
        return found

    @cached_property
    def _alive(self) -> np.ndarray:
        """(N,) bool: the instances that can be found."""
        return self.index.alive

    def _same_source(self, source: str) -> np.ndarray:
        found = super()._same_source(source)
        if not self.config.exclude_same_source:
            return found
        pieces = self.read_pieces(source)
        own = [self._training + i for i, other in enumerate(self._read) if other == pieces]
        return np.concatenate([found, np.array(own, np.int64)])

    def _index(self, numbers: list[int]) -> None:
        sources = [self.journal.accepted[number].source for number in numbers]
        self.index.add(sources)
        self._places |= {number: place for place, number in enumerate(numbers, len(self._own))}
        self._own += numbers
        if self.config.exclude_same_source:
            self._read += map(self.read_pieces, sources)
        self._forget()

    def _forget(self) -> None:
        self.__dict__.pop("_alive", None)

    def _own_number(self, number: int) -> int | None:
        return None if number < self._training else self._own[number - self._training]
