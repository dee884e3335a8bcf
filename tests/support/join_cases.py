"""Rows and rules that are hard to join: ties, huge counts, empty texts, groups."""

import numpy as np

from exadec.exemplars.bow import BagOfWords, Rows, Weighting
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.join import (
    Allowed,
    Neighbours,
    search,
)


def rules_for(queries: int, candidates: int, seed: int) -> Allowed:
    """Some rules: keys that clash, candidates that nobody may find, ranges, scores that are too high."""
    random = np.random.default_rng(seed)
    ranges = np.sort(random.integers(0, candidates + 1, (queries, 2)), axis=1)
    ranges[random.random(queries) < 0.5] = [0, candidates]
    return Allowed(
        query_keys=random.integers(0, 4, (2, queries)),
        candidate_keys=random.integers(0, 4, (2, candidates)),
        alive=random.random(candidates) < 0.9,
        query_ranges=ranges,
        query_ceilings=some_ceilings(queries, random),
    )


def some_ceilings(queries: int, random: np.random.Generator) -> np.ndarray:
    """None for half of the queries; limits of any order of magnitude for the others."""
    return np.where(random.random(queries) < 0.5, np.inf, np.exp(random.uniform(-1, 20, queries)))


def numbered(rows: Rows, allowed: Allowed, candidates: Candidates, k: int) -> Neighbours:
    return search(rows, candidates, k, allowed, np.arange(len(rows)))


def zipf_rows(count: int, seed: int, weighting: Weighting = "raw", types: int = 3000) -> tuple[Rows, BagOfWords]:
    """Rows like text: a few terms everywhere, most terms nearly nowhere; some rows twice, some empty."""
    random = np.random.default_rng(seed)
    shares = 1 / np.arange(1, types + 1)
    lengths = random.integers(0, 30, count)
    drawn = random.choice(types, lengths.sum(), p=shares / shares.sum())
    texts = [" ".join(f"w{t}" for t in part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]
    texts[count // 2 : count // 2 + count // 20] = texts[: count // 20]
    bag = BagOfWords(weighting)
    return bag.fit(texts), bag


def hard_texts(count: int, seed: int) -> list[str]:
    """Texts with many ties, huge counts, and none of any word; a few words are everywhere, most nearly nowhere."""
    random = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 301)
    texts = []
    for i in range(count):
        drawn = random.choice(300, random.integers(1, 12), p=shares / shares.sum())
        texts.append(" ".join(f"w{t}" for t in drawn))
        if i % 7 == 3:
            texts[-1] = texts[i // 2]  # the same row again, far away
        if i % 11 == 5:
            texts[-1] = "tie twice"  # more of them than the first round of a search looks at
        if i % 13 == 0:
            texts[-1] = ""
        if i % 17 == 1:
            texts[-1] = f"w{i % 40} " * 5000 + "w0 " * 200 + f"only{i}"
    return texts


def hard_rules(count: int, seed: int) -> Allowed:
    """Groups are ranges; own keys, and keys that few share; candidates nobody may find; scores that are too high."""
    random = np.random.default_rng(seed)
    borders = np.array([0, count // 3, count // 3 + 1, count // 2, count])
    ranges = np.stack([borders[:-1], borders[1:]], axis=1)[random.integers(0, 4, count)]
    ranges[: count // 2] = [0, count]
    ranges[count // 2 : count // 2 + 2] = [5, 5]  # a group without members
    keys = np.stack([np.arange(count), random.integers(0, count // 3, count)])
    return Allowed(keys, keys, random.random(count) < 0.95, ranges, some_ceilings(count, random))
