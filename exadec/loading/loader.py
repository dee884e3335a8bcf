"""The batches of a split, in an order that a seed fixes.

In: a `Corpus`, an `ExemplarMap`, a split. Out: `Batch`es of instances of similar length.
"""

from collections.abc import Iterator

import numpy as np
import torch

from exadec.corpus.prepare import Corpus
from exadec.corpus.vocabulary import NONE, PAD
from exadec.exemplars.retrieve import ExemplarMap
from exadec.loading.batch import Batch, Instance, collate, mark

_POOL = 50
"""Batches that are sorted by length together: little padding, and the order is still random."""


class Loader:
    """Instances of one split, each with its exemplars."""

    def __init__(
        self,
        corpus: Corpus,
        exemplars: ExemplarMap,
        split: str,
        copy_exemplar: bool,
        exemplars_each: int = 1,
        exemplars_drawn: int | None = None,
    ):
        """With `exemplars_drawn`, a batch has that many of each instance's exemplars, drawn by `draw`."""
        self.split = split
        self.sources = corpus.sources(split)
        self.targets = corpus.targets(split)
        self.exemplar_targets = corpus.targets("train")
        self.exemplar_index = exemplars.nearest(split, exemplars_each)  # (N, k)
        self.exemplar_marked = exemplars.marked(split)  # (N,)
        self.exemplars_drawn = exemplars_drawn or exemplars_each
        self.vocabulary_size = len(corpus.vocabulary)
        self.copy_exemplar = copy_exemplar

    def __len__(self) -> int:
        return len(self.sources)

    def draw(self, indices: np.ndarray) -> np.ndarray:
        """Which of the k exemplars these instances show, as columns of `exemplar_index`: the same for all of them.

        The instances themselves are the seed: a batch's draw is a pure function of its contents, and the batches of
        each epoch are others.
        """
        count = self.exemplar_index.shape[1]
        if self.exemplars_drawn == count:
            return np.arange(count)
        return np.random.default_rng(indices[indices >= 0][:4]).permutation(count)[: self.exemplars_drawn]

    def instance(self, index: int, columns: np.ndarray | None = None) -> Instance:
        """With all its exemplars, or with those of some columns."""
        shown = self.exemplar_index[index][slice(None) if columns is None else columns].tolist()
        texts = (self.exemplar_targets[one] if one >= 0 else np.array([NONE]) for one in shown)
        return Instance(
            source=self.sources[index],
            exemplars=tuple(mark(text) for text in texts) if self.exemplar_marked[index] else tuple(texts),
            target=self.targets[index],
        )

    def batch(self, indices: np.ndarray) -> Batch:
        """Collate these instances. An index of -1 gives a row without target words, as in `ResidentLoader`."""
        columns = self.draw(indices)
        instances = [self.instance(int(i), columns) for i in indices.clip(0)]
        batch = collate(instances, self.vocabulary_size, self.copy_exemplar)
        batch.target_output[torch.from_numpy(indices < 0)] = PAD
        return batch

    def training_batches(self, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
        """The indices of each batch of an epoch. A pure function of its arguments, so that a run can be resumed."""
        random = np.random.default_rng((seed, epoch))
        order = random.permutation(len(self))
        pool = batch_size * _POOL
        batches = []
        for start in range(0, len(order), pool):
            block = order[start : start + pool]
            block = block[np.lexsort((self.targets.lengths[block], self.sources.lengths[block]))]
            batches += [block[i : i + batch_size] for i in range(0, len(block), batch_size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def search_batches(self, batch_size: int, chosen: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, Batch]]:
        """(indices, batch) over all or the chosen instances, longest sources first so that memory peaks early."""
        indices = np.arange(len(self)) if chosen is None else chosen
        order = indices[np.argsort(-self.sources.lengths[indices], kind="stable")]
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            yield indices, self.batch(indices)
