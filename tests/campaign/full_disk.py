"""Let the disk be full at a random point of each stage, run the same command again with room, and compare.

    mkdir small; sudo mount -t tmpfs -o size=8m tmpfs small
    python tests/campaign/full_disk.py small --cases 50 --out full_disk.json

In: an empty folder of a small file system. Out: for each stage how many cases were survived, as JSON. Survived means:
the command stopped with exit status 2 and said that the disk is full, without a traceback, or found room enough. And
the second time it succeeded, with every file as if nothing had happened (times aside), and nothing left over.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from kills import STAGES, Campaign, snapshot

NAMES = ("prepare", "retrieve", "train", "generate", "side by side")
SPARE = 8 * 4096
"""So much room at least. Without it not even a folder can be made."""


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(ballast: Path, left: int) -> None:
    """Take all room but this much."""
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free_bytes(ballast.parent) - left, 1))


def test(campaign: Campaign, name: str, cases: int) -> dict[str, Any]:
    stage, ballast = STAGES[name], campaign.folder.with_name("ballast")
    base, _, expected = campaign.prepare(stage)
    after = free_bytes(campaign.folder)
    campaign.reset(base)
    needed = free_bytes(campaign.folder) - after
    survived, full, failures = 0, 0, []
    for _ in range(cases):
        campaign.reset(base)
        left = campaign.dice.randrange(SPARE, SPARE + 3 * needed // 2)  # drafts need room, too
        fill(ballast, left)
        first, said = campaign.run(stage), campaign.log
        ballast.unlink()
        second, found = campaign.run(stage), snapshot(campaign.folder)
        clear = first == 0 or (first == 2 and "No space left" in said and "Traceback" not in said)
        full += first != 0
        if clear and second == 0 and found == expected:
            survived += 1
        else:
            differing = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
            failure = {"left": left, "statuses": [first, second], "differing": differing}
            failures.append(failure | {"log": said[-1500:], "second": campaign.log[-500:]})
    return {"cases": cases, "full": full, "survived": survived, "failures": failures}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="empty, on a small file system")
    parser.add_argument("--cases", type=int, default=50, help="of each stage")
    parser.add_argument("--stages", default=",".join(NAMES), help="comma-separated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if free_bytes(options.folder) > 1 << 28:
        parser.error(f"{options.folder} has room for more than 256 MiB: is it a small file system?")
    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory() as made:
        for name in options.stages.split(","):
            dice = random.Random(f"{options.seed} {name}")
            campaign = Campaign(Path(made).resolve(), dice, options.folder.resolve() / "work")
            results[name] = test(campaign, name, options.cases)
            print(f"{name}: {results[name]['survived']} of {options.cases} survived", flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return any(one["survived"] < one["cases"] for one in results.values())


if __name__ == "__main__":
    sys.exit(main())
