"""The swap study: what another exemplar does to the manner of a text, and what it costs the content, over many sources.

In: a trained model. Out: a `Study`: how often traits of the exemplars are followed, leak, support and recall.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any, Literal

import numpy as np

from exadec.api import Generation, Writer
from exadec.corpus.prepare import Corpus, Report, silent
from exadec.corpus.record import Record
from exadec.errors import InputError
from exadec.textmetrics import Measured, content, leaked_words, measure_all, relative_score, rouge
from exadec.textmetrics.scores import package_version
from exadec.textmetrics.traits import YES_OR_NO, find_traits
from exadec.training.checkpoint import open_corpus
from exadec.views.manner import REFERENCE, Column, Written, measure_manner
from exadec.views.swap import groups_to_name, pick_records, refuse_without_exemplar

POOL = 20_000
"""Training targets that exemplars are drawn from: many enough for rare traits, few enough to read in seconds."""
PLAIN = "none of these traits"
GIVEN = "given"


@dataclass(frozen=True)
class Case:
    """One test instance, and the exemplar to swap in."""

    uid: str
    source: str
    references: tuple[str, ...]
    group: str | None
    exemplar: str
    exemplar_group: str | None
    drawn_for: str
    """The trait for which this exemplar was drawn; it may have others, too. `given` for one that was not drawn."""


@dataclass(frozen=True)
class Texts:
    """What the model wrote for all cases at one strength of guidance."""

    guidance: float
    own: Sequence[str]
    """With the retrieved exemplars: no swap."""
    own_exemplars: Sequence[str | None]
    swapped: Sequence[str]
    """With the exemplars swapped in."""


@dataclass(frozen=True)
class Strength:
    """One strength of guidance, measured."""

    texts: Texts
    swapped: Column
    """Texts with the exemplars swapped in, against these."""
    chance: Column
    """Texts without a swap, against the exemplars that they were not written with."""
    own: Column
    """Texts without a swap, against their own exemplars."""
    recall: Measured
    """ROUGE-1 recall of the swapped texts against the references."""
    own_recall: Measured
    kept: Measured
    """The first of the two as a percentage of the second."""
    content: Measured
    """Content of the swapped texts: recall of those words of the first reference that the source has."""
    own_content: Measured


@dataclass(frozen=True)
class Study:
    """Many swaps and their numbers."""

    settings: dict[str, Any]
    """What made it: run, seed, search, how exemplars were drawn."""
    cases: list[Case]
    reference: Column
    """The references, against the exemplars swapped in: what people write who have not seen them."""
    strengths: list[Strength]


@dataclass(frozen=True)
class Failure:
    """What is wrong with one swapped text."""

    case: Case
    guidance: float
    text: str
    missed: list[str]
    """Traits that the exemplar has and the text has not."""
    leaked: list[str]
    """Words of the text that only the exemplar has."""


@dataclass(frozen=True)
class _Candidate:
    """A training target that may be swapped in."""

    text: str
    group: str | None


def study_swaps(
    writer: Writer,
    count: int,
    guidances: Sequence[float],
    seed: int = 1,
    report: Report = silent,
    exemplars: Sequence[str] = (),
) -> Study:
    """Write `count` test instances, or all if there are fewer, with their own and with other exemplars, and compare.

    The others are drawn from the training targets, unless some are given.
    """
    refuse_without_exemplar(writer)
    if count < 1:
        raise InputError(f"a study needs at least 1 swap, but {count} were asked for.")
    corpus = open_corpus(writer.run)
    cases = give_cases(corpus, count, seed, exemplars) if exemplars else draw_cases(corpus, count, seed)
    named = groups_to_name(writer.run, corpus)
    texts = [_write_cases(writer, cases, named, guidance, report) for guidance in guidances]
    search = asdict(writer.run.config.search)
    del search["guidance"]  # each strength has its own
    settings = {
        "run": writer.run.folder.resolve().name,
        "model": writer.run.config.model.variant,
        "corpus": corpus.hash,
        "seed": seed,
        "exemplars": _describe_draw(cases),
        "drawn_for": dict(Counter(case.drawn_for for case in cases)),
        "search": search,
        "version": package_version(),
    }
    return measure_study(settings, cases, texts)


def draw_cases(corpus: Corpus, count: int, seed: int) -> list[Case]:
    """Test instances, each with the training target of another group.

    Each exemplar is drawn for the trait that has had the fewest so far, or for having none of them, so that rare traits
    are as frequent as common ones; no exemplar is drawn twice. A test instance without a group may get any target, and
    so may all if the pool has less than two groups. A reference of the instance is never its exemplar.
    """
    random = np.random.default_rng(seed)
    records = pick_records(corpus, "test", count, random)
    pool = _read_pool(corpus, random)
    strata: dict[str, list[_Candidate]] = {name: [] for name in (*YES_OR_NO.values(), PLAIN)}
    for candidate in pool:
        for trait in list_traits(candidate.text) or [PLAIN]:
            strata[trait].append(candidate)
    across_groups = len({candidate.group for candidate in pool} - {None}) > 1
    drawn = dict.fromkeys(strata, 0)
    used: set[str] = set()
    cases: list[Case] = []
    for record in records:
        for name in sorted(strata, key=drawn.__getitem__):
            allowed = (one for one in strata[name] if one.text not in used and _may_swap(record, one, across_groups))
            chosen = next(allowed, None)
            if chosen is not None:
                break
        else:
            raise InputError(
                f"{corpus.folder}: after {len(cases):,} swaps no training target is left to swap in; ask for fewer."
            )
        drawn[name] += 1
        used.add(chosen.text)
        references = record.scoring_references()
        cases.append(Case(record.uid, record.source, references, record.group, chosen.text, chosen.group, name))
    return cases


def give_cases(corpus: Corpus, count: int, seed: int, exemplars: Sequence[str]) -> list[Case]:
    """Test instances, each with one of these exemplars: all are used equally often, as far as the numbers allow."""
    records = pick_records(corpus, "test", count, np.random.default_rng(seed))
    return [
        Case(record.uid, record.source, record.scoring_references(), record.group, exemplar, None, GIVEN)
        for record, exemplar in zip(records, cycle(exemplars), strict=False)
    ]


def list_traits(text: str) -> list[str]:
    """What a text has of the traits that are there or not, by the names to show."""
    traits = find_traits(text)
    return [called for name, called in YES_OR_NO.items() if getattr(traits, name)]


def _read_pool(corpus: Corpus, random: np.random.Generator) -> list[_Candidate]:
    """Some training targets in random order, as the model reads them. One that has no known word is no exemplar."""
    targets, groups, known = corpus.targets("train"), corpus.groups("train"), len(corpus.vocabulary)
    pool = []
    for number in random.permutation(corpus.size("train"))[:POOL].tolist():
        group = int(groups[number])
        if (targets[number] < known).any():
            pool.append(_Candidate(corpus.text(targets[number]), corpus.group_names[group] if group >= 0 else None))
    return pool


def _may_swap(record: Record, candidate: _Candidate, across_groups: bool) -> bool:
    same_group = across_groups and record.group is not None and candidate.group == record.group
    return not same_group and candidate.text not in record.scoring_references()


def _describe_draw(cases: Sequence[Case]) -> str:
    if cases[0].drawn_for == GIVEN:
        count = len({case.exemplar for case in cases})
        return f"{count:,} texts that were given" if count > 1 else "1 text that was given"
    across = sum(case.group is not None and case.group != case.exemplar_group for case in cases)
    if across == len(cases):
        return "training targets of another group"
    if not across:
        return "any training targets: there are no groups to swap between"
    return f"training targets, of another group for {across:,} of {len(cases):,} instances; the others have no group"


def _write_cases(
    writer: Writer, cases: Sequence[Case], named: frozenset[str], guidance: float, report: Report
) -> Texts:
    """Without and with the swap. A model that is told the group is told the instance's own in both."""
    own, swapped = list[Generation](), list[Generation]()
    size = writer.run.config.search.batch_size
    for begin in range(0, len(cases), size):
        some = cases[begin : begin + size]
        sources = [case.source for case in some]
        groups = [case.group if case.group in named else None for case in some]
        own += writer.write_all(sources, group=groups, guidance=guidance)
        swapped += writer.write_all(sources, [case.exemplar for case in some], group=groups, guidance=guidance)
        report(f"writing, guidance {guidance:g}", len(own), len(cases))
    texts = [[one.text for one in written] for written in (own, swapped)]
    return Texts(guidance, texts[0], [one.exemplar for one in own], texts[1])


def measure_study(settings: dict[str, Any], cases: Sequence[Case], texts: Sequence[Texts]) -> Study:
    """The numbers of what was written."""
    sources, exemplars = [case.source for case in cases], [case.exemplar for case in cases]
    first_references = [case.references[0] for case in cases]
    reference = measure_manner(Written(REFERENCE, first_references, exemplars), sources, is_reference=True)
    return Study(settings, list(cases), reference, [_measure_strength(cases, one, sources, exemplars) for one in texts])


def _measure_strength(
    cases: Sequence[Case], texts: Texts, sources: Sequence[str], exemplars: Sequence[str]
) -> Strength:
    at = f"w = {texts.guidance:g}"
    references = [case.references for case in cases]
    recall, own_recall = (
        rouge(written, references, ["1"], kind="recall")["1"] for written in (texts.swapped, texts.own)
    )
    kept = relative_score("Recall kept", recall, own_recall)
    first = [case.references[0] for case in cases]
    contents = [content(written, sources, first) for written in (texts.swapped, texts.own)]
    return Strength(
        texts,
        measure_manner(Written(f"Swapped, {at}", texts.swapped, exemplars), sources),
        measure_manner(Written(f"Chance, {at}", texts.own, exemplars), sources),
        measure_manner(Written(f"Own, {at}", texts.own, texts.own_exemplars), sources),
        *measure_all([recall, own_recall, kept, *contents]),
    )


def find_failure(case: Case, guidance: float, text: str) -> Failure:
    """The traits that a text misses, and the words that it took."""
    has = list_traits(text)
    missed = [trait for trait in list_traits(case.exemplar) if trait not in has]
    return Failure(case, guidance, text, missed, leaked_words(text, case.source, case.exemplar))


def find_worst(study: Study, fault: Literal["missed", "leaked"], count: int) -> list[Failure]:
    """The cases with the most missed traits or leaked words, each at the strength at which it has most of them."""

    def faults(failure: Failure) -> int:
        found: list[str] = getattr(failure, fault)
        return len(found)

    worst = []
    for number, case in enumerate(study.cases):
        found = [find_failure(case, one.texts.guidance, one.texts.swapped[number]) for one in study.strengths]
        worst.append(max(found, key=faults))
    return [failure for failure in sorted(worst, key=faults, reverse=True)[:count] if faults(failure)]
