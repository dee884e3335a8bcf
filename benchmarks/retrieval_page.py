"""The page of retrieval's measurements.

In: the JSON that `retrieval.py` leaves. Out: docs/results/retrieval.md and a plot of time against the number of rows.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np


def write_page(folder: Path) -> None:
    """Write the page from whichever parts there are."""
    parts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    series = {}
    if "cpu" in parts:
        joins = parts["cpu"]["joins"]
        series["exadec, CPU"] = [(join["rows"], join["seconds"]) for join in joins]
        series["sparse_dot_topn, CPU"] = [(join["rows"], join["rival_seconds"]) for join in joins]
    if "gpu" in parts:
        series["exadec, GPU"] = [(join["rows"], min(join["seconds"])) for join in parts["gpu"]["joins"]]
    exponents = {name: fit_exponent(points) for name, points in series.items()}
    draw_growth(series, exponents, folder.parents[1] / "images" / "retrieval_growth.svg")
    lines = [*_head(), *_cpu(parts), *_gpu(parts), *_growth(series, exponents), *_latency(parts), *_features(parts)]
    (folder.parent / "retrieval.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def fit_exponent(points: Sequence[tuple[int, float]]) -> float:
    """b of seconds = a · rows^b, by least squares of the logarithms."""
    rows, seconds = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(rows, seconds, 1)[0])


def draw_growth(series: dict[str, list[tuple[int, float]]], exponents: dict[str, float], path: Path) -> None:
    with plt.rc_context({"svg.hashsalt": "retrieval", "font.family": "sans-serif"}):
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for (name, points), marker in zip(series.items(), "osD", strict=False):
            axes.loglog(*zip(*points, strict=True), marker=marker, label=f"{name}: rows^{exponents[name]:.2f}")
        axes.set_xlabel("rows joined with themselves")
        axes.set_ylabel("seconds")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _head() -> Iterator[str]:
    yield "# Retrieval, measured"
    yield ""
    yield "Written by `python benchmarks/retrieval.py page` from the JSON files in `docs/results/retrieval/`; the docstring of"
    yield "`benchmarks/retrieval.py` has the command behind each of them. Rows are the bags of words (raw counts) of real news"
    yield "lead sentences, joined with themselves: the nearest other row of each, exactly."
    yield ""


def _cpu(parts: dict[str, Any]) -> Iterator[str]:
    if "cpu" not in parts:
        return
    yield f"## CPU, {parts['cpu']['cores']} cores, against sparse_dot_topn"
    yield ""
    yield "Both in one run, with all cores. Our time includes arranging the candidates. `sparse_dot_topn` has no self-exclusion,"
    yield "so it is asked for the two best; it is timed on the queries checked, and its time scaled up to all rows (it takes"
    yield "queries one by one). Peak memory is that of the whole process, the rival's matrices included."
    yield ""
    yield "| rows | exadec, s | sparse_dot_topn, s | ratio | scores within 1e-6 | same row | another row of equal score | peak, GB |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for join in parts["cpu"]["joins"]:
        agreement = join["agreement"]
        yield (
            f"| {join['rows']:,} | {join['seconds']:.1f} | {join['rival_seconds']:,.0f} | {join['ratio']:.1f} | "
            f"{agreement['scores_within_1e-6']:.2%} of {agreement['queries']:,} | {agreement['same_id']:.2%} | "
            f"{agreement['other_id_of_equal_score']:.2%} | {join['peak_gigabytes']:.2f} |"
        )
    yield ""
    yield "Where scores are equal, ours is the row with the lowest number, and the rival's any of them."
    yield ""


def _gpu(parts: dict[str, Any]) -> Iterator[str]:
    if "gpu" not in parts:
        return
    yield f"## GPU: one {parts['gpu']['device']}"
    yield ""
    yield "From rows in the machine's memory to neighbours in the machine's memory. Two runs of each size; the kernels were"
    yield f"compiled before ({parts['gpu']['compiling_seconds']:.1f} s, once a machine). Checked against the CPU on sampled queries, bit for bit."
    yield ""
    yield "| rows | terms a row | seconds | GPU memory, GB | checked | same row as CPU | same score as CPU |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for join in parts["gpu"]["joins"]:
        seconds = ", ".join(f"{value:.2f}" for value in join["seconds"])
        yield (
            f"| {join['rows']:,}{' (resampled)' if join['resampled'] else ''} | {join['terms_per_row']:.1f} | {seconds} | "
            f"{join['gpu_gigabytes']:.1f} | {join['checked']:,} | {join['same_id_as_cpu']:.2%} | "
            f"{join['same_score_as_cpu']:.2%} |"
        )
    yield ""
    yield "Resampled: as many rows as the paper's Gigaword has training pairs, with the lengths of the news rows scaled to"
    yield "Gigaword's mean of 31.4 tokens, and words drawn independently by their frequency in news."
    yield ""


def _growth(series: dict[str, list[tuple[int, float]]], exponents: dict[str, float]) -> Iterator[str]:
    yield "## Growth"
    yield ""
    yield "![Time against the number of rows](../images/retrieval_growth.svg)"
    yield ""
    yield "| | seconds = a · rows^b, b | at |"
    yield "|---|---:|---|"
    for name, points in series.items():
        yield f"| {name} | {exponents[name]:.2f} | {', '.join(f'{rows:,}' for rows, _ in points)} |"
    yield ""


def _latency(parts: dict[str, Any]) -> Iterator[str]:
    if "latency" not in parts:
        return
    facts = parts["latency"]
    yield "## One search"
    yield ""
    yield f"`BowIndex` over {facts['rows']:,} rows on disk, opened memory-mapped, {facts['searches']:,} held-out sentences one after"
    yield "another in one thread of the CPU; from the text to ids and similarities."
    yield ""
    yield "| | p50, ms | p99, ms | slowest, ms |"
    yield "|---|---:|---:|---:|"
    for k in (1, 10):
        times = facts[f"top_{k}_milliseconds"]
        yield f"| top {k} | {times['p50']:.1f} | {times['p99']:.1f} | {times['max']:.1f} |"
    yield ""
    yield (
        f"Building takes {facts['build_seconds']:.0f} s (nearly all of it counting words), saving {facts['save_seconds']:.1f} s, "
        f"opening {facts['open_seconds']:.1f} s; the index has {facts['megabytes']:.0f} MB."
    )
    yield ""


def _features(parts: dict[str, Any]) -> Iterator[str]:
    if "features" not in parts:
        return
    yield "## What is counted, and how"
    yield ""
    yield "ROUGE F1 of the retrieved exemplar itself against the references of the development set: how much of the answer, or"
    yield "of its manner, retrieval alone brings. Words are lower-cased; pieces are those of a byte-pair encoding learnt on the"
    yield "training data (25,000 types for news, 8,000 for the others), cased."
    yield ""
    yield "| data | counted | weighting | ROUGE-1 | ROUGE-2 | ROUGE-L | mean cosine | without exemplar |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    for row in parts["features"]:
        scores = " | ".join(f"{row[name]:.2f}" for name in ("rouge1", "rouge2", "rougeL"))
        yield (
            f"| {row['data']} ({row['instances']:,}) | {row['features']} | {row['weighting']} | {scores} | "
            f"{row['mean_similarity']:.3f} | {row['without_exemplar']} |"
        )
    yield ""
