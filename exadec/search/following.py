"""Searching until a text has the manner of its exemplars.

In: a search that can be repeated with stronger guidance. Out: for each instance the first text with all traits of its
exemplars, or the one that comes nearest to them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exadec.search.beam import Hypothesis
from exadec.textmetrics.traits import YES_OR_NO, find_traits

STRONGER = (0.0, 0.5, 1.0, 1.5)
"""What is added to `search.guidance`, one after the other, as long as a text does not follow."""

Search = Callable[[Sequence[int], float], list[list[Hypothesis]]]
"""Numbers of instances, and a strength of guidance -> several hypotheses of each, best first."""
Differences = Callable[[list[int]], int]
"""In how many traits a text, as corpus ids, differs from its exemplars."""


@dataclass(frozen=True)
class Manner:
    """The manner of some exemplars."""

    traits: dict[str, bool]
    """What most of them have; if they are divided, what the first one has."""
    shares: dict[str, float]
    """The share of them that has each trait."""

    @classmethod
    def of(cls, exemplars: Sequence[str]) -> "Manner":
        found = [find_traits(text) for text in exemplars]
        shares = {name: sum(getattr(one, name) for one in found) / len(found) for name in YES_OR_NO}
        traits = {name: share > 0.5 or (share == 0.5 and getattr(found[0], name)) for name, share in shares.items()}
        return cls(traits, shares)

    def differences(self, text: str) -> int:
        """How many traits a text lacks, or has in excess."""
        traits = find_traits(text)
        return sum(getattr(traits, name) != wanted for name, wanted in self.traits.items())

    def distance(self, text: str) -> float:
        """How far a text is from the exemplars: for each trait, the share of them that differ from it."""
        traits = find_traits(text)
        return sum(abs(getattr(traits, name) - share) for name, share in self.shares.items())


class Judge(NamedTuple):
    """Compares texts, as corpus ids, with the exemplars that they are written with."""

    manner: Manner
    to_text: Callable[[list[int]], str]

    @classmethod
    def of(cls, exemplars: Sequence[str], to_text: Callable[[list[int]], str]) -> "Judge | None":
        """None if there are no exemplars."""
        unique = list(dict.fromkeys(exemplars))  # one that is shown twice has one vote
        return cls(Manner.of(unique), to_text) if unique else None

    def differences(self, ids: list[int]) -> int:
        return self.manner.differences(self.to_text(ids))

    def distance(self, ids: list[int]) -> float:
        return self.manner.distance(self.to_text(ids))


def search_until_followed(
    search: Search, differences: Sequence[Differences | None], guidance: float
) -> list[list[Hypothesis]]:
    """The hypotheses of each instance, the nearest to its exemplars first.

    Each instance is searched for with rising guidance, until one of its texts differs in nothing. So no text is guided
    more than it needs. An instance without exemplars has nothing to follow: None.
    """
    found: list[list[Hypothesis]] = [[] for _ in differences]
    least: list[float] = [float("inf")] * len(differences)
    left = list(range(len(differences)))
    for more in STRONGER:
        for number, hypotheses in zip(left, search(left, guidance + more), strict=True):
            differ = differences[number] or (lambda _: 0)
            ranked = sorted(((differ(one.ids), rank) for rank, one in enumerate(hypotheses)))
            if ranked and ranked[0][0] < least[number]:
                found[number], least[number] = [hypotheses[rank] for _, rank in ranked], ranked[0][0]
        left = [number for number in left if least[number] > 0]
        if not left:
            break
    return found
