"""The commands that write text: `generate`, `swap`.

In: a run, and sources on stdin or from a split of its corpus. Out: texts on stdout.
"""

import json
import math
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from exadec.cli.console import CorpusFolder, DeviceName, RunFolder, SearchOverrides, messages, say
from exadec.corpus.record import SPLITS
from exadec.errors import InputError
from exadec.reading.lines import bounded_lines, decode_lines, read_lines
from exadec.views.progress import Display


def generate(
    run: RunFolder,
    exemplar: Annotated[
        str | None, typer.Option(help="Write in the manner of this text; by default the run's policy picks one.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Retrieve only from this group: an outlet, an author, a product line. A model trained with "
            "corpus.group_in_source is told the group, too."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Write for this split of the run's corpus instead of stdin.")
    ] = None,
    n_best: Annotated[int, typer.Option(help="Hypotheses to write for each source, best first.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines with exemplar, score and similarity.")
    ] = False,
    device: DeviceName = None,
    corpus: CorpusFolder = None,
    set_: SearchOverrides = None,
) -> None:
    """Write one text for each line of stdin, or for a split of the corpus.

    echo "Norway said Friday it would give Zimbabwe 40 million kroner in aid." | exadec generate RUN

    New text gets its exemplar by the policy the run was trained with.
    The policies shuffled, oracle and given do not work for new text; it gets the nearest exemplar instead.
    """
    if split is not None:
        if exemplar is not None or group is not None:
            raise InputError("--split writes with the exemplars of the corpus; leave out --exemplar and --group.")
        _generate_split(run, split, set_ or [], device, corpus)
        return
    from exadec.api import load

    writer = load(run, set_ or [], device, corpus)
    if exemplar is not None and group is not None and not writer.run.config.corpus.group_in_source:
        raise InputError("--exemplar gives the exemplar and --group says where to look for one: use only one of them.")
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


def swap(
    run: RunFolder,
    source: Annotated[str | None, typer.Option(help="What to say.")] = None,
    exemplar: Annotated[list[str] | None, typer.Option(help="How to say it; repeat to compare manners.")] = None,
    study: Annotated[
        int | None, typer.Option(metavar="N", help="Swap the exemplars of N test instances instead, and count.")
    ] = None,
    guidance: Annotated[
        str | None,
        typer.Option(metavar="W,W...", help="With --study: strengths of guidance; by default the run's own."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --study: which instances and exemplars are drawn; by default 1.")
    ] = None,
    exemplars: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --study: swap in these texts, one per line, instead of drawn ones."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --study: write a page, a figure, numbers and texts.")
    ] = None,
    corpus: CorpusFolder = None,
    set_: SearchOverrides = None,
) -> None:
    """Say the same thing in the manner of several exemplars (Figure 3 of the paper); the retrieved one comes first.

    exadec swap RUN --source "Norway gave Ghana aid." --exemplar "Fire: two hurt"

    exadec swap RUN --study 1000 --guidance 0,1 --out study

    A study gives many test instances the exemplar of another group, such as another outlet.
    It counts how often each trait of the exemplar is followed, and what that costs the content.
    docs/scores.md says how to read it.
    """
    from exadec.api import load
    from exadec.views.swap import make_swap, render_swap

    if study is not None:
        if source is not None or exemplar:
            raise InputError("--study draws sources and exemplars from the corpus; leave out --source and --exemplar.")
        _study(run, study, guidance, 1 if seed is None else seed, exemplars, out, set_ or [], corpus)
        return
    if source is None:
        raise InputError("say what to write: --source TEXT for one swap, or --study N to count over many.")
    if guidance is not None or seed is not None or exemplars is not None or out is not None:
        raise InputError(
            "--guidance, --seed, --exemplars and --out belong to --study; for one swap use --set search.guidance=W."
        )
    writer = load(run, set_ or [], corpus=corpus)
    if not writer.run.config.model.reads_exemplars:
        raise InputError(f"{run}: this model ({writer.run.config.model.variant}) does not read exemplars.")
    Console().print(render_swap(make_swap(writer, source, [None, *(exemplar or [])])))


def _study(
    run: Path,
    count: int,
    guidance: str | None,
    seed: int,
    exemplars: Path | None,
    out: Path | None,
    overrides: list[str],
    corpus: Path | None,
) -> None:
    from exadec.api import load
    from exadec.views.swap_study import study_swaps
    from exadec.views.swap_tables import render_study, write_study

    if seed < 0:
        raise InputError(f"--seed must be at least 0, but is {seed}.")
    weights = None if guidance is None else _read_weights(guidance)
    texts = [] if exemplars is None else _read_exemplars(exemplars)
    writer = load(run, overrides, corpus=corpus)
    weights = weights or [writer.run.config.search.guidance]
    with Display(messages) as display:
        found = study_swaps(writer, count, weights, seed, display.report, texts)
    Console().print(render_study(found))
    if len(found.cases) < count:
        say(f"The test set has only {len(found.cases):,} instances; all of them were swapped.")
    if out is not None:
        given = [part for override in overrides for part in ("--set", override)]
        command = ["exadec", "swap", run, "--study", count, "--seed", seed, "--out", out, *given]
        command += [] if guidance is None else ["--guidance", guidance]
        command += [] if exemplars is None else ["--exemplars", exemplars]
        command += [] if corpus is None else ["--corpus", corpus]
        say(f"Study: {write_study(found, out, shlex.join(map(str, command)))}")


def _read_exemplars(path: Path) -> list[str]:
    texts = [line.strip() for _, line in read_lines(path) if line.strip()]
    if not texts:
        raise InputError(f"{path}: there is no exemplar in this file; write one per line.")
    return texts


def _read_weights(given: str) -> list[float]:
    try:
        weights = [float(part) for part in given.split(",")]
    except ValueError:
        weights = []
    if not weights or not all(0 <= weight < math.inf for weight in weights) or len(set(weights)) < len(weights):
        raise InputError(f"--guidance must be different numbers from 0, such as 0,0.5,1, but is {given!r}.")
    return sorted(weights)


def _generate_split(run: Path, split: str, overrides: list[str], device: str | None, corpus: Path | None) -> None:
    from exadec.training.evaluation import evaluate, outputs_path

    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
    with Display(messages) as display:
        outputs = evaluate(run, split, overrides, display.report, device, corpus)
    for output in outputs:
        print(output.text)
    say(f"{outputs_path(run, split)}: {len(outputs):,} texts with sources, exemplars and references.")


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise InputError("there is nothing to read: stdin is closed.")
    if sys.stdin.isatty():
        say("Reading sources from the terminal, one per line; end with Ctrl-D.")
    for number, line in decode_lines(bounded_lines(sys.stdin.buffer, "<stdin>"), "<stdin>"):
        if not line.strip():
            raise InputError(f"<stdin>:{number}: the source is empty.")
        yield line
