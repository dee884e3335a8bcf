"""The command line; each verb calls one public function.

In: arguments, files, text on stdin. Out: text on stdout, messages on stderr, exit status 2 for what a user can mend.
"""

import json
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from exadec.config import VARIANTS
from exadec.corpus.record import decode_lines, is_text_file, read_lines, read_records
from exadec.display import Display
from exadec.errors import InputError
from exadec.settings import load_config

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Write text from a source (what to say) in the manner of an exemplar (how to say it).\n\n"
    "A first look: `exadec demo`. A data set of your own: put it into JSONL records with `source` and `target`, copy "
    "a file of configs/, then `exadec train CONFIG --variant adadec` and `exadec generate RUN`.",
)
messages = Console(stderr=True)


def say(text: str, style: str = "") -> None:
    """One message on stderr, on one line however narrow the terminal."""
    messages.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file, such as configs/wire.yaml.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one value of CONFIG; repeatable.")
]


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the corpus, the runs and the report go.")] = Path("demo"),
    set_: Overrides = None,
    force: Annotated[bool, typer.Option(help="Train again even if the folder holds finished runs.")] = False,
) -> None:
    """The whole paper on a generated news wire: four models, scores, exemplar swaps, a report."""
    from exadec.demo import run_demo
    from exadec.training.trainer import Interrupted

    try:
        run_demo(folder, set_ or [], force, messages)
    except Interrupted:
        say("Interrupted. The same command goes on with the models that are not finished.")
        raise typer.Exit(130) from None


@app.command()
def prepare(config: ConfigFile, set_: Overrides = None) -> None:
    """Read the data a CONFIG names, learn its pieces, and write token ids."""
    from exadec.corpus.prepare import prepare as run_prepare

    with Display(messages) as display:
        corpus = run_prepare(load_config(config, set_), display.report)
    facts = corpus.manifest
    counts = ", ".join(f"{count:,} {split}" for split, count in facts["records"].items())
    say(f"{corpus.folder}: {counts} records; {facts['vocabulary']['size']:,} pieces in the vocabulary.")
    lengths = [facts["pieces"][f"train {side}s"] / facts["records"]["train"] for side in ("source", "target")]
    say(f"Mean length of training texts in pieces: source {lengths[0]:.1f}, target {lengths[1]:.1f}.")


@app.command()
def retrieve(
    config: ConfigFile,
    device: Annotated[str, typer.Option(help="Where to join: auto (a GPU if there is one), cpu or cuda.")] = "auto",
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Join on the Ray cluster at host:port; `local` starts one.")
    ] = None,
    set_: Overrides = None,
) -> None:
    """Find for each instance the training target that shows how to say it: by default the one with the nearest source.

    exadec retrieve CONFIG --set exemplars.group=only        from the instance's own outlet, author or product line
    exadec retrieve CONFIG --set exemplars.policy=random     a control: exemplars that have nothing to do with it
    """
    settings = load_config(config, set_)
    from exadec.corpus.prepare import SPLITS
    from exadec.corpus.prepare import prepare as run_prepare
    from exadec.exemplars.join import choose_device
    from exadec.exemplars.retrieve import retrieve as run_retrieve

    with Display(messages) as display:
        corpus = run_prepare(settings, display.report)
        exemplars = run_retrieve(corpus, settings.exemplars, display.report, choose_device(device), cluster)
    for split in SPLITS:
        facts = exemplars.manifest[split]
        similarity, none = facts["mean_similarity"], facts["without_exemplar"]
        say(f"{split}: mean similarity {similarity:.3f}; {none:,} without an exemplar.")


@app.command()
def train(
    config: ConfigFile,
    variant: Annotated[
        str,
        typer.Option(
            "--variant", "--variants", help=f"Which model of the paper, or with commas: {', '.join(VARIANTS)}."
        ),
    ] = "adadec",
    seeds: Annotated[str | None, typer.Option(help="With commas: train each variant with each of them.")] = None,
    at_once: Annotated[
        int | None, typer.Option(help="How many runs at a time; by default one a core, 4 on a GPU.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Folder of the new run; by default inside CONFIG's folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run, exactly.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that exists.")] = False,
    set_: Overrides = None,
) -> None:
    """Train one model, or several side by side. Data preparation and retrieval are run first, if they have not been.

    exadec train CONFIG --variants seq2seq,adadec --seeds 1,2,3        six runs: seq2seq-seed1 ... adadec-seed3

    Of several runs, --resume leaves the finished ones alone, goes on with interrupted ones and starts missing ones.
    """
    settings = [load_config(config, set_, name.strip()) for name in variant.split(",")]
    numbers = None if seeds is None else _whole_numbers(seeds)
    from exadec.training.checkpoint import open_run
    from exadec.training.distributed import is_first_process
    from exadec.training.side_by_side import plan_jobs
    from exadec.training.trainer import Interrupted
    from exadec.training.trainer import train as run_train

    messages.quiet = not is_first_process()
    jobs = plan_jobs(settings, numbers)
    if run is not None and len(jobs) > 1:
        raise InputError(f"--run names the folder of one run, but {len(jobs)} were asked for.")
    folders, failed = [run or job.folder for job in jobs], []
    try:
        if len(jobs) > 1:
            from exadec.demo import show_side_by_side

            failed = [job.folder for job in show_side_by_side(jobs, at_once, resume, force, messages)]
        else:
            with Display(messages) as display:
                run_train(jobs[0].config, folders[0], resume, force, display.observe, display.report)
    except Interrupted:
        usable = "The runs begun can be used as they are" if len(jobs) > 1 else f"{folders[0]} can be used as it is"
        say(f"Interrupted. {usable}; the same command with --resume goes on.")
        raise typer.Exit(130) from None
    trained = [folder for folder in folders if folder not in failed and is_first_process()]
    for folder in trained:
        best = max(event["value"] for event in open_run(folder).metrics() if event["kind"] == "evaluation")
        say(f"{folder}: best {settings[0].training.metric} on the development set {best:.2f}.")
    if len(trained) > 1:
        say("To compare them, run `exadec generate RUN --split test` for each, then:")
        say(f"exadec report {shlex.join(map(str, trained))}")
    if failed:
        raise typer.Exit(2)


@app.command()
def generate(
    run: RunFolder,
    exemplar: Annotated[
        str | None, typer.Option(help="Write in the manner of this text; by default the run's policy finds one.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Retrieve from this group's texts only: an outlet, an author, a product line.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Write for this split of the run's corpus, not for stdin.")] = None,
    n_best: Annotated[int, typer.Option(help="Hypotheses to write for each source, best first.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines with exemplar, score and similarity.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="search.KEY=VALUE", help="Search otherwise than in training.")
    ] = None,
) -> None:
    """Write one text for each line of stdin, or for a split of the corpus.

    echo "Norway said Friday it would give Zimbabwe 40 million kroner in aid." | exadec generate RUN

    New text follows the run's policy, but not shuffled, oracle or given: then it gets the nearest exemplar.
    """
    if exemplar is not None and group is not None:
        raise InputError("--exemplar is a text and --group a place to look for one: give one of them.")
    if split is not None:
        if exemplar is not None or group is not None:
            raise InputError("--split writes with the exemplars of the corpus; leave out --exemplar and --group.")
        _generate_split(run, split, set_ or [])
        return
    from exadec.api import load

    writer = load(run, set_ or [])
    if not 1 <= n_best <= writer.run.config.search.beam_size:
        raise InputError(f"--n-best must be from 1 to the beam size {writer.run.config.search.beam_size}.")
    truncated = 0
    for source in _stdin_lines():
        generation = writer.write(source, exemplar, n_best, group)
        truncated += generation.truncated > 0
        if as_json:
            row = {"text": generation.text, "score": generation.score, "exemplar": generation.exemplar}
            row |= {"similarity": generation.similarity, "alternatives": generation.alternatives}
            print(json.dumps(row, ensure_ascii=False), flush=True)
        else:
            print("\n".join([generation.text, *(text for text, _ in generation.alternatives)]), flush=True)
    if truncated:
        limit = writer.run.config.corpus.max_source
        say(f"{truncated} sources were longer than {limit} pieces and were cut.")


@app.command()
def score(
    hypotheses: Annotated[Path, typer.Argument(metavar="FILE", help="Texts to score, one a line.")],
    references: Annotated[
        list[Path],
        typer.Option(help="References, line for line (repeat for more), or records (.jsonl, .tsv, .csv) with tables."),
    ],
    metrics: Annotated[
        str, typer.Option(help="With commas: rouge1|2|4|L (F1), recall1|2|4|L (at reference length), bleu, parent.")
    ] = "rouge1,rouge2,rougeL,bleu",
    against: Annotated[Path | None, typer.Option(help="Another system's texts, to compare with.")] = None,
    stem: Annotated[bool, typer.Option(help="Compare stems in ROUGE, as the option -m of its script does.")] = True,
    wordnet: Annotated[
        Path | None, typer.Option(help="ROUGE-1.5.5's data/WordNet-2.0-Exceptions, which -m asks before its rules.")
    ] = None,
) -> None:
    """Score plain text files. Every number comes with its signature and a 95% bootstrap interval.

    exadec score system.txt --references gold.txt --against baseline.txt
    """
    from exadec.textmetrics import compare, confidence_interval, looks_tokenized
    from exadec.textmetrics.metrics import METRICS, score_all

    names = [name.strip() for name in metrics.split(",")]
    for name in names:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}.")
    texts = _text_lines(hypotheses)
    grouped, tables = _read_references(references, hypotheses, len(texts))
    if tables is None and any(name.startswith("parent") for name in names):
        raise InputError("parent needs tables: give --references as records with a 'table' each.")
    if "bleu" in names and looks_tokenized(text for group in grouped for text in group):
        names.insert(names.index("bleu") + 1, "bleu_tokenised")  # published work has both readings
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


@app.command()
def inspect(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="Prepared corpus, or the CONFIG it was made from.")],
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON.")] = False,
    set_: Overrides = None,
) -> None:
    """Look at a prepared corpus: lengths, coverage, what can be copied, exemplars, leakage between splits."""
    from exadec.corpus.prepare import corpus_folder
    from exadec.views.inspection import inspect_corpus, inspection_to_json, render_inspection

    if corpus.suffix in (".yaml", ".yml"):
        settings = load_config(corpus, set_)
        inspection = inspect_corpus(corpus_folder(settings), settings.exemplars)
    elif set_:
        raise InputError("--set changes a CONFIG, but a folder was given.")
    else:
        inspection = inspect_corpus(corpus)
    if as_json:
        print(json.dumps(inspection_to_json(inspection), ensure_ascii=False, indent=1))
    else:
        Console().print(render_inspection(inspection))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs with outputs of the same split.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    split: Annotated[str, typer.Option(help="Which split's outputs to compare.")] = "test",
) -> None:
    """Compare runs: a table with intervals, and an HTML page with curves, examples and the map of λ."""
    from exadec.views.report import write_report
    from exadec.views.results import compare_runs, render_table
    from exadec.views.swap import pick_swaps

    adaptive = [run for run in runs if _is_adaptive(run)]
    results = compare_runs(runs, split)
    Console().print(render_table(results))
    written = write_report(results, out, pick_swaps(adaptive[0]) if adaptive else [])
    say(f"Report: {written}")


@app.command()
def swap(
    run: RunFolder,
    source: Annotated[str, typer.Option(help="What to say.")],
    exemplar: Annotated[list[str] | None, typer.Option(help="How to say it; repeat to compare manners.")] = None,
) -> None:
    """Say the same in the manner of several exemplars (Figure 3 of the paper); the retrieved one comes first."""
    from exadec.api import load
    from exadec.views.swap import make_swap, render_swap

    writer = load(run)
    if not (writer.run.config.model.adaptive or writer.run.config.model.attend_exemplar):
        raise InputError(f"{run}: this model ({writer.run.config.model.variant}) does not read exemplars.")
    Console().print(render_swap(make_swap(writer, source, [None, *(exemplar or [])])))


def main() -> None:
    """Run the command; what a user can mend is one line on stderr and exit status 2, never a traceback."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Messages()])
    logging.getLogger("exadec").setLevel(logging.INFO)  # coverage of word vectors, counts of a reader
    try:
        app()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except (InputError, OSError) as error:
        messages.quiet = False  # of several processes the one that fails says why
        say(f"exadec: {error}", style="red")
        sys.exit(2)


class _Messages(logging.Handler):
    """What the library has to say, as messages beside the progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"exadec: {record.getMessage()}", style="yellow" if record.levelno >= logging.WARNING else "")


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds takes whole numbers with commas, such as 1,2,3, but got {text!r}.") from None


def _generate_split(run: Path, split: str, overrides: list[str]) -> None:
    from exadec.corpus.prepare import SPLITS
    from exadec.training.evaluation import evaluate

    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
    with Display(messages) as display:
        outputs = evaluate(run, split, overrides, lambda done: display.report(f"writing for {split}", done))
    for output in outputs:
        print(output.text)
    say(f"{run / f'{split}.outputs.jsonl'}: {len(outputs):,} texts with sources, exemplars and references.")


def _stdin_lines() -> Iterator[str]:
    if sys.stdin.isatty():
        say("Reading sources from the terminal, one a line; end with Ctrl-D.")
    for number, line in decode_lines(sys.stdin.buffer, "<stdin>"):
        if not line.strip():
            raise InputError(f"<stdin>:{number}: the source is empty: there is nothing to say.")
        yield line


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


def _is_adaptive(run: Path) -> bool:
    from exadec.training.checkpoint import open_run

    return open_run(run).config.model.adaptive
