"""Exemplars named in a file.

In: JSONL lines of `split`, `uid` and `exemplar`. Out: for each instance the training instance that the file names.
"""

from pathlib import Path

import numpy as np

from exadec.corpus.prepare import Corpus
from exadec.corpus.record import SPLITS, fingerprint
from exadec.errors import InputError
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.pool import Choice, Engine, Instances, Pool
from exadec.reading.content import matches, parse_json
from exadec.reading.lines import read_lines

_NAME = (str, int, float)


class Given(Policy):
    """The exemplars of `exemplars.given`, as they are."""

    not_for_new_text = "its file names exemplars only for instances of the corpus"

    def __init__(self, pool: Pool):
        super().__init__(pool)
        self.named = _read_given(Path(pool.config.given or ""), pool.corpus)

    def choose(self, side: Instances, split: str, engine: Engine) -> Choice:
        return self.pool.with_similarities(side, self.named[split])


def _read_given(path: Path, corpus: Corpus) -> dict[str, np.ndarray]:
    """For each split the training instances that the file names; -1 for instances it does not name."""
    places = {split: _Places(corpus.uids(split)) for split in SPLITS}
    named = {split: np.full(corpus.size(split), -1, np.int64) for split in SPLITS}
    for line_number, line in read_lines(path):
        where = f"{path}:{line_number}"
        row = parse_json(line, where)
        if not matches(row, {"split": str, "uid": _NAME, "exemplar": _NAME}):
            raise InputError(f"{where}: expected an object with `split`, `uid` and `exemplar`.")
        split, uid, exemplar = row["split"], row["uid"], row["exemplar"]
        if split not in SPLITS:
            raise InputError(f"{where}: unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
        number, chosen = places[split].find(uid), places["train"].find(exemplar)
        if number < 0:
            raise InputError(f"{where}: there is no {split} record with the uid {uid!r}.")
        if chosen < 0:
            raise InputError(f"{where}: there is no training record with the uid {exemplar!r}.")
        if split == "train" and uid == exemplar:
            raise InputError(f"{where}: the record {uid!r} would be its own exemplar, which gives the answer away.")
        named[split][number] = chosen
    return named


class _Places:
    """Looks up records by uid."""

    def __init__(self, uids: np.ndarray):
        self._order = np.argsort(uids, kind="stable")
        self._sorted = uids[self._order]  # (N,) uint64, ascending

    def find(self, uid: object) -> int:
        """The number of the record with this uid, the last if there are several; -1 if there is none."""
        wanted = np.uint64(fingerprint(str(uid)))
        place = int(np.searchsorted(self._sorted, wanted, side="right")) - 1
        return int(self._order[place]) if place >= 0 and self._sorted[place] == wanted else -1
