"""Search speed of exadec and OpenNMT-py 3.5: texts a second with a beam of 5, all in one run.

In: OpenNMT-py as a folder of Python (see `toolkits.py`). Out: docs/results/search/gpu.json or cpu_THREADS.json.

    python benchmarks/search.py cpu --opennmt FOLDER
    python benchmarks/search.py gpu --opennmt FOLDER

All programs search the same batches in turn: random words in the lengths of the median news batch, no padding. Sizes
are those of configs/news.yaml, with random weights. Every text has the same length, by a least and a largest one: so
nobody gains by a model that happens to end early, and what exadec gains by dropping finished texts is not counted.
Reading text and writing it are not counted either. OpenNMT-py searches without copying, because its models that copy do
not load for translation; its encoder has 128 instead of 256 units a direction (`toolkits.py` says why). exadec copies.
`rounded` is exadec with `search.precision=rounded`. On a busy machine, compare `cpu_seconds` with `--threads 1`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from toolkits import SIZE, SYMBOLS, OpenNmt, Words, count

from exadec.config import PRESETS, VARIANTS, ModelConfig, SearchConfig
from exadec.loading.batch import Instance, collate
from exadec.model.seq2seq import Seq2seq
from exadec.search.generate import Task, search_batch

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "search"
SOURCE, EXEMPLAR, TEXT = 32, 14, 13
"""Pieces of the median news batch; those of a text include its end symbol."""
VOCABULARY, BEAM = 25_000, 5
SIZES = {"cpu": (64, 256), "gpu": (64, 512)}
MODELS: dict[str, dict[str, Any]] = {
    "exadec Seq2seq": VARIANTS["seq2seq"],
    "exadec AttExp": VARIANTS["attexp"],
    "exadec AdaDec": VARIANTS["adadec"],
    "exadec AdaDec+AttExp": VARIANTS["adadec+attexp"],
    "exadec preset": {**VARIANTS["adadec"], **PRESETS["exadec"]["model"]},
}


def start_exadec(
    settings: dict[str, Any], sources: np.ndarray, device: torch.device, precision: str = "float32"
) -> tuple[int, Callable[[], int]]:
    """Parameters, and a search that returns the number of words it wrote."""
    torch.manual_seed(1)
    config = ModelConfig(**settings)
    model = Seq2seq(config, VOCABULARY).to(device).eval()
    random = np.random.default_rng(1)
    exemplars = random.integers(8, VOCABULARY, (len(sources), config.exemplars_read, EXEMPLAR))
    instances = [Instance(*parts, np.array([], np.int64)) for parts in zip(sources, map(tuple, exemplars), strict=True)]
    batch = collate(instances, VOCABULARY, config.attend_exemplar)
    limits = {"max_length": TEXT, "min_length": TEXT - 1}
    search = SearchConfig(beam_size=BEAM, batch_size=len(sources), precision=precision, **limits)
    return count(model), lambda: sum(
        len(best.ids) + 1 for best, *_ in search_batch(model, Task(batch), search).hypotheses
    )


def start_opennmt(toolkit: OpenNmt, sources: np.ndarray, device: torch.device) -> tuple[int, Callable[[], int]]:
    """The same of OpenNMT-py: its Translator, on a batch that is on the device."""
    onmt = toolkit.onmt
    options = toolkit.options("float32", feeding=True, device=device.type)
    options.copy_attn = options.reuse_copy_attn = False
    words = _Vocabulary([*SYMBOLS, *(str(number) for number in range(len(SYMBOLS), VOCABULARY))])
    vocabularies = {"src": words, "tgt": words, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    number = 0 if device.type == "cuda" else -1
    torch.manual_seed(1)
    model = onmt.model_builder.build_model(options, options, vocabularies, None, number).eval()
    translator = onmt.translate.Translator(
        model,
        vocabularies,
        gpu=number,
        beam_size=BEAM,
        min_length=TEXT - 1,
        max_length=TEXT - 1,
        max_length_ratio=0,
        global_scorer=onmt.translate.GNMTGlobalScorer(1.0, 0.0, "wu", "none"),
    )
    ids = torch.as_tensor(sources, device=device)[:, :, None]  # (B, S, 1)
    batch = {
        "src": ids,
        "srclen": torch.full((len(ids),), SOURCE, device=device),
        "ind_in_bucket": list(range(len(ids))),
    }
    return count(model), lambda: sum(len(best[0]) for best in translator.translate_batch(batch, False)["predictions"])


class _Vocabulary(Words):
    def lookup_token(self, token: str) -> int:
        return self[token]


def measure(device: torch.device, size: int, toolkit: OpenNmt, rounds: int) -> list[dict[str, Any]]:
    sources = np.random.default_rng(0).integers(8, VOCABULARY, (size, SOURCE))
    lanes = {"OpenNMT-py": start_opennmt(toolkit, sources, device)}
    lanes |= {name: start_exadec(settings, sources, device) for name, settings in MODELS.items()}
    for name, settings in MODELS.items():
        lanes[f"{name}, rounded"] = start_exadec(settings, sources, device, "rounded")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in lanes}
    written = {name: search() for name, (_, search) in lanes.items()}  # and warms up
    for _ in range(rounds):
        for name, (_, search) in lanes.items():
            wall, processor = time.perf_counter(), time.process_time()
            search()  # ends with texts on the host, so there is nothing to wait for
            times[name].append((time.perf_counter() - wall, time.process_time() - processor))
    rows = []
    for name, (parameters, _) in lanes.items():
        seconds, cpu_seconds = zip(*times[name], strict=True)
        rate = size / statistics.median(seconds)
        row = {"name": name, "batch": size, "texts_per_second": round(rate, 1), "parameters": parameters}
        row |= {"words_per_text": written[name] / size, "seconds": seconds, "cpu_seconds": cpu_seconds}
        rows.append(row)
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=SIZES)
    parser.add_argument("--opennmt", type=Path, required=True, help="folder with the packages onmt and configargparse")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device("cuda" if options.device == "gpu" else "cpu")
    toolkit = OpenNmt(options.opennmt)
    rows = [row for size in SIZES[options.device] for row in measure(device, size, toolkit, options.rounds)]
    name = torch.cuda.get_device_name() if options.device == "gpu" else f"CPU, {torch.get_num_threads()} threads"
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {"device": name, "torch": torch.__version__, "beam": BEAM, "hidden": SIZE, "rows": rows}
    file = "gpu" if options.device == "gpu" else f"cpu_{options.threads}"
    (RESULTS / f"{file}.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
