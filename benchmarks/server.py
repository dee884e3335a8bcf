"""The server under load: many clients, each asking again as soon as it is answered.

In: a run whose corpus is there. Out: docs/results/server.json: latencies, statuses, memory.

    python benchmarks/server.py RUN

The server runs in a process of its own; all clients share another one, on the same cores. Of 20 requests, 18 write
with a retrieved exemplar, one writes with a given one, and one retrieves. Sources are those of the test split, in turn.
Whoever gets a 429 waits as long as it says. `full` has a queue smaller than the number of clients, so that some are
sent away. `facts_off` writes without checking facts, whatever the run's setting is.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from exadec.training.checkpoint import open_corpus, open_run

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "server.json"
SOURCES = 2000
PAUSE = 5.0
"""Seconds between two looks at the server's memory"""


def start(run: Path, folder: str, options: list[str]) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "exadec", "serve", str(run), "--port", "0", "--exemplars", folder, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("Ready at "):
            return process, line.split()[-1]
        print(line, end="", file=sys.stderr)
    raise SystemExit("the server did not start")


async def ask(client: httpx.AsyncClient, records: list[Any], number: int) -> httpx.Response:
    record = records[number % len(records)]
    if number % 20 == 0:
        return await client.post("/v1/retrieve", json={"source": record.source, "k": 3})
    given = {"exemplar": record.target} if number % 20 == 1 else {}
    return await client.post("/v1/write", json={"source": record.source, **given})


async def load(address: str, process: int, records: list[Any], clients: int, seconds: float) -> dict[str, Any]:
    """Ask for so long; what was asked is answered before it ends."""
    latencies: list[float] = []
    statuses: Counter[str] = Counter()
    memory: list[int] = []
    numbers, begun = count(), 0.0
    # A connection for each client: one pool of so many takes longer than the answers. Without TLS there is nothing to
    # verify, and reading certificates 200 times would take seconds.
    connect = partial(httpx.AsyncClient, base_url=address, timeout=60, trust_env=False, verify=False)

    async def one_client() -> None:
        async with connect() as client:
            while time.monotonic() < begun + seconds:
                asked = time.monotonic()
                try:
                    answer = await ask(client, records, next(numbers))
                except httpx.HTTPError as error:
                    statuses[type(error).__name__] += 1
                    continue
                statuses[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    latencies.append(time.monotonic() - asked)
                elif answer.status_code == 429:
                    await asyncio.sleep(float(answer.headers["Retry-After"]))

    async def watch() -> None:
        while True:
            memory.append(resident(process))
            await asyncio.sleep(PAUSE)

    watching, begun = asyncio.create_task(watch()), time.monotonic()
    await asyncio.gather(*(one_client() for _ in range(clients)))
    took = time.monotonic() - begun
    watching.cancel()
    async with connect() as client:
        shown = dict(line.rsplit(" ", 1) for line in (await client.get("/metrics")).text.splitlines() if line[0] != "#")
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "seconds": round(took, 1),
        "statuses": dict(sorted(statuses.items())),
        "answers_per_second": round(len(latencies) / took, 1),
        "texts_per_batch": round(float(shown["exadec_batch_size_sum"]) / float(shown["exadec_batch_size_count"]), 1),
        "latency_seconds": {f"p{p}": round(cuts[p - 1], 3) for p in (50, 90, 99)} | {"max": round(max(latencies), 3)},
        "server_cpu_seconds": float(shown["process_cpu_seconds_total"]),
        "resident_mib": [round(size / 2**20, 1) for size in memory],
        "resident_mib_at_end": round(resident(process) / 2**20, 1),
    }


def resident(process: int) -> int:
    """Bytes of memory that a process has now, files that it has mapped included."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    run = open_run(arguments.run)
    corpus = open_corpus(run)
    records = [record for _, record in zip(range(SOURCES), corpus.records("test"), strict=False)]
    result: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "model": run.config.model.variant,
        "training_targets": corpus.size("train"),
        "beam_size": run.config.search.beam_size,
        "facts": run.config.search.facts,
        "clients": arguments.clients,
    }
    full, free = ["--queue", str(arguments.clients // 4)], ["--set", "search.facts=off"]
    for name, options in (("default", []), ("full", full), ("facts_off", free)):
        with tempfile.TemporaryDirectory() as folder:
            process, address = start(arguments.run, folder, options)
            try:
                work = load(address, process.pid, records, arguments.clients, arguments.seconds)
                result[name] = asyncio.run(work)
            finally:
                process.send_signal(signal.SIGTERM)
                said = process.communicate(timeout=120)[1]
            result[name] |= {"exit_status": process.returncode, "said": said.splitlines()}
        print(json.dumps({name: result[name]}))
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
