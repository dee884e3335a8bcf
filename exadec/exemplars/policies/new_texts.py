"""New texts, outside any corpus, and the exemplars each may have.

In: texts, the index of the training sources, and which may be found. Out: the nearest instances, draws, similarities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exadec.config import ExemplarConfig
from exadec.corpus.record import fingerprint
from exadec.exemplars.index import BowIndex


@dataclass(frozen=True)
class NewTexts:
    """New sources that may all find the same training instances."""

    sources: Sequence[str]
    index: BowIndex
    """The index of the training sources; ids are instance numbers"""
    config: ExemplarConfig
    among: np.ndarray | None
    """(N,) bool: the training instances that may be found; None for all"""
    same_source: Callable[[str], np.ndarray]
    """The training instances excluded for a source, because they have the same source; usually none"""

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, numbers: np.ndarray) -> "NewTexts":
        return replace(self, sources=[self.sources[number] for number in numbers])

    def nearest(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(Q, k) int64 instances, -1 for no more, and (Q, k) float32 cosines."""
        barred = [self.same_source(source) for source in self.sources]
        ids, similarities = self.index.search_many(self.sources, k, self.among)
        for i, numbers in enumerate(barred):
            if len(numbers):  # rare: this source searches separately, among fewer instances
                among = np.ones(self.index.next_id, bool) if self.among is None else self.among.copy()
                among[numbers] = False
                ids[i], similarities[i] = (found[0] for found in self.index.search_many([self.sources[i]], k, among))
        return ids, similarities

    def draw(self) -> np.ndarray:
        """(Q,) int64: for each source a random instance that it may have; -1 if there is none."""
        alive = self.index.alive
        members = np.flatnonzero(alive if self.among is None else alive & self.among)
        drawn = np.full(len(self), -1, np.int64)
        for i, source in enumerate(self.sources):
            barred = np.flatnonzero(np.isin(members, self.same_source(source)))  # ascending positions among the members
            if len(barred) < len(members):
                place = self.random(source).integers(len(members) - len(barred))
                for other in barred:  # skip those before the drawn one
                    place += other <= place
                drawn[i] = members[place]
        return drawn

    def similarities(self, numbers: np.ndarray) -> np.ndarray:
        """(Q,) float32: cosine of each source with its instance's source; 0 for none."""
        found = np.zeros(len(self), np.float32)
        for i, (source, number) in enumerate(zip(self.sources, numbers.tolist(), strict=True)):
            if number >= 0:
                only = np.arange(self.index.next_id) == number
                found[i] = self.index.search_many([source], 1, only)[1][0, 0]
        return found

    def random(self, source: str) -> np.random.Generator:
        """Seeded by the source alone: a source always draws the same, whatever other sources come with it."""
        return np.random.default_rng((self.config.seed, fingerprint(source)))
