"""The commands that evaluate text: `score`, `report`.

In: text files with references, or runs with outputs. Out: scores with intervals, tables, an HTML page.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperOption

from exadec.cli.console import CorpusFolder, DeviceName, refuse_address, say
from exadec.cli.score_files import check_aligned, read_exemplars, read_references, read_sources, read_texts
from exadec.corpus.record import Table
from exadec.errors import InputError

if TYPE_CHECKING:  # importing metrics takes a while, and other commands need none
    from exadec.textmetrics import Score


class ScoreCommand(TyperCommand):
    """Adds the list of metrics to `score --help`, and imports them only then, so that other commands start fast."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from exadec.textmetrics.metrics import DEFAULT_METRICS, describe_metrics

        for option in self.params:
            if isinstance(option, TyperOption) and option.name == "metrics":
                chosen = f"{','.join(DEFAULT_METRICS)}, and manner, leak and support if their files are given"
                option.help = f"Comma-separated: {describe_metrics()}. By default {chosen}."
        super().format_help(ctx, formatter)


HOW_TO_GIVE = {
    "tables": "give --references as records with a 'table' each",
    "sources": "give --sources FILE",
    "exemplars": "give --exemplars FILE",
}


def score(
    hypotheses: Annotated[
        Path, typer.Argument(metavar="FILE", help="Texts to score, one per line, or a run's SPLIT.outputs.jsonl.")
    ],
    references: Annotated[
        list[Path],
        typer.Option(help="References, line for line (repeat for more), or records (.jsonl, .tsv, .csv) with tables."),
    ],
    metrics: Annotated[
        str | None, typer.Option(help="Comma-separated.")  # `ScoreCommand` adds the list
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Another system's texts to compare with.")] = None,
    stem: Annotated[bool, typer.Option(help="Compare stems in ROUGE, like option -m of its script.")] = True,
    wordnet: Annotated[
        Path | None,
        typer.Option(
            help="What -m looks up before its rules: the script's WordNet-2.0.exc.db, or its folder of *.exc."
        ),
    ] = None,
    exemplars: Annotated[
        Path | None,
        typer.Option(help="Exemplars, line for line (an empty line: none), or .jsonl with an 'exemplar' each."),
    ] = None,
    sources: Annotated[Path | None, typer.Option(help="Sources, line for line, or records.")] = None,
    byte_limit: Annotated[
        int | None,
        typer.Option(
            "--bytes", min=1, help="ROUGE of the first N bytes of texts and references, like -b N of its script."
        ),
    ] = None,
) -> None:
    """Score texts. Every number comes with its signature and a 95% bootstrap interval.

    exadec score system.txt --references gold.txt --against baseline.txt

    DUC's recall at 75 bytes: --metrics rouge1_recall,rouge2_recall,rougeL_recall --bytes 75

    With --exemplars, a table shows trait by trait how far the texts follow their exemplars. A run's SPLIT.outputs.jsonl
    can stand for every file.
    """
    from exadec.textmetrics.metrics import METRICS, with_both_bleus

    names = _choose_metrics(metrics, exemplars is not None, sources is not None)
    of_reference_length = [name for name in names if name.startswith("recall")]
    if byte_limit is not None and of_reference_length:
        name = of_reference_length[0]
        raise InputError(f"{name} is cut at the reference's length, so --bytes cannot cut it: ask for rouge1_recall.")
    if byte_limit is not None and not any(name.startswith("rouge") for name in names):
        raise InputError("--bytes cuts texts for ROUGE alone; leave it out, or ask for one, such as rouge1_recall.")
    if wordnet is not None and not stem:
        raise InputError("--wordnet is for stems, which --no-stem leaves out; use only one of them.")
    texts = read_texts(hypotheses)
    count = len(texts)
    grouped, tables = read_references(references, hypotheses, count)
    given = Given(
        grouped,
        tables,
        None if sources is None else read_sources(sources),
        None if exemplars is None else read_exemplars(exemplars),
        _choose_stemming(stem, wordnet),
        byte_limit,
    )
    others = None if against is None else read_texts(against)
    for path, found in ((sources, given.sources), (exemplars, given.exemplars), (against, others)):
        if path is not None and found is not None:
            check_aligned(found, path, hypotheses, count)
    for name in names:
        for need in sorted(METRICS[name].needs):
            if getattr(given, need) is None:
                raise InputError(f"{name} needs the {need}: {HOW_TO_GIVE[need]}.")
    _print_scores(with_both_bleus(names, grouped), texts, others, given)
    if given.exemplars is not None:
        _print_traits(texts, others, given.exemplars, given.first_references)


@dataclass(frozen=True)
class Given:
    """All that texts are scored with."""

    references: list[tuple[str, ...]]
    tables: list[Table] | None
    sources: list[str] | None
    exemplars: list[str | None] | None
    stem: bool | Path
    byte_limit: int | None

    @property
    def first_references(self) -> list[str]:
        return [texts[0] for texts in self.references]

    def score(self, names: list[str], texts: list[str]) -> "dict[str, Score]":
        from exadec.textmetrics.metrics import score_all

        given = self.tables, self.stem, self.sources, self.exemplars, self.byte_limit
        scores = score_all(names, texts, self.references, *given)
        return dict(zip(names, scores, strict=True))


def _choose_metrics(asked: str | None, has_exemplars: bool, has_sources: bool) -> list[str]:
    from exadec.textmetrics.metrics import METRICS, choose_metrics

    if asked is None:
        return choose_metrics(has_exemplars, has_sources)
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}.")
    return names


def _choose_stemming(stem: bool, wordnet: Path | None) -> bool | Path:
    from exadec.textmetrics.exceptions import read_exceptions

    if wordnet is not None:
        try:
            read_exceptions(wordnet)
        except ValueError as error:
            raise InputError(str(error)) from None
    return stem if wordnet is None else wordnet


def _print_scores(names: list[str], texts: list[str], others: list[str] | None, given: Given) -> None:
    from exadec.textmetrics import compare, confidence_interval
    from exadec.textmetrics.metrics import METRICS

    # References do not score 100 in manner and truth. What they score is the scale for a system.
    scaled = [name for name in names if METRICS[name].needs & {"sources", "exemplars"}]
    scale = given.score(scaled, given.first_references)
    baselines = {} if others is None else given.score(names, others)
    for name, result in given.score(names, texts).items():
        low, high = confidence_interval(result)
        print(f"{result.name} {result.value:.2f} [{low:.2f}, {high:.2f}]  {result.signature}")
        if name in scale:
            low, high = confidence_interval(scale[name])
            print(f"  of the references {scale[name].value:.2f} [{low:.2f}, {high:.2f}]")
        if name in baselines:
            paired = compare(result, baselines[name])
            interval = f"[{paired.low:+.2f}, {paired.high:+.2f}]"
            note = " (lower is better)" if result.lower_is_better else ""
            difference = f"{paired.difference:+.2f} {interval}, p = {paired.p_value:.4f}{note}"
            print(f"  against {baselines[name].value:.2f}: {difference}")


def _print_traits(
    texts: list[str], others: list[str] | None, exemplars: list[str | None], references: list[str]
) -> None:
    from exadec.views.manner import Written, compare_manner, render_traits

    missing = exemplars.count(None)
    if missing:
        say(f"{missing:,} of {len(exemplars):,} instances have no exemplar; manner and leak leave them out.")
    systems = [Written("Texts", texts, exemplars)]
    if others is not None:
        systems.append(Written("Against", others, exemplars))
    print()
    Console().print(render_traits(compare_manner(systems, references, sources=None)))


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", callback=refuse_address, help="Runs with outputs of the same split."),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="Which split's outputs to compare.")] = "test",
    device: DeviceName = None,
    corpus: CorpusFolder = None,
) -> None:
    """Compare runs: tables with intervals, and an HTML page with curves, manner, examples and the map of λ."""
    from exadec.views.manner import render_measures
    from exadec.views.report import choose_swaps, write_report
    from exadec.views.results import compare_runs, render_table

    if out.is_dir():
        raise InputError(f"{out}: this is a folder; --out names the HTML file, such as {out / 'report.html'}.")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out}: the report is an HTML page; give --out a name that ends in .html.")
    results = compare_runs(runs, split, corpus, device)
    written = write_report(results, out, choose_swaps(results))  # before a reader of our output can be gone
    Console().print(render_table(results))
    if results.manner:
        Console().print("", render_measures(results.manner), sep="\n")
    say(f"Report: {written}")
