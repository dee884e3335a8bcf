"""Measures training on a GPU: the adaptive LSTM, whole steps, epochs of real data, growth, distance to the floor.

In: the ids of a prepared corpus, packed into one small file. Out: JSON in docs/results/training/.

    python benchmarks/training.py pack work/news work/news-ids.npz       the ids of a prepared corpus and exemplars
    python benchmarks/training.py cell                                   adaptive LSTM against cuDNN's, both captured
    python benchmarks/training.py step work/news-ids.npz                 eager and captured, Seq2seq and AdaDec
    python benchmarks/training.py epoch work/news-ids.npz                two epochs of AdaDec and Seq2seq
    python benchmarks/training.py precision work/news-ids.npz            an epoch in bfloat16 and one in float32
    python benchmarks/training.py materialised work/news-ids.npz         against weights built for each example
    python benchmarks/training.py growth                                 time and memory against T, S, d, r, batch
    python benchmarks/training.py profile work/news-ids.npz              which kernels make up a step, and gaps
    python benchmarks/training.py ceilings work/news-ids.npz             peak rates of the device, and steps

Several parts can be named at once, separated by commas; the ids are then read only once.
"""

import argparse
import copy
import json
import lzma
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from training_growth import growth
from training_profile import (
    DEVICE,
    captured_milliseconds,
    forget_peak,
    peak_gigabytes,
    seconds,
    summarize,
    trace,
)
from training_roofline import compare_counts, measure_ceilings, measure_recurrence

from exadec.config import VARIANTS, ModelConfig, TrainingConfig
from exadec.corpus.prepare import Corpus, Sequences
from exadec.corpus.vocabulary import PAD
from exadec.exemplars.retrieve import exemplar_folder, open_exemplars
from exadec.loading.batch import Batch
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader, Shape
from exadec.model.adaptive import FactoredLinear, RecurrentCell
from exadec.model.backends.choice import choose_backend
from exadec.model.backends.reference import REFERENCE, Backend, Unrolled
from exadec.model.cells import State
from exadec.model.seq2seq import Seq2seq
from exadec.training.optimizer import build_optimizer
from exadec.training.step import CapturedSteps, Step, choose_precision

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "training"
REPEATS = 20
"""Steps that are timed together."""
MATERIALISED = "materialised"
"""Name of an additional model: AdaDec with weights built for each example."""


def pack(folder: Path, out: Path) -> None:
    """Write low and high bytes of the ids separately, compressed. Ids must be below 65,536."""
    corpus = Corpus(folder / "corpus")
    exemplars = open_exemplars(corpus, exemplar_folder(corpus))
    parts: dict[str, Any] = {"vocabulary": np.array(len(corpus.vocabulary)), "exemplars": exemplars.indices("train")}
    for name, side in (("source", corpus.sources("train")), ("target", corpus.targets("train"))):
        ids = np.asarray(side.ids)
        assert ids.max() < 1 << 16, "ids do not fit into two bytes"
        parts |= {f"{name}_low": (ids & 255).astype(np.uint8), f"{name}_high": (ids >> 8).astype(np.uint8)}
        parts[f"{name}_lengths"] = side.lengths.astype(np.uint16)
    with lzma.open(out, "wb", preset=0) as file:
        np.savez(file, **parts)


class PackedLoader(Loader):
    """The training split of a packed corpus."""

    def __init__(self, path: Path):
        with lzma.open(path) as file:
            parts = np.load(file)
            parts = {name: parts[name] for name in parts.files}
        self.split, self.copy_exemplar, self.vocabulary_size = "train", False, int(parts["vocabulary"])
        sides = []
        for name in ("source", "target"):
            ids = parts[f"{name}_low"].astype(np.int32) | (parts[f"{name}_high"].astype(np.int32) << 8)
            sides.append(Sequences(ids, np.concatenate([[0], np.cumsum(parts[f"{name}_lengths"], dtype=np.int64)])))
        self.sources, self.targets = sides
        self.exemplar_targets, self.exemplar_index = self.targets, parts["exemplars"][:, None]
        self.exemplar_marked, self.exemplars_drawn = np.zeros(len(self.targets), bool), 1


def cell(
    steps: int = 30, sizes: Sequence[int] = (256, 300), batches: Sequence[int] = (64, 512)
) -> list[dict[str, Any]]:
    """Forward and backward in bfloat16 over 30 steps, with the product for the inputs and all gradients.

    Autocast runs cuDNN's in float16, the fastest it has.
    """
    results = []
    for size in sizes:
        for batch in batches:
            torch.manual_seed(0)
            x = torch.randn(batch, steps, size, device=DEVICE, requires_grad=True)
            wanted = torch.randn(batch, steps, size, device=DEVICE)
            lam = torch.randn(batch, 1, size, device=DEVICE, requires_grad=True)
            h, c = (torch.zeros(batch, size, device=DEVICE, requires_grad=True) for _ in range(2))
            lstm = torch.nn.LSTM(size, size, batch_first=True).to(DEVICE)
            plain = RecurrentCell("lstm", size, size).to(DEVICE)
            adaptive = RecurrentCell("lstm", size, size, "factored", size).to(DEVICE)

            def measure(
                run: Callable[[], torch.Tensor], leaves: list[torch.Tensor], x: Any = x, wanted: Any = wanted
            ) -> float:
                def work() -> None:
                    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
                        hidden = run()
                    torch.autograd.grad((hidden.float() * wanted).sum(), [x, *leaves])

                return captured_milliseconds(work)

            row: dict[str, Any] = {"size": size, "batch": batch, "steps": steps}
            row["cudnn"] = measure(lambda m=lstm, x=x: m(x)[0], list(lstm.parameters()))
            backend = best_backend(ModelConfig(hidden=size, embedding=size))
            row["plain"] = measure(
                lambda m=plain, x=x, h=h, c=c, b=backend: b.unroll(m, x, None)((h, c)), [h, c, *plain.parameters()]
            )
            leaves = [h, c, lam, *adaptive.parameters()]
            for name, one in (("adaptive", backend), ("adaptive_by_autograd", REFERENCE)):
                row[name] = measure(
                    lambda m=adaptive, x=x, h=h, c=c, lam=lam, b=one: b.unroll(m, x, lam)((h, c)), leaves
                )
            row["adaptive_over_cudnn"] = row["adaptive"] / row["cudnn"]
            results.append(row)
            print(json.dumps(row), flush=True)
    return results


def best_backend(config: ModelConfig) -> Backend:
    return choose_backend("auto", DEVICE, choose_precision("auto", DEVICE), config).backend


class MaterialisedLinear(FactoredLinear):
    """x -> Px with a separate P for each example."""

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """(B, T, inputs) with (B, G, outputs, inputs) -> (B, T, G, outputs)."""
        return torch.bmm(x, weights.flatten(1, 2).transpose(1, 2)).unflatten(2, weights.shape[1:3])


class MaterialisedCell(RecurrentCell):
    """As in the released code: P and Q of each example as matrices, (B, G, D, ·), built once per batch; autograd."""

    def __init__(self, inputs: int, hidden: int, rank: int):
        super().__init__("lstm", inputs, hidden, "factored", rank)
        self.Q = MaterialisedLinear(inputs, hidden, 4, rank)
        self.P = MaterialisedLinear(hidden, hidden, 4, rank)


def unroll_materialised(cell: MaterialisedCell, x: torch.Tensor, lam: torch.Tensor) -> Unrolled:
    """`Backend.unroll`, with the weights built once per batch."""
    projected = cell.Q(x, cell.Q.materialize(lam)) + cell.bias(lam)[:, None]  # (B, T, G, D)

    def run(state: State) -> torch.Tensor:
        weights, outputs = cell.P.materialize(lam), []
        for step in projected.unbind(1):
            state = cell.step(step, state, weights)  # which hands what would be λ on to P
            outputs.append(state[0])
        return torch.stack(outputs, dim=1)

    return run


def materialise(model: Seq2seq) -> None:
    """Replace the decoder's cell by one that computes the same as the released code does."""
    config, cell = model.config, model.decoder.cell
    replacement = MaterialisedCell(config.embedding, config.hidden, config.coefficient_rank)
    replacement.to(cell.B).load_state_dict(cell.state_dict())
    model.decoder.cell = replacement
    model.backend = copy.copy(model.backend)
    model.backend.unroll = unroll_materialised  # type: ignore[method-assign]


class EagerSteps(CapturedSteps):
    """Steps without graphs, for trying these programs out on a CPU."""

    def __init__(self, step: Step, loader: ResidentLoader, batch_size: int):
        self.step, self.loader, self.batch_size = step, loader, batch_size
        self.seen, self.graphs = Counter(), {}
        self.address = torch.from_numpy(loader.address(np.array([], np.int64), batch_size))

    def __call__(self, indices: np.ndarray) -> None:
        self.address.copy_(torch.from_numpy(self.loader.address(indices, self.batch_size)))
        self._work(self.loader.shape(indices, self.batch_size))


class HostBatches(ResidentLoader):
    """Stands in for a loader on a GPU: the host collates batches, in the shapes a GPU would have."""

    def __init__(self, loader: PackedLoader):
        super().__init__(loader, DEVICE)
        self.loader = loader

    def gather(self, address: torch.Tensor, shape: Shape) -> Batch:
        return self.loader.batch(address[: shape.batch].numpy())


open_packed = cache(PackedLoader)


@cache
def reside(loader: PackedLoader) -> ResidentLoader:
    return ResidentLoader(loader, DEVICE) if DEVICE.type == "cuda" else HostBatches(loader)


def build(
    loader: PackedLoader, variant: str, batch: int, precision: torch.dtype | None = None
) -> tuple[CapturedSteps, torch.Tensor]:
    """Steps of a model in the device's usual precision, and the tensor that collects their losses."""
    torch.manual_seed(1)
    forget_peak()
    config = ModelConfig(**VARIANTS["adadec" if variant == MATERIALISED else variant])
    precision = precision or choose_precision("auto", DEVICE)
    backend = choose_backend("auto", DEVICE, precision, config).backend
    model = Seq2seq(config, loader.vocabulary_size, backend=backend)
    if variant == MATERIALISED:
        materialise(model)
    model.to(DEVICE)
    losses = torch.zeros(2, device=DEVICE, dtype=torch.float64)
    step = Step(model, build_optimizer(model, TrainingConfig()), 1.0, losses, precision)
    kind = CapturedSteps if DEVICE.type == "cuda" else EagerSteps
    return kind(step, reside(loader), batch), losses


def median_batch(loader: PackedLoader, batch: int) -> np.ndarray:
    """Instances of median length."""
    order = np.lexsort((loader.targets.lengths, loader.sources.lengths))
    return order[len(order) // 2 :][:batch]


def time_step(steps: CapturedSteps, indices: np.ndarray) -> dict[str, Any]:
    """Milliseconds of the same batch, repeated: eager and captured."""
    forget_peak()
    shape = steps.loader.shape(indices, steps.batch_size)
    steps.address.copy_(torch.from_numpy(steps.loader.address(indices, steps.batch_size)))
    steps._work(shape)
    eager = seconds(lambda: [steps._work(shape) for _ in range(REPEATS)]) / REPEATS
    for _ in range(4):
        steps(indices)
    times = [seconds(lambda: [steps(indices) for _ in range(REPEATS)]) / REPEATS for _ in range(5)]
    row = {"shape": list(shape), "eager_milliseconds": eager * 1e3}
    return row | {"captured_milliseconds": statistics.median(times) * 1e3, "gigabytes": peak_gigabytes()}


def step(path: Path, batches: Sequence[int] = (64, 512)) -> list[dict[str, Any]]:
    """One batch of median length, repeated: eager, captured, and how much of the time is spent in kernels."""
    loader, results = open_packed(path), []
    for variant in ("seq2seq", "adadec"):
        for batch in batches:
            steps, indices = build(loader, variant, batch)[0], median_batch(loader, batch)
            row = {"variant": variant, "batch": batch, **time_step(steps, indices)}
            kernels = trace(lambda s=steps, i=indices: [s(i) for _ in range(REPEATS)])
            row["kernel_milliseconds"] = sum(kernel.end - kernel.begin for kernel in kernels) / 1e6 / REPEATS
            row["launches"] = len(kernels) // REPEATS
            results.append(row)
            print(json.dumps(row), flush=True)
    return results


def materialised(path: Path, batches: Sequence[int] = (64, 512)) -> list[dict[str, Any]]:
    """Steps of Seq2seq, AdaDec, and AdaDec with weights built for each example; the last two must agree."""
    loader, results = open_packed(path), []
    for batch in batches:
        losses: dict[str, float] = {}
        for variant in ("seq2seq", "adadec", MATERIALISED):
            steps, indices = build(loader, variant, batch)[0], median_batch(loader, batch)
            row: dict[str, Any] = {"variant": variant, "batch": batch}
            try:
                losses[variant] = evaluate(steps, indices)
                if variant == MATERIALISED:
                    assert abs(losses[variant] / losses["adadec"] - 1) < 1e-3, f"the two ways differ: {losses}"
                row |= {"loss": losses[variant], **time_step(steps, indices)}
            except torch.OutOfMemoryError:
                row["out_of_memory"] = True
            results.append(row)
            print(json.dumps(row), flush=True)
    return results


@torch.no_grad()
def evaluate(steps: CapturedSteps, indices: np.ndarray) -> float:
    """The loss of a batch without dropout, in the precision of training."""
    batch = steps.loader.gather(torch.from_numpy(indices).to(DEVICE), steps.loader.shape(indices, len(indices)))
    words = batch.target_output != PAD
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=steps.step.precision == torch.bfloat16):
        log_probs = steps.step.model.eval()(batch)
    return -float(log_probs[words].double().mean())


def profile(
    path: Path, batches: Sequence[int] = (64, 512), count: int = 300, traced: int = 100
) -> list[dict[str, Any]]:
    """Real batches, all shapes captured before: wall time without a profiler, then a trace of the first ones."""
    loader, results = open_packed(path), []
    for variant in ("seq2seq", "adadec"):
        for batch in batches:
            steps, _ = build(loader, variant, batch)
            todo = loader.training_batches(batch, 1, 0)[:count]
            shapes = {steps.loader.shape(indices, batch): indices for indices in todo}
            for indices in shapes.values():
                for _ in range(3):  # the third time a shape is captured
                    steps(indices)

            def run(number: int, steps: CapturedSteps = steps, todo: list[np.ndarray] = todo) -> None:
                for indices in todo[:number]:
                    steps(indices)

            row: dict[str, Any] = {"variant": variant, "batch": batch, "batches": len(todo), "traced": traced}
            for name, number in (("milliseconds", len(todo)), ("traced_batches_milliseconds", traced)):
                row[name] = statistics.median(seconds(lambda n=number: run(n)) for _ in range(3)) / number * 1e3
            row |= summarize(trace(lambda: run(traced)), traced)
            row["share_outside"] = 1 - row["busy_milliseconds"] / row["traced_batches_milliseconds"]
            results.append(row)
            print(json.dumps({**row, "kernels": len(row["kernels"])}), flush=True)
    return results


def ceilings(path: Path, batches: Sequence[int] = (64, 512), size: int = 8192) -> dict[str, Any]:
    """Peak rates of the device, the minimum time of one recurrent step, and training steps in the same run."""
    loader = open_packed(path)
    results: dict[str, Any] = {"ceilings": measure_ceilings(size), "recurrence": [], "steps": []}
    for hidden in (ModelConfig().hidden, ModelConfig().exemplar_hidden):
        results["recurrence"] += [measure_recurrence(hidden, batch) for batch in (1, *batches)]
    for variant in ("seq2seq", "adadec"):
        for batch in batches:
            steps = build(loader, variant, batch)[0]
            row = {"variant": variant, "batch": batch, "vocabulary": loader.vocabulary_size}
            results["steps"].append(row | time_step(steps, median_batch(loader, batch)))
    shape = results["steps"][0]["shape"]
    results["counts"] = [compare_counts(v, loader.vocabulary_size, [2, *shape[1:]]) for v in ("seq2seq", "adadec")]
    print(json.dumps(results), flush=True)
    return results


def epoch(path: Path, batch: int = 512) -> list[dict[str, Any]]:
    """Two epochs of all pairs: the first one also captures the graphs."""
    loader, results = open_packed(path), []
    for variant in ("adadec", "seq2seq"):
        captured, losses = build(loader, variant, batch)
        row: dict[str, Any] = {"variant": variant, "batch": batch, "pairs": len(loader), "seconds": [], "loss": []}
        for number in range(2):
            batches = loader.training_batches(batch, 1, number)
            row["seconds"].append(seconds(lambda c=captured, b=batches: [c(i) for i in b]))
            total, words = losses.tolist()
            losses.zero_()
            row["loss"].append(total / words)
        row |= {"graphs": len(captured.graphs), "shapes": len(captured.seen)}
        row["gigabytes"] = peak_gigabytes()
        results.append(row)
        print(json.dumps(row), flush=True)
    return results


def precision(path: Path, batch: int = 512, every: int = 25) -> list[dict[str, Any]]:
    """The loss of an epoch of AdaDec in both precisions, and in bfloat16 with other dropout, to show the noise."""
    loader, results = open_packed(path), []
    batches = loader.training_batches(batch, 1, 0)
    for name, dtype, seed in (
        ("bfloat16", torch.bfloat16, 1),
        ("float32", torch.float32, 1),
        ("bfloat16, other dropout", torch.bfloat16, 2),
    ):
        captured, losses = build(loader, "adadec", batch, dtype)
        torch.manual_seed(seed)  # after the weights, which are the same for all
        curve: list[float] = []
        for number, indices in enumerate(batches, start=1):
            captured(indices)
            if number % every == 0:
                total, words = losses.tolist()
                losses.zero_()
                curve.append(total / words)
        results.append({"precision": name, "every": every, "loss": curve})
        print(name, curve[-1], flush=True)
    return results


PARTS: dict[str, Callable[..., Any]] = {
    part.__name__: part for part in (cell, step, epoch, precision, materialised, growth, profile, ceilings)
}
WITHOUT_IDS = ("cell", "growth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", help=", ".join(["pack", *PARTS]))
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.parts == "pack":
        pack(*arguments.paths)
        return
    names = arguments.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no such part: {unknown[0]}")
    if DEVICE.type != "cuda":
        parser.error("there is nothing to measure without a GPU")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in names:
        results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        results["results"] = PARTS[name](*([] if name in WITHOUT_IDS else arguments.paths))
        (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
