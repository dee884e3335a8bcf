"""The λ bank: the coefficients of all training targets, and a map of them in two dimensions.

In: a run, its model and the training targets. Out: a file of half-precision numbers, mapped into memory; points.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from exadec.corpus.prepare import Report, Sequences, silent
from exadec.corpus.stage import hash_value, make, read_manifest
from exadec.errors import InputError
from exadec.loading.batch import Batch
from exadec.model.seq2seq import Seq2seq
from exadec.reading.folder import Folder

FORMAT = 1
LITTLE = 0.05
"""A `spread` below which a map shows little but noise"""
ROWS = 512
"""Targets that are read at a time."""
SAMPLE = 20_000
"""Targets that decide how the map lies."""
FILE = "coefficients.npy"
_REMEDY = "delete the folder; the bank is made again"


def encode_targets(
    model: Seq2seq, targets: Sequences, mark: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(numbers (n,), λ (n, 1 or G, R)) of all targets, those of about the same length together.

    `mark` makes of ids what the model reads when the target is given as an exemplar.
    """
    device = next(model.parameters()).device
    order = np.argsort(targets.lengths, kind="stable")
    for start in range(0, len(order), ROWS):
        numbers = order[start : start + ROWS]
        ids = [torch.from_numpy(mark(np.asarray(targets[number], np.int64))) for number in numbers]
        with torch.no_grad():
            lam = model.exemplar_coefficients(_exemplars_alone(ids).to(device))
        assert lam is not None
        yield numbers, lam.cpu().numpy()


def mix_coefficients(
    model: Seq2seq, mixtures: Sequence[Sequence[tuple[np.ndarray, float]] | None]
) -> torch.Tensor | None:
    """λ of mixtures of exemplars, given as ids with shares: (B, 1 or G, R), NaN where there is no mixture.

    λ of a mixture is the mean of those of its exemplars, by their shares; where the model fixes its norm, scaled to it.
    None if there is no mixture at all.
    """
    parts = [part for mixture in mixtures for part in mixture or ()]
    if not parts or model.coefficients is None:
        return None
    device = next(model.parameters()).device
    with torch.no_grad():
        each = model.exemplar_coefficients(_exemplars_alone([torch.from_numpy(ids) for ids, _ in parts]).to(device))
    assert each is not None
    rows = iter(each)
    mixed = torch.full((len(mixtures), *each.shape[1:]), torch.nan, device=device)
    for place, mixture in enumerate(mixtures):
        if mixture:
            lam = torch.stack([share * next(rows) for _, share in mixture]).sum(0)  # (1 or G, R)
            if model.coefficients.norm is not None:
                lam = lam * model.coefficients.norm / lam.norm(dim=-1, keepdim=True).clamp_min(1e-9)
            mixed[place] = lam
    return mixed


def _exemplars_alone(ids: list[torch.Tensor]) -> Batch:
    """A batch of exemplars with nothing to say."""
    nothing = torch.zeros(len(ids), 1, dtype=torch.long)
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    lengths = torch.tensor([len(one) for one in ids])
    return Batch(nothing, nothing[:, 0] + 1, padded, lengths, nothing, nothing, nothing[:, :0])


def bank_folder(run: Path) -> Path:
    """Where the bank of a run is kept: beside it."""
    return run.with_name(f"{run.name}.bank")


def bank_shape(model: Seq2seq, count: int) -> tuple[int, int, int]:
    """Of the bank of so many targets: (N, 1 or G, R)."""
    if model.coefficients is None:
        raise InputError("this model does not adapt, so its exemplars have no coefficients.")
    return count, model.coefficients.groups, model.config.coefficient_rank


def bank_files(folder: Path) -> Folder:
    """The files of a bank that was made."""
    return Folder(folder, _REMEDY, read_manifest(folder, remedy=_REMEDY)["files"])


def open_bank(
    folder: Path,
    model: Seq2seq,
    targets: Sequences,
    mark: Callable[[np.ndarray], np.ndarray],
    report: Report = silent,
) -> np.ndarray:
    """(training targets, 1 or G, R) float16: the bank in this folder, made first unless it is that of these weights and
    these targets."""
    shape = bank_shape(model, len(targets))
    key = hash_value({"format": FORMAT, "shape": shape, "made of": _hash(model, targets)})

    def build(draft: Path) -> None:
        bank = np.lib.format.open_memmap(draft / FILE, "w+", np.float16, shape)
        done = 0
        for numbers, lam in encode_targets(model, targets, mark):
            bank[numbers] = lam
            done += len(numbers)
            report("reading exemplars", done, len(targets))
        bank.flush()

    make(folder, key, {}, build)
    return bank_files(folder).map_array(FILE, np.float16, shape)


def _hash(model: Seq2seq, targets: Sequences) -> str:
    """SHA-256 of the weights and the targets."""
    weights = [tensor.detach().cpu().contiguous().numpy() for tensor in model.state_dict().values()]
    total = hashlib.sha256()
    for array in (*weights, np.ascontiguousarray(targets.ids), np.ascontiguousarray(targets.offsets)):
        total.update(array.tobytes())
    return total.hexdigest()


class Projection:
    """The plane in which λ of the exemplars differ most (principal components), so that between two points lies
    their mixture."""

    def __init__(self, bank: np.ndarray):
        size = len(bank)
        chosen = np.sort(np.random.default_rng(1).permutation(size)[:SAMPLE])
        rows = np.asarray(bank[chosen], np.float64).reshape(len(chosen), -1)
        self.mean = rows.mean(0)
        _, _, axes = np.linalg.svd(rows - self.mean, full_matrices=False)
        axes = axes[:2]
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])  # an axis has no direction of its own
        self.axes = axes * signs[:, None]

    def __call__(self, coefficients: np.ndarray) -> np.ndarray:
        """(n, 1 or G, R) -> (n, 2)"""
        rows = np.asarray(coefficients, np.float64).reshape(len(coefficients), -1)
        return np.asarray((rows - self.mean) @ self.axes.T)


def frame(points: np.ndarray) -> np.ndarray:
    """(n, 2) -> (2, 2): where a map of these points begins and ends on each axis.

    A few points far from all others lie outside, because the others would fall on one spot. Far is beyond the middle
    nine tenths by more than their own width.
    """
    low, high = np.quantile(points, (0.05, 0.95), axis=0)
    width = high - low
    far = (points < low - width) | (points > high + width)
    far[:, width == 0] = False  # nearly all points are at one place of this axis: show how far the others go
    near = np.ma.array(points, mask=far)
    return np.stack([near.min(0).filled(), near.max(0).filled()])


def clamp(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2) -> (n, 2), (n,): the points moved to the border of their frame, and which of them lay outside."""
    low, high = frame(points)
    inside = np.clip(points, low, high)
    return inside, (inside != points).any(1)


def spread(rows: np.ndarray) -> float:
    """Of (n, ...): how far λ of an exemplar lies from their middle, as a share of the length of λ.

    Both are medians, so that a few far ones do not count for all.
    """
    rows = np.asarray(rows, np.float64).reshape(len(rows), -1)
    far, length = (np.median(np.linalg.norm(one, axis=1)) for one in (rows - np.median(rows, axis=0), rows))
    return float(far / max(length, 1e-12))
