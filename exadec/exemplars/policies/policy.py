"""The interface of a retrieval policy.

In: a `Pool` and the instances of a split, or `NewTexts`. Out: a `Choice` for the split, or numbers for the new texts.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.pool import Choice, Engine, Instances, Pool


class Policy(ABC):
    """How exemplars are chosen. A policy is created for one pool, and called once for each split."""

    compares: ClassVar[Literal["source", "target"]] = "source"
    """The side on which two instances are compared."""
    not_for_new_text: ClassVar[str] = ""
    """Why this policy does not work for new text, which then gets the nearest exemplar; empty if it does work."""

    def __init__(self, pool: Pool):
        self.pool = pool

    @abstractmethod
    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        """Choose an exemplar for each instance of a split."""

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        """(Q,) int64 training instances, -1 for none, and (Q,) float32 cosines. Texts must not affect one another.

        The nearest, unless a policy chooses otherwise.
        """
        ids, similarities = texts.nearest(1)
        return ids[:, 0], similarities[:, 0]
