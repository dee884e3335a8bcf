"""Measures the exemplar join: against sparse_dot_topn, its growth, its memory, and the latency of one search.

In: a corpus of records. Once its words are counted, the counts are enough. Out: JSON, a page, a plot.

    python benchmarks/retrieval.py count data/news/train.jsonl.xz work/news-rows.npz
    python benchmarks/retrieval.py cpu work/news-rows.npz          sizes 50K, 100K, 300K and all, with sparse_dot_topn
    python benchmarks/retrieval.py gpu work/news-rows.npz          the same sizes, and 3.8 million resampled rows
    python benchmarks/retrieval.py weightings work/news-rows.npz   raw, binary and tf-idf on a GPU, side by side
    python benchmarks/retrieval.py latency data/news/train.jsonl.xz data/news/valid.jsonl.xz
    python benchmarks/retrieval.py features data/news data/movies data/e2e
    python benchmarks/retrieval.py page                            docs/results/retrieval.md from the JSON

Each part writes docs/results/retrieval/PART.json. Parts may run on different machines; compared libraries run together.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from exadec.corpus.record import read_records
from exadec.corpus.segment import BpeSegmenter
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.index import BowIndex
from exadec.exemplars.join import Allowed, Neighbours, join, search
from exadec.textmetrics import rouge

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "retrieval"
SIZES = (50_000, 100_000, 300_000)
CHECKED = 5_000
"""Queries whose neighbours are compared with those of another library."""
TIMED_BY_RIVAL = 5_000
"""Queries that sparse_dot_topn is timed on; its time is then scaled up to all queries."""
GIGAWORD = (3_803_957, 31.4)
"""Training pairs of the paper's largest corpus, and mean tokens of its sources."""


def count(records: Path, out: Path) -> None:
    """Count the words of all sources; terms are numbered by descending frequency, which compresses well."""
    rows = BagOfWords().fit(record.source for record in read_records(records))
    order = np.argsort(-np.bincount(rows.terms), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    numbers = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    sort = np.lexsort((rank[rows.terms], numbers))
    lengths = np.diff(rows.offsets).astype(np.uint16)
    np.savez_compressed(out, lengths=lengths, terms=rank[rows.terms][sort].astype(np.int32), counts=rows.counts[sort])


def load(path: Path) -> Rows:
    with np.load(path) as file:
        return _rows(file["lengths"], file["terms"], file["counts"])


def _rows(lengths: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> Rows:
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    sums = np.concatenate([[0], np.cumsum(counts.astype(np.int64) ** 2)])
    return Rows(offsets, columns.astype(np.int32), counts.astype(np.int32), np.diff(sums[offsets]))


def resample(rows: Rows, size: int, tokens: float, seed: int = 1) -> Rows:
    """Random rows: the lengths of these rows, scaled to a mean of `tokens`, and words drawn by frequency."""
    random = np.random.default_rng(seed)
    shares = np.bincount(rows.terms, rows.counts)
    per_row = np.add.reduceat(rows.counts, rows.offsets[:-1][np.diff(rows.offsets) > 0])
    lengths = np.rint(random.choice(per_row, size) * (tokens / per_row.mean())).astype(np.int64)
    bounds = np.cumsum(shares) / shares.sum()
    parts = []
    for some in np.array_split(lengths, 40):
        words = np.searchsorted(bounds, random.random(some.sum())).clip(max=len(shares) - 1)
        keys = np.repeat(np.arange(len(some)), some) * len(shares) + words
        unique, counts = np.unique(keys, return_counts=True)
        in_row, columns = np.divmod(unique, len(shares))
        parts.append((np.bincount(in_row, minlength=len(some)), columns, counts))
    return _rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def sample_rows(rows: Rows, size: int) -> Rows:
    """A sample of the rows, drawn with a fixed seed, in their original order."""
    if size >= len(rows):
        return rows
    return rows.take(np.sort(np.random.default_rng(size).choice(len(rows), size, replace=False)))


def own_excluded(size: int) -> Allowed:
    everyone, own = Allowed.all(size, size), np.arange(size)[None]
    return Allowed(own, own, everyone.alive, everyone.query_ranges)


def checked_queries(size: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(size, min(CHECKED, size), replace=False))


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def rival(rows: Rows, queries: np.ndarray, width: int) -> tuple[float, np.ndarray, np.ndarray]:
    """sparse_dot_topn: seconds, and for each query its two best rows with their cosines (one may be the query)."""
    from sparse_dot_topn import sp_matmul_topn

    data = rows.counts / np.sqrt(np.maximum(np.repeat(rows.squares, np.diff(rows.offsets)), 1))
    matrix = sparse.csr_matrix((data, rows.terms, rows.offsets), shape=(len(rows), width))
    transposed = matrix.T.tocsr()
    seconds, product = timed(
        lambda: sp_matmul_topn(matrix[queries], transposed, top_n=2, sort=True, n_threads=os.cpu_count())
    )
    ids, cosines = np.full((len(queries), 2), -1), np.zeros((len(queries), 2))
    for i in range(len(queries)):
        found = slice(product.indptr[i], product.indptr[i + 1])
        ids[i, : found.stop - found.start] = product.indices[found]
        cosines[i, : found.stop - found.start] = product.data[found]
    return seconds, ids, cosines


def compare(found: Neighbours, rows: Rows, queries: np.ndarray, ids: np.ndarray, cosines: np.ndarray) -> dict[str, Any]:
    """Agreement of our first neighbours with the other library's two, one of which may be the query itself."""
    own = ids[:, 0] == queries
    theirs = np.where(own, ids[:, 1], ids[:, 0])
    cosine = np.where(own, cosines[:, 1], cosines[:, 0])
    ours = found.similarities(rows.squares)[queries, 0].astype(np.float64)
    # A rival that lists two equal rows, but not the query itself, among its best has not excluded it: same score.
    same = found.ids[queries, 0] == theirs
    gap = np.abs(ours - cosine)
    return {
        "queries": len(queries),
        "largest_difference_of_scores": float(gap.max()),
        "scores_within_1e-6": float((gap <= 1e-6).mean()),
        "same_id": float(same.mean()),
        "other_id_of_equal_score": float((~same & (gap <= 1e-6)).mean()),
    }


def cpu(path: Path, sizes: list[int]) -> dict[str, Any]:
    rows = load(path)
    width = int(rows.terms.max()) + 1
    weights, results = np.ones(width, np.int64), []
    search(rows.slice(0, 64), Candidates.arrange(rows.slice(0, 64), weights), 1, own_excluded(64), np.arange(64))
    for size in sizes or [*SIZES, len(rows)]:
        some = sample_rows(rows, size)
        arranged, candidates = timed(lambda some=some: Candidates.arrange(some, weights))
        seconds, found = timed(
            lambda some=some, candidates=candidates: join(some, candidates, 1, own_excluded(len(some)), "cpu")
        )
        queries = checked_queries(len(some))
        rival_seconds, ids, cosines = rival(some, queries[:TIMED_BY_RIVAL], width)
        results.append(
            {
                "rows": len(some),
                "seconds": arranged + seconds,
                "arranging_seconds": arranged,
                "rival_seconds": rival_seconds * len(some) / len(ids),
                "rival_timed_on": len(ids),
                "mean_similarity": float(found.similarities(some.squares).mean()),
                "agreement": compare(found, some, queries[:TIMED_BY_RIVAL], ids, cosines),
                "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
        results[-1]["ratio"] = results[-1]["rival_seconds"] / results[-1]["seconds"]
        print(json.dumps(results[-1]), flush=True)
        write("cpu", {"cores": os.cpu_count(), "joins": results})
    return {"cores": os.cpu_count(), "joins": results}


def gpu(path: Path, sizes: list[int]) -> dict[str, Any]:
    import torch

    from exadec.exemplars.cuda import GpuSearch

    rows = load(path)
    weights, results = np.ones(int(rows.terms.max()) + 1, np.int64), []

    def run(some: Rows) -> Neighbours:
        allowed = own_excluded(len(some))
        return GpuSearch(some, weights, np.arange(len(some)), allowed).search(some, allowed, 1)

    first_seconds, _ = timed(lambda: run(rows.slice(0, 2000)))
    for size in sizes or [*SIZES, len(rows), GIGAWORD[0]]:
        some = sample_rows(rows, size) if size <= len(rows) else resample(rows, size, GIGAWORD[1])
        torch.cuda.reset_peak_memory_stats()
        # Twice, unless it takes long: the first run of a size also allocates memory from the driver.
        runs = [timed(lambda some=some: run(some)) for _ in range(1 if size > len(rows) else 2)]
        found = runs[-1][1]
        queries = checked_queries(len(some))
        on_cpu = search(some, Candidates.arrange(some, weights), 1, own_excluded(len(some)), queries)
        results.append(
            {
                "rows": len(some),
                "resampled": size > len(rows),
                "terms_per_row": float(len(some.terms) / len(some)),
                "seconds": [seconds for seconds, _ in runs],
                "gpu_gigabytes": torch.cuda.max_memory_allocated() / 2**30,
                "mean_similarity": float(found.similarities(some.squares).mean()),
                "checked": len(queries),
                "same_id_as_cpu": float((found.ids[queries] == on_cpu.ids[queries]).mean()),
                "same_score_as_cpu": float((found.scores[queries] == on_cpu.scores[queries]).mean()),
            }
        )
        print(json.dumps(results[-1]), flush=True)
    return {"device": torch.cuda.get_device_name(), "compiling_seconds": first_seconds, "joins": results}


def weightings(path: Path, sizes: list[int]) -> dict[str, Any]:
    """The GPU join with each weighting, without arranging on the CPU; uses only names that older versions have."""
    import torch

    counted, results = load(path), []
    for weighting in ("raw", "binary", "tfidf"):
        for size in sizes or [len(counted)]:
            rows, weights = weigh(sample_rows(counted, size), weighting)
            candidates, allowed = Candidates.arrange(rows, weights), own_excluded(len(rows))
            queries = checked_queries(len(rows))
            join(rows.slice(0, 64), candidates, 1, allowed.take(np.arange(64)), "cuda")  # compiles
            for k in (1, 10):
                find = partial(join, rows, candidates, k, allowed, "cuda")
                torch.cuda.reset_peak_memory_stats()
                (first, found), (second, _) = timed(find), timed(find)
                on_cpu = search(rows, candidates, k, allowed, queries)
                results.append(
                    {"weighting": weighting, "rows": len(rows), "k": k, "seconds": [first, second]}
                    | {"gpu_gigabytes": torch.cuda.max_memory_allocated() / 2**30, "checked": len(queries)}
                    | {"same_ids_as_cpu": bool((found.ids[queries] == on_cpu.ids[queries]).all())}
                    | {"same_scores_as_cpu": bool((found.scores[queries] == on_cpu.scores[queries]).all())}
                )
                print(json.dumps(results[-1]), flush=True)
    return {"device": torch.cuda.get_device_name(), "joins": results}


def weigh(rows: Rows, weighting: Weighting) -> tuple[Rows, np.ndarray]:
    """Counted rows as a `BagOfWords` with that weighting returns them, and its weights."""
    width = int(rows.terms.max()) + 1
    if weighting == "binary":
        rows = _rows(np.diff(rows.offsets), rows.terms, np.ones_like(rows.counts))
    bag = BagOfWords(weighting)
    bag.columns = {str(term): term for term in range(width)}
    bag.weights = np.ones(width, np.int64)
    return bag.weigh(rows), bag.weights


def latency(train: Path, held_out: Path, searches: int = 2_000) -> dict[str, Any]:
    """Searching an index on disk for one new text at a time, in one thread."""
    built, index = timed(lambda: BowIndex.build(record.source for record in read_records(train)))
    with tempfile.TemporaryDirectory() as folder:
        saved, _ = timed(lambda: index.save(Path(folder)))
        megabytes = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**20
        del index
        opened, index = timed(lambda: BowIndex.open(Path(folder)))
        texts = [record.source for record in read_records(held_out)][:searches]
        results: dict[str, Any] = {"rows": len(index), "searches": len(texts)}
        results |= {"build_seconds": built, "save_seconds": saved, "open_seconds": opened, "megabytes": megabytes}
        for k in (1, 10):
            index.search(texts[0], k)
            times = np.array([timed(lambda text=text, k=k: index.search(text, k))[0] for text in texts]) * 1e3
            results[f"top_{k}_milliseconds"] = {
                name: float(np.quantile(times, q)) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
            }
    return results


def features(folders: list[Path]) -> list[dict[str, Any]]:
    """ROUGE F1 of the exemplars of development instances against the references, for each weighting."""
    results = []
    for folder in folders:
        train = list(read_records(folder / "train.jsonl.xz"))
        valid = list(read_records(folder / "valid.jsonl.xz"))
        references = [record.scoring_references() for record in valid]
        texts = (text for record in train for text in (record.source, record.target))
        pieces = BpeSegmenter.learn(texts, 25_000 if len(train) > 100_000 else 8_000, lower_case=False)
        for counted, split in (("words", terms), ("pieces", pieces.segment)):
            for weighting in ("raw", "binary", "tfidf"):
                ids, cosines = _nearest([r.source for r in train], [r.source for r in valid], weighting, split)
                copied = [train[i].target if i >= 0 else "" for i in ids]
                results.append(
                    {"data": folder.name, "features": counted, "weighting": weighting, "instances": len(valid)}
                    | {"mean_similarity": float(cosines.mean()), "without_exemplar": int((ids < 0).sum())}
                    | {f"rouge{name}": score.value for name, score in rouge(copied, references).items()}
                )
                print(json.dumps(results[-1]), flush=True)
    return results


def _nearest(
    train: list[str], queries: list[str], weighting: Weighting, split: Callable[[str], list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    bag = BagOfWords(weighting, split)
    candidates = Candidates.arrange(bag.fit(train), bag.weights)
    rows = bag.count(queries)
    found = join(rows, candidates, 1, Allowed.all(len(rows), len(candidates)), "cpu")
    return found.ids[:, 0], found.similarities(rows.squares)[:, 0]


def write(part: str, results: Any) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["count", "cpu", "gpu", "weightings", "latency", "features", "page"])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="other numbers of rows")
    arguments = parser.parse_args()
    paths = arguments.paths
    if arguments.part == "count":
        count(*paths)
    elif arguments.part == "page":
        from retrieval_page import write_page

        write_page(RESULTS)
    elif arguments.part == "features":
        write("features", features(paths))
    elif arguments.part == "latency":
        write("latency", latency(*paths))
    else:
        write(
            arguments.part,
            {"cpu": cpu, "gpu": gpu, "weightings": weightings}[arguments.part](paths[0], arguments.sizes),
        )


if __name__ == "__main__":
    main()
