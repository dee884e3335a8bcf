"""Scores by name: the one list of metrics.

In: names such as `rougeL` or `manner`, texts, references, and what else these need. Out: a `Score` for each, in order.

A new metric is a file that computes it and a line in `METRICS`. It can then be asked for by `exadec score --metrics`
and, where its line says so, by `training.metric`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, cast

from exadec.strict_yaml import require_choice
from exadec.textmetrics.bleu import bleu, looks_tokenized
from exadec.textmetrics.bootstrap import measure_all
from exadec.textmetrics.manner import agreements, manner
from exadec.textmetrics.parent import Table, parent
from exadec.textmetrics.rouge import Cut, rouge
from exadec.textmetrics.scores import Score
from exadec.textmetrics.traits import YES_OR_NO
from exadec.textmetrics.truth import leak, licensed, support

Need = Literal["tables", "sources", "exemplars"]
"""What a metric may need besides texts and references."""


@dataclass(frozen=True)
class Material:
    """Everything that a metric may look at."""

    texts: Sequence[str]
    references: Sequence[Sequence[str]]
    tables: Sequence[Table] | None
    stem: bool | Path
    """Stemming in ROUGE: by rule, or with the WordNet exceptions of a path, or not at all."""
    sources: Sequence[str] | None
    exemplars: Sequence[str | None] | None
    """None or blank text for an instance without an exemplar."""
    cut: Cut
    """What ROUGE compares of each text: all of it, or so many bytes."""


Family = Callable[[Sequence[str], Material], Mapping[str, Score]]
"""Computes metrics that share their work: the family's own names for them -> a score for each of these names."""


@dataclass(frozen=True)
class Metric:
    """One score: how it is computed, and what it may be used for."""

    family: Family
    member: str
    """The name of this score within its family."""
    description: str
    """For `--help`; metrics in a row that share a description are listed together."""
    needs: frozenset[Need] = frozenset()
    steers_training: bool = False
    """Whether early stopping may watch it: it needs texts and references alone, and it is the higher the better."""
    lower_is_better: bool = False


def _rouge(orders: Sequence[str], given: Material) -> Mapping[str, Score]:
    return rouge(given.texts, given.references, orders, given.stem, given.cut)


def _recall(orders: Sequence[str], given: Material) -> Mapping[str, Score]:
    return rouge(given.texts, given.references, orders, given.stem, given.cut, "recall")


def _recall_at_reference_length(orders: Sequence[str], given: Material) -> Mapping[str, Score]:
    if given.cut is not None:
        raise ValueError("recall at reference length has a cut of its own: ask for it without `byte_limit`.")
    return rouge(given.texts, given.references, orders, given.stem, "reference-length", "recall")


def _bleu(readings: Sequence[str], given: Material) -> Mapping[str, Score]:
    scores = {}
    for reading in readings:
        tokenize, _, case = reading.partition("-")
        splitting = cast(Literal["13a", "none"], tokenize)
        scores[reading] = bleu(given.texts, given.references, splitting, lower_case=case == "lc")
    return scores


# `score_all` has seen to it that whatever a metric needs is there.
def _parent(parts: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.tables is not None
    return parent(given.texts, given.references, given.tables)


def _manner(parts: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.exemplars is not None
    return {"mean": manner(given.texts, given.exemplars)}


def _follows(traits: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.exemplars is not None
    found = dict(zip(YES_OR_NO, agreements(given.texts, given.exemplars), strict=False))
    rates = {trait: found[trait].if_exemplar_has for trait in traits}
    return {trait: replace(rate, name=f"{rate.name} followed") for trait, rate in rates.items() if rate is not None}


def _leak(parts: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.sources is not None
    assert given.exemplars is not None
    return {"micro": leak(given.texts, given.sources, given.exemplars)}


def _support(parts: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.sources is not None
    return {"micro": support(given.texts, given.sources)}


def _facts(parts: Sequence[str], given: Material) -> Mapping[str, Score]:
    assert given.sources is not None
    return {"mean": licensed(given.texts, given.sources)}


_TABLES: frozenset[Need] = frozenset(["tables"])
_EXEMPLARS: frozenset[Need] = frozenset(["exemplars"])
_SOURCES: frozenset[Need] = frozenset(["sources"])

METRICS: dict[str, Metric] = {
    "rouge1": Metric(_rouge, "1", "F1", steers_training=True),
    "rouge2": Metric(_rouge, "2", "F1", steers_training=True),
    "rouge4": Metric(_rouge, "4", "F1", steers_training=True),
    "rougeL": Metric(_rouge, "L", "F1", steers_training=True),
    "rouge1_recall": Metric(_recall, "1", "recall"),
    "rouge2_recall": Metric(_recall, "2", "recall"),
    "rouge4_recall": Metric(_recall, "4", "recall"),
    "rougeL_recall": Metric(_recall, "L", "recall"),
    "recall1": Metric(_recall_at_reference_length, "1", "ROUGE recall at reference length"),
    "recall2": Metric(_recall_at_reference_length, "2", "ROUGE recall at reference length"),
    "recall4": Metric(_recall_at_reference_length, "4", "ROUGE recall at reference length"),
    "recallL": Metric(_recall_at_reference_length, "L", "ROUGE recall at reference length"),
    "bleu": Metric(_bleu, "13a", "tokenised by 13a", steers_training=True),
    "bleu_tokenised": Metric(_bleu, "none", "cut at spaces alone"),
    "bleu_lc": Metric(_bleu, "13a-lc", "the same, case-insensitive"),
    "bleu_tokenised_lc": Metric(_bleu, "none-lc", "the same, case-insensitive"),
    "parent": Metric(_parent, "f1", "for texts from tables", needs=_TABLES),
    "parent_precision": Metric(_parent, "precision", "for texts from tables", needs=_TABLES),
    "parent_recall": Metric(_parent, "recall", "for texts from tables", needs=_TABLES),
    "manner": Metric(_manner, "mean", "agreement with the exemplar", needs=_EXEMPLARS),
    "leak": Metric(
        _leak,
        "micro",
        "words from the exemplar alone; lower is better",
        needs=_EXEMPLARS | _SOURCES,
        lower_is_better=True,
    ),
    "support": Metric(_support, "micro", "facts that the source has", needs=_SOURCES),
    "facts": Metric(_facts, "mean", "texts all of whose facts the source licenses", needs=_SOURCES),
    **{
        f"follows_{trait}": Metric(
            _follows, trait, "texts that have a trait where the exemplar has it", needs=_EXEMPLARS
        )
        for trait in YES_OR_NO
    },
}


DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu")
"""Those that need nothing but references, and that everyone reports."""


def score_all(
    names: Sequence[str],
    texts: Sequence[str],
    references: Sequence[Sequence[str]],
    tables: Sequence[Table] | None = None,
    stem: bool | Path = True,
    sources: Sequence[str] | None = None,
    exemplars: Sequence[str | None] | None = None,
    byte_limit: int | None = None,
) -> list[Score]:
    """Scores of the given names; what several of them share is computed once. `Metric.needs` says what each needs.

    `stem` is ROUGE's: by rule, or with the WordNet exceptions of a path, or not at all. So is
    `byte_limit`: only so many bytes of each text and reference are compared.
    """
    given = Material(texts, references, tables, stem, sources, exemplars, byte_limit)
    members: dict[Family, list[str]] = {}
    for name in names:
        if name not in METRICS:
            raise ValueError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}.")
        for need in sorted(METRICS[name].needs):
            if getattr(given, need) is None:
                raise ValueError(f"`{name}` needs the {need} of the texts: give `{need}`.")
        members.setdefault(METRICS[name].family, []).append(METRICS[name].member)
    scores = {family: family(list(dict.fromkeys(asked)), given) for family, asked in members.items()}
    return [scores[METRICS[name].family][METRICS[name].member] for name in names]


def score(
    texts: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    metrics: Sequence[str] | None = None,
    *,
    sources: Sequence[str] | None = None,
    exemplars: Sequence[str | None] | None = None,
    tables: Sequence[Table] | None = None,
) -> list[dict[str, Any]]:
    """Score texts as `exadec score` does: a row for each metric, with its 95% interval and its signature.

    Each text has a reference, or a list of them. `metrics` are names of `METRICS`; by default ROUGE and BLEU, and
    manner, leak and support if what they need is given. `pandas.DataFrame(exadec.score(...))` is a table.
    """
    for name, listed in (("texts", texts), ("references", references), ("metrics", metrics)):
        if isinstance(listed, str):  # its letters would be taken for a list
            raise ValueError(f"`{name}` must be a list, but is one text; write it in brackets: [{listed[:20]!r}].")
    grouped = [(one,) if isinstance(one, str) else tuple(one) for one in references]
    for name, given in (("references", grouped), ("sources", sources), ("exemplars", exemplars), ("tables", tables)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"There are {len(texts)} texts, but {len(given)} {name}.")
    names = list(metrics) if metrics is not None else choose_metrics(exemplars is not None, sources is not None)
    names = with_both_bleus(names, grouped)
    scores = score_all(names, texts, grouped, tables, sources=sources, exemplars=exemplars)
    return [{"metric": name, **one.to_row()} for name, one in zip(names, measure_all(scores), strict=True)]


def choose_metrics(has_exemplars: bool, has_sources: bool) -> list[str]:
    """The metrics that texts are scored with if none is named."""
    names = list(DEFAULT_METRICS) + ["manner"] * has_exemplars
    return names + ["leak"] * (has_exemplars and has_sources) + ["support"] * has_sources


def require_steering(name: str) -> None:
    """Refuse a `training.metric` that early stopping cannot watch."""
    require_choice(name, [known for known, metric in METRICS.items() if metric.steers_training], "training.metric")


def choose_for_report(trained_for: Collection[str], references: Sequence[Sequence[str]], has_tables: bool) -> list[str]:
    """The metrics that a comparison of runs shows. `trained_for`: the `training.metric` of each run."""
    # Work on data-to-text reports ROUGE-4; whoever trained for it wants to see it.
    names = ["rouge4", "rougeL", "bleu"] if "rouge4" in trained_for else ["rouge1", "rouge2", "rougeL", "bleu"]
    names += [name for name in dict.fromkeys(trained_for) if name not in names]
    return with_both_bleus(names, references) + ["parent"] * has_tables


def with_both_bleus(names: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Add BLEU of the text as it is where the references look tokenised: published work has both readings."""
    names = list(names)
    for raw, tokenised in (("bleu", "bleu_tokenised"), ("bleu_lc", "bleu_tokenised_lc")):
        if raw in names and tokenised not in names and looks_tokenized(chain.from_iterable(references)):
            names.insert(names.index(raw) + 1, tokenised)
    return names


def describe_metrics() -> str:
    """All names, for `--help`: `rouge1, rouge2 (F1); bleu (...)`."""
    alike = groupby(METRICS.items(), key=lambda item: item[1].description)
    return "; ".join(f"{', '.join(name for name, _ in items)} ({description})" for description, items in alike)
