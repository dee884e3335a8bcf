"""Decoding a split, scoring the outputs, and the model's surprise at the references.

In: a model and a split. Out: each output with its source, exemplar and references, and scores.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import torch

from exadec.config import Config, SearchConfig
from exadec.corpus.prepare import Corpus, Report, silent
from exadec.corpus.readers import KnownStyles
from exadec.corpus.record import SPLITS, Table
from exadec.corpus.stage import hash_value
from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.exemplars.retrieve import ExemplarMap, keeping, open_trained_exemplars
from exadec.files import locked_for_writing, replacing
from exadec.loading.loader import Loader
from exadec.model.seq2seq import Seq2seq
from exadec.reading.content import matches, parse_json
from exadec.reading.folder import refuse_links
from exadec.reading.lines import read_lines
from exadec.search.facts import licensing_text
from exadec.search.split import generate_split
from exadec.strict_yaml import Overrides, require_choice
from exadec.textmetrics import Measured, Score, licensed, mean_score, measure_all
from exadec.textmetrics.licensing import Checker, Stated
from exadec.textmetrics.metrics import choose_for_report, score_all
from exadec.training.checkpoint import OUTPUTS, Run, open_corpus, open_run
from exadec.training.events import WITHOUT, Doing, Evaluating

_SAMPLE_SEED = 2019
LOGGED = ("manner", "leak", "support")
"""Scores that a model with exemplars logs at each evaluation, besides the one that early stopping watches."""


@dataclass(frozen=True)
class Output:
    """One generated text, and what is needed to score it."""

    uid: str
    source: str
    exemplar: str | None
    similarity: float
    references: tuple[str, ...]
    text: str
    score: float
    """The model's own score: log p divided by the length penalty."""
    table: Table | None = None
    """The table the source was made from, for metrics that use it."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """The next best texts with their scores, if they were asked for; not stored."""
    group: str | None = None
    """The record's group; it licenses facts if the model was told it."""
    other_exemplars: tuple[str, ...] = ()
    """What the model read besides `exemplar`, the nearest one."""


_SHAPE: dict[str, Any] = {
    **dict.fromkeys(("uid", "source", "text"), str),
    "exemplar": (str, None),
    "references": [str],
    "similarity": float,
    "score": float,
    "table": ([[str]], None),
    "group": (str, None),
    "other_exemplars": [str],
}
_ABSENT: dict[str, Any] = {"group": None, "other_exemplars": []}
"""A line of outputs lacks a key that would have this value."""


def follows_style(styles: KnownStyles, text: str, exemplar: str | None) -> bool:
    """Whether a text is in the style of its exemplar."""
    wanted = None if exemplar is None else styles.style_of(exemplar)
    return wanted is not None and styles.style_of(text) == wanted


def score_style(outputs: Sequence[Output], styles: KnownStyles) -> Score:
    """How often an output is in the style of its exemplar. This is exact, because the corpus's styles are known."""
    follows = [100.0 * follows_style(styles, output.text, output.exemplar) for output in outputs]
    return mean_score("style", follows, "style-following|exemplar's house style|exact")


def choose_sample(size: int, count: int) -> np.ndarray | None:
    """The indices of `count` of `size` instances, drawn at random and sorted; None stands for all of them.

    The draw depends on nothing else, so that all runs on a corpus are scored on the same instances. A larger sample
    holds the smaller ones. The first instances would not do: many corpora are sorted, by length or by subject.
    """
    return None if count >= size else np.sort(np.random.default_rng(_SAMPLE_SEED).permutation(size)[:count])


def report_as(doing: Doing, observe: Callable[[Evaluating], None], split: str) -> Report:
    """What `decode_split` or `mean_surprise` calls, so that an observer hears of it."""

    def report(what: str, count: int, total: int | None = None) -> None:
        observe(Evaluating(doing, split, count, total))

    return report


@contextmanager
def repeating(tell: Callable[[], None], seconds: float = 1.0) -> Iterator[None]:
    """Call `tell` at once, and again and again from a thread of its own, until the end of the block.

    For work that cannot tell of itself how far it has come. An error of `tell` is raised at the end of the block.
    """
    tell()
    ended, errors = Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not ended.wait(seconds):
                tell()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]


def decode_split(
    model: Seq2seq,
    corpus: Corpus,
    exemplars: ExemplarMap,
    split: str,
    search: SearchConfig,
    chosen: np.ndarray | None = None,
    report: Report = silent,
    n_best: int = 1,
) -> list[Output]:
    """Write a text for each instance of a split, or for each of the chosen ones, in the split's order."""
    loader = Loader(corpus, exemplars, split, model.config.attend_exemplar, model.config.exemplars_read)
    texts = generate_split(model, corpus, loader, search, chosen, report, n_best)
    similarities = exemplars.similarities(split)
    indices = range(len(loader)) if chosen is None else sorted(chosen.tolist())
    wanted = frozenset(indices)
    records = (record for index, record in enumerate(corpus.records(split)) if index in wanted)
    outputs = []
    for index, ((text, score), *others), record in zip(indices, texts, records, strict=True):
        read = dict.fromkeys(found for found in loader.exemplar_index[index].tolist() if found >= 0)
        shown = [corpus.text(loader.exemplar_targets[found]) for found in read]
        outputs.append(
            Output(
                uid=record.uid,
                source=record.source,
                exemplar=shown[0] if shown else None,
                similarity=float(similarities[index]),
                references=record.scoring_references(),
                text=text,
                score=score,
                table=record.table,
                alternatives=tuple(others),
                group=record.group,
                other_exemplars=tuple(shown[1:]),
            )
        )
    return outputs


def gather_references(outputs: Sequence[Output], corpus: Corpus, split: str) -> list[Output]:
    """The outputs with the references of all records of the split that have their source.

    Some corpora have one record for each reference. With one reference at a time, a text that is as good as another
    scores less because it words things differently, and the score says little about which weights are best.
    """
    references: dict[str, dict[str, None]] = {output.source: {} for output in outputs}
    for record in corpus.records(split):
        if record.source in references:
            references[record.source].update(dict.fromkeys(record.scoring_references()))
    return [replace(output, references=tuple(references[output.source])) for output in outputs]


def score_facts(outputs: Sequence[Output], run: Run) -> Score:
    """How many outputs state only what their source licenses; judged as strict search judges the texts of this run."""
    told = run.config.corpus.group_in_source
    sources = [licensing_text(output.source, output.group, told) for output in outputs]
    return licensed([output.text for output in outputs], sources, run.read_names())


def score_outputs(names: Sequence[str], outputs: Sequence[Output], run: Run | None = None) -> list[Score]:
    """`score_all` for outputs, with all that they hold. `facts` are those of the run, if there is one."""
    if run is not None and "facts" in names:
        others = [name for name in names if name != "facts"]
        scores = dict(zip(others, score_outputs(others, outputs), strict=True))
        scores["facts"] = score_facts(outputs, run)
        return [scores[name] for name in names]
    tables = [output.table for output in outputs if output.table is not None]
    return score_all(
        names,
        [output.text for output in outputs],
        [output.references for output in outputs],
        tables if len(tables) == len(outputs) else None,
        sources=[output.source for output in outputs],
        exemplars=[output.exemplar for output in outputs],
    )


def measure_outputs(
    outputs: Sequence[Output], run: Run, trained_for: Sequence[str], styles: KnownStyles | None
) -> dict[str, Measured]:
    """The scores that a report shows, with their intervals. `trained_for`: the `training.metric` of each run in it."""
    references = [output.references for output in outputs]
    has_tables = all(output.table is not None for output in outputs)
    scores = score_outputs(choose_for_report(trained_for, references, has_tables), outputs)
    scores += [score_style(outputs, styles)] if styles is not None else []
    scores.append(score_facts(outputs, run))
    return {measured.score.name: measured for measured in measure_all(scores)}


def score_development(
    model: Seq2seq,
    corpus: Corpus,
    exemplars: ExemplarMap,
    config: Config,
    rows: int,
    precision: torch.dtype,
    observe: Callable[[Evaluating], None],
) -> tuple[Score, float, dict[str, float]]:
    """The watched score of the development set's texts, the surprise at its targets, and further scores.

    A model that was trained to write without exemplars is asked for its surprise without them, too: the difference is
    what they are worth.
    """
    split = model, corpus, exemplars, "valid"
    chosen = choose_sample(corpus.size("valid"), config.training.evaluation_size)
    decoded = decode_split(*split, config.search, chosen, report_as("decoding", observe, "valid"))
    with repeating(lambda: observe(Evaluating("scoring", "valid", len(decoded)))):
        outputs = gather_references(decoded, corpus, "valid")
        others = LOGGED if config.model.reads_exemplars else ()
        score, *found = score_outputs([config.training.metric, *others], outputs)
    values = {name: round(one.value, 4) for name, one in zip(others, found, strict=True)}
    surprise = partial(
        mean_surprise, *split, chosen, rows, precision, report_as("computing -log p of", observe, "valid")
    )
    if config.model.guidable:
        values[WITHOUT] = round(surprise(hidden=True), 6)
    return score, surprise(), values


@torch.no_grad()
def mean_surprise(
    model: Seq2seq,
    corpus: Corpus,
    exemplars: ExemplarMap,
    split: str,
    chosen: np.ndarray | None = None,
    batch_size: int = 64,
    precision: torch.dtype = torch.float32,
    report: Report = silent,
    hidden: bool = False,
) -> float:
    """-log p of a target piece given those before it, in nats: the mean over a split, or over its chosen instances.

    It is the training loss without dropout, end symbols included; its exponential is the perplexity. Like the loss,
    it takes the unknown symbol's p for a piece that can be neither generated nor copied. With `hidden`, the model is
    shown `<none>` in the place of all exemplars.
    """
    loader = Loader(corpus, exemplars, split, model.config.attend_exemplar, model.config.exemplars_read)
    device = next(model.parameters()).device
    total, pieces, done = torch.zeros((), dtype=torch.float64, device=device), 0, 0
    count = len(loader) if chosen is None else len(chosen)
    was_training = model.training
    model.eval()
    for indices, batch in loader.search_batches(batch_size, chosen):
        pieces += int((batch.target_output != PAD).sum())  # on the host, to avoid waiting for the GPU
        batch = batch.to(device)
        if hidden:
            batch = model.hide_exemplars(batch, torch.zeros(batch.size, dtype=torch.bool, device=device))
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            log_probs = model(batch)  # (B, T)
        total -= log_probs.masked_fill(batch.target_output == PAD, 0.0).sum(dtype=torch.float64)
        done += len(indices)
        report(f"computing -log p of {split}", done, count)
    model.train(was_training)
    return total.item() / pieces


def evaluate(
    folder: Path | str,
    split: str = "test",
    overrides: Overrides = (),
    report: Report = silent,
    device: str | None = None,
    corpus: Path | str | None = None,
    n_best: int = 1,
) -> list[Output]:
    """Decode a split with a run's best weights; the outputs are also written to a file in the run: `find_outputs`.

    `overrides` change search settings: `search.key=value`. `device` is cpu, cuda or cuda:N; by default a GPU if there
    is one. `corpus` is the folder of the run's corpus, if it is not where the run says.
    """
    require_choice(split, SPLITS, "split")
    run = open_run(Path(folder), overrides, None if corpus is None else Path(corpus))
    records = open_corpus(run)
    exemplars = open_trained_exemplars(records, run.config.exemplars, run.facts["exemplars"])
    with locked_for_writing(run.folder), keeping(records, exemplars):
        model = run.load_model(device=device)
        outputs = decode_split(model, records, exemplars, split, run.config.search, None, report, n_best)
        write_outputs(find_outputs(run.folder, split, overrides), outputs)
    return outputs


def check_facts(
    folder: Path, outputs: Sequence[Output], split: str, overrides: Overrides = (), corpus: Path | None = None
) -> list[list[Stated] | None]:
    """What each output of a run on a split states, with or without licence; None if `search.facts` is off."""
    run = open_run(folder, overrides, corpus)
    if run.config.search.facts == "off":
        return [None] * len(outputs)
    records, names, told = open_corpus(run).records(split), run.read_names(), run.config.corpus.group_in_source
    sources = (licensing_text(record.source, record.group, told) for record in records)
    return [Checker(source, names).check(output.text) for source, output in zip(sources, outputs, strict=True)]


def outputs_path(folder: Path, split: str) -> Path:
    """Where the outputs of a run on a split are, written with its own search settings."""
    return folder / f"{split}{OUTPUTS}"


def find_outputs(folder: Path, split: str, overrides: Overrides = ()) -> Path:
    """Where `evaluate` writes the outputs of a run on a split.

    Other search settings than the run's have a file of their own, so that their texts do not pass for the run's. The
    batch size does not change texts.
    """
    own, asked = (open_run(folder, changes).config.search for changes in ((), overrides))
    asked = replace(asked, batch_size=own.batch_size)
    return outputs_path(folder, split if asked == own else f"{split}.{hash_value(asdict(asked))[:8]}")


def write_outputs(path: Path, outputs: Sequence[Output]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8") as file:
        for output in outputs:
            row = {
                name: value
                for name, value in asdict(output).items()
                if name in _SHAPE and (value or name not in _ABSENT)
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_outputs(path: Path) -> list[Output]:
    if not path.is_file():
        split = path.name.split(".")[0]
        raise InputError(f"{path}: no such file; `evaluate`, or `exadec generate RUN --split {split}`, makes it.")
    refuse_links(path.parent)
    outputs = []
    for number, line in read_lines(path):
        row = parse_json(line, f"{path}:{number}")
        row = _ABSENT | row if isinstance(row, dict) else row
        if not matches(row, _SHAPE) or row.keys() != _SHAPE.keys() or not _is_whole(row):
            again = f"run `exadec generate RUN --split {path.name.split('.')[0]}` again"
            raise InputError(f"{path}:{number}: not a line of outputs; {again}.")
        row |= {name: tuple(row[name]) for name in ("references", "other_exemplars")}
        row["table"] = row["table"] and tuple(map(tuple, row["table"]))
        outputs.append(Output(**row))
    return outputs


def _is_whole(row: dict[str, Any]) -> bool:
    return bool(row["references"]) and all(len(entry) in (2, 3) for entry in row["table"] or ())
