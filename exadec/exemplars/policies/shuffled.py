"""The nearest exemplar of another instance: a control with the same exemplars in the wrong places.

In: a `Pool`. Out: for each instance the nearest training instance of another one.
"""

import numpy as np

from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import ROUNDS, Choice, Engine, Instances


class Shuffled(Policy):
    """The nearest exemplars of a split, shuffled."""

    not_for_new_text = "it shuffles the exemplars of a whole split"

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        found = self.pool.search(side, engine)
        chosen = self.pool.with_similarities(side, self._shuffle(side, found.ids[:, 0], self.pool.random(split)))
        return Choice(chosen.index, chosen.similarity, found.ids, found.similarities(side.rows.squares))

    def _shuffle(self, side: Instances, nearest: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """(N,) int64: the same exemplars, shuffled; within groups, if `group` says so."""
        groups = np.zeros(len(side), np.int64) if self.pool.config.group == "any" else side.groups
        index = np.empty_like(nearest)
        index[np.argsort(groups, kind="stable")] = nearest[np.lexsort((random.random(len(side)), groups))]
        for _ in range(ROUNDS):
            wrong = np.flatnonzero(self.pool.forbids(side, index))
            if not len(wrong):
                return index
            for i in wrong:
                j = random.integers(len(side))
                if groups[i] == groups[j]:
                    index[i], index[j] = index[j], index[i]
        index[self.pool.forbids(side, index)] = -1
        return index
