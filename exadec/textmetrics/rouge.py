"""ROUGE-N and ROUGE-L, equal to the `rouge-score` package and many times faster.

In: hypotheses, and for each one or more references. Out: one `MeanScore` per measure, with its recipe in the signature.

Several references: the best one counts, per measure, as `RougeScorer.score_multi` does; the signature says `refs:best`.
ROUGE-1.5.5 does otherwise: by default (`-f A`) it adds up matches and lengths over all references before dividing, and
with `-f B` it takes the reference of highest recall. `Overlap` keeps the counts per reference that either needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from exadec.textmetrics.matching import TokenRows, longest_common_subsequences, shared_ngrams, tokenize
from exadec.textmetrics.scores import FloatArray, IntArray, MeanScore, check_texts, mean_score, package_version

MEASURES = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "L")
"""The order of the n-grams, or L for the longest common subsequence."""

_BLOCK_CHARACTERS = 1 << 19  # texts scored at a time: bounds the memory, and arrays of this size stay in the cache


@dataclass(frozen=True, eq=False)
class Overlap:
    """What each hypothesis shares with each of its references: three counts per pair (P,)."""

    matches: IntArray
    """Shared n-grams, each counted as often as in the text that has fewer; or tokens of the common subsequence."""
    hypothesis_counts: IntArray
    reference_counts: IntArray

    @property
    def precision(self) -> FloatArray:
        return self.matches / np.maximum(self.hypothesis_counts, 1)

    @property
    def recall(self) -> FloatArray:
        return self.matches / np.maximum(self.reference_counts, 1)

    @property
    def f1(self) -> FloatArray:
        """Harmonic mean of precision and recall; 0 where nothing is shared."""
        lengths = np.maximum(self.hypothesis_counts, 1) + np.maximum(self.reference_counts, 1)
        return 2 * self.matches / lengths


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str] = ("1", "2", "L"),
    stem: bool = True,
    recall_at_reference_length: bool = False,
) -> dict[str, MeanScore]:
    """Score a corpus: F1, or recall of the hypothesis cut to as many tokens as the reference has.

    `references[i]` holds the one or more reference texts of `hypotheses[i]`. The corpus value is the mean over
    instances, 0 to 100; an instance with several references counts with the reference of highest value.
    """
    overlaps = count_overlaps(hypotheses, references, measures, stem, recall_at_reference_length)
    firsts = np.cumsum([0] + [len(texts) for texts in references])[:-1]
    kind = "recall" if recall_at_reference_length else "f1"
    scores = {}
    for measure, counts in overlaps.items():
        per_pair = counts.recall if recall_at_reference_length else counts.f1
        recipe = (
            f"rouge-{measure}",
            kind,
            f"cut:{'reference-length' if recall_at_reference_length else 'no'}",
            f"stem:{'porter-nltk' if stem else 'no'}",
            "tok:alnum-lower",
            "refs:best",
            f"v:{package_version()}",
        )
        name = f"ROUGE-{measure} recall" if recall_at_reference_length else f"ROUGE-{measure}"
        scores[measure] = mean_score(name, 100 * np.maximum.reduceat(per_pair, firsts), "|".join(recipe))
    return scores


def count_overlaps(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str] = ("1", "2", "L"),
    stem: bool = True,
    cut_to_reference: bool = False,
) -> dict[str, Overlap]:
    """Count, for each measure, what every hypothesis shares with every one of its references, in the order given."""
    check_texts(hypotheses, references)
    for measure in measures:
        if measure not in MEASURES:
            raise ValueError(f"A measure must be one of {', '.join(MEASURES)}, but is {measure!r} instead.")
    parts: dict[str, list[IntArray]] = {measure: [] for measure in measures}
    for block in _blocks(hypotheses, references):
        for measure, counts in _count(hypotheses[block], references[block], measures, stem, cut_to_reference):
            parts[measure].append(counts)
    return {measure: Overlap(*np.concatenate(counts, axis=1)) for measure, counts in parts.items()}


def _blocks(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[slice]:
    """Consecutive instances whose texts have about `_BLOCK_CHARACTERS` characters together."""
    # Each reference is met by a copy of the hypothesis.
    sizes = [
        len(hypothesis) * len(texts) + sum(map(len, texts))
        for hypothesis, texts in zip(hypotheses, references, strict=True)
    ]
    number = np.cumsum(sizes) // _BLOCK_CHARACTERS
    bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(sizes)]
    yield from (slice(begin, end) for begin, end in pairwise(bounds))


def _count(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str],
    stem: bool,
    cut_to_reference: bool,
) -> Iterator[tuple[str, IntArray]]:
    """Yield for each measure its counts (3, P): matches, in the hypothesis, in the reference."""
    rows = tokenize([*hypotheses, *(text for texts in references for text in texts)], stem)
    of_references = rows.select(slice(len(hypotheses), None))
    of_hypotheses = rows.select(np.repeat(np.arange(len(hypotheses)), [len(texts) for texts in references]))
    if cut_to_reference:
        of_hypotheses = of_hypotheses.cut(of_references.lengths)
    orders = [int(measure) for measure in measures if measure != "L"]
    ngrams = shared_ngrams(of_hypotheses, of_references, orders)
    for measure in dict.fromkeys(measures):
        if measure == "L":
            matches, order = longest_common_subsequences(of_hypotheses, of_references), 1
        else:
            matches, order = ngrams[int(measure)], int(measure)
        yield measure, np.stack((matches, _ngram_counts(of_hypotheses, order), _ngram_counts(of_references, order)))


def _ngram_counts(rows: TokenRows, order: int) -> IntArray:
    return np.maximum(rows.lengths - order + 1, 0)
