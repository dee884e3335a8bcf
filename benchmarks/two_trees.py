"""Training steps of two checkouts in turn, in one run: did a change cost speed?

In: two checkouts, and ids packed by `benchmarks/training.py pack`. Out: a table of milliseconds, and JSON.

    python benchmarks/two_trees.py BEFORE AFTER work/news-ids.npz two_trees.json

Each checkout measures all four models in its own process, several times in turn, so that other load on the machine
affects both alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

MEASURE = """
import json, sys
from pathlib import Path
from training import build, median_batch, open_packed, time_step
loader = open_packed(Path(sys.argv[1]))
for variant in ("seq2seq", "attexp", "adadec", "adadec+attexp"):
    for batch in (64, 512):
        steps, indices = build(loader, variant, batch)[0], median_batch(loader, batch)
        row = time_step(steps, indices)
        print("ROW" + json.dumps({"variant": variant, "batch": batch, **row}), flush=True)
        del steps
"""


def measure(tree: Path, packed: Path) -> list[dict[str, object]]:
    """One row for each model and batch size."""
    path = os.pathsep.join([str(tree), str(tree / "benchmarks")])
    command = [sys.executable, "-c", MEASURE, str(packed.resolve())]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=tree, stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().splitlines()
    return [json.loads(line.removeprefix("ROW")) for line in lines if line.startswith("ROW")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("packed", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for number in range(options.rounds):
        for name, tree in (("before", options.before), ("after", options.after)):
            rows += [{"tree": name, "round": number, **row} for row in measure(tree.resolve(), options.packed)]
            options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    for variant, batch in dict.fromkeys((row["variant"], row["batch"]) for row in rows):
        times = {
            name: statistics.median(
                row["captured_milliseconds"]
                for row in rows
                if (row["tree"], row["variant"], row["batch"]) == (name, variant, batch)
            )
            for name in ("before", "after")
        }
        ratio = times["after"] / times["before"]
        print(f"{variant:14} {batch:4}  before {times['before']:.3f} ms  after {times['after']:.3f} ms  {ratio:.3f}")


if __name__ == "__main__":
    main()
