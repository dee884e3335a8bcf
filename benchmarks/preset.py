"""Measures what the preset `exadec` costs a training step, in all and part by part, against Seq2seq of the paper.

In: a GPU. Out: JSON in docs/results/preset/, one row for each model and batch size.

    python benchmarks/preset.py
    python benchmarks/preset.py --deterministic          # what `training.deterministic` costs these steps

All models take the same batches: random words, in the lengths of the median news batch, no padding. Each is captured
as a CUDA graph and timed in turn, `--rounds` times in one run.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from training_growth import build_step, measure, synthetic_batch
from training_profile import DEVICE

from exadec.config import PRESETS, VARIANTS, ModelConfig
from exadec.loading.resident import Shape
from exadec.training.step import repeatable

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "preset"
SOURCE, EXEMPLAR, TARGET = 32, 24, 24
"""Lengths of the median news batch, rounded up to multiples of 8 as in training."""
BATCHES = (64, 512)
VOCABULARY = 25_000
_OURS = {**VARIANTS["adadec"], **PRESETS["exadec"]["model"]}
MODELS: dict[str, dict[str, Any]] = {
    "Seq2seq": VARIANTS["seq2seq"],
    "AttExp": VARIANTS["attexp"],
    "AdaDec": VARIANTS["adadec"],
    "exadec": _OURS,
    "exadec, copying from exemplars": {**_OURS, **VARIANTS["adadec+attexp"]},
    "exadec, one exemplar a step": {**_OURS, "exemplars_drawn": 1},
    "exadec, all four exemplars a step": {**_OURS, "exemplars_drawn": None},
    "exadec, exemplar_hidden 128": {**_OURS, "exemplar_hidden": 128},
    "exadec, rank 128": {**_OURS, "rank": 128},
    "exadec without exemplar_context": {**_OURS, "exemplar_context": False},
    "exadec without copy_case": {**_OURS, "copy_case": False},
    "exadec without exemplar_skipping": {**_OURS, "exemplar_skipping": 0.0},
}


def time_models(rounds: int) -> list[dict[str, Any]]:
    """Milliseconds a step, the median of the rounds, and as a ratio to Seq2seq in the same run."""
    rows = []
    for size in BATCHES:
        times: dict[str, list[float]] = {name: [] for name in MODELS}
        for _ in range(rounds):
            for name, settings in MODELS.items():
                config = ModelConfig(**settings)
                shape = Shape(size, SOURCE, EXEMPLAR, TARGET)
                batch = synthetic_batch(shape, VOCABULARY, DEVICE, config.exemplars_in_training)
                times[name].append(measure(build_step(config, VOCABULARY), batch)[0])
        plain = statistics.median(times["Seq2seq"])
        for name, found in times.items():
            middle = statistics.median(found)
            rows.append({"model": name, "batch": size, "milliseconds": middle, "all": found, "ratio": middle / plain})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deterministic", action="store_true", help="train as with training.deterministic")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with repeatable(options.deterministic):
        rows = time_models(options.rounds)
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    name = "steps_deterministic.json" if options.deterministic else "steps.json"
    (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
