"""Own ROUGE against the rouge-score package, side by side in one process.

In: a number of pairs and a seed, or two files with a text per line. Out: a table of seconds, ratio, largest difference.

    python benchmarks/rouge.py [--pairs 20000] [--seed 1] [--hypotheses FILE --references FILE]
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from exadec.textmetrics.rouge import Overlap, count_overlaps
from exadec.textmetrics.stemming import stem

MEASURES = ("1", "2", "L")
ENDINGS = ("", "", "", "s", "ed", "ing", "ation", "ational", "ly", "ness", "ment", "er", "ies", "ive", "ize", "able")


def headlines(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Pairs of 8 to 14 words from a vocabulary with Zipf's frequencies; about half of a hypothesis is its reference."""
    generator = random.Random(seed)
    syllables = [consonant + vowel for consonant in "bcdfghklmnprstvwyz" for vowel in "aeiou"]
    words = [
        "".join(generator.choices(syllables, k=generator.randint(1, 3))) + generator.choice(ENDINGS)
        for _ in range(30_000)
    ]
    chances = np.cumsum(1 / np.arange(1, len(words) + 1)).tolist()

    def draw(length: int) -> list[str]:
        return generator.choices(words, cum_weights=chances, k=length)

    hypotheses, references = [], []
    for _ in range(count):
        reference = draw(generator.randint(8, 14))
        kept = [word if generator.random() < 0.6 else draw(1)[0] for word in reference]
        hypothesis = (kept + draw(6))[: generator.randint(8, 14)]
        hypotheses.append(" ".join(hypothesis).capitalize() + ".")
        references.append(" ".join(reference).capitalize() + ".")
    return hypotheses, references


def time_own(hypotheses: list[str], references: list[str], stemmed: bool) -> tuple[float, dict[str, Overlap]]:
    """Median of three, each with a cold cache of stems; the other side runs once, for it takes long."""
    wrapped = [[reference] for reference in references]
    seconds = []
    for _ in range(3):
        stem.cache_clear()
        start = time.perf_counter()
        overlaps = count_overlaps(hypotheses, wrapped, MEASURES, stemmed)
        for overlap in overlaps.values():
            _ = overlap.precision, overlap.recall, overlap.f1
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[1], overlaps


def time_rouge_score(hypotheses: list[str], references: list[str], stemmed: bool) -> tuple[float, np.ndarray]:
    """Seconds, and (pairs, measures, 3): precision, recall, F1."""
    scorer = RougeScorer([f"rouge{measure}" for measure in MEASURES], use_stemmer=stemmed)
    start = time.perf_counter()
    scores = [scorer.score(reference, text) for text, reference in zip(hypotheses, references, strict=True)]
    seconds = time.perf_counter() - start
    return seconds, np.array([list(score.values()) for score in scores])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hypotheses", type=Path, help="a text per line, instead of generated ones")
    parser.add_argument("--references", type=Path, help="a text per line, instead of generated ones")
    options = parser.parse_args()
    if (options.hypotheses is None) != (options.references is None):
        parser.error("--hypotheses and --references go together")
    if options.hypotheses:
        files = (options.hypotheses, options.references)
        hypotheses, references = (path.read_text().splitlines()[: options.pairs] for path in files)
    else:
        hypotheses, references = headlines(options.pairs, options.seed)
    print(f"ROUGE-{'/'.join(MEASURES)}, precision, recall and F1 of {len(hypotheses)} pairs")
    print(f"{'stemming':<9} {'rouge-score s':>14} {'exadec s':>9} {'ratio':>7} {'max difference':>15}")
    for stemmed in (True, False):
        own_seconds, overlaps = time_own(hypotheses, references, stemmed)
        other_seconds, other = time_rouge_score(hypotheses, references, stemmed)
        own = np.array([[overlap.precision, overlap.recall, overlap.f1] for overlap in overlaps.values()])
        difference = np.abs(own.transpose(2, 0, 1) - other).max()
        row = f"{'yes' if stemmed else 'no':<9} {other_seconds:>14.2f} {own_seconds:>9.3f}"
        print(f"{row} {other_seconds / own_seconds:>7.1f} {difference:>15.1e}")


if __name__ == "__main__":
    main()
