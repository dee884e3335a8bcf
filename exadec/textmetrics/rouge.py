"""ROUGE-N and ROUGE-L as the official script ROUGE-1.5.5 reads them: `-a -n N`, and `-m` when stemming.

In: hypotheses, and for each one or more references. Out: one `MeanScore` per measure, with its recipe in the signature.

- A text is one sentence, whatever line ends it has. So ROUGE-L is the longest common subsequence of two texts. The
  script takes every line for a sentence, and unites subsequences over pairs of sentences.
- Several references: `sum` adds up matches and lengths over all of them before dividing (`-f A`, the script's default).
  `highest-recall` takes the reference with the highest recall (`-f B`). `best` takes the highest value (rouge-score).
- Stemming: `True` stems by the script's rules alone. `-m` first looks a word up among WordNet's exceptions. We do not
  ship these; to use them, pass the script's data/WordNet-2.0.exc.db or data/WordNet-2.0-Exceptions instead of `True`.
- The script rounds precision and recall to 5 digits before it computes F1. We round nothing.
- The script's `Average` is the mean of 1,000 resamples: the mean over instances plus a little noise (up to 0.02 points
  for 2,000 headlines). Our value is the mean itself. `printed_average` gives the script's number.
- Cutting: a number of bytes cuts hypotheses and references alike, in the middle of a word if need be (`-b`, by which
  DUC took 75). At `reference-length` the hypothesis has at most as many tokens as the reference, which the script
  cannot do. It leaves only recall to ask for.
- The dialect `rouge-score` gives the numbers of the Python package of that name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from exadec.textmetrics.exceptions import read_exceptions
from exadec.textmetrics.matching import TokenRows, count_matches, tokenize
from exadec.textmetrics.scores import FloatArray, IntArray, MeanScore, check_texts, mean_score, package_version
from exadec.textmetrics.stemming import stem_like_nltk, stem_like_script

MEASURES = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "L")
"""The order of the n-grams, or L for the longest common subsequence."""
Kind = Literal["f1", "recall", "precision"]
Dialect = Literal["1.5.5", "rouge-score"]
Combination = Literal["sum", "highest-recall", "best"]
Cut = Literal["reference-length"] | int | None
"""How texts are cut before they are compared: a number is one of bytes."""

_BLOCK_CHARACTERS = 1 << 19  # scored at a time: bounds the memory, and arrays of this size stay in the cache


@dataclass(frozen=True, eq=False)
class Overlap:
    """What each hypothesis shares with each of its references: three counts per pair (P,)."""

    matches: IntArray
    """Shared n-grams, each counted as often as in the text with fewer of it; or tokens of the common subsequence."""
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

    def values(self, kind: Kind) -> FloatArray:
        return {"f1": self.f1, "recall": self.recall, "precision": self.precision}[kind]


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str] = ("1", "2", "L"),
    stem: bool | Path = True,
    cut: Cut = None,
    kind: Kind = "f1",
    dialect: Dialect = "1.5.5",
    combination: Combination | None = None,
) -> dict[str, MeanScore]:
    """Score a corpus: F1, recall or precision, of whole texts or of texts that are cut.

    `references[i]` holds the reference texts of `hypotheses[i]`, one or more. `combination` says how several count: by
    default `sum`, and `best` for rouge-score. The corpus value is the mean over instances, 0 to 100.
    `stem` may be WordNet's exceptions: the script's database, or the folder of lists.
    """
    combination = combination or ("sum" if dialect == "1.5.5" else "best")
    _check_choices(kind, dialect, combination)
    if cut == "reference-length" and kind != "recall":
        raise ValueError(f"`kind` must be 'recall' at reference length, but is {kind!r} instead.")
    overlaps = count_overlaps(hypotheses, references, measures, stem, cut, dialect)
    counts = np.array([len(texts) for texts in references])
    scores = {}
    for measure, overlap in overlaps.items():
        recipe = (
            f"rouge-{measure}",
            kind,
            f"cut:{f'{cut}-bytes' if isinstance(cut, int) else cut or 'no'}",
            f"stem:{_stemmer_name(stem, dialect)}",
            f"tok:{'rouge-1.5.5' if dialect == '1.5.5' else 'rouge-score'}",
            f"refs:{combination}",
            f"v:{package_version()}",
        )
        name = f"ROUGE-{measure}{'' if kind == 'f1' else f' {kind}'}{_describe_cut(cut)}"
        # The script compares n-gram recall after rounding, but not the recall of ROUGE-L.
        digits = None if measure == "L" else 5
        per_instance = _combine(overlap, counts, kind, combination, digits)
        scores[measure] = mean_score(name, 100 * per_instance, "|".join(recipe))
    return scores


def _describe_cut(cut: Cut) -> str:
    if cut is None:
        return ""
    return f" at {cut} bytes" if isinstance(cut, int) else " at reference length"


def _check_choices(kind: str, dialect: str, combination: str) -> None:
    for name, value, allowed in (
        ("kind", kind, ("f1", "recall", "precision")),
        ("dialect", dialect, ("1.5.5", "rouge-score")),
        ("combination", combination, ("sum", "highest-recall", "best")),
    ):
        if value not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}, but is {value!r} instead.")


def _stemmer_name(stem: bool | Path, dialect: Dialect) -> str:
    if stem is False:
        return "no"
    name = "rouge-1.5.5" if dialect == "1.5.5" else "porter-nltk"
    if stem is True:
        return name
    return f"{name}+wordnet-db" if stem.is_file() else f"{name}+wordnet"


def _combine(
    overlap: Overlap, counts: IntArray, kind: Kind, combination: Combination, digits: int | None
) -> FloatArray:
    """One value per instance; the first `counts[0]` pairs belong to instance 0, and so on."""
    firsts = np.cumsum(counts) - counts
    values = overlap.values(kind)
    if combination == "best":
        best: FloatArray = np.maximum.reduceat(values, firsts)
        return best
    if combination == "sum":
        parts = (overlap.matches, overlap.hypothesis_counts, overlap.reference_counts)
        return Overlap(*(np.add.reduceat(part, firsts) for part in parts)).values(kind)
    recall = overlap.recall if digits is None else np.round(overlap.recall, digits)
    chosen = np.flatnonzero(recall == np.repeat(np.maximum.reduceat(recall, firsts), counts))
    # The first of equal ones.
    instances = np.repeat(np.arange(len(counts)), counts)[chosen]
    return values[chosen[np.unique(instances, return_index=True)[1]]]


def printed_average(score: MeanScore, resamples: int = 1000) -> float:
    """The `Average` that ROUGE-1.5.5 prints for these instances, numbered from 1, with `-r` resamples.

    Resample s draws with Perl's generator, seeded with s: x <- (a x + c) mod 2^48. Instances are in the order of their
    numbers as strings: 1, 10, 100, 11.
    """
    number = score.instances
    # A full stop follows the number, and sorts before every digit.
    values = score.per_instance[sorted(range(number), key=lambda index: f"{index + 1}.")]
    state = (np.arange(resamples, dtype=np.uint64) << np.uint64(16)) + np.uint64(0x330E)  # (resamples,)
    total = np.zeros(resamples)
    for _ in range(number):
        state = (state * np.uint64(0x5DEECE66D) + np.uint64(0xB)) & np.uint64((1 << 48) - 1)
        total += values[(number * (state * 2.0**-48)).astype(np.int64)]
    return float(total.mean() / number)


def count_overlaps(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str] = ("1", "2", "L"),
    stem: bool | Path = True,
    cut: Cut = None,
    dialect: Dialect = "1.5.5",
) -> dict[str, Overlap]:
    """For each measure, count what every hypothesis shares with each of its references, in the order given."""
    check_texts(hypotheses, references)
    for measure in measures:
        if measure not in MEASURES:
            raise ValueError(f"A measure must be one of {', '.join(MEASURES)}, but is {measure!r} instead.")
    if isinstance(cut, int):
        hypotheses, references = _first_bytes(hypotheses, cut), [_first_bytes(texts, cut) for texts in references]
    stemmer = _stemmer(stem, dialect)
    parts: dict[str, list[IntArray]] = {measure: [] for measure in measures}
    for block in _blocks(hypotheses, references):
        rows, pairs = _rows(hypotheses[block], references[block], stemmer, dialect == "rouge-score")
        if cut == "reference-length":
            rows = rows.cut(pairs.lengths)
        for measure, matches in count_matches(rows, pairs, list(parts)).items():
            order = 1 if measure == "L" else int(measure)
            parts[measure].append(np.stack((matches, _ngram_counts(rows, order), _ngram_counts(pairs, order))))
    return {measure: Overlap(*np.concatenate(counts, axis=1)) for measure, counts in parts.items()}


def _first_bytes(texts: Sequence[str], count: int) -> list[str]:
    """The first bytes of each text. A character cut in half is dropped: the script takes its bytes for spaces."""
    if isinstance(count, bool) or count < 1:
        raise ValueError(f"`cut` must be at least 1 byte, but is {count} instead.")
    return [text.encode("utf-8", "surrogatepass")[:count].decode("utf-8", "ignore") for text in texts]


def _stemmer(stem: bool | Path, dialect: Dialect) -> Callable[[str], str] | None:
    if stem is False:
        return None
    by_rule = stem_like_script if dialect == "1.5.5" else stem_like_nltk
    if stem is True:
        return by_rule
    exceptions = read_exceptions(stem)
    return lambda word: exceptions[word] if word in exceptions else by_rule(word)


def _blocks(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Iterator[slice]:
    """Consecutive instances whose texts have about `_BLOCK_CHARACTERS` characters together."""
    counts = np.array([len(texts) for texts in references])
    characters = np.array([len(text) for text in chain.from_iterable(references)])
    # Each reference is paired with a copy of the hypothesis.
    copies = counts * np.array([len(text) for text in hypotheses])
    number = np.cumsum(copies + np.add.reduceat(characters, np.cumsum(counts) - counts)) // _BLOCK_CHARACTERS
    bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(counts)]
    yield from (slice(begin, end) for begin, end in pairwise(bounds))


def _rows(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    stemmer: Callable[[str], str] | None,
    unicode_case: bool,
) -> tuple[TokenRows, TokenRows]:
    """Tokens of the hypotheses, each repeated for every reference of its own, and of the references."""
    rows = tokenize([*hypotheses, *chain.from_iterable(references)], stemmer, unicode_case)
    copies = np.repeat(np.arange(len(hypotheses)), [len(texts) for texts in references])
    return rows.select(copies), rows.select(slice(len(hypotheses), None))


def _ngram_counts(rows: TokenRows, order: int) -> IntArray:
    return np.maximum(rows.lengths - order + 1, 0)
