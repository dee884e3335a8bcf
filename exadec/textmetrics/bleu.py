"""Corpus BLEU, by sacrebleu.

In: hypotheses, and for each one or more references. Out: a `BleuScore` that keeps the counts BLEU is made of.

A text can be split in two ways, because published work uses both:

- `13a` is for raw text. It is split by sacrebleu's copy of the tokenisation of Moses' mteval-v13a.pl.
- `none` is for text that is tokenised already, such as WikiBio. It is split at spaces, as multi-bleu.perl does.

Case: `lower_case=False` is `mteval-v13a.pl -c`, and sacrebleu's default (its signature says case:mixed).
`lower_case=True` is mteval without -c (case:lc). Without -c mteval lower-cases by `tr/[A-Z]/[a-z]/`, so it keeps É and
Ω, where sacrebleu lower-cases every letter. The two agree on texts whose capitals are ASCII. Sources: mteval-v13a.pl in
moses-smt/mosesdecoder (scripts/generic), and test.sh of sacrebleu. The latter checks that sacrebleu's values equal
those of `mteval-v13a.pl -c`, and names this difference as the reason why it cannot check them without -c.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from exadec.textmetrics.scores import FloatArray, IntArray, Score, check_texts

logger = logging.getLogger(__name__)

_ORDERS = 4
_NAMES = {"13a": "BLEU", "none": "BLEU (tokenised)"}
_LOWER_CASE_NAMES = {"13a": "BLEU (lower case)", "none": "BLEU (tokenised, lower case)"}

_CUT_OFF = re.compile(
    r"[.,()\[\]]|-[lr][rsc]b-|``|''|n't|'(?:s|re|ve|ll|d|m)|&apos;\w*|&quot;|@-@",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"[^.,][.,]$|^[(\[]\w|\w[)\]]$|[^\W\d_](?:n['’]t|['’](?:s|re|ve|ll|d|m))$|^[\"“]\w",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class BleuScore(Score):
    """BLEU over a corpus. It is not a mean over instances: a resample sums the instances' counts and computes anew."""

    statistics: IntArray = field(repr=False)
    """(N, 10) hypothesis length, reference length, matched n-grams of order 1 to 4, n-grams of order 1 to 4."""

    @property
    def instances(self) -> int:
        return len(self.statistics)

    def resampled_values(self, weights: FloatArray) -> FloatArray:
        totals = weights @ self.statistics.astype(np.float64)  # (R, 10); whole numbers, exact below 2 ** 53
        return np.array([_bleu_of(total) for total in totals.astype(np.int64)])


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: Literal["13a", "none"] = "13a",
    lower_case: bool = False,
) -> BleuScore:
    """BLEU with exponential smoothing; `references[i]` belong to `hypotheses[i]`. The module says how texts are split.

    Splitting tokenised texts by 13a is legitimate (mteval does it), but does not give multi-bleu's value, so it logs a
    warning. `tokenize="none"` gives multi-bleu's.
    """
    check_texts(hypotheses, references)
    if tokenize not in _NAMES:
        raise ValueError(f"`tokenize` must be '13a' or 'none', but is {tokenize!r} instead.")
    if tokenize == "13a" and (looks_tokenized(hypotheses) or looks_tokenized(chain.from_iterable(references))):
        logger.warning("The texts look tokenised already, but BLEU splits them by 13a; `bleu_tokenised` does not.")
    read = _reader(tokenize, lower_case)
    # Only the counts of a sentence score are used; effective_order changes none of them and silences a warning.
    metric = BLEU(tokenize="none", effective_order=True)
    statistics = np.empty((len(hypotheses), 2 + 2 * _ORDERS), dtype=np.int64)
    for index, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True)):
        sentence = metric.sentence_score(read(hypothesis), [read(text) for text in texts])
        statistics[index] = [sentence.sys_len, sentence.ref_len, *sentence.counts, *sentence.totals]
    statistics.flags.writeable = False
    value = _bleu_of(statistics.sum(axis=0))
    signature = _signature(references, tokenize, lower_case)
    name = _LOWER_CASE_NAMES[tokenize] if lower_case else _NAMES[tokenize]
    return BleuScore(name=name, value=value, signature=signature, statistics=statistics)


def looks_tokenized(texts: Iterable[str]) -> bool:
    """Whether the texts, taken together, have their punctuation cut off their words by spaces.

    Two kinds of pieces between spaces are counted. *Cut off*: a full stop, comma or bracket alone, and tokens of the
    Penn Treebank (-lrb-, two backticks or apostrophes for a quotation mark, n't, 's) and of Moses (&apos;s, @-@).
    *Joined*: a word with such a mark at the end where ordinary writing has it. The texts look tokenised if at least as
    many pieces are cut off as are joined. Some may be joined, because abbreviations (jr.) keep their stop. Texts with
    neither kind do not look tokenised. Question and exclamation marks, colons and semicolons do not count, because
    French writes a space before them.
    """
    if isinstance(texts, str):
        raise ValueError(f"`texts` must be a list of texts, but is the single text {texts!r} instead.")
    counts = Counter(chain.from_iterable(map(str.split, texts)))
    cut_off = sum(count for piece, count in counts.items() if _CUT_OFF.fullmatch(piece))
    joined = sum(count for piece, count in counts.items() if _JOINED.search(piece))
    return cut_off > 0 and cut_off >= joined


class _WordCache(dict[str, str]):
    """The tokens of each word. They do not depend on the word's neighbours, and most words occur again."""

    def __init__(self, tokenizer: Callable[[str], str]) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, word: str) -> str:
        self[word] = tokens = self.tokenizer(word)
        return tokens


def _reader(tokenize: str, lower_case: bool) -> Callable[[str], str]:
    """A function from a text to its tokens, separated by spaces: as sacrebleu does it, but several times faster.

    13a's rules look at most one character to either side and treat a space like a letter, so a text may be tokenised
    word by word. The exception is a hyphen before a line end, which joins two words.
    """
    tokenizer: Callable[[str], str] = BLEU(tokenize=tokenize).tokenizer
    words = _WordCache(tokenizer)

    def read(text: str) -> str:
        if lower_case:
            text = text.lower()
        if "\n" in text:
            return tokenizer(text.rstrip())
        return " ".join(map(words.__getitem__, text.split()))

    return read


def _bleu_of(totals: IntArray) -> float:
    """Corpus BLEU (0 to 100) from the corpus's ten counts."""
    length, reference_length, *counts = totals.tolist()
    return BLEU.compute_bleu(counts[:_ORDERS], counts[_ORDERS:], length, reference_length, smooth_method="exp").score


def _signature(references: Sequence[Sequence[str]], tokenize: str, lower_case: bool) -> str:
    """The signature sacrebleu gives to the whole corpus.

    It depends only on the smallest and the largest number of references, so two instances are enough to ask for it.
    """
    fewest, most = min(map(len, references)), max(map(len, references))
    metric = BLEU(tokenize=tokenize, lowercase=lower_case)
    # sacrebleu takes one list per reference number, with None where an instance has no such reference.
    columns: list[list[Any]] = [["" if number < fewest else None, ""] for number in range(most)]
    metric.corpus_score(["", ""], columns)
    return str(metric.get_signature())
