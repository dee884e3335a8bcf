"""The speed of training on a GPU: the adaptive LSTM, whole steps, epochs of real data, bfloat16 against float32.

In: ids of a prepared corpus, packed small so that they can travel. Out: JSON in docs/results/training/.

    python benchmarks/training.py pack work/news work/news-ids.npz       a corpus that was prepared and retrieved for
    python benchmarks/training.py cell                                   adaptive LSTM against cuDNN's, both captured
    python benchmarks/training.py step work/news-ids.npz                 eager and captured, Seq2seq and AdaDec
    python benchmarks/training.py epoch work/news-ids.npz                two epochs of AdaDec and Seq2seq
    python benchmarks/training.py precision work/news-ids.npz            an epoch in bfloat16 and one in float32
"""

import argparse
import json
import lzma
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exadec.config import VARIANTS, ModelConfig, TrainingConfig
from exadec.corpus.prepare import Corpus, Sequences
from exadec.exemplars.retrieve import exemplar_folder, open_exemplars
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader
from exadec.model.adaptive import RecurrentCell
from exadec.model.seq2seq import Seq2seq
from exadec.training.optimizer import build_optimizer
from exadec.training.step import CapturedSteps, Step

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "training"
DEVICE = torch.device("cuda")


def pack(folder: Path, out: Path) -> None:
    """Two planes of bytes a side, compressed: ids below 65,536 are wanted."""
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
        self.exemplar_targets, self.exemplar_index = self.targets, parts["exemplars"]


def captured_milliseconds(work: Callable[[], None], repeats: int = 50) -> float:
    """Median time of a CUDA graph of the work."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for _ in range(repeats + 5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def cell(steps: int = 30) -> list[dict[str, Any]]:
    """Forward and backward in bfloat16 over 30 steps, inputs' half and all gradients included."""
    results = []
    for size in (256, 300):
        for batch in (64, 512):
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
                    with torch.autocast("cuda", torch.bfloat16):
                        hidden = run()
                    torch.autograd.grad((hidden.float() * wanted).sum(), [x, *leaves])

                return captured_milliseconds(work)

            row: dict[str, Any] = {"size": size, "batch": batch, "steps": steps}
            row["cudnn"] = measure(lambda m=lstm, x=x: m(x)[0], list(lstm.parameters()))
            row["plain"] = measure(
                lambda m=plain, x=x, h=h, c=c: m.unroll(m.project(x, None), h, c, None), [h, c, *plain.parameters()]
            )
            for name, kernels in (("adaptive", True), ("adaptive_by_autograd", False)):
                adaptive.has_kernels = kernels
                row[name] = measure(
                    lambda m=adaptive, x=x, h=h, c=c, lam=lam: m.unroll(m.project(x, lam), h, c, lam),
                    [h, c, lam, *adaptive.parameters()],
                )
            row["adaptive_over_cudnn"] = row["adaptive"] / row["cudnn"]
            results.append(row)
            print(json.dumps(row), flush=True)
    return results


def build(
    loader: PackedLoader, variant: str, batch: int, precision: torch.dtype = torch.bfloat16
) -> tuple[CapturedSteps, torch.Tensor]:
    torch.manual_seed(1)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = Seq2seq(ModelConfig(**VARIANTS[variant]), loader.vocabulary_size).to(DEVICE)
    losses = torch.zeros(2, device=DEVICE, dtype=torch.float64)
    step = Step(model, build_optimizer(model, TrainingConfig()), 1.0, losses, precision)
    return CapturedSteps(step, ResidentLoader(loader, DEVICE), batch), losses


def seconds(work: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def step(path: Path) -> list[dict[str, Any]]:
    """One batch of median length, again and again: eager, captured, and how much of that is spent in kernels."""
    loader, results = PackedLoader(path), []
    order = np.lexsort((loader.targets.lengths, loader.sources.lengths))
    for variant in ("seq2seq", "adadec"):
        for batch in (64, 512):
            captured, _ = build(loader, variant, batch)
            indices = order[len(order) // 2 :][:batch]
            shape = captured.loader.shape(indices, batch)
            captured.indices.copy_(torch.from_numpy(indices))
            captured._work(shape)
            eager = seconds(lambda c=captured, s=shape: [c._work(s) for _ in range(10)] and None) * 100
            for _ in range(4):
                captured(indices)
            times = [seconds(lambda c=captured, i=indices: [c(i) for _ in range(20)] and None) * 50 for _ in range(5)]
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
                seconds(lambda c=captured, i=indices: [c(i) for _ in range(10)] and None)
            events = trace.key_averages()
            in_kernels = sum(event.self_device_time_total for event in events) / 1e4
            row = {"variant": variant, "batch": batch, "shape": list(shape), "eager_milliseconds": eager}
            row |= {"captured_milliseconds": statistics.median(times), "kernel_milliseconds": in_kernels}
            row["launches"] = sum(event.count for event in events) // 10
            row["gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
            results.append(row)
            print(json.dumps(row), flush=True)
    return results


def epoch(path: Path, batch: int = 512) -> list[dict[str, Any]]:
    """Two epochs of all pairs: the first one also captures the graphs."""
    loader, results = PackedLoader(path), []
    for variant in ("adadec", "seq2seq"):
        captured, losses = build(loader, variant, batch)
        row: dict[str, Any] = {"variant": variant, "batch": batch, "pairs": len(loader), "seconds": [], "loss": []}
        for number in range(2):
            batches = loader.training_batches(batch, 1, number)
            row["seconds"].append(seconds(lambda c=captured, b=batches: [c(i) for i in b] and None))
            total, words = losses.tolist()
            losses.zero_()
            row["loss"].append(total / words)
        row |= {"graphs": len(captured.graphs), "shapes": len(captured.seen)}
        row["gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
        results.append(row)
        print(json.dumps(row), flush=True)
    return results


def precision(path: Path, batch: int = 512, every: int = 25) -> list[dict[str, Any]]:
    """The loss of an epoch of AdaDec in both precisions, and in bfloat16 with other dropout: that is the noise."""
    loader, results = PackedLoader(path), []
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["pack", "cell", "step", "epoch", "precision"])
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.part == "pack":
        pack(*arguments.paths)
        return
    parts: dict[str, Callable[..., Any]] = {"cell": cell, "step": step, "epoch": epoch, "precision": precision}
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results["results"] = parts[arguments.part](*arguments.paths)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{arguments.part}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
