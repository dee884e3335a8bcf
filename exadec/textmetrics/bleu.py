"""Corpus BLEU, by sacrebleu.

In: hypotheses, and for each one or more references. Out: a `BleuScore` that keeps the counts BLEU is made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from exadec.textmetrics.scores import FloatArray, IntArray, Score, check_texts

_ORDERS = 4


@dataclass(frozen=True, eq=False)
class BleuScore(Score):
    """BLEU over a corpus. It is no mean over instances, so resampling sums the instances' counts and starts anew."""

    statistics: IntArray = field(repr=False)
    """(N, 10) hypothesis length, reference length, matched n-grams of order 1 to 4, n-grams of order 1 to 4."""

    @property
    def instances(self) -> int:
        return len(self.statistics)

    def resampled_values(self, weights: FloatArray) -> FloatArray:
        totals = weights @ self.statistics.astype(np.float64)  # (R, 10); whole numbers, exact below 2 ** 53
        return np.array([_bleu_of(total) for total in totals.astype(np.int64)])


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> BleuScore:
    """BLEU with 13a tokenisation, mixed case and exponential smoothing; `references[i]` belong to `hypotheses[i]`."""
    check_texts(hypotheses, references)
    # Only the counts of a sentence score are used; effective_order changes none of them and silences a warning.
    metric = BLEU(tokenize="13a", effective_order=True)
    statistics = np.empty((len(hypotheses), 2 + 2 * _ORDERS), dtype=np.int64)
    for index, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True)):
        sentence = metric.sentence_score(hypothesis, list(texts))
        statistics[index] = [sentence.sys_len, sentence.ref_len, *sentence.counts, *sentence.totals]
    statistics.flags.writeable = False
    value = _bleu_of(statistics.sum(axis=0))
    return BleuScore(name="BLEU", value=value, signature=_signature(references), statistics=statistics)


def _bleu_of(totals: IntArray) -> float:
    """Corpus BLEU (0 to 100) from the corpus's ten counts."""
    length, reference_length, *counts = totals.tolist()
    return BLEU.compute_bleu(counts[:_ORDERS], counts[_ORDERS:], length, reference_length, smooth_method="exp").score


def _signature(references: Sequence[Sequence[str]]) -> str:
    """The signature sacrebleu gives to the whole corpus.

    It depends on the corpus only through the numbers of references, so two instances, with the fewest and the most,
    are enough to ask for it.
    """
    fewest, most = min(map(len, references)), max(map(len, references))
    metric = BLEU(tokenize="13a")
    # sacrebleu wants one list per reference number, and documents None where an instance has no such reference.
    columns: list[list[Any]] = [["" if number < fewest else None, ""] for number in range(most)]
    metric.corpus_score(["", ""], columns)
    return str(metric.get_signature())
