"""Unknown words get numbers of their own in each instance."""

import numpy as np

from exadec.corpus.prepare import Sequences
from exadec.corpus.vocabulary import UNK
from exadec.loading.unknown import LocalWords


def test_unknown_words_are_numbered_in_order_of_appearance() -> None:
    """Against a dictionary for each instance."""
    random = np.random.default_rng(0)
    size = 10

    def texts() -> Sequences:
        lengths = random.integers(0, 9, 50)
        ids = random.integers(5, size + 15, lengths.sum())
        return Sequences(ids, np.concatenate([[0], np.cumsum(lengths)]))

    sources, exemplars, targets = texts(), texts(), texts()
    local = LocalWords.find([sources, exemplars], size)
    relabelled = [local.relabel(part) for part in (sources, exemplars, targets)]
    for i in range(50):
        read = [*sources[i].tolist(), *exemplars[i].tolist()]
        unknown = list(dict.fromkeys(number for number in read if number >= size))
        assert local.words[i].tolist() == unknown
        numbers = {number: size + place for place, number in enumerate(unknown)}
        for part, before in zip(relabelled, (sources, exemplars, targets), strict=True):
            assert part[i].tolist() == [n if n < size else numbers.get(n, UNK) for n in before[i].tolist()]


def test_no_unknown_words_leave_texts_as_they_are() -> None:
    texts = Sequences(np.array([5, 6, 7]), np.array([0, 2, 2, 3]))
    local = LocalWords.find([texts], 10)
    assert local.relabel(texts) is texts
    assert len(local.words.ids) == 0
    assert len(local.words) == 3
    assert local.relabel(Sequences(np.array([10]), np.array([0, 0, 0, 1]))).ids.tolist() == [UNK]
