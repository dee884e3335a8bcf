"""Statistics of a corpus: its texts, how similar its exemplars are, and whether they give the answer away.

In: a prepared `Corpus` and its `ExemplarMap`. Out: `SplitFacts` and an `Audit`: counts, lengths, similarities, leakage.
And, in a line each, what makes the exemplars of little use.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exadec.corpus.prepare import Corpus
from exadec.corpus.record import SPLITS
from exadec.corpus.sequences import Sequences
from exadec.corpus.vocabulary import SPECIALS
from exadec.exemplars.retrieve import ExemplarMap

BINS = 20
"""Maximum number of bins in a histogram."""
MANY_MISSING = 0.5
"""So many instances without an exemplar are worth a warning."""
TOO_GOOD = 0.2
"""So much larger a share of exemplars from the same source in training than for held-out text is worth one, too."""
_BLOCK_PIECES = 1 << 20


@dataclass(frozen=True)
class Distribution:
    """Summary statistics of many numbers."""

    mean: float
    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float
    """The 95th percentile; `low` is the 5th."""
    maximum: float
    edges: tuple[float, ...]
    """Bin edges of the histogram: bin i covers edges[i] <= x < edges[i + 1]; the last bin includes both ends."""
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Side:
    """The sources or the targets of a split, as the model reads them: in pieces, truncated to the limit."""

    lengths: Distribution
    truncated: int
    """Number of texts longer than the limit."""
    pieces: int
    unknown: int
    """Pieces outside the vocabulary."""


@dataclass(frozen=True)
class SplitFacts:
    """One split."""

    instances: int
    tables: int
    several_references: int
    groups: int
    sources: Side
    targets: Side
    copyable: int
    """Target pieces that occur in the source of their instance."""
    copyable_unknown: int
    """Copyable pieces outside the vocabulary: only copying can write them."""


@dataclass(frozen=True)
class SplitAudit:
    """The exemplars of one split. Texts count as the same if the model reads the same ids, after truncation."""

    instances: int
    without_exemplar: int
    similarity: Distribution | None
    """Over the instances that have an exemplar; None if none has."""
    same_target: int
    """Leakage: the exemplar is identical to the target."""
    same_source: int
    """The exemplar's own source is identical to the source."""
    seen_sources: int
    """The source occurs in the training set; for training instances, earlier in it."""
    seen_targets: int
    """The same for targets."""
    seen_pairs: int
    """The same for source and target together."""


@dataclass(frozen=True)
class Audit:
    """The audit of a retrieval, to read before training."""

    splits: dict[str, SplitAudit]


def audit(corpus: Corpus, exemplars: ExemplarMap) -> Audit:
    """Audit all splits."""
    return Audit({split: _audit_split(split, corpus, exemplars) for split in SPLITS})


def find_faults(corpus: Corpus, exemplars: ExemplarMap) -> list[str]:
    """What makes exemplars of little use to a model, and what to do about it: a line each, usually none."""
    config = exemplars.manifest["config"]
    if config["policy"] == "none":
        return []
    found = {split: exemplars.indices(split) >= 0 for split in SPLITS}
    missing = {split: int((~rows).sum()) for split, rows in found.items()}
    lacking = [
        f"{missing[split]:,} of {len(rows):,} {split}"
        for split, rows in found.items()
        if missing[split] >= MANY_MISSING * len(rows)
    ]
    if lacking:
        return [f"{', '.join(lacking)} instances have no exemplar: {_explain_missing(corpus, config)}."]
    same = {split: _count_same(split, "source", corpus, exemplars) / rows.sum() for split, rows in found.items()}
    means = {split: float(exemplars.similarities(split)[rows].mean()) for split, rows in found.items()}
    lowest = min(SPLITS, key=lambda split: (same[split], means[split]))
    if same["train"] - same[lowest] < TOO_GOOD or config.get("calibrated"):
        return []
    return [
        f"{same['train']:.0%} of the training exemplars come from an identical source, but {same[lowest]:.0%} of the "
        f"{lowest} ones (mean similarity {means['train']:.2f} and {means[lowest]:.2f}), so models trust exemplars "
        "too much: set exemplars.exclude_same_source=true."
    ]


def _explain_missing(corpus: Corpus, config: Mapping[str, Any]) -> str:
    """Why instances have no exemplar, as far as the settings tell, and the remedy."""
    if config["group"] == "only":
        if not corpus.trained_groups():
            return "`exemplars.group` is only, but no training record has a group; set exemplars.group=any"
        return "`exemplars.group` is only, and too few records share a group; set exemplars.group=prefer"
    if config["policy"] == "given":
        return f"{config['given']} names none for them; add them, or set another exemplars.policy"
    excluding = [name for name in ("exclude_same_source", "exclude_same_target") if config[name]]
    if excluding:
        return f"nothing else is similar; set {' and '.join(f'exemplars.{name}=false' for name in excluding)}"
    return "they share no word with another training source; look at `corpus.train`, or set exemplars.policy=random"


def _count_same(split: str, side: str, corpus: Corpus, exemplars: ExemplarMap) -> int:
    """Instances that have an exemplar whose own source, or target, is theirs."""
    indices = exemplars.indices(split)
    found = indices >= 0
    theirs = corpus.fingerprints("train", side)[indices[found]]
    return int((corpus.fingerprints(split, side)[found] == theirs).sum())


def measure_splits(corpus: Corpus) -> dict[str, SplitFacts]:
    """Lengths, coverage and copyable pieces, computed block by block over the memory-mapped ids."""
    sources = {split: corpus.sources(split) for split in SPLITS}
    targets = {split: corpus.targets(split) for split in SPLITS}
    source_edges, target_edges = _length_edges(sources.values()), _length_edges(targets.values())
    size, truncated = len(corpus.vocabulary), corpus.manifest["truncated"]
    facts = {}
    for split in SPLITS:
        contents = corpus.contents(split)
        counts = _count_pieces(sources[split], targets[split], size, size + len(corpus.table.unknown))
        facts[split] = SplitFacts(
            instances=corpus.size(split),
            tables=contents["tables"],
            several_references=contents["several_references"],
            groups=contents["groups"],
            sources=_side(sources[split], source_edges, truncated[f"{split} sources"], counts[0]),
            targets=_side(targets[split], target_edges, truncated[f"{split} targets"], counts[1]),
            copyable=counts[2],
            copyable_unknown=counts[3],
        )
    return facts


def _length_edges(sides: Iterable[Sequences]) -> np.ndarray:
    """Bins of whole numbers, the same for all splits."""
    longest = max(int(side.lengths.max()) for side in sides)
    width = -(-longest // BINS)
    return np.arange(1, longest + width + 1, width)


def _side(texts: Sequences, edges: np.ndarray, truncated: int, unknown: int) -> Side:
    return Side(summarize(texts.lengths, edges), truncated, len(texts.ids), unknown)


def _count_pieces(sources: Sequences, targets: Sequences, size: int, types: int) -> list[int]:
    """Counts: unknown source pieces, unknown target pieces, copyable target pieces, copyable unknown ones."""
    totals = np.zeros(4, np.int64)
    step = max(1, _BLOCK_PIECES * len(sources) // len(sources.ids))
    for begin in range(0, len(sources), step):
        source_ids, source_keys = _block(sources, begin, begin + step, types)
        target_ids, target_keys = _block(targets, begin, begin + step, types)
        source_keys.sort()
        places = np.minimum(np.searchsorted(source_keys, target_keys), len(source_keys) - 1)
        # The unknown-word symbol stands for a text without pieces, so it does not count as copyable.
        copyable = (source_keys[places] == target_keys) & (target_ids >= len(SPECIALS))
        unknown = _is_unknown(target_ids, size)
        totals += [_is_unknown(source_ids, size).sum(), unknown.sum(), copyable.sum(), (copyable & unknown).sum()]
    counts: list[int] = totals.tolist()
    return counts


def _block(texts: Sequences, begin: int, end: int, types: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids of some rows, and keys that combine row and id: equal keys are equal pieces in the same row."""
    offsets = texts.offsets[begin : end + 1]
    ids = np.asarray(texts.ids[offsets[0] : offsets[-1]])
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return ids, rows * types + ids


def _is_unknown(ids: np.ndarray, size: int) -> np.ndarray:
    return (ids >= size) | (ids < len(SPECIALS))


def summarize(values: np.ndarray, edges: np.ndarray) -> Distribution:
    """Summarise numbers that lie within the edges; there must be at least one."""
    low, lower, median, upper, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
    counts, _ = np.histogram(values, edges)
    return Distribution(
        mean=float(values.mean(dtype=np.float64)),
        low=low,
        lower_quartile=lower,
        median=median,
        upper_quartile=upper,
        high=high,
        maximum=values.max().item(),
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
    )


def _audit_split(split: str, corpus: Corpus, exemplars: ExemplarMap) -> SplitAudit:
    sources, targets = corpus.fingerprints(split, "source"), corpus.fingerprints(split, "target")
    train_sources, train_targets = corpus.fingerprints("train", "source"), corpus.fingerprints("train", "target")
    indices = exemplars.indices(split)
    found = indices >= 0
    similarities = np.clip(exemplars.similarities(split)[found].astype(np.float64), 0.0, 1.0)
    seen = _count_repeated if split == "train" else _count_contained
    return SplitAudit(
        instances=len(indices),
        without_exemplar=int((~found).sum()),
        similarity=summarize(similarities, np.arange(BINS + 1) / BINS) if found.any() else None,
        same_target=_count_same(split, "target", corpus, exemplars),
        same_source=_count_same(split, "source", corpus, exemplars),
        seen_sources=seen(sources, train_sources),
        seen_targets=seen(targets, train_targets),
        seen_pairs=seen(_pair(sources, targets), _pair(train_sources, train_targets)),
    )


def _pair(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    # An odd factor loses no bits, and makes (a, b) differ from (b, a).
    pairs: np.ndarray = sources.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + targets.view(np.uint64)
    return pairs


def _count_repeated(own: np.ndarray, train: np.ndarray) -> int:
    return len(own) - len(np.unique(own))


def _count_contained(own: np.ndarray, train: np.ndarray) -> int:
    return int(np.isin(own, train).sum())
