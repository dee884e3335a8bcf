"""Writes the news records with their outlet as `group`.

    python benchmarks/news_groups.py data/news work/data/news

In: a folder with `SPLIT.jsonl.xz` and, line for line, `SPLIT.meta.jsonl.xz`, which names the outlet.
Out: `SPLIT.jsonl`.
"""

import argparse
import json
import lzma
from pathlib import Path

from exadec.corpus.record import SPLITS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        with (
            lzma.open(options.source / f"{split}.jsonl.xz", "rt", encoding="utf-8") as records,
            lzma.open(options.source / f"{split}.meta.jsonl.xz", "rt", encoding="utf-8") as facts,
            (options.out / f"{split}.jsonl").open("w", encoding="utf-8") as file,
        ):
            for record, about in zip(records, facts, strict=True):
                row = {**json.loads(record), "group": json.loads(about)["outlet"]}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
