"""A random target: a control that shows what exemplars are worth.

In: a `Pool`, or `NewTexts`. Out: for each instance a random training instance that the rules allow.
"""

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances


class Random(Policy):
    """A random draw, with its similarity computed afterwards."""

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        return self.pool.with_similarities(side, self.pool.draw(side, self.pool.random(split)))

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        drawn = texts.draw()
        return drawn, texts.similarities(drawn)
