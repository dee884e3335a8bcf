"""What a retrieval policy says of itself.

In: a `Pool` and the instances of a split, or `NewTexts`. Out: a `Choice` for the split, or numbers for the new texts.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.pool import Choice, Engine, Instances, Pool


class Policy(ABC):
    """How exemplars are chosen. A subclass is made for one pool, and asked once for each split."""

    compares: ClassVar[Literal["source", "target"]] = "source"
    """Which side of two instances is compared."""
    not_for_new_text: ClassVar[str] = ""
    """Why new text cannot have its exemplars by this policy; it gets the nearest instead. Empty where it can."""

    def __init__(self, pool: Pool):
        self.pool = pool

    @abstractmethod
    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        """An exemplar for each instance of a split."""

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        """(Q,) int64 training instances, -1 for none, and (Q,) float32 cosines. Other texts must make no difference."""
        raise NotImplementedError
