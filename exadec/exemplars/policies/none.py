"""No exemplar at all: a control, and the way to train a model that reads exemplars without any.

In: the instances of a split, or `NewTexts`. Out: none for each.
"""

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances


class NoExemplar(Policy):
    """The model reads `<none>` everywhere."""

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        nothing = np.zeros((len(side), 0))
        index, similarity = np.full(len(side), -1, np.int64), np.zeros(len(side), np.float32)
        return Choice(index, similarity, nothing.astype(np.int64), nothing.astype(np.float32))

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(texts), -1, np.int64), np.zeros(len(texts), np.float32)
