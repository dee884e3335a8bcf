"""Exemplars for new texts, outside any corpus.

In: sources, and the corpus and `exemplars` section of a run. Out: for each source a training instance, or none.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from exadec.config import RANKING, CorpusConfig, ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.corpus.segment import Segmenter
from exadec.corpus.sequences import Sequences, fingerprints
from exadec.corpus.vocabulary import UNK, PieceTable
from exadec.errors import RequestError
from exadec.exemplars.index import BowIndex
from exadec.exemplars.policies import find_policy
from exadec.exemplars.policies.new_texts import NewTexts
from exadec.exemplars.retrieve import DEFAULT, open_index

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """The result for one source."""

    number: int | None
    """The training instance whose target is the exemplar, or an accepted text; None for none."""
    similarity: float
    """Cosine between the two sources; 0 for none."""


class TrainingRecords(Protocol):
    """What is read of training records: a `Corpus` has it, and so has whatever holds a part of one."""

    config: CorpusConfig
    segmenter: Segmenter
    table: PieceTable

    @property
    def group_names(self) -> list[str]: ...

    def groups(self, split: str) -> np.ndarray: ...

    def fingerprints(self, split: str, side: str) -> np.ndarray: ...

    def targets(self, split: str) -> Sequences: ...

    def text(self, ids: np.ndarray | list[int]) -> str: ...


class Retriever:
    """Finds exemplars for new texts the way the run's policy found them for the corpus.

    These settings apply to new text: `policy` (`nearest`, `sample`, `random`, `none`), `neighbours`, `weighting`,
    `features`, `group` and `exclude_same_source`. The policies `shuffled`, `oracle`, `form` and `given` need instances
    of the corpus, so new text gets the nearest exemplar instead. `group: only` without a group searches all instances.
    The log says so once in both cases. `exclude_same_target` does not apply, because new text has no target yet.
    """

    def __init__(
        self, corpus: TrainingRecords, index: BowIndex | Callable[[], BowIndex], config: ExemplarConfig = DEFAULT
    ):
        """`index` is that of the corpus's training sources, made with the same settings, or opens it when needed."""
        self.corpus, self._given_index, self.config = corpus, index, config
        self.policy = find_policy(config)
        if self.policy.not_for_new_text:
            logger.warning(
                "new text cannot follow the run's policy `%s`: %s; it gets the nearest exemplar instead.",
                config.policy,
                self.policy.not_for_new_text,
            )
        self._told_of_groups = False

    @cached_property
    def index(self) -> BowIndex:
        return self._given_index if isinstance(self._given_index, BowIndex) else self._given_index()

    @staticmethod
    def open(corpus: Corpus, config: ExemplarConfig = DEFAULT, home: Path | None = None) -> "Retriever":
        """`home` is where an index that has yet to be built is kept; by default beside the corpus.

        It is opened or built when it is first needed: a group that does not exist is refused without it.
        """
        find_policy(config)  # refuses an unknown one before any work
        return Retriever(corpus, partial(open_index, corpus, config, home), config)

    def find(self, sources: Sequence[str], group: str | None = None) -> list[Found]:
        """Find a training instance for each source, independently of the other sources.

        With a group, only that group's instances are searched. If the run has `group: prefer`, a source that resembles
        none of them searches all instances.
        """
        return [found for (found,) in self.find_several(sources, group, 1)]

    def find_several(self, sources: Sequence[str], group: str | None, count: int) -> list[list[Found]]:
        """Find an instance and the next nearest, `count` in all, for a model that reads as many in training."""
        among = None if group is None else self.members(group)
        if group is None and self.config.group == "only" and not self._told_of_groups:
            self._told_of_groups = True
            logger.warning("the run has `group: only`, but no group was named: exemplars come from all groups.")
        texts = NewTexts(sources, self.index, self.config, among, self._same_source)
        ids, similarities = self._choose(texts, count)
        if group is not None and self.config.group == "prefer":
            rest = np.flatnonzero(ids[:, 0] < 0)
            ids[rest], similarities[rest] = self._choose(replace(texts.take(rest), among=None), count)
        return [
            [Found(number if number >= 0 else None, cosine) for number, cosine in zip(numbers, cosines, strict=True)]
            for numbers, cosines in zip(ids.tolist(), similarities.tolist(), strict=True)
        ]

    def _choose(self, texts: NewTexts, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(Q, count) int64 and float32: instances as `ExemplarMap.nearest` has them, -1 for none, and their cosines."""
        if count > 1 and (self.config.policy in RANKING or self.policy.not_for_new_text):
            ids, similarities = texts.nearest(count)
            lacking = ids < 0
            return np.where(lacking, ids[:, :1], ids), np.where(lacking, similarities[:, :1], similarities)
        chosen, similarities = self.policy.choose_for_new(texts)
        return chosen[:, None].repeat(count, axis=1), similarities[:, None].repeat(count, axis=1)

    def name(self, number: int) -> str:
        """The id of an exemplar, which stays the same."""
        return f"train-{number}"

    def accepted_text(self, number: int) -> str | None:
        """The text of an exemplar that is no training target; None for those that are, and here all are."""
        return None

    def members(self, group: str) -> np.ndarray:
        """The training instances of a group, of which there must be one: (N,) bool."""
        names = self.corpus.group_names
        members: np.ndarray = self.corpus.groups("train") == (names.index(group) if group in names else None)
        if not members.any():
            raise RequestError(f"no exemplar has the group {group!r}.")
        return members

    def _same_source(self, source: str) -> np.ndarray:
        """The training instances excluded for this source, because the model reads the same ids for theirs."""
        if not self.config.exclude_same_source:
            return np.zeros(0, np.int64)
        ids = self.corpus.table.look_up(self.read_pieces(source)) or [UNK]
        own = fingerprints(np.array(ids), np.array([len(ids)]))
        return np.flatnonzero(self.corpus.fingerprints("train", "source") == own)

    def read_pieces(self, source: str) -> list[str]:
        """The pieces that the model reads of a source."""
        return self.corpus.segmenter.segment(" ".join(source.split()))[: self.corpus.config.max_source]
