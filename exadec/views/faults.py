"""What is wrong with outputs.

In: outputs of a system. Out: its worst instances; words that an output should not have, lacks, or repeats.

Only content words count, and they are compared by their stems, as in `textmetrics.truth`.
"""

import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from exadec.textmetrics.tokens import split_text
from exadec.textmetrics.truth import content_stems
from exadec.training.evaluation import Output
from exadec.views.results import System

_SEED = 2019
_LONGEST = 8
"""Words that a list of faults shows."""


@dataclass(frozen=True)
class Faults:
    """What an output has that it should not have, or lacks. Words are as the texts write them."""

    borrowed: list[str]
    """An exemplar that was read has these words, but neither the source nor a reference."""
    invented: list[str]
    """Neither source, reference nor any exemplar has them."""
    left_out: list[str]
    """The source and all references have them, but not the output."""
    repeated: list[str]
    """Words that come twice in a row, and three words in a row that come again."""


def choose_worst(system: System, count: int) -> list[int]:
    """The instances whose outputs have the lowest ROUGE-L, worst first; equals come in a fixed random order."""
    scores = system.rouge_l.per_instance
    order = np.lexsort((np.random.default_rng(_SEED).permutation(len(scores)), scores))
    chosen: list[int] = order[:count].tolist()
    return chosen


def find_faults(output: Output) -> Faults:
    """The faults of a text, judged by its source, all exemplars that were read, and its references."""
    licensed = _licensed_stems(output)
    exemplar = frozenset(content_stems(output.exemplar or "")).union(*map(content_stems, output.other_exemplars))
    foreign = [word for word in split_text(output.text) if _is_foreign(word, licensed)]
    wanted = frozenset(content_stems(output.source)).difference(content_stems(output.text))
    for reference in output.references:
        wanted = wanted.intersection(content_stems(reference))
    return Faults(
        borrowed=_once(word for word in foreign if not exemplar.isdisjoint(content_stems(word))),
        invented=_once(word for word in foreign if exemplar.isdisjoint(content_stems(word))),
        left_out=_once(word for word in split_text(output.references[0]) if not wanted.isdisjoint(content_stems(word))),
        repeated=_find_repeats(output.text),
    )


def _find_repeats(text: str) -> list[str]:
    words = [word.strip(string.punctuation).lower() or word for word in text.split()]
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    again = [" ".join(triple) for triple, count in triples.items() if count > 1 and len(set(triple)) > 1]
    return _once([*(word for word, following in pairwise(words) if word == following), *again])


def describe_faults(output: Output) -> list[str]:
    """A phrase for each kind of fault that the output has."""
    faults = find_faults(output)
    named = {
        "from the exemplar alone": faults.borrowed,
        "in neither source, reference nor exemplar": faults.invented,
        "left out": faults.left_out,
        "repeated": faults.repeated,
    }
    phrases = [] if output.text.strip() else ["nothing was written"]
    for name, words in named.items():
        if words:
            phrases.append(f"{name}: {', '.join(words[:_LONGEST])}{', …' if len(words) > _LONGEST else ''}")
    return phrases


def mark_foreign_words(output: Output) -> list[tuple[str, bool]]:
    """Split the text into runs of words, each marked by whether neither the source nor a reference has it."""
    licensed = _licensed_stems(output)
    marked = [(word, _is_foreign(word, licensed)) for word in output.text.split()]
    return [(" ".join(word for word, _ in run), wrong) for wrong, run in groupby(marked, key=lambda pair: pair[1])]


def _licensed_stems(output: Output) -> frozenset[str]:
    return frozenset(content_stems(output.source)).union(*map(content_stems, output.references))


def _is_foreign(word: str, licensed: frozenset[str]) -> bool:
    stems = content_stems(word)
    return bool(stems) and licensed.isdisjoint(stems)


def _once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
