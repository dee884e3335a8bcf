"""A map of the coefficients λ of exemplars.

In: an adaptive run and its outputs. Out: a `CoefficientMap`: one labelled point in the plane per exemplar.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from exadec.bank import spread
from exadec.corpus.prepare import Corpus
from exadec.corpus.readers import known_styles
from exadec.corpus.vocabulary import UNK
from exadec.errors import InputError
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.loading.batch import Instance, collate
from exadec.model.seq2seq import Seq2seq
from exadec.training.checkpoint import open_corpus
from exadec.views.results import System

OTHER = "other"
_MOST_POINTS = 1500  # more would be hard to tell apart, and would make the file large
_MOST_GROUPS = 8
_BATCH = 64


@dataclass(frozen=True)
class CoefficientMap:
    """λ of a split's exemplars, projected onto the plane in which they vary most."""

    points: np.ndarray
    """(N, 2): projection on the first two principal components."""
    explained: tuple[float, float]
    """Share of the variance of λ that each component explains."""
    labels: list[str]
    """(N,) house style or group of each exemplar; empty if unknown."""
    meaning: str
    """What a label is: `house style` or `group`."""
    agreement: float | None
    """Percentage of exemplars whose nearest neighbour in the full λ space has the same label; None without labels."""
    chance: float | None
    """The same percentage for random neighbours."""
    told: bool
    """Whether the model reads the label with its sources."""
    spread: float
    """How far λ of an exemplar lies from their middle, as a share of its length."""


def choose_adaptive(systems: Sequence[System]) -> System | None:
    """The system whose λ is shown: AdaDec if there is one, because λ is its only use of the exemplar."""
    adaptive = [system for system in systems if system.run.config.model.adaptive]
    return min(adaptive, key=lambda system: system.run.config.model.attend_exemplar, default=None)


def map_coefficients(system: System, split: str) -> CoefficientMap:
    """Project λ of the split's distinct exemplars onto the plane."""
    run = system.run
    corpus = open_corpus(run)
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    indices = exemplars.indices(split)
    # Several training targets may be the same text: the first one stands for all.
    numbers: dict[str, int] = {}
    for output, index in zip(system.outputs, indices.tolist(), strict=False):
        if output.exemplar is not None:
            numbers.setdefault(output.exemplar, index)
    numbers = dict(list(numbers.items())[:_MOST_POINTS])
    if len(numbers) < 3:
        raise InputError(f"{run.folder}: a map needs at least 3 different exemplars, but has {len(numbers)}.")
    labels, meaning = _label_exemplars(corpus, numbers)
    targets = corpus.targets("train")
    coefficients = read_coefficients(system.model, [targets[number] for number in numbers.values()])
    agreement = chance = None
    if labels:
        agreement, chance = _neighbour_agreement(coefficients, labels)
        labels = _keep_frequent(labels) if meaning == "group" else labels
    points, explained = project(coefficients)
    told = meaning == "group" and run.config.corpus.group_in_source
    return CoefficientMap(points, explained, labels, meaning, agreement, chance, told, spread(coefficients))


def read_coefficients(model: Seq2seq, exemplars: Sequence[np.ndarray]) -> np.ndarray:
    """(N, R) or, with coefficients per gate, (N, G·R): λ of each exemplar, given as ids of the corpus."""
    size, copies = len(model.embedding.weight), model.config.attend_exemplar
    rows = []
    for start in range(0, len(exemplars), _BATCH):
        # λ does not depend on the source, but a batch needs one.
        instances = [
            Instance(np.array([UNK]), (ids,), np.array([], np.int64)) for ids in exemplars[start : start + _BATCH]
        ]
        with torch.no_grad():
            batch = collate(instances, size, copies).to(next(model.parameters()).device)
            lam = model.exemplar_coefficients(batch)
        assert lam is not None, "a model that does not adapt has no coefficients"
        rows.append(lam.flatten(1).cpu().numpy())
    return np.concatenate(rows).astype(np.float64)


def project(rows: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Principal components: (N, R) -> (N, 2), and the share of the variance that each of the two explains."""
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    shares = singular**2 / max(float((singular**2).sum()), 1e-12)
    points = np.zeros((len(rows), 2))
    components = min(2, len(singular))
    points[:, :components] = left[:, :components] * singular[:components]
    first, second = [*shares[:2].tolist(), 0.0][:2]
    return points, (first, second)


def _label_exemplars(corpus: Corpus, numbers: Mapping[str, int]) -> tuple[list[str], str]:
    """Each exemplar's label, and what a label means; no labels if any is unknown."""
    styles = known_styles(corpus.config)
    if styles is not None:
        return [styles.style_of(text) or "none" for text in numbers], "house style"
    wanted = set(numbers.values())
    groups = {i: record.group for i, record in enumerate(corpus.records("train")) if i in wanted}
    labels = [group for group in (groups[number] for number in numbers.values()) if group is not None]
    return labels if len(labels) == len(numbers) else [], "group"


def _keep_frequent(labels: Sequence[str]) -> list[str]:
    kept = {label for label, _ in Counter(labels).most_common(_MOST_GROUPS)}
    return [label if label in kept else OTHER for label in labels]


def _neighbour_agreement(rows: np.ndarray, labels: Sequence[str]) -> tuple[float, float]:
    """Percentage of rows whose nearest other row has the same label, and the percentage for random neighbours."""
    squares = (rows**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T  # (N, N)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)
    same = sum(labels[one] == labels[other] for one, other in enumerate(nearest.tolist()))
    pairs = sum(count * (count - 1) for count in Counter(labels).values())
    return 100 * same / len(labels), 100 * pairs / (len(labels) * (len(labels) - 1))
