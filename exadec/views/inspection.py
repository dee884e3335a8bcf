"""Statistics of a corpus.

In: a prepared corpus folder, and its exemplars if there are any. Out: an `Inspection`.

`inspection_tables` shows it on a terminal, `page` in a report.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.corpus.stage import MANIFEST, read_manifest
from exadec.errors import InputError
from exadec.exemplars.audit import Audit, SplitFacts, audit, find_faults, measure_splits
from exadec.exemplars.retrieve import DEFAULT, ExemplarMap, exemplar_folder, open_exemplars
from exadec.textmetrics import rouge

HELD_OUT = ("valid", "test")
NOT_RETRIEVED = "not retrieved yet"
_BANDS = 4


@dataclass(frozen=True)
class Band:
    """Instances whose exemplars are about equally similar, and the scores of copying these exemplars."""

    low: float
    high: float
    instances: int
    rouge: dict[str, float]


@dataclass(frozen=True)
class CopyScores:
    """The scores of copying the exemplar word for word; an instance without one scores as an empty text."""

    overall: Band
    bands: tuple[Band, ...]
    """A quarter of the instances each, from the least to the most similar exemplars."""
    signatures: dict[str, str]


@dataclass(frozen=True)
class Inspection:
    """Everything that is known about a corpus before training."""

    folder: Path
    segmentation: str
    vocabulary: int
    unknown_types: int
    """Distinct pieces outside the vocabulary."""
    splits: dict[str, SplitFacts]
    audit: Audit | None
    copying: dict[str, CopyScores]
    """By held-out split."""
    note: str
    """Why there is no audit."""
    faults: tuple[str, ...]
    """What makes the exemplars of little use, and what to do about it."""


def inspect_corpus(folder: Path, exemplar_config: ExemplarConfig = DEFAULT) -> Inspection:
    """Inspect a prepared corpus and, if they have been retrieved with these settings, its exemplars."""
    corpus = _open_corpus(Path(folder))
    exemplars, note = _find_exemplars(corpus, exemplar_config)
    facts = corpus.manifest["vocabulary"]
    return Inspection(
        folder=corpus.folder,
        segmentation=corpus.config.segmentation,
        vocabulary=facts["size"],
        unknown_types=facts["unknown_types"],
        splits=measure_splits(corpus),
        audit=None if exemplars is None else audit(corpus, exemplars),
        copying={} if exemplars is None else score_copying(corpus, exemplars),
        note=note,
        faults=() if exemplars is None else tuple(find_faults(corpus, exemplars)),
    )


def _open_corpus(folder: Path) -> Corpus:
    manifest = read_manifest(folder, remedy="run `exadec prepare` again")
    if not {"key", "config", "records", "vocabulary"} <= manifest.keys():
        raise InputError(f"{folder}: not a corpus folder; `exadec prepare` makes one.")
    return Corpus(folder)


def _find_exemplars(corpus: Corpus, config: ExemplarConfig) -> tuple[ExemplarMap | None, str]:
    folder = exemplar_folder(corpus, config)
    if not (folder / MANIFEST).is_file():
        return None, NOT_RETRIEVED
    try:
        return open_exemplars(corpus, folder), ""
    except InputError as error:  # still show the corpus itself
        return None, str(error)


def score_copying(corpus: Corpus, exemplars: ExemplarMap) -> dict[str, CopyScores]:
    """ROUGE of the exemplar itself, for the held-out splits: what a model has to beat."""
    indices = {split: exemplars.indices(split) for split in HELD_OUT}
    texts = _training_targets(corpus, set(np.concatenate(list(indices.values())).tolist()))
    scores = {}
    for split in HELD_OUT:
        references = [record.scoring_references() for record in corpus.records(split)]
        scored = rouge([texts.get(index, "") for index in indices[split].tolist()], references)
        similarities = exemplars.similarities(split)
        order = np.argsort(similarities, kind="stable")
        values = {score.name: score.per_instance for score in scored.values()}
        scores[split] = CopyScores(
            overall=_band(similarities, values, order),
            bands=tuple(_band(similarities, values, rows) for rows in np.array_split(order, _BANDS) if len(rows)),
            signatures={score.name: score.signature for score in scored.values()},
        )
    return scores


def _training_targets(corpus: Corpus, wanted: set[int]) -> dict[int, str]:
    return {number: corpus.target(number) for number in sorted(wanted) if number >= 0}


def _band(similarities: np.ndarray, values: dict[str, np.ndarray], rows: np.ndarray) -> Band:
    chosen = similarities[rows]
    means = {name: float(scores[rows].mean()) for name, scores in values.items()}
    return Band(float(chosen.min()), float(chosen.max()), len(rows), means)


def inspection_to_json(inspection: Inspection) -> dict[str, Any]:
    """Raw counts, and the rates computed from them (0 to 1; None if the denominator is 0)."""
    content = {**asdict(inspection), "folder": str(inspection.folder)}
    for split, facts in inspection.splits.items():
        content["splits"][split]["rates"] = {name: rate for name, (_, _, rate) in rates_of(facts).items()}
    return content


def rates_of(facts: SplitFacts) -> dict[str, tuple[int, int, float | None]]:
    """By name: numerator, denominator, and rate."""
    sources, targets = facts.sources, facts.targets
    pairs = {
        "source_coverage": (sources.pieces - sources.unknown, sources.pieces),
        "target_coverage": (targets.pieces - targets.unknown, targets.pieces),
        "target_unknown": (targets.unknown, targets.pieces),
        "unknown_copyable": (facts.copyable_unknown, targets.unknown),
        "target_copyable": (facts.copyable, targets.pieces),
    }
    return {name: (part, whole, part / whole if whole else None) for name, (part, whole) in pairs.items()}
