"""The page of training's measurements.

In: the JSON that `training.py` leaves. Out: docs/results/training_speed.md and a plot of the loss in both precisions.

    python benchmarks/training_page.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "training"


def main() -> None:
    parts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    draw_precision(parts["precision"]["results"], FOLDER.parents[1] / "images" / "precision.svg")
    lines = [*_head(parts), *_cell(parts), *_step(parts), *_epoch(parts), *_precision(parts), *_missing()]
    (FOLDER.parent / "training_speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
    yield "# The speed of training, measured"
    yield ""
    yield f"One {parts['step']['device']}, torch {parts['step']['torch']}, bfloat16 with float32 master weights. Written by `python benchmarks/training_page.py` from"
    yield "the JSON files in `docs/results/training/`; the docstring of `benchmarks/training.py` has the command behind each. Model: the news"
    yield "configuration (BPE 25K, 3 × 256 BiLSTM, decoder 256). This page is not complete: see its end."
    yield ""


def _cell(parts: dict[str, Any]) -> Iterator[str]:
    yield "## The recurrent layer"
    yield ""
    yield "Forward and backward over 30 steps, the inputs' half and all gradients included; every variant captured in a CUDA graph; milliseconds, median of"
    yield "50. *cuDNN* is `torch.nn.LSTM`; *plain* and *adaptive* are `exadec/model/recurrence.py`; *by autograd* is the reference, `RecurrentCell.step` in a"
    yield "loop. The adaptive layer does twice the arithmetic of a plain one."
    yield ""
    yield "| d | batch | cuDNN | plain | adaptive | adaptive by autograd | adaptive / cuDNN |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for row in parts["cell"]["results"]:
        times = " | ".join(f"{row[name]:.2f}" for name in ("cudnn", "plain", "adaptive", "adaptive_by_autograd"))
        yield f"| {row['size']} | {row['batch']} | {times} | {row['adaptive_over_cudnn']:.2f} |"
    yield ""


def _step(parts: dict[str, Any]) -> Iterator[str]:
    rows = {(row["variant"], row["batch"]): row for row in parts["step"]["results"]}
    yield "## One step"
    yield ""
    yield "A batch of news of median length, from gathering its ids to Adam; *in kernels* is the sum over a profiler's trace."
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
    for batch in (64, 512):
        ratio = rows["adadec", batch]["captured_milliseconds"] / rows["seq2seq", batch]["captured_milliseconds"]
        yield f"- AdaDec over Seq2seq, batch {batch}: {ratio:.2f}."
    yield ""


def _epoch(parts: dict[str, Any]) -> Iterator[str]:
    yield "## An epoch of news"
    yield ""
    yield "All pairs, real batches; the first epoch also captures the graphs."
    yield ""
    yield "| model | batch | pairs | first epoch, s | second, s | graphs | shapes | memory, GB |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in parts["epoch"]["results"]:
        first, second = row["seconds"]
        yield (
            f"| {row['variant']} | {row['batch']} | {row['pairs']:,} | {first:.1f} | {second:.1f} | "
            f"{row['graphs']} | {row['shapes']} | {row['gigabytes']:.1f} |"
        )
    yield ""


def _precision(parts: dict[str, Any]) -> Iterator[str]:
    yield "## bfloat16 against float32"
    yield ""
    yield "AdaDec, one epoch of news at batch 512, the same weights and batches; another seed of dropout shows what noise is."
    yield ""
    yield "![Loss in both precisions](../images/precision.svg)"
    yield ""
    yield "| | loss of the last 25 steps |"
    yield "|---|---:|"
    for curve in parts["precision"]["results"]:
        yield f"| {curve['precision']} | {curve['loss'][-1]:.4f} |"
    yield ""


def _missing() -> Iterator[str]:
    yield "## Not there yet"
    yield ""
    yield "- The adaptive layer costs about 2.2 times cuDNN's LSTM; the aim is 1.6. A step is four launches each way, two of them small matrix products;"
    yield "  a kernel that keeps U and V on the chip, or at least joins products and gates, has not been written."
    yield "- AdaDec over Seq2seq is to come down to 1.10. Reading source and exemplar on parallel branches of the graph was tried and gained nothing; the"
    yield "  cause was not established."
    yield "- Not measured: per-example weights materialised as in the released code, other toolkits, growth with lengths and sizes, the roofline."
    yield "- Several GPUs are not supported."


if __name__ == "__main__":
    main()
