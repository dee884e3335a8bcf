"""Time and memory of a training step as lengths and sizes grow, one at a time.

In: a point to start from and the values to try. Out: milliseconds and gigabytes of a captured step at each.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from training_profile import DEVICE, captured_milliseconds, forget_peak, peak_gigabytes

from exadec.config import VARIANTS, ModelConfig, TrainingConfig
from exadec.corpus.vocabulary import SPECIALS
from exadec.loading.batch import Batch
from exadec.loading.resident import Shape
from exadec.model.backends.choice import choose_backend
from exadec.model.seq2seq import Seq2seq
from exadec.training.optimizer import build_optimizer
from exadec.training.step import Step, choose_precision

BASE = {"target": 24, "source": 48, "hidden": 256, "rank": 256, "batch": 256}
SWEEPS = {
    "target": (8, 16, 24, 48, 96),
    "source": (16, 32, 48, 96, 192),
    "hidden": (128, 192, 256, 320, 512),
    "rank": (64, 128, 256, 320, 512),
    "batch": (32, 64, 128, 256, 512, 1024, 2048),
}
EXEMPLAR = 24
"""Length of all exemplars."""


def growth(
    base: Mapping[str, int] = BASE, sweeps: Mapping[str, Sequence[int]] = SWEEPS, vocabulary: int = 25_000
) -> dict[str, Any]:
    """One row for each model and point; points of the same sizes share one model."""
    points = [dict(base)]
    points += [{**base, name: value} for name, values in sweeps.items() for value in values if value != base[name]]
    points.sort(key=lambda point: (point["hidden"], point["rank"]))
    rows = []
    for variant in ("seq2seq", "adadec"):
        step, built = None, None
        for point in points:
            sizes = point["hidden"], point["rank"]
            if variant == "seq2seq" and point["rank"] != base["rank"]:
                continue  # it has no rank
            if sizes != built:
                del step  # its memory is not to be counted
                step, built = _build(variant, *sizes, vocabulary), sizes
            milliseconds, gigabytes = measure(step, synthetic_batch(_shape(point), vocabulary, DEVICE))
            row = {"variant": variant, **point, "milliseconds": milliseconds, "gigabytes": gigabytes}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return {"base": dict(base), "exemplar": EXEMPLAR, "vocabulary": vocabulary, "rows": rows}


def synthetic_batch(shape: Shape, vocabulary: int, device: torch.device, exemplars_each: int = 1) -> Batch:
    """Random words, no padding."""
    generator = torch.Generator().manual_seed(0)

    def words(length: int, each: int = 1) -> torch.Tensor:
        return torch.randint(len(SPECIALS), vocabulary, (shape.batch * each, length), generator=generator)

    target = words(shape.target)
    return Batch(
        source=words(shape.source),
        source_lengths=torch.full((shape.batch,), shape.source),
        exemplar=words(shape.exemplar, exemplars_each),
        exemplar_lengths=torch.full((shape.batch * exemplars_each,), shape.exemplar),
        target_input=target,
        target_output=target.roll(-1, 1),
        unknown=torch.zeros(shape.batch, 0, dtype=torch.int64),
    ).to(device)


def _shape(point: Mapping[str, int]) -> Shape:
    return Shape(point["batch"], point["source"], EXEMPLAR, point["target"])


def _build(variant: str, hidden: int, rank: int, vocabulary: int) -> Step:
    return build_step(ModelConfig(**VARIANTS[variant], hidden=hidden, embedding=hidden, rank=rank), vocabulary)


def build_step(config: ModelConfig, vocabulary: int) -> Step:
    """A training step of a new model on the device, in its usual precision."""
    torch.manual_seed(1)
    precision = choose_precision("auto", DEVICE)
    model = Seq2seq(config, vocabulary, backend=choose_backend("auto", DEVICE, precision, config).backend).to(DEVICE)
    losses = torch.zeros(2, device=DEVICE, dtype=torch.float64)
    return Step(model, build_optimizer(model, TrainingConfig()), 1.0, losses, precision)


def measure(step: Step, batch: Batch) -> tuple[float, float]:
    """Milliseconds and gigabytes of the whole step, captured as a graph."""

    def work() -> None:
        step.optimizer.zero_grad()  # gradients of the step before would be counted as this one's memory
        step(batch)

    work()  # Adam's moments come into being
    forget_peak()
    return captured_milliseconds(work, repeats=20), peak_gigabytes()
