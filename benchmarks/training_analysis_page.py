"""The longer sections of the page on the speed of training: growth, profile, distance to the floor.

In: the JSON of these parts. Out: lines of Markdown, and a plot of growth.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from training_roofline import least_times

from exadec.config import VARIANTS, ModelConfig

NAMES = {"seq2seq": "Seq2seq", "adadec": "AdaDec"}
WIDEST = 320
"""Larger d and r do not fit our recurrent kernel and use another one, so they are left out of the fits."""
SYMBOLS = {"target": "T", "source": "S", "hidden": "d", "rank": "r", "batch": "B"}
Points = list[tuple[int, float]]


def series(measured: dict[str, Any], varied: str, variant: str, measure: str) -> Points:
    """(value, measurement) of the points that differ from the base in one size only."""
    fixed = {name: value for name, value in measured["base"].items() if name != varied} | {"variant": variant}
    rows = [row for row in measured["rows"] if all(row[name] == value for name, value in fixed.items())]
    return sorted((row[varied], row[measure]) for row in rows)


def to_fit(points: Points, varied: str) -> Points:
    return [(x, y) for x, y in points if varied not in ("hidden", "rank") or x <= WIDEST]


def fit_power(points: Points) -> tuple[float, float, float]:
    """a, b in y = a·x^b by least squares of the logarithms, and the largest relative error."""
    x, y = np.array(points, dtype=float).T
    b, log_a = np.polyfit(np.log(x), np.log(y), 1)
    return float(np.exp(log_a)), float(b), float(np.abs(np.exp(log_a) * x**b / y - 1).max())


def fit_line(points: Points, power: int) -> tuple[float, float, float]:
    """a, b in y = a + b·x^power by least squares of relative errors, and the largest of these."""
    x, y = np.array(points, dtype=float).T
    b, a = np.polyfit(x**power, y, 1, w=1 / y)
    return float(a), float(b), float(np.abs((a + b * x**power) / y - 1).max())


def draw_growth(measured: dict[str, Any], path: Path) -> None:
    with plt.rc_context({"svg.hashsalt": "growth", "font.family": "sans-serif"}):
        figure, axes = plt.subplots(2, len(SYMBOLS), figsize=(13.0, 5.4), layout="constrained", sharey="row")
        for line, measure, label in zip(axes, ("milliseconds", "gigabytes"), ("ms a step", "GB"), strict=True):
            line[0].set_ylabel(label)
            for panel, varied in zip(line, SYMBOLS, strict=True):
                for variant, look in (("seq2seq", "C0s-"), ("adadec", "C1o-")):
                    points = series(measured, varied, variant, measure)
                    if len(points) > 1:
                        legend = f"{NAMES[variant]}: {SYMBOLS[varied]}^{fit_power(to_fit(points, varied))[1]:.2f}"
                        panel.loglog(*zip(*points, strict=True), look, markersize=4, label=legend)
                values = [value for value, _ in series(measured, varied, "adadec", measure)]
                panel.set_xticks(values, labels=[str(value) for value in values], fontsize="small")
                panel.set_xticks([], minor=True)
                panel.yaxis.set_major_formatter("{x:g}")
                panel.set_xlabel(SYMBOLS[varied])
                panel.grid(alpha=0.3)
                panel.legend(frameon=False, fontsize="small")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def growth_section(part: dict[str, Any]) -> Iterator[str]:
    measured = part["results"]
    base = ", ".join(f"{symbol} = {measured['base'][name]}" for name, symbol in SYMBOLS.items())
    yield "## Growth with lengths and sizes"
    yield ""
    yield "`python benchmarks/training.py growth`"
    yield ""
    yield f"A whole captured step on random words without padding. One size varies at a time, around {base}."
    yield f"Exemplars have {measured['exemplar']} words, the vocabulary {measured['vocabulary']:,} types, embeddings the size d. Memory includes weights and Adam's moments. Seq2seq has no r."
    yield ""
    yield "![Time and memory against T, S, d, r and B](../images/training_growth.svg)"
    yield ""
    yield "| varied | value | Seq2seq, ms | AdaDec, ms | ratio | Seq2seq, GB | AdaDec, GB |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for varied, symbol in SYMBOLS.items():
        plain = {name: dict(series(measured, varied, "seq2seq", name)) for name in ("milliseconds", "gigabytes")}
        memory = dict(series(measured, varied, "adadec", "gigabytes"))
        for value, time in series(measured, varied, "adadec", "milliseconds"):
            plain_time, plain_memory = plain["milliseconds"].get(value), plain["gigabytes"].get(value)
            cells = (
                ("", "", "")
                if plain_time is None
                else (f"{plain_time:.2f}", f"{time / plain_time:.2f}", f"{plain_memory:.2f}")
            )
            yield f"| {symbol} | {value:,} | {cells[0]} | {time:.2f} | {cells[1]} | {cells[2]} | {memory[value]:.2f} |"
    yield ""
    yield "Two fits: y = c·xᵇ by least squares of logarithms, and y = a + b·x (for d: a + b·d²) by least squares of relative errors. In brackets is the largest"
    yield "relative error over the points above. Believe the fit with the smaller error: a constant part makes a power look flat at the left."
    yield f"Only d and r up to {WIDEST} are fitted: larger ones do not fit our recurrent kernel and use another one."
    yield ""
    yield "| varied | model | time, power | time, line (ms) | memory, power | memory, line (GB) |"
    yield "|---|---|---|---|---|---|"
    for varied, symbol in SYMBOLS.items():
        for variant, name in NAMES.items():
            both = [series(measured, varied, variant, measure) for measure in ("milliseconds", "gigabytes")]
            both = [to_fit(points, varied) for points in both]
            if len(both[0]) > 1:
                yield f"| {symbol} | {name} | {' | '.join(_fits(points, symbol) for points in both)} |"
    yield ""


def _fits(points: Points, symbol: str) -> str:
    _, exponent, power_miss = fit_power(points)
    a, b, line_miss = fit_line(points, 2 if symbol == "d" else 1)
    x = "d²" if symbol == "d" else symbol
    return f"{symbol}^{exponent:.2f} (±{power_miss:.0%}) | {a:.3g} {'-' if b < 0 else '+'} {abs(b):.3g}·{x} (±{line_miss:.0%})"


def profile_section(part: dict[str, Any]) -> Iterator[str]:
    rows = part["results"]
    first = rows[0]
    yield "## Where the time of a step goes"
    yield ""
    yield "`python benchmarks/training.py profile work/news-ids.npz`"
    yield ""
    yield f"The first {first['batches']} real batches of an epoch, all shapes captured beforehand: wall time without a profiler, median of 3 passes, then a trace of the first {first['traced']}. *Busy* is"
    yield "the time with at least one kernel, copy or memset on the device; overlaps count once. *Outside* is 1 - busy / wall, for the same batches without a profiler."
    yield ""
    yield f"| model | batch | wall, ms a step | wall of the traced {first['traced']}, ms | busy, ms | outside | sum of kernels, ms | launches |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        yield (
            f"| {NAMES[row['variant']]} | {row['batch']} | {row['milliseconds']:.2f} | {row['traced_batches_milliseconds']:.2f} | {row['busy_milliseconds']:.2f} | "
            f"{row['share_outside']:.1%} | {row['sum_milliseconds']:.2f} | {row['launches']:,.0f} |"
        )
    yield ""
    heads = [f"{NAMES[row['variant']]}, {row['batch']}" for row in rows]
    yield from _pauses(rows, heads)
    yield "Milliseconds a step and share of the sum, by kind of kernel (told from its name, `KINDS` in `benchmarks/training_profile.py`). General matrix products that"
    yield "cuDNN's LSTM calls count as matrix products."
    yield ""
    yield f"| kind | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(rows)}"
    for kind in dict.fromkeys(kind for row in rows for kind in row["kinds"]):
        times = [row["kinds"].get(kind, 0.0) for row in rows]
        cells = " | ".join(
            f"{time:.2f} ({time / row['sum_milliseconds']:.0%})" for time, row in zip(times, rows, strict=True)
        )
        yield f"| {kind} | {cells} |"
    yield ""
    last = rows[-1]
    yield f"The {len(last['kernels'])} kernels that take longest, {heads[-1]}; `profile.json` has those of the others:"
    yield ""
    yield "| kernel | kind | launches a step | ms a step | share |"
    yield "|---|---|---:|---:|---:|"
    for kernel in last["kernels"]:
        share = kernel["milliseconds"] / last["sum_milliseconds"]
        yield f"| `{_shorten(kernel['name'])}` | {kernel['kind']} | {kernel['launches']:.1f} | {kernel['milliseconds']:.3f} | {share:.1%} |"
    yield ""


def _pauses(rows: Sequence[dict[str, Any]], heads: Sequence[str]) -> Iterator[str]:
    yield "The time outside is made of pauses between kernels, here by their length in the trace, and a rest: the host before the first kernel and after the last,"
    yield "and what tracing itself changes. Milliseconds a step, and in brackets pauses a step:"
    yield ""
    yield f"| pauses | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(rows)}"
    bounds = [gap["above_microseconds"] for gap in rows[0]["gaps"]]
    for i, low in enumerate(bounds):
        name = f"above {low:g} µs" if i == len(bounds) - 1 else f"{low:g} to {bounds[i + 1]:g} µs"
        cells = " | ".join(f"{row['gaps'][i]['milliseconds']:.3f} ({row['gaps'][i]['count']:,.1f})" for row in rows)
        yield f"| {name} | {cells} |"
    rest = [
        row["traced_batches_milliseconds"] - row["busy_milliseconds"] - sum(gap["milliseconds"] for gap in row["gaps"])
        for row in rows
    ]
    yield f"| what is left | {' | '.join(f'{time:.3f}' for time in rest)} |"
    yield ""


def _shorten(name: str, length: int = 80) -> str:
    """A kernel's name without the parts common to all of torch's kernels."""
    name = re.sub(r"^void |at::native::|\(anonymous namespace\)::|std::array<[^<>]*>", "", name).replace("|", "/")
    return name if len(name) <= length else f"{name[: length - 1]}…"


def roofline_section(part: dict[str, Any]) -> Iterator[str]:
    measured = part["results"]
    rates = measured["ceilings"]
    yield "## The distance to the floor"
    yield ""
    yield "`python benchmarks/training.py ceilings work/news-ids.npz`"
    yield ""
    yield "How much faster could a step be? First, what the device can do, measured in the same run as the steps below:"
    yield f"a copy moves {rates['copy_bytes'] / 1e12:.2f} TB/s (read and written); products of {rates['size']} × {rates['size']} random matrices"
    yield f"run at {rates['bfloat16_operations'] / 1e12:.0f}·10¹² operations/s in bfloat16, {rates['float32_operations'] / 1e12:.1f}·10¹² in float32. One more time step of a recurrent layer, forward and backward,"
    yield "captured (slope between 16 and 64 steps), takes so many microseconds:"
    yield ""
    yield "| d | batch | cuDNN | plain | adaptive, r = d |"
    yield "|---:|---:|---:|---:|---:|"
    for row in measured["recurrence"]:
        yield f"| {row['hidden']} | {row['batch']} | {row['cudnn']:.1f} | {row['plain']:.1f} | {row['adaptive']:.1f} |"
    yield ""
    yield "Then the least work that any implementation must do (`benchmarks/training_roofline.py`):"
    yield ""
    yield "- *products*, once forward and twice backward;"
    yield "- *bytes*: weights read and gradients written once in float32, Adam's reading and writing, activations written and read once in bfloat16, no logits;"
    yield "- *dependent time steps*: S + 2 of the encoder's three layers, both directions side by side, and T of the decoder, each at the least time of a plain step"
    yield "  measured at any batch size."
    yield ""
    yield "A part's *floor* is the largest of the three; the step's is the sum over its parts, one after another. *In turn* is no floor, but what the present order of"
    yield "work implies: layers one after another, both directions at once, the exemplar's encoder on a second stream. That makes 3 · S steps and T, at the time of our"
    yield "kernels for this batch."
    yield ""
    tables = [
        (step, least_times(ModelConfig(**VARIANTS[step["variant"]]), measured, step)) for step in measured["steps"]
    ]
    yield "| model | batch | S, Z, T | measured, ms | products and bytes alone, ms | gap | floor, ms | gap | in turn, ms | gap |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|"
    for step, rows in tables:
        time = step["captured_milliseconds"]
        throughput = sum(max(row["products"], row["bytes"]) for row in rows)
        sums = [throughput, *(sum(row[name] for row in rows) for name in ("floor", "in_turn"))]
        cells = " | ".join(f"{least:.2f} | {time / least:.1f}" for least in sums)
        yield f"| {NAMES[step['variant']]} | {step['batch']} | {', '.join(map(str, step['shape'][1:]))} | {time:.2f} | {cells} |"
    yield ""
    for step, rows in tables:
        if step["variant"] == "adadec":
            yield from _parts_table(step, rows)
    for row in measured["counts"]:
        yield (
            f"- {NAMES[row['variant']]} at B, S, Z, T = {', '.join(map(str, row['shape']))}: {row['operations']:,} operations counted here, {row['by_torch']:,} by torch's "
            f"`FlopCounterMode` ({row['by_torch'] / row['operations'] - 1:+.2%}). The difference is the gradients of the encoders' first states, which are zero and get none."
        )
    yield "- On a GPU a step does more products than that: backward computes the logits again instead of keeping them."
    yield ""


def _parts_table(step: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"{NAMES[step['variant']]}, batch {step['batch']}:"
    yield ""
    yield "| part | 10⁹ operations | MB | dependent steps | products, ms | bytes, ms | steps, ms | floor, ms | steps in turn | in turn, ms |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        work = row["work"]
        yield (
            f"| {work.part} | {work.operations / 1e9:.2f} | {work.bytes / 1e6:.1f} | {work.dependent_steps} | {row['products']:.3f} | {row['bytes']:.3f} | "
            f"{row['steps']:.3f} | {row['floor']:.3f} | {work.steps_in_turn} | {row['in_turn']:.3f} |"
        )
    works = [row["work"] for row in rows]
    sums = " | ".join(f"{sum(row[name] for row in rows):.3f}" for name in ("products", "bytes", "steps", "floor"))
    yield (
        f"| sum | {sum(work.operations for work in works) / 1e9:.2f} | {sum(work.bytes for work in works) / 1e6:.1f} | {sum(work.dependent_steps for work in works)} | {sums} | "
        f"{sum(work.steps_in_turn for work in works)} | {sum(row['in_turn'] for row in rows):.3f} |"
    )
    yield ""
