"""A target of the same form, with other words.

In: a `Pool`, and the targets of its corpus. Out: for each instance a random training instance whose target has the same
form as its own: case, punctuation, length, kind of first word, ending. What the target says does not count.
"""

from collections.abc import Iterator

import numpy as np

from exadec.corpus.prepare import Corpus
from exadec.corpus.record import Lines, Record, fingerprint, read_chunks
from exadec.corpus.workers import Workers
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import ROUNDS, Choice, Engine, Instances, Pool
from exadec.textmetrics.traits import KINDS, YES_OR_NO, find_traits

_LENGTH_STEP = 2
"""Texts of one form differ in length by fewer words than this."""
_POSITIVE = (1 << 62) - 1
_SPREAD = 0x1E3779B97F4A7C15
"""Any large odd number: it spreads the numbers of groups over all bits."""


class Form(Policy):
    """Any target of the same form; if there is none, one that has the same traits, then any."""

    compares = "target"
    not_for_new_text = "it compares targets, and new text has none"

    def __init__(self, pool: Pool):
        super().__init__(pool)
        self._train = _read_forms(pool.corpus, "train")

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        own = self._train if split == "train" else _read_forms(self.pool.corpus, split)
        random = self.pool.random(split)
        index = np.full(len(side), -1, np.int64)
        for ours, theirs in self._levels(side, own):
            wanting = np.flatnonzero(index < 0)
            if not len(wanting):
                break
            index[wanting] = self._draw(side, wanting, ours[wanting], theirs, random)
        return self.pool.with_similarities(side, index)

    def _levels(self, side: Instances, own: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Keys of the instances and of the training instances that must be equal: the strictest pair comes first."""
        group, ungrouped = self.pool.config.group, np.zeros(1, np.int64)
        groups = [] if group == "any" else [(side.groups, self.pool.train.groups)]
        if group != "only":
            groups.append((ungrouped, ungrouped))
        for ours, theirs in groups:
            for column in (0, 1):  # the whole form, then its traits
                yield _combine(own[:, column], ours), _combine(self._train[:, column], theirs)
            yield _combine(np.zeros(len(side), np.int64), ours), _combine(np.zeros(len(self._train), np.int64), theirs)

    def _draw(
        self, side: Instances, rows: np.ndarray, keys: np.ndarray, theirs: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """(rows,) int64: a random training instance with the same key that the rules allow; -1 for none."""
        order = np.argsort(theirs, kind="stable")
        begins, ends = (np.searchsorted(theirs[order], keys, side=end) for end in ("left", "right"))
        drawn = np.full(len(side), -1, np.int64)
        wanting = np.flatnonzero((ends > begins) & (keys >= 0))
        for _ in range(ROUNDS):
            first, count = begins[wanting], (ends - begins)[wanting]
            drawn[rows[wanting]] = order[first + (random.random(len(wanting)) * count).astype(np.int64)]
            wanting = wanting[self.pool.forbids(side, drawn)[rows[wanting]]]
            if not len(wanting):
                break
        drawn[rows[wanting]] = -1
        return drawn[rows]


def _combine(forms: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """One key of form and group; -1 for an instance without a group."""
    return np.where(groups < 0, -1, forms ^ (groups * _SPREAD & _POSITIVE))


def _read_forms(corpus: Corpus, split: str) -> np.ndarray:
    """(N, 2) int64: hashes of each target's whole form and of its traits alone."""
    with Workers() as workers:
        return np.concatenate(list(workers.map(_hash_forms, read_chunks(corpus.folder / f"{split}.jsonl"))))


def _hash_forms(chunk: Lines | list[Record]) -> np.ndarray:
    rows = []
    for record in chunk.records() if isinstance(chunk, Lines) else chunk:
        traits = find_traits(record.target)
        plain = [getattr(traits, name) for name in YES_OR_NO]
        whole = [*plain, *(getattr(traits, name) for name in KINDS), traits.words // _LENGTH_STEP]
        rows.append([fingerprint(repr(form)) & _POSITIVE for form in (whole, plain)])
    return np.array(rows, np.int64)
