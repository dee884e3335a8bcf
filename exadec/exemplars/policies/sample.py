"""One of the k nearest sources, drawn at random for each instance.

In: a `Pool`, or `NewTexts`. Out: for each instance one of its `exemplars.neighbours` nearest training instances.
"""

import numpy as np

from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances


class Sample(Policy):
    """One of the nearest, all equally likely."""

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        found = self.pool.search(side, engine)
        similarities = found.similarities(side.rows.squares)
        rows, column = np.arange(len(side)), _column(self.pool.random(split).random(len(side)), found.ids)
        return Choice(found.ids[rows, column], similarities[rows, column], found.ids, similarities)

    @staticmethod
    def choose_for_new(texts: NewTexts) -> tuple[np.ndarray, np.ndarray]:
        ids, similarities = texts.nearest(texts.config.neighbours)
        draws = np.array([texts.random(source).random() for source in texts.sources])
        rows, column = np.arange(len(texts)), _column(draws, ids)
        return ids[rows, column], similarities[rows, column]


def _column(draws: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(Q,) int64: which of the (Q, k) neighbours a draw from 0 to 1 selects; 0 if there are none."""
    return (draws * np.maximum((ids >= 0).sum(axis=1), 1)).astype(np.int64)
