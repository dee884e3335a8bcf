"""Sixty stories with equal sources, equal targets and groups, and new texts that share words with them."""

from pathlib import Path

import numpy as np

from exadec.corpus.prepare import Corpus, prepare
from exadec.exemplars.bow import terms
from support.toys import config_for, write_splits

GROUPS = ("times", "post", None)


def prepare_stories(folder: Path) -> Corpus:
    """Sixty stories: sources twice each, targets three times each, groups in turn."""
    random = np.random.default_rng(1)
    sources = [" ".join(f"w{n}" for n in random.integers(0, 30, 8)) for _ in range(30)] * 2
    records: list[dict[str, object]] = []
    for i, source in enumerate(sources):
        record: dict[str, object] = {"source": source, "target": f"said {i % 20} w{i % 7}"}
        if GROUPS[i % 3] is not None:
            record["group"] = GROUPS[i % 3]
        records.append(record)
    write_splits(folder, records)
    return prepare(config_for(folder, segmentation="words"))


def records_of(corpus: Corpus) -> list[tuple[str, str, str | None]]:
    return [(record.source, record.target, record.group) for record in corpus.records("train")]


def cosine(left: str, right: str) -> float:
    """Of raw counts of words, the plain way."""
    a, b = terms(left), terms(right)
    dot = sum(a.count(word) * b.count(word) for word in set(a))
    squares = [sum(text.count(word) ** 2 for word in set(text)) for text in (a, b)]
    return float(dot / (squares[0] * squares[1]) ** 0.5)


NEW = [f"w{i} w{(7 * i) % 30} w{(11 * i + 3) % 30} w4" for i in range(40)]
"""New texts, each of which shares words with training sources."""
