"""What a corpus is made of, how similar its exemplars are, and whether they give the answer away.

In: a prepared `Corpus` and its `ExemplarMap`. Out: `SplitFacts` and an `Audit`: counts, lengths, similarities, leakage.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from exadec.corpus.prepare import SPLITS, Corpus, Sequences
from exadec.corpus.record import fingerprint
from exadec.corpus.vocabulary import SPECIALS
from exadec.exemplars.retrieve import ExemplarMap

BINS = 20
"""Of every histogram, at most."""
_BLOCK_PIECES = 1 << 20


@dataclass(frozen=True)
class Distribution:
    """Many numbers summed up."""

    mean: float
    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float
    """95% of the numbers are at most this; `low` is the same for 5%."""
    maximum: float
    edges: tuple[float, ...]
    """Of the histogram: bin i holds what is at least edges[i] and below edges[i + 1]; the last bin has both ends."""
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """What one pass over the records of a split finds."""

    sources: np.ndarray
    """(N,) uint64 fingerprints: equal for equal texts; for others with a probability of 2 ** -64."""
    targets: np.ndarray
    """(N,) uint64"""
    tables: int
    """Records with a table."""
    several_references: int
    """Records with more than one reference."""
    groups: int
    """Different groups."""


@dataclass(frozen=True)
class Side:
    """The sources or the targets of a split, as the model sees them: cut to the limit, in pieces."""

    lengths: Distribution
    truncated: int
    """Texts that were longer than the limit."""
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
    """Those among them that are outside the vocabulary: only copying can write them."""


@dataclass(frozen=True)
class SplitAudit:
    """The exemplars of one split. Texts are equal when they are so to the letter, before any are cut."""

    instances: int
    without_exemplar: int
    similarity: Distribution | None
    """Of the instances that have an exemplar; None where none has."""
    same_target: int
    """Leakage: the exemplar is the very text that is to be written."""
    same_source: int
    """The exemplar was written from the very same source."""
    seen_sources: int
    """The source occurs among the training sources; inside the training set, among the earlier ones."""
    seen_targets: int
    """The same of targets."""
    seen_pairs: int
    """The same of source and target together."""


@dataclass(frozen=True)
class Audit:
    """What is to be known about a retrieval before anything is trained on it."""

    splits: dict[str, SplitAudit]


def audit(corpus: Corpus, exemplars: ExemplarMap, scans: Mapping[str, Scan] | None = None) -> Audit:
    """Audit all splits; whoever has scanned the records already hands the scans over."""
    if scans is None:
        scans = {split: scan(corpus, split) for split in SPLITS}
    return Audit({split: _audit_split(split, scans, exemplars) for split in SPLITS})


def scan(corpus: Corpus, split: str) -> Scan:
    """Read the records of a split once, keeping 16 bytes of each."""
    sources, targets, groups = array("Q"), array("Q"), set()
    tables = several = 0
    for record in corpus.records(split):
        sources.append(fingerprint(record.source))
        targets.append(fingerprint(record.target))
        groups.add(record.group)
        tables += record.table is not None
        several += len(record.references) > 1
    return Scan(
        sources=np.frombuffer(sources, np.uint64),
        targets=np.frombuffer(targets, np.uint64),
        tables=tables,
        several_references=several,
        groups=len(groups - {None}),
    )


def measure_splits(corpus: Corpus, scans: Mapping[str, Scan]) -> dict[str, SplitFacts]:
    """Lengths, coverage and copyability, over the memory-mapped ids in blocks."""
    sources = {split: corpus.sources(split) for split in SPLITS}
    targets = {split: corpus.targets(split) for split in SPLITS}
    source_edges, target_edges = _length_edges(sources.values()), _length_edges(targets.values())
    size, truncated = len(corpus.vocabulary), corpus.manifest["truncated"]
    facts = {}
    for split in SPLITS:
        counts = _count_pieces(sources[split], targets[split], size, size + len(corpus.table.unknown))
        facts[split] = SplitFacts(
            instances=corpus.size(split),
            tables=scans[split].tables,
            several_references=scans[split].several_references,
            groups=scans[split].groups,
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
    """Unknown source pieces, unknown target pieces, copyable target pieces, those of them that are unknown."""
    totals = np.zeros(4, np.int64)
    step = max(1, _BLOCK_PIECES * len(sources) // len(sources.ids))
    for begin in range(0, len(sources), step):
        source_ids, source_keys = _block(sources, begin, begin + step, types)
        target_ids, target_keys = _block(targets, begin, begin + step, types)
        source_keys.sort()
        places = np.minimum(np.searchsorted(source_keys, target_keys), len(source_keys) - 1)
        # The unknown-word symbol stands for text without pieces: finding it again is no copying.
        copyable = (source_keys[places] == target_keys) & (target_ids >= len(SPECIALS))
        unknown = _is_unknown(target_ids, size)
        totals += [_is_unknown(source_ids, size).sum(), unknown.sum(), copyable.sum(), (copyable & unknown).sum()]
    counts: list[int] = totals.tolist()
    return counts


def _block(texts: Sequences, begin: int, end: int, types: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids of some rows, and the same with the number of the row before them: equal keys are equal pieces of a row."""
    offsets = texts.offsets[begin : end + 1]
    ids = np.asarray(texts.ids[offsets[0] : offsets[-1]])
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return ids, rows * types + ids


def _is_unknown(ids: np.ndarray, size: int) -> np.ndarray:
    return (ids >= size) | (ids < len(SPECIALS))


def summarize(values: np.ndarray, edges: np.ndarray) -> Distribution:
    """Sum up numbers that lie within the edges; there must be some."""
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


def _audit_split(split: str, scans: Mapping[str, Scan], exemplars: ExemplarMap) -> SplitAudit:
    own, train = scans[split], scans["train"]
    indices = exemplars.indices(split)
    found = indices >= 0
    chosen = indices[found]
    similarities = np.clip(exemplars.similarities(split)[found].astype(np.float64), 0.0, 1.0)
    seen = _count_repeated if split == "train" else _count_contained
    return SplitAudit(
        instances=len(indices),
        without_exemplar=int((~found).sum()),
        similarity=summarize(similarities, np.arange(BINS + 1) / BINS) if len(chosen) else None,
        same_target=int((own.targets[found] == train.targets[chosen]).sum()),
        same_source=int((own.sources[found] == train.sources[chosen]).sum()),
        seen_sources=seen(own.sources, train.sources),
        seen_targets=seen(own.targets, train.targets),
        seen_pairs=seen(_pair(own), _pair(train)),
    )


def _pair(scanned: Scan) -> np.ndarray:
    # An odd factor loses no bit, and makes (a, b) another sum than (b, a).
    pairs: np.ndarray = scanned.sources * np.uint64(0x9E3779B97F4A7C15) + scanned.targets
    return pairs


def _count_repeated(own: np.ndarray, train: np.ndarray) -> int:
    return len(own) - len(np.unique(own))


def _count_contained(own: np.ndarray, train: np.ndarray) -> int:
    return int(np.isin(own, train).sum())
