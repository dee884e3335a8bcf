"""The commands that evaluate text: `score`, `report`.

In: text files with references, or runs with outputs. Out: scores with intervals, tables, an HTML page.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperOption

from exadec.cli.console import say
from exadec.corpus.record import is_text_file, read_lines, read_records
from exadec.errors import InputError


class ScoreCommand(TyperCommand):
    """Adds the list of metrics to `score --help`, and imports them only then, so that other commands start fast."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from exadec.textmetrics.metrics import describe_metrics

        for option in self.params:
            if isinstance(option, TyperOption) and option.name == "metrics":
                option.help = f"Comma-separated: {describe_metrics()}."
        super().format_help(ctx, formatter)


def score(
    hypotheses: Annotated[Path, typer.Argument(metavar="FILE", help="Texts to score, one per line.")],
    references: Annotated[
        list[Path],
        typer.Option(help="References, line for line (repeat for more), or records (.jsonl, .tsv, .csv) with tables."),
    ],
    metrics: Annotated[
        str, typer.Option(help="Comma-separated.")  # `ScoreCommand` adds the list
    ] = "rouge1,rouge2,rougeL,bleu",
    against: Annotated[Path | None, typer.Option(help="Another system's texts to compare with.")] = None,
    stem: Annotated[bool, typer.Option(help="Compare stems in ROUGE, like option -m of its script.")] = True,
    wordnet: Annotated[
        Path | None, typer.Option(help="ROUGE-1.5.5's data/WordNet-2.0-Exceptions, which -m looks up before its rules.")
    ] = None,
) -> None:
    """Score plain text files. Every number comes with its signature and a 95% bootstrap interval.

    exadec score system.txt --references gold.txt --against baseline.txt
    """
    from exadec.textmetrics import compare, confidence_interval
    from exadec.textmetrics.metrics import METRICS, score_all, with_both_bleus

    names = [name.strip() for name in metrics.split(",")]
    for name in names:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}.")
    texts = _text_lines(hypotheses)
    grouped, tables = _read_references(references, hypotheses, len(texts))
    for name in names:
        if tables is None and METRICS[name].needs_tables:
            raise InputError(f"{name} needs tables: give --references as records with a 'table' each.")
    names = with_both_bleus(names, grouped)
    others = None if against is None else _aligned_lines(against, hypotheses, len(texts))
    if wordnet is not None and not list(wordnet.glob("*.exc")):
        raise InputError(f"{wordnet}: there are no exception lists (*.exc) in this folder.")
    stemming = wordnet if stem and wordnet is not None else stem
    baselines = [None] * len(names) if others is None else score_all(names, others, grouped, tables, stemming)
    for result, other in zip(score_all(names, texts, grouped, tables, stemming), baselines, strict=True):
        low, high = confidence_interval(result)
        print(f"{result.name} {result.value:.2f} [{low:.2f}, {high:.2f}]  {result.signature}")
        if other is not None:
            paired = compare(result, other)
            interval = f"[{paired.low:+.2f}, {paired.high:+.2f}]"
            print(f"  against {other.value:.2f}: {paired.difference:+.2f} {interval}, p = {paired.p_value:.4f}")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs with outputs of the same split.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="Which split's outputs to compare.")] = "test",
) -> None:
    """Compare runs: a table with intervals, and an HTML page with curves, examples and the map of λ."""
    from exadec.views.report import choose_swaps, write_report
    from exadec.views.results import compare_runs, render_table

    results = compare_runs(runs, split)
    Console().print(render_table(results))
    written = write_report(results, out, choose_swaps(results))
    say(f"Report: {written}")


def _text_lines(path: Path) -> list[str]:
    lines = [line for _, line in read_lines(path)]
    if not lines:
        raise InputError(f"{path}: the file is empty.")
    return lines


def _aligned_lines(path: Path, other: Path, count: int) -> list[str]:
    lines = _text_lines(path)
    if len(lines) != count:
        raise InputError(f"{path} has {len(lines)} lines, but {other} has {count}: they must match line for line.")
    return lines


def _read_references(
    paths: list[Path], other: Path, count: int
) -> tuple[list[tuple[str, ...]], list[tuple[tuple[str, str], ...]] | None]:
    """Each instance's references, and its table where the references are records that have one."""
    if len(paths) > 1 or is_text_file(paths[0]):
        return list(zip(*(_aligned_lines(path, other, count) for path in paths), strict=True)), None
    records = list(read_records(paths[0]))
    if len(records) != count:
        raise InputError(f"{paths[0]} has {len(records)} records, but {other} has {count} lines: they must match.")
    tables = [record.table for record in records if record.table is not None]
    return [record.scoring_references() for record in records], tables if len(tables) == count else None
