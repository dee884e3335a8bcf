"""The nearest source: the policy of the paper (section 3.2).

In: a `Pool`, or `NewTexts`. Out: for each instance the training instance whose source has the largest cosine.
"""

from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances


class Nearest(Policy):
    """The nearest source; ties go to the first."""

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        found = self.pool.search(side, engine)
        similarities = found.similarities(side.rows.squares)
        return Choice(found.ids[:, 0], similarities[:, 0], found.ids, similarities)
