"""A plan of tiny runs on the toy task, and results without any training."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from exadec.experiment.plan import Trial, describe_settings
from exadec.experiment.results import Measure, Result, describe_device, pack
from exadec.textmetrics import mean_score
from exadec.textmetrics.bootstrap import resample_all
from support.toys import toy_config, toy_records, write_splits


def tiny_plan(folder: Path, /, **changes: Any) -> dict[str, Any]:
    """Two models with one seed; runs take a second."""
    return {
        "folder": str(folder / "work"),
        "results": str(folder / "results"),
        "corpora": {"toy": {"config": str(folder / "toy.yaml")}},
        "policies": {"random": ["exemplars.policy=random"]},
        "settings": {"small": ["model.hidden=12"]},
        "searches": {"greedy": ["search.beam_size=1"]},
        "metrics": ["rouge1", "rougeL"],
        "tables": {
            "models": {"corpora": ["toy"], "variants": ["seq2seq", "adadec"], "baseline": {"variant": "seq2seq"}}
        },
        **changes,
    }


def write_task(folder: Path, **training: object) -> None:
    """The data, and `toy.yaml` with what differs from the defaults, so that presets can change the rest."""
    write_splits(folder, toy_records(60, seed=0))
    values: dict[str, Any] = {"folder": "nowhere"}
    for name, value in describe_settings(toy_config(folder, **{"epochs": 1, **training})).items():
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = value
    (folder / "toy.yaml").write_text(json.dumps(values), "utf-8")


def write_plan(folder: Path, /, **changes: Any) -> Path:
    path = folder / "plan.yaml"
    path.write_text(json.dumps(tiny_plan(folder, **changes)), "utf-8")
    return path


def made_up_result(trial: Trial, values: list[float], **changes: Any) -> Result:
    """What a run might have scored."""
    mean = float(np.mean(values))
    (resampled,) = resample_all([mean_score("ROUGE-L", values, "L")])
    fields = {
        "name": trial.name,
        "search": trial.search_name,
        "key": trial.key,
        "inputs": {"train": "0"},
        "settings": trial.settings,
        "instances": len(values),
        "references": "same",
        "scores": {
            "rouge1": Measure("ROUGE-1", mean + 1, mean, mean + 2, "one", pack(resampled + 1)),
            "rougeL": Measure("ROUGE-L", mean, mean - 1, mean + 1, "L", pack(resampled)),
        },
        "per_instance": {"texts": pack(values), "exemplars": pack([value / 2 for value in values])},
        "similarities": pack([100 * n / len(values) for n in range(len(values))]),
        "surprise": {"valid": 2.0, "test": 2.5},
        "pieces": {"valid": 10.0, "test": 8.0},
        "parameters": 1234,
        "best_epoch": 1.0,
        "best_score": 30.0,
        "seconds": {"training": 60.0, "decoding": 5.0, "whole": 90.0},
        "device": describe_device(),
        "versions": {"exadec": "1", "torch": "2"},
    }
    return Result(**{**fields, **changes})
