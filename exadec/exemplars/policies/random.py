"""Any target: a control that says what exemplars are worth.

In: a `Pool`, or `NewTexts`. Out: for each instance any training instance that the rules allow.
"""

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances


class Random(Policy):
    """A draw without a search, with the similarity that it happens to have."""

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        return self.pool.with_similarities(side, self.pool.draw(side, self.pool.random(split)))

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        drawn = texts.draw()
        return drawn, texts.similarities(drawn)
