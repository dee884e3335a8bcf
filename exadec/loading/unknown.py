"""Words outside the vocabulary, numbered for each instance.

In: id sequences; ids at or above the vocabulary's size number unknown words over the whole corpus. Out: the same, with
unknown words numbered anew for each instance, so that a batch needs room for those of its own instances only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exadec.corpus.prepare import Sequences
from exadec.corpus.vocabulary import UNK


@dataclass(frozen=True)
class LocalWords:
    """The unknown words that each instance can copy."""

    words: Sequences
    """Of each instance: the corpus's ids, in order of appearance. The n-th is vocabulary size + n in the instance."""
    vocabulary_size: int
    _keys: np.ndarray
    """(all words,) int64, ascending: instance and corpus id as one number"""
    _local: np.ndarray
    """(all words,) int64: the instance's id of each key"""

    @staticmethod
    def find(copyable: Sequence[Sequences], vocabulary_size: int) -> "LocalWords":
        """Number the unknown words of the texts that can be copied from: sources, and with AttExp exemplars."""
        count = len(copyable[0])
        parts = [_unknown_keys(texts, vocabulary_size)[1] for texts in copyable]
        # Words of an instance appear in the order of its texts, and in each text from left to right.
        instances = np.concatenate([key >> 32 for key in parts])
        order = np.argsort(instances, kind="stable")
        keys, first = np.unique(np.concatenate(parts)[order], return_index=True)
        by_appearance = np.lexsort((first, keys >> 32))
        counts = np.bincount(keys >> 32, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        local = np.empty(len(keys), np.int64)
        local[by_appearance] = vocabulary_size + np.arange(len(keys)) - np.repeat(offsets[:-1], counts)
        words = (keys[by_appearance] & 0xFFFFFFFF).astype(np.int64)
        return LocalWords(Sequences(words, offsets), vocabulary_size, keys, local)

    def relabel(self, texts: Sequences) -> Sequences:
        """Ids of the corpus -> ids of each instance; a word that the instance cannot copy becomes UNK."""
        places, keys = _unknown_keys(texts, self.vocabulary_size)
        if not len(places):
            return texts
        ids = np.array(texts.ids)
        position = np.searchsorted(self._keys, keys)
        known = np.take(self._keys, position, mode="clip") == keys if len(self._keys) else np.zeros(len(keys), bool)
        ids[places] = np.where(known, np.take(self._local, position, mode="clip") if len(self._keys) else UNK, UNK)
        return Sequences(ids, texts.offsets)


def _unknown_keys(texts: Sequences, vocabulary_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where unknown words stand, and instance and id of each as one number: (words,) int64 each."""
    places = np.flatnonzero(np.asarray(texts.ids) >= vocabulary_size)
    instances = np.searchsorted(texts.offsets, places, side="right") - 1
    return places, (instances << 32) | texts.ids[places]
