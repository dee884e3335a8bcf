"""Our ROUGE against the package rouge-score and the official Perl script, side by side in one run.

In: a number of pairs and a seed, or two files with a text per line. Out: a table of seconds, ratio, largest difference.

    python benchmarks/rouge.py [--pairs 20000] [--perl-pairs 2000] [--seed 1] [--hypotheses FILE --references FILE]

Each line compares the dialect of the same name, so the scores must agree, too. The Perl script takes time in
proportion to the number of pairs, so it gets fewer of them, and its time is scaled up.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from exadec.textmetrics.rouge import Dialect, Overlap, count_overlaps
from exadec.textmetrics.stemming import stem_like_nltk, stem_like_script

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import rouge_script

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


def time_own(
    hypotheses: list[str], references: list[str], stemmed: bool, dialect: Dialect
) -> tuple[float, dict[str, Overlap]]:
    """Median of five, each with a cold cache of stems. The others run once, because they take long."""
    wrapped = [[reference] for reference in references]
    seconds = []
    for _ in range(5):
        stem_like_nltk.cache_clear()
        stem_like_script.cache_clear()
        start = time.perf_counter()
        overlaps = count_overlaps(hypotheses, wrapped, MEASURES, stemmed, dialect=dialect)
        for overlap in overlaps.values():
            _ = overlap.precision, overlap.recall, overlap.f1
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[2], overlaps


def time_rouge_score(hypotheses: list[str], references: list[str], stemmed: bool) -> tuple[float, np.ndarray]:
    """Seconds, and (pairs, measures, 3): precision, recall, F1."""
    scorer = RougeScorer([f"rouge{measure}" for measure in MEASURES], use_stemmer=stemmed)
    start = time.perf_counter()
    scores = [scorer.score(reference, text) for text, reference in zip(hypotheses, references, strict=True)]
    seconds = time.perf_counter() - start
    return seconds, np.array([list(score.values()) for score in scores])


def time_script(hypotheses: list[str], references: list[str], stemmed: bool) -> tuple[float, np.ndarray]:
    """Seconds without writing the files and without resampling, and (pairs, measures, 3): precision, recall, F1."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rouge_script.prepare_data(folder / "data", with_exceptions=False)
        listing = rouge_script.write_texts(folder / "texts", hypotheses, [[text] for text in references])
        start = time.perf_counter()
        printed = rouge_script.run_script(folder / "data", listing, "-n", "2", *(["-m"] if stemmed else []))
        seconds = time.perf_counter() - start
    values = np.stack([rouge_script.per_instance(printed, measure) for measure in MEASURES], axis=1)
    return seconds, values[:, :, [1, 0, 2]]


def print_row(other: str, stemmed: bool, seconds: tuple[float, float], overlaps: dict[str, Overlap], values) -> None:
    own = np.array([[overlap.precision, overlap.recall, overlap.f1] for overlap in overlaps.values()])
    difference = np.abs(own.transpose(2, 0, 1)[: len(values)] - values).max()
    row = f"{other:<13} {'yes' if stemmed else 'no':<9} {seconds[0]:>9.2f} {seconds[1]:>9.3f}"
    print(f"{row} {seconds[0] / seconds[1]:>7.1f} {difference:>15.1e}")


def compare(hypotheses: list[str], references: list[str], script_pairs: int) -> None:
    print(f"ROUGE-{'/'.join(MEASURES)}, precision, recall and F1 of {len(hypotheses)} pairs")
    print(f"{'other':<13} {'stemming':<9} {'other s':>9} {'exadec s':>9} {'ratio':>7} {'max difference':>15}")
    for stemmed in (True, False):
        # Before and after the other one, because the machine may have other work, too.
        before, overlaps = time_own(hypotheses, references, stemmed, "rouge-score")
        seconds, values = time_rouge_score(hypotheses, references, stemmed)
        after, _ = time_own(hypotheses, references, stemmed, "rouge-score")
        print_row("rouge-score", stemmed, (seconds, (before + after) / 2), overlaps, values)
    for stemmed in (True, False):
        own_seconds, overlaps = time_own(hypotheses, references, stemmed, "1.5.5")
        if reason := rouge_script.missing():
            print(f"ROUGE-1.5.5   {'yes' if stemmed else 'no':<9} {'-':>9} {own_seconds:>9.3f}   ({reason})")
            continue
        pairs = min(script_pairs, len(hypotheses))
        seconds, values = time_script(hypotheses[:pairs], references[:pairs], stemmed)
        print_row("ROUGE-1.5.5", stemmed, (seconds * len(hypotheses) / pairs, own_seconds), overlaps, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--perl-pairs", type=int, default=2_000)
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
    compare(hypotheses, references, options.perl_pairs)


if __name__ == "__main__":
    main()
