"""Damage files of a small project, thousands of times, and call the commands that read them.

    python tests/campaign/damage.py --cases 2000 --seconds 600

Each case damages one file in one way, drawn at random, and calls one command in a process of its own. A command may
refuse the file (exit status 2, and a line that names it) or do its work as if nothing had happened. Anything else is a
problem: a traceback, a signal, a hang, gigabytes of memory, other results without a word. The summary is JSON.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.damage import ALL, SIGNED, Workshop, commands_for, list_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000, help="stop after so many cases")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, statuses, problems = random.Random(options.seed), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder) / "workshop")
        files = list_files(workshop.whole)
        started, cases = time.monotonic(), 0
        while cases < options.cases and time.monotonic() - started < options.seconds:
            path, signed = draw.choice(files), draw.random() < 0.5
            damage, command = draw.choice(SIGNED if signed else ALL), draw.choice(commands_for(path))
            status, problem = workshop.try_case(path, damage, draw, signed, command)
            statuses[str(status)] += 1
            if problem:
                problems[problem] += 1
                print(problem, file=sys.stderr, flush=True)
            cases += 1
        seconds = round(time.monotonic() - started, 1)
    summary = {"cases": cases, "seconds": seconds, "seed": options.seed, "statuses": statuses, "problems": problems}
    print(json.dumps(summary, indent=1))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
