"""What `search.facts` gains and costs: the same runs decoded with off, mark and strict, one after the other.

In: run folders with their corpora. Out: docs/results/facts.json: ROUGE-L, unlicensed facts, texts per second of a core.

    exadec demo --folder demo
    python benchmarks/facts.py demo/seq2seq demo/attexp demo/adadec demo/adadec+attexp --name wire

A second call with another `--name` adds its runs to the file. The time of `mark` includes finding the facts; that of
`strict` the rules. Counting names, which happens once for a corpus, is not part of it.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exadec.corpus.readers import known_styles
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.search.facts import licensing_text, names_of
from exadec.textmetrics import compare, measure_all
from exadec.textmetrics.licensing import Checker, Stated
from exadec.training.checkpoint import Run, open_corpus, open_run
from exadec.training.evaluation import Output, choose_sample, decode_split, score_outputs

OUT = Path(__file__).parent.parent / "docs" / "results" / "facts.json"
MODES = ("off", "mark", "strict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--name", required=True, help="what the runs' data is called")
    parser.add_argument("--texts", type=int, default=1 << 60, help="a random sample of the test set, of so many")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # CPU time is then comparable on a busy machine
    known = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    rows = [measure(open_run(folder), arguments.texts) for folder in arguments.runs]
    OUT.write_text(
        json.dumps({**known, arguments.name: {"torch": torch.__version__, "runs": rows}}, indent=1) + "\n", "utf-8"
    )


def measure(run: Run, most: int) -> dict[str, Any]:
    corpus = open_corpus(run)
    exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
    model, names, told = run.load_model(device="cpu"), names_of(corpus), run.config.corpus.group_in_source
    chosen = choose_sample(corpus.size("test"), most)
    records = list(corpus.records("test"))
    if chosen is not None:
        records = [records[number] for number in chosen]
    sources = [licensing_text(record.source, record.group, told) for record in records]
    references = [record.target for record in records]
    row: dict[str, Any] = {"variant": run.config.model.variant, "texts": len(sources)}
    row["references"] = count([Checker(*one).check(text) for one, text in pair(sources, names, references)])
    rouge = {}
    for mode in MODES:
        search = replace(run.config.search, facts=mode)
        decode_split(model, corpus, exemplars, "test", search, np.arange(min(64, len(sources))))  # warm up
        started = time.process_time()
        outputs = decode_split(model, corpus, exemplars, "test", search, chosen)
        texts = [output.text for output in outputs]
        stated = [Checker(*one).check(text) for one, text in pair(sources, names, texts)] if mode == "mark" else None
        seconds = time.process_time() - started
        stated = stated or [Checker(*one).check(text) for one, text in pair(sources, names, texts)]
        scores = score_outputs(["rougeL", "facts"], outputs, run)
        rouge[mode] = scores[0]
        row[mode] = {
            "scores": {one.score.name: [one.score.value, one.low, one.high] for one in measure_all(scores)},
            **count(stated),
            "empty_texts": texts.count(""),
            "bulletins": count_bulletins(run, outputs),
            "texts_per_cpu_second": len(texts) / seconds,
        }
        print(run.folder, mode, row[mode], flush=True)
    difference = compare(rouge["strict"], rouge["off"])
    row["strict_minus_off"] = [difference.difference, difference.low, difference.high]
    return row


def pair(sources: Sequence[str], names: object, texts: Sequence[str]) -> list[tuple[tuple[Any, Any], str]]:
    return [((source, names), text) for source, text in zip(sources, texts, strict=True)]


def count(stated: Sequence[Sequence[Stated]]) -> dict[str, Any]:
    unlicensed = [[fact for fact in facts if not fact.licensed] for facts in stated]
    return {
        "facts": sum(map(len, stated)),
        "unlicensed": sum(map(len, unlicensed)),
        "unlicensed_by_kind": Counter(fact.kind for facts in unlicensed for fact in facts),
        "texts_with_unlicensed": sum(map(bool, unlicensed)),
    }


def count_bulletins(run: Run, outputs: Sequence[Output]) -> dict[str, int] | None:
    """Texts of the wire in its style `bulletin`, which ends in a weekday; and how many have that of the source."""
    styles = known_styles(run.config.corpus)
    if styles is None:
        return None
    bulletins = [output for output in outputs if styles.style_of(output.text) == "bulletin"]
    days = [output.text.split()[-1] for output in bulletins]
    right = sum(f" {day}" in output.source for day, output in zip(days, bulletins, strict=True))
    return {"texts": len(bulletins), "weekday_right": right}


if __name__ == "__main__":
    main()
