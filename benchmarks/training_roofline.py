"""The minimum work of a training step, and the minimum time that the device needs for it.

In: a model's configuration and a batch's sizes; rates measured on the device. Out: operations, bytes and dependent
steps of each part, and the minimum time they take.

Only work that every implementation must do is counted, in the precisions in use:
- Operations: each matrix product forward, and twice that backward (for its input and for its weights).
- Bytes: float32 weights read once and their gradients written once; activations that backward needs written once and
  read once in bfloat16; what Adam reads and writes, and one more reading of all gradients for their norm. Logits are
  not counted, because they need not be stored.
- Dependent steps: a time step of a recurrence needs the one before it. Directions run side by side, a layer one step
  behind the layer below, the exemplar's encoder beside the source's.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from training_growth import synthetic_batch
from training_profile import DEVICE, captured_milliseconds, seconds

from exadec.config import VARIANTS, ModelConfig
from exadec.loading.resident import Shape
from exadec.model.adaptive import RecurrentCell
from exadec.model.backends.choice import choose_backend
from exadec.model.cells import CELLS
from exadec.model.seq2seq import Seq2seq
from exadec.training.step import choose_precision

PASSES = 3
"""One product forward, two backward."""
RECURRENCE = "decoder, recurrence"


@dataclass(frozen=True)
class Work:
    """The work of one part of a step, forward and backward."""

    part: str
    operations: int
    """Multiplications and additions of matrix products."""
    bytes: int
    weights: int
    """Parameters."""
    dependent_steps: int = 0
    """Sequentially dependent time steps, and the parts before."""
    steps_in_turn: int = 0
    """Sequential time steps in the current implementation: layer by layer, both directions at once."""
    state: int = 0
    """The size of the recurrence's state."""

    @classmethod
    def of(cls, part: str, products: int, weights: int, activations: int, **steps: int) -> "Work":
        """`products`: multiplications of one pass forward."""
        return cls(part, 2 * PASSES * products, 8 * weights + 4 * activations, weights, **steps)


def count(config: ModelConfig, vocabulary: int, shape: Shape) -> list[Work]:
    """The parts of the paper's Seq2seq or AdaDec; dimensions as in exadec/model/__init__.py."""
    unlike = config.attend_exemplar, config.input_feeding, config.copy != "attention", not config.tied
    assert not any(unlike), "counted are Seq2seq and AdaDec as the paper has them"
    assert config.cell == "lstm"
    b, s, z, t = shape
    d, e, v = config.hidden, config.embedding, vocabulary
    source, exemplar = _encoder(config.encoder_layers, b * s, e, d), _encoder(1, b * z, e, config.exemplar_hidden)
    chain, in_turn, words = s + config.encoder_layers - 1, config.encoder_layers * s, b * (s + t)
    parts = [
        Work.of("source encoder", *source, dependent_steps=chain, steps_in_turn=in_turn, state=d),
        Work.of("bridge", b * 4 * d * d, 4 * d * d + 2 * d, 2 * b * d),
        Work.of(
            "attention",
            b * s * 2 * d * d + b * t * s * 3 * d + b * t * 3 * d * e,
            2 * d * d + 3 * d * e,
            b * s * d + b * t * (s + 2 * d + e),
        ),
        Work.of("copying", b * t * (3 * d + e), 3 * d + e + 1, b * t),
        Work.of("output layer", b * t * e * v, v, b * t),
    ]
    if config.adaptive:
        words += b * z
        parts.append(
            Work.of(
                "exemplar encoder",
                *exemplar,
                dependent_steps=max(0, z - chain),  # beside the source's: what it takes longer
                steps_in_turn=max(0, z - in_turn),
                state=config.exemplar_hidden,
            )
        )
    parts += _decoder(config, b, t)
    # Embedding reads rows of the table; the output layer reads all of it. The gradient is dense.
    embeddings = Work("embeddings", 0, words * e * (4 + 4) + v * e * (4 + 4), v * e)
    parameters = v * e + sum(part.weights for part in parts)
    # Gradients are read for their norm, then again with weights and both moments; all but gradients are written back.
    return [embeddings, *parts, Work("Adam and clipping", 0, parameters * 4 * (1 + 4 + 3), 0)]


def _encoder(layers: int, positions: int, inputs: int, hidden: int) -> tuple[int, int, int]:
    """Products, weights, activations of a BiLSTM; a position keeps four gates, a cell and a state."""
    matrices = 2 * 4 * hidden * (inputs + hidden + (layers - 1) * 2 * hidden)
    return positions * matrices, matrices + 2 * layers * 8 * hidden, 2 * layers * positions * 6 * hidden


def _decoder(config: ModelConfig, b: int, t: int) -> list[Work]:
    """λ, the inputs' half and the recurrence of the decoder."""
    d, e, g, r = config.hidden, config.embedding, CELLS[config.cell].gates, config.coefficient_rank
    steps = {"dependent_steps": t, "steps_in_turn": t, "state": d}
    if not config.adaptive:
        return [
            Work.of("decoder, inputs", b * t * g * e * d, g * e * d + g * d, b * t * g * d),
            Work.of(RECURRENCE, b * t * g * d * d, g * d * d, b * t * (g + 2) * d, **steps),
        ]
    a, groups = 2 * config.exemplar_hidden, g if config.per_gate_coefficients else 1
    weights = a * r * groups + g * d * r
    return [
        Work.of("λ and bias", b * weights, weights, b * (r * groups + g * d)),
        Work.of("decoder, inputs", b * t * g * r * (e + d), g * r * (e + d), b * t * g * (r + d)),
        Work.of(RECURRENCE, b * t * g * r * 2 * d, g * r * 2 * d, b * t * (g * r + (g + 2) * d), **steps),
    ]


def compare_counts(variant: str, vocabulary: int, shape: list[int]) -> dict[str, Any]:
    """Our operation count next to torch's. In float64 no fused LSTM hides operations from torch."""
    model = Seq2seq(ModelConfig(**VARIANTS[variant]), vocabulary).double()
    batch = synthetic_batch(Shape(*shape), vocabulary, torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        model(batch).sum().backward()
    ours = sum(part.operations for part in count(model.config, vocabulary, Shape(*shape)))
    return {"variant": variant, "shape": shape, "operations": ours, "by_torch": counter.get_total_flops()}


def measure_ceilings(size: int) -> dict[str, float]:
    """Bytes per second of a copy (read and written), operations per second of square matrix products; medians of 10."""
    numbers = torch.randn(size, 8 * size, device=DEVICE)
    target = torch.empty_like(numbers)
    results = {"size": size, "copy_bytes": 2 * numbers.nbytes / _median(lambda: target.copy_(numbers))}
    for kind in (torch.bfloat16, torch.float32):
        a, b = (torch.randn(size, size, device=DEVICE).to(kind) for _ in range(2))
        results[f"{kind}".removeprefix("torch.") + "_operations"] = 2 * size**3 / _median(lambda a=a, b=b: a @ b)
    return results


def measure_recurrence(hidden: int, batch: int, short: int = 16, long: int = 64) -> dict[str, Any]:
    """Microseconds of one more time step, forward and backward: cuDNN's LSTM, our plain one, our adaptive one.

    Autocast runs cuDNN's in float16, the fastest it has.
    """
    config = ModelConfig(hidden=hidden, embedding=hidden)
    backend = choose_backend("auto", DEVICE, choose_precision("auto", DEVICE), config).backend
    lstm = torch.nn.LSTM(hidden, hidden, batch_first=True).to(DEVICE)
    plain = RecurrentCell("lstm", hidden, hidden).to(DEVICE)
    adaptive = RecurrentCell("lstm", hidden, hidden, "factored", hidden).to(DEVICE)
    h, c = torch.zeros(2, batch, hidden, device=DEVICE)
    lam = torch.randn(batch, 1, hidden, device=DEVICE)
    runs: dict[str, tuple[torch.nn.Module, Callable[[torch.Tensor], torch.Tensor]]] = {
        "cudnn": (lstm, lambda x: lstm(x)[0]),
        "plain": (plain, lambda x: backend.unroll(plain, x, None)((h, c))),
        "adaptive": (adaptive, lambda x: backend.unroll(adaptive, x, lam)((h, c))),
    }
    row: dict[str, Any] = {"hidden": hidden, "batch": batch}
    for name, (module, run) in runs.items():
        times = [_forward_and_backward(module, run, (batch, length, hidden)) for length in (short, long)]
        row[name] = (times[1] - times[0]) / (long - short) * 1e3
    return row


def _forward_and_backward(
    module: torch.nn.Module, run: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, int, int]
) -> float:
    """Milliseconds of the work, captured as a graph, in the device's usual precision."""
    x = torch.randn(shape, device=DEVICE, requires_grad=True)

    def work() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
            outputs = run(x)
        torch.autograd.grad(outputs.float().sum(), [x, *module.parameters()])

    return captured_milliseconds(work, repeats=20)


def _median(work: Any) -> float:
    """Seconds of one call, timed five at a time so that launching does not count."""
    times = [seconds(lambda: [work() for _ in range(5)]) / 5 for _ in range(12)]
    return statistics.median(times[2:])


def least_times(config: ModelConfig, measured: dict[str, Any], step: dict[str, Any]) -> list[dict[str, Any]]:
    """Milliseconds of each part's products, bytes and dependent steps at the measured rates, and its floor."""
    rates, recurrence = measured["ceilings"], measured["recurrence"]
    rows = []
    for work in count(config, step["vocabulary"], Shape(*step["shape"])):
        same = [row for row in recurrence if row["hidden"] == work.state]
        least = min((row[name] for row in same for name in ("cudnn", "plain")), default=0.0) / 1e3
        kind = "adaptive" if config.adaptive and work.part == RECURRENCE else "plain"
        usual = next((row[kind] for row in same if row["batch"] == step["batch"]), 0.0) / 1e3
        times = {
            "products": work.operations / rates["bfloat16_operations"] * 1e3,
            "bytes": work.bytes / rates["copy_bytes"] * 1e3,
            "steps": work.dependent_steps * least,
        }
        floor, in_turn = max(times.values()), work.steps_in_turn * usual
        rows.append({"work": work, **times, "floor": floor, "in_turn": max(floor, in_turn)})
    return rows
