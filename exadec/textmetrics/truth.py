"""Truth to the source: what a text takes from its exemplar, and what its source does not license.

In: texts, their sources, exemplars, references. Out: the scores `Leak` (lower is better), `Support`, `Facts` and
`Content`.

Leak = 100 * content words of the texts that the exemplar has and the source has not / content words of the texts.
Support = 100 * facts of the texts that the source licenses / facts of the texts; `facts.py` says what a fact is.
Facts = 100 * texts all of whose facts the source licenses / texts; `licensing.py` says which facts these are.
Content = 100 * content words of the references that source and text have / those that the source has.
All but Facts are ratios of sums over the corpus, so a long text counts for more than a short one.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from exadec.textmetrics.facts import FactFinder, Names, licence_of
from exadec.textmetrics.licensing import Checker
from exadec.textmetrics.manner import find_given
from exadec.textmetrics.scores import MeanScore, RatioScore, mean_score, package_version, ratio_score
from exadec.textmetrics.stemming import stem_like_script
from exadec.textmetrics.tokens import is_function_word, is_word, remember, split_text, without_possessive

LEAK_VERSION = 1
SUPPORT_VERSION = 2
FACTS_VERSION = 4
CONTENT_VERSION = 1
"""Of the definitions. Values of different versions must not be compared."""


def leak(texts: Sequence[str], sources: Sequence[str], exemplars: Sequence[str | None]) -> RatioScore:
    """Words are compared in lower case and stemmed. An instance without an exemplar is left out."""
    _check_sources(texts, sources)
    given = find_given(texts, exemplars)
    hits, cases = [], []
    for text, source, exemplar, counts in zip(texts, sources, exemplars, given, strict=True):
        words = content_stems(text) if counts else ()
        borrowed = _stems_of_exemplar_alone(source, exemplar)
        hits.append(sum(word in borrowed for word in words))
        cases.append(len(words))
    signature = f"leak|content words|stem:porter|micro|definition:{LEAK_VERSION}|v:{package_version()}"
    return ratio_score("Leak", hits, cases, signature, lower_is_better=True)


def leaked_words(text: str, source: str, exemplar: str | None) -> list[str]:
    """The words of a text that `leak` counts, as the text writes them and in its order."""
    borrowed = _stems_of_exemplar_alone(source, exemplar)
    return [token for token in split_text(text) if not borrowed.isdisjoint(_stem_token(token))]


def _stems_of_exemplar_alone(source: str, exemplar: str | None) -> frozenset[str]:
    return frozenset(content_stems(exemplar or "")).difference(content_stems(source))


def support(texts: Sequence[str], sources: Sequence[str]) -> RatioScore:
    """100 if the texts state no fact at all."""
    _check_sources(texts, sources)
    finder = _finder_for(tuple(sources))
    hits, cases = [], []
    for text, source in zip(texts, sources, strict=True):
        facts = finder.find(text)
        hits.append(sum(map(licence_of(source).allows, facts)))
        cases.append(len(facts))
    signature = f"support|numbers+dates+names|micro|definition:{SUPPORT_VERSION}|v:{package_version()}"
    return ratio_score("Support", hits, cases, signature, value_of_none=100.0)


def licensed(texts: Sequence[str], sources: Sequence[str], names: Names | None = None) -> MeanScore:
    """A text that states no fact counts as licensed. `names` are those of a corpus; by default, of the sources."""
    _check_sources(texts, sources)
    known = _finder_for(tuple(sources)).names if names is None else names
    values = [100.0 * Checker(source, known).accepts(text) for text, source in zip(texts, sources, strict=True)]
    origin = "sources" if names is None else "training"
    signature = f"facts|texts with all numbers+dates+names+quotations licensed|names:{origin}"
    signature += f"|definition:{FACTS_VERSION}"
    return mean_score("Facts", values, f"{signature}|v:{package_version()}")


def content(texts: Sequence[str], sources: Sequence[str], references: Sequence[str]) -> RatioScore:
    """How much of what a reference took from its source is in the text, too; the wording of the reference is left out.

    Each word counts once in a text. 100 if the references share no content word with their sources.
    """
    _check_sources(texts, sources)
    hits, cases = [], []
    for text, source, reference in zip(texts, sources, references, strict=True):
        wanted = frozenset(content_stems(reference)).intersection(content_stems(source))
        hits.append(len(wanted.intersection(content_stems(text))))
        cases.append(len(wanted))
    signature = f"content|reference words of the source|stem:porter|micro|definition:{CONTENT_VERSION}"
    return ratio_score("Content", hits, cases, f"{signature}|v:{package_version()}", value_of_none=100.0)


@lru_cache(maxsize=2)
def _finder_for(sources: tuple[str, ...]) -> FactFinder:
    """Kept, because systems and references are scored one after the other with the same sources."""
    return FactFinder(sources)


@remember(1 << 16)
def content_stems(text: str) -> tuple[str, ...]:
    """The stems of a text's content words, in lower case; a word with hyphens counts as its parts."""
    return tuple(chain.from_iterable(_stem_token(token) for token in split_text(text)))


@remember(1 << 17)
def _stem_token(token: str) -> tuple[str, ...]:
    if not is_word(token) or is_function_word(token):
        return ()
    parts = without_possessive(token).lower().split("-")
    words = [part for part in parts if part and not is_function_word(part)]
    return tuple(stem_like_script(word) if len(word) > 3 else word for word in words)


def _check_sources(texts: Sequence[str], sources: Sequence[str]) -> None:
    if len(texts) != len(sources):
        raise ValueError(
            f"`texts` and `sources` must have the same length, but have {len(texts)} and {len(sources)} instead."
        )
