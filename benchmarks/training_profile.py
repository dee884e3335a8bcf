"""How training is timed: the wall clock, CUDA graphs, a profiler's trace.

In: work to repeat. Out: its time, its memory, and the kernels that make up a step.

Without a GPU everything runs on the CPU, without graphs. That is for trying these programs out, not for measuring.
"""

import gc
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType

from exadec.model.backends.choice import pick_device

DEVICE = pick_device()

KINDS = {
    "Adam and clipping": r"multi_tensor_apply|adam|lpnorm",
    "softmax over the vocabulary": r"^_score|^_differentiate",
    "our recurrences": r"^(plain|adaptive)_(forward|backward)|^unscale|_gates|_scale_(rows|back)",
    "cuDNN's recurrences": r"cudnn|rnn|lstm|persist",
    "attention's softmax": r"softmax",
    "matrix products": r"gemm|gemv|cutlass|xmma|nvjet|splitk|cublas|sm\d\d_",
    "copies, gathers, sorting": r"mem(cpy|set)|copy|gather|scatter|index|embedding|sort|scan|(?<!masked_)fill|arange",
    "element-wise work and sums": r"elementwise|reduce|dropout|distribution|masked|where",
}
"""Types of kernels by name; the first match counts. A kernel that matches none is `other`."""

GAPS = (2.0, 10.0)
"""Gaps between kernels are counted in three classes, divided at these lengths in microseconds."""


def seconds(work: Callable[[], Any]) -> float:
    _wait()
    started = time.perf_counter()
    work()
    _wait()
    return time.perf_counter() - started


def forget_peak() -> None:
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gigabytes() -> float:
    """The peak of allocated memory since `forget_peak`."""
    return torch.cuda.max_memory_allocated() / 2**30 if DEVICE.type == "cuda" else 0.0


def captured_milliseconds(work: Callable[[], None], repeats: int = 50) -> float:
    """Median time of the work, captured as a CUDA graph."""
    if DEVICE.type != "cuda":
        return statistics.median(seconds(work) * 1e3 for _ in range(2))
    side = _side_stream()
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


class Kernel(NamedTuple):
    """One kernel, copy or memset on the device; times in nanoseconds."""

    name: str
    begin: int
    end: int


def trace(work: Callable[[], Any]) -> list[Kernel]:
    """Everything the device did, ordered by start time."""
    on_gpu = DEVICE.type == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profiler:
        seconds(work)
    wanted = DeviceType.CUDA if on_gpu else DeviceType.CPU
    events = profiler.profiler.kineto_results.events()
    kernels = [
        Kernel(e.name(), e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if e.device_type() == wanted
    ]
    return sorted(kernels, key=lambda kernel: kernel.begin)


def merge(kernels: Sequence[Kernel]) -> tuple[int, list[int]]:
    """The time during which at least one kernel ran, and the lengths of the gaps, ordered by start time."""
    busy, gaps, until = 0, [], kernels[0].begin
    for kernel in kernels:
        if kernel.begin > until:
            gaps.append(kernel.begin - until)
        busy += max(0, kernel.end - max(until, kernel.begin))
        until = max(until, kernel.end)
    return busy, gaps


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "other")


def summarize(kernels: Sequence[Kernel], steps: int, top: int = 15) -> dict[str, Any]:
    """Milliseconds per step: from the first kernel to the last, busy, by type, by name."""
    busy, gaps = merge(kernels)
    kinds: dict[str, float] = defaultdict(float)
    names: dict[str, list[int]] = defaultdict(list)
    for kernel in kernels:
        kinds[kind_of(kernel.name)] += (kernel.end - kernel.begin) / 1e6 / steps
        names[kernel.name].append(kernel.end - kernel.begin)
    window = max(kernel.end for kernel in kernels) - kernels[0].begin
    result: dict[str, Any] = {"window_milliseconds": window / 1e6 / steps, "busy_milliseconds": busy / 1e6 / steps}
    result |= {"sum_milliseconds": sum(kinds.values()), "launches": len(kernels) / steps}
    result["gaps"] = []
    for low, high in zip((0.0, *GAPS), (*GAPS, float("inf")), strict=True):
        lengths = [gap / 1e3 for gap in gaps if low < gap / 1e3 <= high]
        row = {"above_microseconds": low, "count": len(lengths) / steps, "milliseconds": sum(lengths) / 1e3 / steps}
        result["gaps"].append(row)
    result["kinds"] = dict(sorted(kinds.items(), key=lambda item: -item[1]))
    largest = sorted(names.items(), key=lambda item: -sum(item[1]))[:top]
    result["kernels"] = [
        {"name": name, "kind": kind_of(name), "launches": len(times) / steps, "milliseconds": sum(times) / 1e6 / steps}
        for name, times in largest
    ]
    return result


@cache
def _side_stream() -> torch.cuda.Stream:
    """One stream for all captures, because cuBLAS keeps 32 MB for each stream."""
    return torch.cuda.Stream()


def _wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
