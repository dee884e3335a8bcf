"""Choosing the text that the others agree with.

In: what several searches found for one instance, each with other exemplars. Out: all these texts, the one that shares
most words with the others first. If their form counts, too, so does what it shares with the exemplars.

The likeliest text may owe its wording to one odd exemplar. What many searches agree on is the safer choice, as in
minimum Bayes risk decoding (Kumar and Byrne, 2004).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from exadec.search.beam import Hypothesis, length_penalty

FORM = 0.25
"""What one trait that no exemplar has costs a text, where full agreement of its words with all others is worth 1"""

Distance = Callable[[list[int]], float]
"""How many traits of a text, as corpus ids, its exemplars do not have."""


def rank_by_agreement(
    searches: Sequence[Sequence[Hypothesis]], alpha: float, distance: Distance | None = None
) -> list[Hypothesis]:
    """Each text once, with the score of the first search that found it.

    Each search has one vote, and shares it out among its texts in proportion to p. `alpha` is that of the length
    penalty in their scores. With `distance`, the exemplars have a say in the form of the text.
    """
    votes: dict[tuple[int, ...], float] = {}
    found: dict[tuple[int, ...], Hypothesis] = {}
    for hypotheses in filter(None, searches):
        for one, share in zip(hypotheses, _probabilities(hypotheses, alpha), strict=True):
            text = tuple(one.ids)
            votes[text] = votes.get(text, 0.0) + share
            found.setdefault(text, one)
    if not found:
        return []
    shares = np.array(list(votes.values())) / sum(votes.values())
    agreement = _overlap(list(votes)) @ shares
    if distance is not None:
        agreement -= FORM * np.array([distance(list(text)) for text in votes])
    return [list(found.values())[number] for number in np.argsort(-agreement, kind="stable")]


def _probabilities(hypotheses: Sequence[Hypothesis], alpha: float) -> list[float]:
    """p of each, as shares of their sum."""
    log_p = [one.score * length_penalty(len(one.ids) + 1.0, alpha) for one in hypotheses]
    shares = [math.exp(one - max(log_p)) for one in log_p]
    return [share / sum(shares) for share in shares]


def _overlap(texts: Sequence[tuple[int, ...]]) -> np.ndarray:
    """(N, N): F1 of the words that two texts share, each counted as often as in the text with fewer of it."""
    words = {word: column for column, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
    counts = np.zeros((len(texts), len(words)), np.int64)
    for row, text in enumerate(texts):
        np.add.at(counts[row], [words[word] for word in text], 1)
    shared = np.minimum(counts[:, None], counts[None]).sum(2)
    lengths = counts.sum(1)
    return 2 * shared / np.maximum(lengths[:, None] + lengths[None], 1)
