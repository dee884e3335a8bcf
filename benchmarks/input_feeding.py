"""Is input feeding worth its time? The same training with and without it, side by side on one device.

In: a CONFIG and a number of minutes. Out: JSON with the development score of every run against its training time.
Run: python benchmarks/input_feeding.py CONFIG --minutes 8 --out docs/results/input_feeding.json
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import torch

from exadec.config import Config
from exadec.corpus.prepare import prepare
from exadec.exemplars.retrieve import retrieve
from exadec.training.checkpoint import open_run
from exadec.training.events import Evaluated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--variants", nargs="+", default=["seq2seq", "adadec"])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    config = Config.load(arguments.config)
    retrieve(prepare(config))  # once, before the runs would all do it
    runs = {}
    for variant, feeding in product(arguments.variants, (False, True)):
        folder = Path(config.folder) / "feeding" / f"{variant}-{'fed' if feeding else 'plain'}"
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "exadec", "train", str(arguments.config), "--variant", variant]
        command += ["--run", str(folder), "--set", f"model.input_feeding={str(feeding).lower()}"]
        runs[folder] = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(60 * arguments.minutes)
    for process in runs.values():
        process.send_signal(signal.SIGINT)  # leaves a usable run
    for process in runs.values():
        process.wait(timeout=120)
    results = []
    for folder in runs:
        events = open_run(folder).metrics()
        evaluations = [event for event in events if isinstance(event, Evaluated)]
        steps = max(event.step for event in events)
        seconds = max(event.seconds for event in events)
        curve = [[round(event.seconds, 1), round(event.value, 3)] for event in evaluations]
        results.append({"run": folder.name, "steps": steps, "seconds": seconds, "curve": curve})
        print(f"{folder.name:16} {steps:6} steps, {1000 * seconds / steps:6.1f} ms a step, dev", curve[-3:])
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    facts = {"device": device, "torch": torch.__version__, "config": config.to_dict(), "runs": results}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
