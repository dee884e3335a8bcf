"""A text that was written, and how.

In: what a model found. Out: `Generation`; the same as JSON, and back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from exadec.textmetrics.licensing import Stated

TellText = Callable[[int, str], None]
"""Called with a request's number and the beginning of its text."""


@dataclass(frozen=True)
class Explanation:
    """Where the words of one generation come from; both are None for a model without copying."""

    attention: np.ndarray | None
    """(pieces, memory): what the model attended to for each piece. The begin symbol of a given exemplar is left out."""
    copy_gate: np.ndarray | None
    """(pieces,): probability that a piece was copied rather than generated."""


@dataclass(frozen=True)
class Generation:
    """One text, and how it was written.

    `attention` and `copy_gate` need another pass of the model over the finished text. It runs lazily, on the first
    access to either.
    """

    text: str
    score: float
    """log p divided by the length penalty; log p is the guided one if there is guidance."""
    exemplar: str | None
    """The exemplar: the text that shows how to say it. The nearest one, if the model reads several."""
    exemplars: list[str]
    """All exemplars that the model read, each once, the nearest first."""
    similarity: float | None
    """Cosine between the source and the exemplar's own source; None if the exemplar was given."""
    pieces: list[str]
    """The text in the model's pieces, the end symbol last."""
    memory: list[str]
    """The pieces that could be attended to and copied; `<none>` for an exemplar that there is not."""
    coefficients: np.ndarray | None
    """(R,), or (G, R) with one for each gate: λ; None for a model that does not adapt."""
    alternatives: list[tuple[str, float]]
    """The beam's other hypotheses with their scores, best first."""
    truncated: int
    """How many pieces of the source were over the limit and not read."""
    exemplar_truncated: int
    """How many pieces of a given or accepted exemplar were over the limit and not read."""
    facts: list[Stated] | None = field(default=None, kw_only=True)
    """What the text states, and whether the source licenses it; None if `search.facts` is off."""
    exemplar_id: str | None = field(default=None, kw_only=True)
    """Names the exemplar where it was found: `train-7` is that of the eighth training record. None if it was given."""
    explain: InitVar[Callable[[], Explanation]]
    """Runs that pass. An `InitVar` rather than a field, so that `asdict` and `==` do not touch the model."""

    def __post_init__(self, explain: Callable[[], Explanation]) -> None:
        object.__setattr__(self, "_explain", explain)

    @property
    def attention(self) -> np.ndarray | None:
        """(pieces, memory): what the model attended to for each piece; None for a model without copying."""
        return self._explanation.attention

    @property
    def copy_gate(self) -> np.ndarray | None:
        """(pieces,): probability that a piece was copied rather than generated; None without copying."""
        return self._explanation.copy_gate

    @cached_property
    def _explanation(self) -> Explanation:
        explanation: Explanation = self._explain()  # type: ignore[attr-defined]
        return explanation

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: store the explanation instead of the model that computes it."""
        return {**vars(self), "_explanation": self._explanation, "_explain": None}

    def found_as(self, exemplar_id: str, similarity: float) -> "Generation":
        """The same text, whose exemplar was given to the model, but had been retrieved before."""
        explain = self._explain  # type: ignore[attr-defined]
        return replace(self, exemplar_id=exemplar_id, similarity=similarity, explain=explain)

    def to_json(self, coefficients: bool = False, pieces: bool = False, explain: bool = False) -> dict[str, Any]:
        """What a server answers: the text, and the rest on request. Explanations come with their pieces."""
        found = {"id": self.exemplar_id, "text": self.exemplar, "similarity": self.similarity}
        shown: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "exemplar": None if self.exemplar is None else found,
            "exemplars": self.exemplars,
            "similarity": self.similarity,
            "alternatives": [{"text": text, "score": score} for text, score in self.alternatives],
            "truncated": self.truncated,
            "exemplar_truncated": self.exemplar_truncated,
            "facts": None if self.facts is None else [fact._asdict() for fact in self.facts],
        }
        if coefficients:
            shown["coefficients"] = _to_list(self.coefficients)
        if pieces or explain:
            shown |= {"pieces": self.pieces, "memory": self.memory}
        if explain:
            shown |= {"attention": _to_list(self.attention), "copy_gate": _to_list(self.copy_gate)}
        return shown

    @staticmethod
    def from_json(shown: dict[str, Any], explain: Callable[[], Explanation]) -> "Generation":
        """The generation that a server answered with, coefficients and pieces included."""
        found = shown["exemplar"] or {"id": None, "text": None}
        return Generation(
            text=shown["text"],
            score=shown["score"],
            exemplar=found["text"],
            exemplars=shown["exemplars"],
            similarity=shown["similarity"],
            pieces=shown["pieces"],
            memory=shown["memory"],
            coefficients=_to_array(shown["coefficients"]),
            alternatives=[(one["text"], one["score"]) for one in shown["alternatives"]],
            truncated=shown["truncated"],
            exemplar_truncated=shown["exemplar_truncated"],
            facts=None if shown["facts"] is None else [_to_fact(one) for one in shown["facts"]],
            exemplar_id=found["id"],
            explain=explain,
        )


def explanation_from_json(shown: dict[str, Any]) -> Explanation:
    """The explanation that a server answered with."""
    return Explanation(_to_array(shown["attention"]), _to_array(shown["copy_gate"]))


def require_n_best(n_best: int, beam_size: int) -> None:
    """Refuse a number of texts that a beam does not have."""
    if not isinstance(n_best, int) or isinstance(n_best, bool) or not 1 <= n_best <= beam_size:
        raise ValueError(f"`n_best` must be from 1 to the beam size {beam_size}, but is {n_best!r} instead.")


def cut_into_parts(beginnings: Iterable[str]) -> Iterator[str]:
    """What each beginning of a text adds to the one before it; the last one is the whole text."""
    given = text = ""
    for text in beginnings:
        known = text.rstrip("\ufffd")  # the first bytes of a character
        if len(known) > len(given):
            yield known[len(given) :]
            given = known
    if text != given:
        yield text[len(given) :]


def _to_list(values: np.ndarray | None) -> Any:
    return None if values is None else values.tolist()


def _to_array(values: Any) -> np.ndarray | None:
    return None if values is None else np.array(values, np.float32)


def _to_fact(shown: dict[str, Any]) -> Stated:
    """Keys that a later server may add are left out."""
    return Stated(**{name: shown[name] for name in Stated._fields})
