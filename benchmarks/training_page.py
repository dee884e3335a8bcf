"""Writes the page on the speed of training.

In: the JSON files that `training.py`, `side_by_side.py` and `toolkits.py` write. Out: docs/results/training_speed.md and its plots.
Parts that were not measured are left out.

    python benchmarks/training_page.py
"""

import json
import math
import statistics
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from training_analysis_page import draw_growth, growth_section, profile_section, roofline_section

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "training"

TRIED = [
    "A Triton loop that reads the weights again at each time step: 2.05 ms against 0.74 ms of cuDNN's captured LSTM (forward, batch 512, 100 steps). To gain anything, weights have to stay on the chip.",
    "`torch.compile` of the unrolled loop, then captured: 0.94 ms against 2.6 ms of the plain loop, captured (d = 256, batch 64, 30 steps). But compiling took about a minute for each shape.",
    "Two cuBLAS products and two Triton kernels for each time step, forward and backward: 0.87 ms (d = 256, batch 64, 30 steps), 2.0 times cuDNN's. Other GPUs, other precisions and more than 320 units still use it.",
    "Source and exemplar on parallel branches of the graph: at first no gain; later 2.22 to 2.07 ms (AdaDec, batch 64) and 7.69 to 7.48 ms (512); then, in another run, traces without any overlap. torch hands out 32 streams in turn, so the second stream can be the one in which the graph is captured, and in that run torch had created exactly that many. The second stream now has another priority, and all traces overlap. That this was the cause is likely, not proven. We do not know what went wrong the first time.",
    "As many clusters of 8 blocks as there are multiprocessors for: 16 clusters would need 128 of 132, but a cluster must lie within one group of the chip. Batch 512 in 16 clusters took 388 µs forward, batch 448 in 14 took 205 µs; 15 were not tried. So a cluster takes 48 or 80 rows where 32 or 64 would seem enough.",
    "Sending 16 bytes at a time between blocks instead of 8: 142 µs against 144 µs (adaptive, forward, batch 64, 30 steps), in two runs.",
    "torch's gradient of the embeddings: at batch 512 it spent 175 µs of a step on adding up the zeros of padding one by one, even with `padding_idx` declared.",
    "The gradient of the softmax's bias as one more column of the product for its weights: the product took 151 µs instead of 96 µs (eager), to save a sum of 32 µs.",
    "Two passes over the logits, one for the maximum and one for the sum: 47 µs a chunk. One pass takes 40 µs with one maximum a row, and 52 µs with a maximum for each lane.",
]
"""What did not help: the end of the page."""


def write_page(folder: Path) -> None:
    """Write the page from the parts that were measured."""
    parts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    images = folder.parents[1] / "images"
    if "precision" in parts:
        draw_precision(parts["precision"]["results"], images / "precision.svg")
    if "growth" in parts:
        draw_growth(parts["growth"]["results"], images / "training_growth.svg")
    sections = {
        "cell": _cell,
        "step": _step,
        "materialised": _materialised,
        "growth": growth_section,
        "profile": profile_section,
        "ceilings": roofline_section,
        "epoch": _epoch,
        "precision": _precision,
        "side_by_side": _side_by_side,
    }
    lines = list(_head(parts))
    for name, section in sections.items():
        if name in parts:
            lines += section(parts[name])
    lines += [*_toolkits(parts), *_tried(), *_missing()]
    (folder.parent / "training_speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw_precision(curves: list[dict[str, Any]], path: Path) -> None:
    with plt.rc_context({"svg.hashsalt": "precision", "font.family": "sans-serif"}):
        figure, (whole, close) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
        reference = next(curve["loss"] for curve in curves if curve["precision"] == "float32")
        for curve in curves:
            steps = [curve["every"] * (i + 1) for i in range(len(curve["loss"]))]
            whole.plot(steps, curve["loss"], label=curve["precision"], linewidth=1)
            if curve["precision"] != "float32":
                differences = [ours - theirs for ours, theirs in zip(curve["loss"], reference, strict=True)]
                close.plot(steps, differences, label=f"{curve['precision']} less float32", linewidth=1)
        whole.set_ylabel("loss a word")
        close.set_ylabel("difference")
        for axes in (whole, close):
            axes.set_xlabel("step")
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _head(parts: dict[str, Any]) -> Iterator[str]:
    part = parts["step"] if "step" in parts else next(iter(parts.values()))
    yield "# The speed of training, measured"
    yield ""
    yield f"How fast does exadec train, and what limits it? Measured on one {part['device']} with torch {part['torch']}, in bfloat16 with float32 master weights. The model is"
    yield "that of the news configuration (BPE 25K, 3 × 256 BiLSTM, decoder 256). *Captured* means as a CUDA graph. Memory is the peak of what was allocated."
    yield ""
    yield "`python benchmarks/training_page.py` writes this page from the JSON files in `docs/results/training/`. The command above each table measures it again;"
    yield "`python benchmarks/training.py pack work/news work/news-ids.npz` makes `work/news-ids.npz` from a prepared corpus."
    yield ""


def _cell(part: dict[str, Any]) -> Iterator[str]:
    yield "## The recurrent layer"
    yield ""
    yield "`python benchmarks/training.py cell`"
    yield ""
    yield "Milliseconds for 30 steps forward and backward, with the product for the inputs and all gradients; every variant captured; median of 50. *cuDNN* is"
    yield "`torch.nn.LSTM`. *Plain* and *adaptive* are `Backend.unroll`. *By autograd* is the reference, `RecurrentCell.step` in a loop. The adaptive layer"
    yield "does twice the arithmetic of a plain one."
    yield ""
    yield "| d | batch | cuDNN | plain | adaptive | adaptive by autograd | adaptive / cuDNN |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for row in part["results"]:
        times = " | ".join(f"{row[name]:.2f}" for name in ("cudnn", "plain", "adaptive", "adaptive_by_autograd"))
        yield f"| {row['size']} | {row['batch']} | {times} | {row['adaptive_over_cudnn']:.2f} |"
    yield ""


def _step(part: dict[str, Any]) -> Iterator[str]:
    rows = {(row["variant"], row["batch"]): row for row in part["results"]}
    yield "## One step"
    yield ""
    yield "`python benchmarks/training.py step work/news-ids.npz`"
    yield ""
    yield "A batch of news of median length, from gathering its ids to Adam. *In kernels* is the sum of all kernel times in a profiler's trace."
    yield ""
    yield "| model | batch | eager, ms | captured, ms | eager / captured | in kernels, ms | launches | memory, GB |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for (variant, batch), row in rows.items():
        eager, captured = row["eager_milliseconds"], row["captured_milliseconds"]
        yield (
            f"| {variant} | {batch} | {eager:.1f} | {captured:.2f} | {eager / captured:.1f} | "
            f"{row['kernel_milliseconds']:.2f} | {row['launches']:,} | {row['gigabytes']:.1f} |"
        )
    yield ""
    for batch in dict.fromkeys(batch for _, batch in rows):
        ratio = rows["adadec", batch]["captured_milliseconds"] / rows["seq2seq", batch]["captured_milliseconds"]
        yield f"- AdaDec over Seq2seq, batch {batch}: {ratio:.3f}."
    yield ""


def _epoch(part: dict[str, Any]) -> Iterator[str]:
    yield "## An epoch of news"
    yield ""
    yield "`python benchmarks/training.py epoch work/news-ids.npz`"
    yield ""
    yield "All pairs, in real batches. The first epoch also captures the graphs."
    yield ""
    yield "| model | batch | pairs | first epoch, s | second, s | graphs | shapes | memory, GB |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in part["results"]:
        first, second = row["seconds"]
        yield (
            f"| {row['variant']} | {row['batch']} | {row['pairs']:,} | {first:.1f} | {second:.1f} | "
            f"{row['graphs']} | {row['shapes']} | {row['gigabytes']:.1f} |"
        )
    yield ""


def _precision(part: dict[str, Any]) -> Iterator[str]:
    yield "## bfloat16 against float32"
    yield ""
    yield "`python benchmarks/training.py precision work/news-ids.npz`"
    yield ""
    yield "AdaDec, one epoch of news at batch 512, with the same initial weights and batches. A run with another seed of dropout shows the noise."
    yield ""
    yield "![Loss in both precisions](../images/precision.svg)"
    yield ""
    yield "| | loss of the last 25 steps |"
    yield "|---|---:|"
    for curve in part["results"]:
        yield f"| {curve['precision']} | {curve['loss'][-1]:.4f} |"
    yield ""
    yield "How far apart two curves are, over the last three quarters of the epoch. The pair without float32 is the noise:"
    yield ""
    yield "| curves | mean difference | root mean square |"
    yield "|---|---:|---:|"
    for one, other in combinations(part["results"], 2):
        differences = [a - b for a, b in zip(one["loss"], other["loss"], strict=True)][len(one["loss"]) // 4 :]
        spread = math.sqrt(statistics.fmean(value**2 for value in differences))
        yield f"| {one['precision']}; {other['precision']} | {statistics.fmean(differences):+.4f} | {spread:.4f} |"
    yield ""


def _side_by_side(part: dict[str, Any]) -> Iterator[str]:
    rows = {(row["batch"], row["service"], row["together"]): row["steps_a_second"] for row in part["results"]}
    counts = sorted({together for _, _, together in rows})
    yield "## Several trainings on one card"
    yield ""
    yield "`python benchmarks/side_by_side.py work/news-ids.npz`"
    yield ""
    yield "Steps of AdaDec a second, summed over all processes; captured, on a batch of news of median length. By itself the driver gives the card to one"
    yield "process at a time. Under NVIDIA's Multi-Process Service, kernels of several processes run at the same time. `exadec train --variants ... --seeds ...`"
    yield "starts the service if the machine has it. *Gain* is over one training alone, without the service."
    yield ""
    yield f"| batch | | {' | '.join(f'{count} at a time' for count in counts)} | gain |"
    yield f"|---:|---|{'---:|' * len(counts)}---:|"
    for batch, service in dict.fromkeys(key[:2] for key in rows):
        speeds = [rows[batch, service, count] for count in counts]
        name = "with the service" if service else "in turns"
        cells = " | ".join(f"{speed:,.0f}" for speed in speeds)
        yield f"| {batch} | {name} | {cells} | {speeds[-1] / rows[batch, False, 1]:.2f} |"
    yield ""


def _materialised(part: dict[str, Any]) -> Iterator[str]:
    yield "## Against weights built for each example"
    yield ""
    yield "`python benchmarks/training.py materialised work/news-ids.npz`"
    yield ""
    yield "The authors' released code builds P = U·diag(λ)·Vᵀ and Q for each example, (B, 4, D, D) and (B, 4, D, E), and multiplies with batched products. What"
    yield "does exadec save by not doing so? *Materialised* is AdaDec that builds them, in an otherwise equal step: matrices once a batch, one batched product a time"
    yield "step, gradients by autograd. A batch of news of median length."
    yield ""
    yield "| batch | model | eager, ms | captured, ms | / AdaDec's | memory, GB | / AdaDec's | loss without dropout |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|"
    names = {"seq2seq": "Seq2seq", "adadec": "AdaDec", "materialised": "AdaDec, materialised"}
    rows = {(row["variant"], row["batch"]): row for row in part["results"]}
    for (variant, batch), row in rows.items():
        if "out_of_memory" in row:
            yield f"| {batch} | {names[variant]} | out of memory | | | | | |"
            continue
        time, memory = row["captured_milliseconds"], row["gigabytes"]
        ours = rows["adadec", batch]
        yield (
            f"| {batch} | {names[variant]} | {row['eager_milliseconds']:.1f} | {time:.2f} | {time / ours['captured_milliseconds']:.2f} | "
            f"{memory:.2f} | {_ratio(memory, ours['gigabytes'])} | {row['loss']:.5f} |"
        )
    yield ""


def _ratio(value: float, reference: float) -> str:
    return f"{value / reference:.2f}" if reference else "-"


def _toolkits(parts: dict[str, Any]) -> Iterator[str]:
    found = {name: parts[f"toolkits_{name}"] for name in ("gpu", "cpu") if f"toolkits_{name}" in parts}
    if not found:
        return
    yield "## Against other toolkits"
    yield ""
    yield "All programs train in turn on the same real batches of news, in one run. The ratios say how many times faster exadec is: medians over neighbouring times."
    yield "*OpenNMT-py* is the toolkit as released. The two variants below it are ours: they remove what slows it down, as far as we could. The docstring of"
    yield "`benchmarks/toolkits.py` says what is timed and where the models differ."
    yield ""
    for name, part in found.items():
        yield f"`python benchmarks/toolkits.py {name} work/news-ids.npz --opennmt FOLDER`: {part['device']}, torch {part['torch']}, OpenNMT-py {part['opennmt']}."
        yield ""
        for result in part["results"]:
            yield f"Batch {result['batch']}, {result['batches']} batches of {result['words']:,} target words in all, {result['rounds']} rounds:"
            yield ""
            yield "| | precision | parameters | target words/s | exadec Seq2seq is faster by | exadec AdaDec is faster by |"
            yield "|---|---|---:|---:|---:|---:|"
            yield from (_lane(lane, result["times_faster"]) for lane in result["lanes"])
            yield ""


def _lane(lane: dict[str, Any], faster: dict[str, dict[str, float]]) -> str:
    head = f"| {lane['name']} | {lane['precision']} |"
    if "error" in lane:
        reason = lane["error"].strip().splitlines()[-1].replace("|", "/")
        return f"{head} | failed: {reason} | | |"
    ratios = [
        faster.get(ours, {}).get(f"{lane['name']} ({lane['precision']})")
        for ours in ("exadec Seq2seq", "exadec AdaDec")
    ]
    cells = " | ".join("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    return f"{head} {lane['parameters']:,} | {lane['words_per_second']:,.0f} | {cells} |"


def _tried() -> Iterator[str]:
    yield "## What did not help"
    yield ""
    yield "Timed once, by hand, while the code was being written. The first two are older than the project's own measurements."
    yield ""
    yield from (f"- {line}" for line in TRIED)
    yield ""


def _missing() -> Iterator[str]:
    yield "## Not there yet"
    yield ""
    yield "- Steps on several GPUs are not captured. They have been run on one card only, by two processes that share it (`tests/training/test_distributed.py`)."


if __name__ == "__main__":
    write_page(FOLDER)
