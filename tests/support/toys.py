"""Tasks that can be learnt in seconds, as files and as configurations."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from exadec.config import VARIANTS, Config
from exadec.training.checkpoint import Run, write_config


def write_splits(folder: Path, records: list[dict[str, object]]) -> None:
    for split in ("train", "valid", "test"):
        lines = [json.dumps({**record, "uid": f"{split}-{i}"}) for i, record in enumerate(records)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def config_for(folder: Path, **corpus: object) -> Config:
    files = {split: str(folder / f"{split}.jsonl") for split in ("train", "valid", "test")}
    return Config.from_dict({"folder": str(folder / "work"), "corpus": {**files, **corpus}})


TWO_RECORDS: list[dict[str, object]] = [
    {"source": "The cat sat on the mat.", "target": "Cat sits"},
    {"source": "A zyzzyva ate the mat!", "target": "Zyzzyva eats", "references": ["It eats"]},
]

SHOUT, WHISPER = "up", "down"


def toy_records(count: int, seed: int) -> list[dict[str, object]]:
    """`name says number`: the name is copied, and the house (`h7`, too rare to be known) decides the word order."""
    random = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        house, name, number = random.integers(20), f"n{random.integers(12)}", f"k{random.integers(12)}"
        manner = SHOUT if house % 2 else WHISPER
        target = f"{manner} {name} {number}" if house % 2 else f"{manner} {number} {name}"
        records.append({"source": f"house{house} house{house} house{house} {name} {number}", "target": target})
    return records


def toy_config(folder: Path, **training: object) -> Config:
    files = {split: str(folder / f"{split}.jsonl") for split in ("train", "valid", "test")}
    return Config.from_dict(
        {
            "folder": str(folder / "work"),
            "corpus": {**files, "segmentation": "words", "pretokenized": True, "vocabulary_size": 31},
            "model": {"hidden": 16, "embedding": 16, "encoder_layers": 1, "exemplar_hidden": 8, "encoder_dropout": 0.05}
            | {f"{name}_dropout": 0.05 for name in ("embedding", "output", "bridge", "exemplar")},
            "training": {"batch_size": 32, "epochs": 12, "learning_rate": 0.02, "evaluation_size": 50, **training},
            "search": {"beam_size": 2, "max_length": 8},
        }
    )


def make_guidable(run: Run) -> Run:
    """Let a run say that its training showed `<none>`: its texts stay the same, and guidance is not refused."""
    config = run.config.replace("model", exemplar_skipping=0.1)
    write_config(run.folder, config)
    return replace(run, config=config)


def variant_config(toy: Path, variant: str, **training: object) -> Config:
    return toy_config(toy, **training).replace("model", **VARIANTS[variant])
