"""Facts that the source licenses (`search.facts`).

In: a source, as the user gave it. Out: the rule of `strict`, by which a text states only what its source licenses.
"""

from collections.abc import Sequence
from functools import lru_cache

from exadec.corpus.prepare import Corpus
from exadec.corpus.record import Record, announce
from exadec.corpus.vocabulary import EOS
from exadec.search.rules import Rule, Spelling
from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker
from exadec.textmetrics.names import count_names


class Licensed(Rule):
    """The source licenses all facts of the text, and there are some words.

    A word is judged as soon as it is complete. A number waits for the words that may multiply it, and a capital while
    the text may yet be in Title Case. With pieces of words, a word that begins like nothing in the source is refused
    before it is complete: once it was begun, nothing good could come after it.
    """

    def __init__(self, checker: Checker, spelling: Spelling):
        self.checker, self.spelling = checker, spelling

    def allows(self, ids: Sequence[int], word: int) -> bool:
        complete = self.spelling.complete(ids, word)
        if word == EOS:
            return bool(complete and complete.strip() and self.checker.accepts(complete))
        if complete is not None and not self.checker.accepts_beginning(complete):
            return False
        return self.spelling.segmenter.whole_words or self.checker.accepts_letters(self.spelling.text([*ids, word]))

    def accepts(self, ids: Sequence[int]) -> bool:
        return self.allows(ids, EOS)  # the whole text says it all


def licensing_text(source: str, group: str | None, group_in_source: bool) -> str:
    """What licenses facts: the source, and the group that the model is told."""
    return f"{announce(group)} {source}" if group is not None and group_in_source else source


@lru_cache(maxsize=1)
def names_of(corpus: Corpus) -> Names:
    """The names in the training sources of a corpus."""
    texts = corpus.words("train", "source")
    return count_names(corpus.word_list(), texts.ids, texts.offsets)


def openings_of(corpus: Corpus, records: Sequence[Record]) -> list[int]:
    """How many words of each record's source say for which group it is."""
    if not corpus.config.group_in_source:
        return [0] * len(records)
    segment = corpus.segmenter.segment
    return [0 if record.group is None else len(segment(announce(record.group))) for record in records]


def rules_for(corpus: Corpus, records: Sequence[Record]) -> list[Licensed]:
    """The rules of `strict` for records of a corpus."""
    names, spelling, told = names_of(corpus), Spelling(corpus.segmenter, corpus.table), corpus.config.group_in_source
    sources = [licensing_text(record.source, record.group, told) for record in records]
    return [Licensed(Checker(source, names), spelling) for source in sources]
