"""Scores by name.

In: names such as `rougeL` or `bleu`, texts, references, tables. Out: a `Score` for each name, in order.
"""

from collections.abc import Sequence
from pathlib import Path

from exadec.textmetrics.bleu import bleu
from exadec.textmetrics.parent import Table, parent
from exadec.textmetrics.rouge import rouge
from exadec.textmetrics.scores import Score

METRICS = (
    *("rouge1", "rouge2", "rouge4", "rougeL"),
    *("recall1", "recall2", "recall4", "recallL"),
    *("bleu", "bleu_tokenised"),
    *("parent", "parent_precision", "parent_recall"),
)
"""ROUGE F1; ROUGE recall of texts cut to the reference's length; BLEU read by 13a, and as it is; PARENT."""
_PARENT = {"parent": "f1", "parent_precision": "precision", "parent_recall": "recall"}


def score_all(
    names: Sequence[str],
    texts: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Sequence[Table] | None = None,
    stem: bool | Path = True,
) -> list[Score]:
    """Scores of the given names; what several of them share is computed once. PARENT needs `tables`.

    `stem` is ROUGE's: by rule, or with the WordNet exceptions of a folder, or not at all.
    """
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ValueError(f"unknown metric {unknown[0]!r}; the metrics are {', '.join(METRICS)}.")
    found: dict[str, Score] = {}
    for prefix, cut in (("rouge", False), ("recall", True)):
        measures = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        if measures:
            scores = rouge(texts, references, measures, stem, recall_at_reference_length=cut)
            found |= {f"{prefix}{measure}": score for measure, score in scores.items()}
    if "bleu" in names:
        found["bleu"] = bleu(texts, references)
    if "bleu_tokenised" in names:
        found["bleu_tokenised"] = bleu(texts, references, tokenize="none")
    if any(name in _PARENT for name in names):
        if tables is None:
            raise ValueError("PARENT needs the tables that the texts were written from.")
        scores = parent(texts, references, tables)
        found |= {name: scores[kind] for name, kind in _PARENT.items()}
    return [found[name] for name in names]
