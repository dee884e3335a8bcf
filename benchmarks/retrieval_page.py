"""Writes the page on the speed of retrieval.

In: the JSON files that `retrieval.py` writes. Out: docs/results/retrieval.md and a plot of time against the number of rows.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np


def write_page(folder: Path) -> None:
    """Write the page from the parts that were measured."""
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
    """b in seconds = a · rows^b, by least squares of the logarithms."""
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
    yield "How long does it take to find the nearest other text of every text, exactly? Rows are the bags of words (raw counts) of"
    yield "real news lead sentences, joined with themselves. `python benchmarks/retrieval.py page` writes this page from the JSON"
    yield "files in `docs/results/retrieval/`; the docstring of `benchmarks/retrieval.py` has the command for each of them."
    yield ""


def _cpu(parts: dict[str, Any]) -> Iterator[str]:
    if "cpu" not in parts:
        return
    yield f"## CPU, {parts['cpu']['cores']} cores, against sparse_dot_topn"
    yield ""
    yield "Both in the same run, with all cores. Our time includes arranging the candidates. `sparse_dot_topn` cannot exclude a"
    yield "row from its own result, so it is asked for the two best. It takes queries one by one, so it is timed on the queries"
    yield "checked, and the time is scaled up to all rows. Peak memory is that of the whole process, with the rival's matrices."
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
    yield "Among equal scores, exadec takes the row with the lowest number, and the rival any of them."
    yield ""


def _gpu(parts: dict[str, Any]) -> Iterator[str]:
    if "gpu" not in parts:
        return
    yield f"## GPU: one {parts['gpu']['device']}"
    yield ""
    yield "From rows in the host's memory to neighbours in the host's memory. Two runs of each size; the kernels were compiled"
    yield f"before ({parts['gpu']['compiling_seconds']:.1f} s, once a machine). Sampled queries are compared with the CPU bit for bit."
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
    yield "*Resampled* has as many rows as the paper's Gigaword has training pairs. Lengths are those of news, scaled to Gigaword's"
    yield "mean of 31.4 tokens; words are drawn independently by their frequency in news."
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
    yield f"`BowIndex` over {facts['rows']:,} rows on disk, memory-mapped. {facts['searches']:,} held-out sentences, one after"
    yield "another on one CPU thread; from the text to ids and similarities."
    yield ""
    yield "| | p50, ms | p99, ms | slowest, ms |"
    yield "|---|---:|---:|---:|"
    for k in (1, 10):
        times = facts[f"top_{k}_milliseconds"]
        yield f"| top {k} | {times['p50']:.1f} | {times['p99']:.1f} | {times['max']:.1f} |"
    yield ""
    yield (
        f"Building takes {facts['build_seconds']:.0f} s (nearly all of it counting words), saving {facts['save_seconds']:.1f} s, "
        f"opening {facts['open_seconds']:.1f} s; the index takes {facts['megabytes']:.0f} MB."
    )
    yield ""


def _features(parts: dict[str, Any]) -> Iterator[str]:
    if "features" not in parts:
        return
    yield "## What is counted, and how"
    yield ""
    yield "How much of the answer, or of its manner, does retrieval alone bring? ROUGE F1 of the retrieved exemplar itself against the"
    yield "references of the development set. Words are lower-cased. Pieces are cased, from a byte-pair encoding learnt on the"
    yield "training data (25,000 types for news, 8,000 for the others)."
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
