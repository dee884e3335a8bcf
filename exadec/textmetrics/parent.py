"""PARENT: precision and recall of entailed n-grams from the table (Dhingra et al., ACL 2019), for data-to-text.

In: hypotheses, references, and tables of pairs or triples. Out: precision, recall and F1, each a `MeanScore`.

G is the hypothesis, R the reference, T the table of K records. #_X(g) is how often X holds the n-gram g, and #_GR(g)
the smaller of #_G(g) and #_R(g). Sums run over the distinct n-grams of order n:

    w(g)     = share of the words of g that the table holds         (the paper's word overlap model of entailment)
    E_p^n    = sum over G_n of [#_GR(g) + (#_G(g) - #_GR(g)) w(g)] / sum over G_n of #_G(g)
    E_r^n(R) = sum over R_n of #_GR(g) w(g) / sum over R_n of #_R(g) w(g)
    E_p, E_r(R): geometric means over n = 1 to 4
    E_r(T)   = 1/K sum over records of LCS(value, G) / |value|      (LCS: longest common subsequence)
    E_r      = E_r(R)^(1 - lambda) E_r(T)^lambda
    F        = 2 E_p E_r / (E_p + E_r)

Everything is computed per instance; the corpus value is the mean over instances. Where the paper leaves something open,
we follow the authors' script (table_text_eval.py in google-research/language), unless the list says otherwise:

- lambda: the paper's heuristic, per instance and reference, 1 - lambda = E_r(T) with R in the place of G. A reference
  that covers the table is trusted; one that does not yields to the table. The script's command line does the same, but
  its function `parent` takes 0.5 by default: `table_weight=0.5`.
- The words of the table: the paper speaks of the lexical items of the table, the script takes those of the values
  only. `table_words="values"` is as in the script; "all" adds the words of the attribute names.
- Triples (subject, property, object), as in WebNLG: the value of a record is the words of the subject, then those of
  the object. So a subject counts once for each of its triples.
- Several references: the one with the highest F gives all three values.
- An order without n-grams: precision 0 (a hypothesis of fewer than four words), recall 1 (no n-gram of the reference
  is entailed, so none is missing).
- Smoothing: E_p^n and E_r^n(R) of 0 count as 1e-5 for n = 2 to 4. For n = 1, E_p^1 of 0 makes E_p 0, and E_r^1(R) of
  0 makes E_r(R) 1e-5. E_r(T) of 0 counts as 1e-5.
- Ours: a hypothesis without words has recall 0, not 1e-5. F has no 1e-8 in its denominator. A record whose value has
  no words is left out. A table without words asks for nothing: lambda is 0, and by the rule above the recall is 1.
- Words: the script expects text that is tokenised already; it lower-cases and splits at spaces: `tokenize="none"`.
  Ours, `tokenize="words"`, lower-cases, splits at spaces and punctuation, and makes each mark a word of its own. So raw
  texts and tables match.

With `tokenize="none"` the values are the script's, except for the points marked as ours:
see tests/textmetrics/test_parent.py.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from exadec.textmetrics.matching import lcs_length
from exadec.textmetrics.scores import MeanScore, check_texts, mean_score, package_version

Table = Sequence[tuple[str, ...]]
"""(attribute, value) pairs, or (subject, property, object) triples."""

_ORDERS = 4
_SMALLEST = 1e-5
_NAMES = {"precision": "PARENT precision", "recall": "PARENT recall", "f1": "PARENT"}
_WORDS = re.compile(r"[^\W_]+|[^\w\s]")

_Words = list[str]
_NgramCounts = list[Counter[tuple[str, ...]]]


@dataclass(frozen=True)
class _Facts:
    """A table as PARENT sees it."""

    values: list[_Words]
    """The words of each record's value, without records that have none."""
    words: frozenset[str]
    """The words that entail an n-gram."""


def parent(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Sequence[Table],
    table_weight: float | None = None,
    table_words: Literal["values", "all"] = "values",
    tokenize: Literal["words", "none"] = "words",
) -> dict[str, MeanScore]:
    """PARENT `precision`, `recall` and `f1`, 0 to 100; `references[i]` and `tables[i]` belong to `hypotheses[i]`.

    `table_weight` is lambda, 0 to 1: how much the table counts in the recall. None is the paper's heuristic.
    """
    check_texts(hypotheses, references)
    _check(hypotheses, tables, table_weight, table_words, tokenize)
    rows = []
    for hypothesis, texts, table in zip(hypotheses, references, tables, strict=True):
        facts = _read_table(table, table_words, tokenize)
        generated = _read(hypothesis, tokenize)
        pairs = [_score_pair(generated, _read(text, tokenize), facts, table_weight) for text in texts]
        rows.append(max(pairs))  # by F1, which comes first
    columns = dict(zip(("f1", "precision", "recall"), zip(*rows, strict=True), strict=True))
    recipe = (
        f"entail:word-overlap-{table_words}",
        *(["table:triples"] if any(len(entry) == 3 for table in tables for entry in table) else []),
        f"lambda:{'heuristic' if table_weight is None else f'{table_weight:g}'}",
        "smooth:1e-5",
        f"tok:{'words-lower' if tokenize == 'words' else 'none-lower'}",
        "refs:best-f1",
        f"v:{package_version()}",
    )
    return {
        kind: mean_score(name, [100 * value for value in columns[kind]], "|".join(("parent", kind, *recipe)))
        for kind, name in _NAMES.items()
    }


def _score_pair(
    generated: _Words, reference: _Words, facts: _Facts, table_weight: float | None
) -> tuple[float, float, float]:
    """F1, precision and recall, 0 to 1, of one hypothesis against one reference and the table."""
    if not generated:
        return 0.0, 0.0, 0.0
    of_hypothesis, of_reference = _ngram_counts(generated), _ngram_counts(reference)
    precision = _entailed_precision(of_hypothesis, of_reference, facts.words)
    recall = _entailed_recall(of_hypothesis, of_reference, facts.words)
    if facts.values:
        weight = 1 - _table_recall(facts, reference) if table_weight is None else table_weight
        recall = recall ** (1 - weight) * max(_table_recall(facts, generated), _SMALLEST) ** weight
    return 2 * precision * recall / (precision + recall), precision, recall


def _entailed_precision(of_hypothesis: _NgramCounts, of_reference: _NgramCounts, words: frozenset[str]) -> float:
    """E_p: how much of the hypothesis is in the reference or, failing that, entailed by the table."""
    precisions = []
    for generated, wanted in zip(of_hypothesis, of_reference, strict=True):
        entailed = 0.0
        for ngram, count in generated.items():
            shared = min(count, wanted[ngram])
            entailed += shared + (count - shared) * _entailment(ngram, words)
        precisions.append(entailed / generated.total() if generated else 0.0)
    return _geometric_mean(precisions) if precisions[0] else 0.0


def _entailed_recall(of_hypothesis: _NgramCounts, of_reference: _NgramCounts, words: frozenset[str]) -> float:
    """E_r(R): how much of what the reference says, and the table entails, is in the hypothesis."""
    recalls = []
    for generated, wanted in zip(of_hypothesis, of_reference, strict=True):
        found = entailed = 0.0
        for ngram, count in wanted.items():
            weight = _entailment(ngram, words)
            found += min(count, generated[ngram]) * weight
            entailed += count * weight
        recalls.append(found / entailed if entailed else 1.0)
    return _geometric_mean(recalls) if recalls[0] else _SMALLEST


def _table_recall(facts: _Facts, text: _Words) -> float:
    """E_r(T): the mean over records of how much of the value the text holds, in its order."""
    numbers = {word: number for number, word in enumerate(text)}
    numbered = [numbers[word] for word in text]
    # A word that is not in the text gets -1, which matches nothing.
    shares = [
        lcs_length([numbers.get(word, -1) for word in value], numbered) / len(value)
        for value in facts.values
        if not numbers.keys().isdisjoint(value)
    ]
    return sum(shares) / len(facts.values)


def _geometric_mean(values: list[float]) -> float:
    product = 1.0
    for value in values:
        product *= value or _SMALLEST
    return float(product ** (1 / len(values)))


def _entailment(ngram: tuple[str, ...], words: frozenset[str]) -> float:
    """w(g), the word overlap model."""
    return sum(map(words.__contains__, ngram)) / len(ngram)


def _ngram_counts(words: _Words) -> _NgramCounts:
    """Counts of the n-grams of order 1 to 4."""
    return [Counter(zip(*(words[begin:] for begin in range(order)), strict=False)) for order in range(1, _ORDERS + 1)]


def _read(text: str, tokenize: str) -> _Words:
    return _WORDS.findall(text.lower()) if tokenize == "words" else text.lower().split()


def _read_table(table: Table, table_words: str, tokenize: str) -> _Facts:
    # The text of a triple is that of its subject and object.
    values = [words for *subject, _, value in table if (words := _read(" ".join([*subject, value]), tokenize))]
    entailing = {word for words in values for word in words}
    if table_words == "all":
        # Attribute names are often identifiers: birth_date.
        entailing.update(word for *_, name, _ in table for word in _read(name.replace("_", " "), tokenize))
    return _Facts(values, frozenset(entailing))


def _check(
    hypotheses: Sequence[str], tables: Sequence[Table], table_weight: float | None, table_words: str, tokenize: str
) -> None:
    if len(tables) != len(hypotheses):
        raise ValueError(
            "`hypotheses` and `tables` must have the same length, "
            f"but have {len(hypotheses)} and {len(tables)} instead."
        )
    for index, table in enumerate(tables):
        if {len(entry) for entry in table} not in (set(), {2}, {3}):
            raise ValueError(f"`tables[{index}]` must hold pairs alone or triples alone, but does not.")
    if table_weight is not None and not 0 <= table_weight <= 1:
        raise ValueError(f"`table_weight` must lie between 0 and 1, but is {table_weight} instead.")
    if table_words not in ("values", "all"):
        raise ValueError(f"`table_words` must be 'values' or 'all', but is {table_words!r} instead.")
    if tokenize not in ("words", "none"):
        raise ValueError(f"`tokenize` must be 'words' or 'none', but is {tokenize!r} instead.")
