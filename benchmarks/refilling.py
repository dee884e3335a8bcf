"""Speed of a search on a GPU if texts that wait take the places of finished ones, against one batch after the other.

In: runs. Out: docs/results/search/refilling.json: seconds for 8,192 test texts of each run, and how many texts
differ.

    python benchmarks/refilling.py RUN...

All ways search the same batches of instances in turn, sorted by length as always. Seconds are those of the search
alone, and of `decode_split`, which also reads instances and joins pieces to texts.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from exadec.config import SearchConfig
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.search import captured, generate, split
from exadec.training.checkpoint import Run, open_corpus, open_run
from exadec.training.evaluation import choose_sample, decode_split

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "search" / "refilling.json"
WAYS = {"batch after batch": 1, "refilled": 8}
"""How many batches are given at once."""
TEXTS = 8192
SIZES, PRECISIONS = (64, 512), ("float32", "rounded")


def measure(run: Run, config: SearchConfig, rounds: int) -> list[dict[str, Any]]:
    """All ways in turn, for one model."""
    corpus = open_corpus(run)
    chosen = choose_sample(corpus.size("test"), TEXTS)
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    given = run.load_model(device="cuda"), corpus, exemplars
    rows = [{"way": way, "search_seconds": [], "seconds": []} for way in WAYS]
    texts: dict[str, list[str]] = {}
    search = split.search_texts
    for number, (row, batches) in product(range(1 + rounds), zip(rows, WAYS.values(), strict=True)):
        spent = 0.0

        def timed(*arguments: Any, **more: Any) -> Any:
            nonlocal spent
            begun = time.perf_counter()
            found = search(*arguments, **more)  # ends with texts on the host
            spent += time.perf_counter() - begun
            return found

        with (
            patch.object(generate, "_BATCHES", batches),
            patch.object(captured, "RECORDINGS", 1000),
            patch.object(split, "search_texts", timed),
        ):
            begun = time.perf_counter()
            found = [one.text for one in decode_split(*given, "test", config, chosen)]
            seconds = time.perf_counter() - begun
        if number:  # the first time records graphs
            row["search_seconds"].append(spent)
            row["seconds"].append(seconds)
        row["differing"] = sum(one != other for one, other in zip(found, texts.setdefault("first", found), strict=True))
    return [{**row, "texts": len(texts["first"])} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for folder, size, precision in product(options.runs, SIZES, PRECISIONS):
        run = open_run(folder, ())
        config = replace(run.config.search, batch_size=size, precision=precision)
        for row in measure(run, config, options.rounds):
            rows.append({"run": folder.name, "batch": size, "precision": precision, **row})
            median = statistics.median(rows[-1]["search_seconds"])
            print(json.dumps({**rows[-1], "texts_per_second": round(row["texts"] / median)}), flush=True)
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
