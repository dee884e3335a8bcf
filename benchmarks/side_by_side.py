"""How much several training runs gain from sharing one GPU: steps per second of all of them, over those of one alone.

In: ids of a prepared corpus, packed by `benchmarks/training.py pack`. Out: docs/results/training/side_by_side.json.

    python benchmarks/side_by_side.py work/news-ids.npz

Each run has its own process, as with `exadec train --variants --seeds`. It runs captured steps of AdaDec on a batch of
median length. This is measured twice: with the driver alone, which gives the GPU to one process at a time, and with
NVIDIA's Multi-Process Service, under which kernels of several processes run concurrently.
"""

import argparse
import json
import time
from collections import defaultdict
from contextlib import nullcontext
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch
from training import RESULTS, build, median_batch, open_packed
from training_profile import seconds

from exadec.training.sharing import shared_card

STEPS = {64: 400, 512: 80}
"""Batch sizes, and how many steps are timed at each."""
TOGETHER = (1, 2, 4)
PATIENCE = 240
"""Seconds after which a process that waits for the others gives up."""


def work(path: Path, number: int, ready: Barrier, channel: Any) -> None:
    """Training process `number`; it takes part in every round with more processes than that."""
    loader = open_packed(path)
    trainings = {}
    for batch in STEPS:
        steps, indices = build(loader, "adadec", batch)[0], median_batch(loader, batch)
        seconds(lambda s=steps, i=indices: [s(i) for _ in range(10)])
        trainings[batch] = steps, indices
    for batch, count in STEPS.items():
        steps, indices = trainings[batch]
        for together in TOGETHER:
            ready.wait(PATIENCE)
            if number < together:
                started = time.time()
                seconds(lambda s=steps, i=indices, c=count: [s(i) for _ in range(c)])
                channel.put((batch, together, started, time.time()))


def measure(path: Path) -> list[dict[str, Any]]:
    """Start the largest number of processes once; a waiting process does not use the GPU."""
    context = get_context("spawn")
    ready, channel = context.Barrier(max(TOGETHER)), context.SimpleQueue()
    processes = [context.Process(target=work, args=(path, number, ready, channel)) for number in range(max(TOGETHER))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("one of the trainings has failed")
    spans = defaultdict(list)
    while not channel.empty():
        batch, together, *span = channel.get()
        spans[batch, together].append(span)
    rows = []
    for (batch, together), found in spans.items():
        took = max(end for _, end in found) - min(start for start, _ in found)
        rows.append({"batch": batch, "together": together, "steps_a_second": together * STEPS[batch] / took})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="packed ids")
    path = parser.parse_args().path
    rows = []
    for service in (False, True):
        with shared_card() if service else nullcontext(False) as running:
            if service and not running:
                raise SystemExit("the Multi-Process Service does not start here")
            found = [{"service": service, **row} for row in measure(path)]
            print(*map(json.dumps, found), sep="\n", flush=True)
            rows += found
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "results": rows}
    (RESULTS / "side_by_side.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
