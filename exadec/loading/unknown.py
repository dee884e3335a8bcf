"""Words outside the vocabulary, numbered for each instance.

In: id sequences, in which ids at or above the vocabulary's size number unknown words over the whole corpus. Out: the
same sequences, with unknown words numbered for each instance separately, so that a batch has only those of its own.
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
    """The corpus ids of each instance's words, in order of appearance. The n-th gets the local id V + n."""
    vocabulary_size: int
    _keys: np.ndarray
    """(all words,) int64, ascending: instance and corpus id combined into one key"""
    _local: np.ndarray
    """(all words,) int64: the local id for each key"""

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
        """Corpus ids -> local ids; an unknown word that the instance cannot copy becomes UNK."""
        places, keys = _unknown_keys(texts, self.vocabulary_size)
        if not len(places):
            return texts
        ids = np.array(texts.ids)
        position = np.searchsorted(self._keys, keys)
        known = np.take(self._keys, position, mode="clip") == keys if len(self._keys) else np.zeros(len(keys), bool)
        ids[places] = np.where(known, np.take(self._local, position, mode="clip") if len(self._keys) else UNK, UNK)
        return Sequences(ids, texts.offsets)


def _unknown_keys(texts: Sequences, vocabulary_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of unknown words, and the key (instance and corpus id) of each: (words,) int64 each."""
    places = np.flatnonzero(np.asarray(texts.ids) >= vocabulary_size)
    instances = np.searchsorted(texts.offsets, places, side="right") - 1
    return places, (instances << 32) | texts.ids[places]
