"""The commands that write text: `generate`, `swap`.

In: a run, and sources on stdin or from a split of its corpus. Out: texts on stdout.
"""

import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer
from rich.console import Console

from exadec.cli.console import CorpusFolder, DeviceName, RunOrServer, SearchOverrides, messages, say, with_options
from exadec.corpus.record import SPLITS
from exadec.errors import AbsentError, InputError, RequestError
from exadec.reading.content import parse_json
from exadec.reading.lines import arriving_lines, decode_line, read_lines
from exadec.remote.answers import MODEL
from exadec.remote.service import Service, is_address
from exadec.request import Request, parse_request
from exadec.views.progress import Display

if TYPE_CHECKING:
    from exadec.api import Generation, Writer
    from exadec.textmetrics.licensing import Stated
    from exadec.training.evaluation import Output

STDIN = "<stdin>"
_LIKE_A_RECORD = re.compile(rb'\s*{\s*"(source|table|uid|exemplar|group)"\s*:')


class _Limits(NamedTuple):
    """What a model can take."""

    beam_size: int
    batch_size: int
    max_source: int
    max_target: int
    told_groups: bool


def generate(
    run: RunOrServer,
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
    style: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write in a house style; `exadec style RUN` lists them.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Write for this split of the run's corpus instead of stdin.")
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Each line of stdin is a JSON record: source or table; perhaps exemplar, mixture or style, group, "
            "uid, beginning, required, forbidden, max_characters.",
        ),
    ] = False,
    n_best: Annotated[int, typer.Option(help="Hypotheses to write for each source, best first.")] = 1,
    vary: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write up to N different texts, each in the manner of another near exemplar."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write JSON lines with exemplar, score, similarity and, if search.facts is not off, facts."
        ),
    ] = False,
    device: DeviceName = None,
    corpus: CorpusFolder = None,
    set_: SearchOverrides = None,
) -> None:
    """Write one text for each line of stdin, or for a split of the corpus.

    echo "Norway said Friday it would give Zimbabwe 40 million kroner in aid." | exadec generate RUN

    exadec generate RUN --records --json < requests.jsonl > texts.jsonl

    Results come in the order of the input, as soon as they are written.
    A line that cannot be read has an empty result and a message; the exit status is then 2.
    A server that asks for a token gets the one in the variable EXADEC_TOKEN.
    New text gets its exemplar by the policy the run was trained with.
    The policies shuffled, oracle, form and given do not work for new text; it gets the nearest exemplar instead.
    """
    overrides = set_ or []
    limits = _find_limits(run, overrides)
    if not 1 <= n_best <= limits.beam_size:
        raise InputError(f"--n-best must be from 1 to the beam size {limits.beam_size}.")
    if vary is not None and vary < 1:
        raise InputError(f"--vary must be at least 1, but is {vary}.")
    if vary is not None and (n_best > 1 or exemplar is not None or style is not None or split is not None):
        raise InputError("--vary looks for exemplars; leave out --exemplar, --style, --split and --n-best.")
    if split is not None:
        if exemplar is not None or group is not None or style is not None or records:
            raise InputError("--split writes for the corpus; leave out --exemplar, --group, --style and --records.")
        _generate_split(run, split, n_best, as_json, overrides, device, corpus)
        return
    if style is not None and (exemplar is not None or group is not None):
        raise InputError("--style says how to write; leave out --exemplar and --group.")
    if exemplar is not None and group is not None and not limits.told_groups:
        raise InputError("--exemplar gives the exemplar and --group says where to look for one: use only one of them.")
    from exadec.api import load

    writer = load(run, overrides, device, corpus)
    how = Request("", exemplar, group, style=style)
    _refuse_for_all(writer, how, vary is not None, records)
    answer = partial(writer.answer, n_best=n_best) if vary is None else partial(_vary, writer, vary)
    groups = limits.told_groups, writer.reads_exemplars
    read = partial(_read_record, how, *groups) if records else lambda line, where: replace(how, source=line)
    lines = _requests(read, records, 4 * limits.batch_size if vary is None else 1)
    _generate_lines(limits, answer, lines, partial(_show, as_json, vary or n_best))


def _refuse_for_all(writer: "Writer", how: Request, varied: bool, records: bool) -> None:
    """Say once, and at once, what every line would be refused for."""
    if varied and not writer.reads_exemplars:
        raise InputError("--vary looks for exemplars, but this model reads none; --n-best N gives several texts.")
    if how.style is not None:
        writer.styles.get(how.style)
    elif how.exemplar is not None or how.group is not None or varied or not records:
        writer.refuse(how.exemplar, how.group)  # otherwise a record may bring its exemplar


def _find_limits(run: str, overrides: list[str]) -> _Limits:
    if is_address(run):
        told = Service(run).ask("/v1/model", MODEL)
        return _Limits(*(told[name] for name in _Limits._fields))
    from exadec.bundle.packed import open_folder_or_bundle

    config = open_folder_or_bundle(Path(run), overrides).config
    search, corpus = config.search, config.corpus
    return _Limits(search.beam_size, search.batch_size, corpus.max_source, corpus.max_target, corpus.group_in_source)


def _vary(writer: "Writer", count: int, requests: Iterable[Request]) -> "Iterator[list[Generation] | RequestError]":
    """Several texts for each request, the best first."""
    for request in requests:
        if not request.asks_for_exemplar:
            yield RequestError("--vary looks for exemplars by itself; leave out exemplar, mixture and style.")
            continue
        try:
            texts = writer.vary(request, count)
        except RequestError as error:
            yield error
            continue
        yield texts or RequestError("no exemplar is like this source, so there is nothing to vary.")


def _generate_lines(
    limits: _Limits,
    answer: "Callable[[list[Request]], Iterable[Generation | list[Generation] | RequestError]]",
    requests: "Iterable[Sequence[Request | _Unread]]",
    show: Callable[..., None],
) -> None:
    """Write the results of the lines of stdin, in their order, and say what went wrong."""
    if sys.stdout is None:
        raise InputError("there is nowhere to write: stdout is closed.")
    lines = bad = cut = exemplars_cut = 0
    for arrived in requests:
        answers = iter(answer([one for one in arrived if isinstance(one, Request)]))
        for number, one in enumerate(arrived, lines + 1):
            result = one.error if isinstance(one, _Unread) else next(answers)
            uid = one.uid
            if isinstance(result, InputError):
                message = _with_place(with_options(str(result)), number)
                say(message)
                show(uid, [""], [], {"error": message})
                bad += 1
                continue
            best, *others = texts = result if isinstance(result, list) else [result]
            cut += best.truncated > 0
            exemplars_cut += sum(text.exemplar_truncated > 0 for text in texts)
            written = [*(text.text for text in texts), *(text for text, _ in best.alternatives)]
            varied = [{"text": other.text, **_origin(other)} for other in others]
            show(uid, written, varied or best.alternatives, _origin(best))
        sys.stdout.flush()
        lines += len(arrived)
    for count, what, limit in (
        (cut, "source", limits.max_source),
        (exemplars_cut, "exemplar", limits.max_target),
    ):
        if count:
            say(f"{_count(count, what)} longer than {limit} pieces, and cut.")
    if bad:
        results = "its result is" if bad == 1 else "their results are"
        say(f"No text for {bad:,} of {lines:,} line{'s' * (lines > 1)}; {results} empty.")
        raise typer.Exit(2)


def _details(one: "Generation | Output", facts: Sequence["Stated"] | None) -> dict[str, object]:
    """What `--json` tells besides the text and its alternatives."""
    details: dict[str, object] = {"score": one.score, "exemplar": one.exemplar, "similarity": one.similarity}
    return details if facts is None else {**details, "facts": [fact._asdict() for fact in facts]}


def _origin(one: "Generation") -> dict[str, object]:
    """The same, and which exemplar it is."""
    return {**_details(one, one.facts), "exemplar_id": one.exemplar_id}


def _count(count: int, what: str) -> str:
    return f"1 {what} was" if count == 1 else f"{count:,} {what}s were"


def _with_place(message: str, number: int) -> str:
    """The message for a line of stdin, with its number if it has none."""
    return message if message.startswith(f"{STDIN}:") else f"{STDIN}:{number}: {message}"


def _show(
    as_json: bool,
    count: int,
    uid: str | None,
    texts: Sequence[str],
    alternatives: Sequence[object],
    more: Mapping[str, object],
) -> None:
    """Write one result to stdout. As lines it always has as many, so that it is known which belong together.

    In JSON it has the first text, and `alternatives` for the others.
    """
    if as_json:
        row: dict[str, object] = {} if uid is None else {"uid": uid}
        print(json.dumps({**row, "text": texts[0], **more, "alternatives": alternatives}, ensure_ascii=False))
    else:
        print("\n".join([*texts, *[""] * (count - len(texts))]))


def swap(
    run: RunOrServer,
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
    device: DeviceName = None,
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
        what = _Loaded(run, set_ or [], device, corpus)
        _study(what, study, guidance, 1 if seed is None else seed, exemplars, out)
        return
    if source is None:
        raise InputError("say what to write: --source TEXT for one swap, or --study N to count over many.")
    if guidance is not None or seed is not None or exemplars is not None or out is not None:
        raise InputError(
            "--guidance, --seed, --exemplars and --out belong to --study; for one swap use --set search.guidance=W."
        )
    writer = load(run, set_ or [], device, corpus)
    shown: list[str | None] = [None, *(exemplar or [])]
    if exemplar and writer.reads_exemplars:
        try:
            writer.retrieve([source])
        except (AbsentError, RequestError):  # in a file without exemplars, and on a server of such a file
            del shown[0]
    swapped = make_swap(writer, source, shown)  # or the error of a source that cannot be written from
    if None not in shown:
        say("No exemplar can be retrieved here, so only those that you give are shown.")
    Console().print(render_swap(swapped))


class _Loaded(NamedTuple):
    """What a study loads."""

    run: str
    overrides: list[str]
    device: str | None
    corpus: Path | None

    @property
    def options(self) -> list[object]:
        """As they were given."""
        given: list[object] = [part for override in self.overrides for part in ("--set", override)]
        given += [] if self.device is None else ["--device", self.device]
        return given + ([] if self.corpus is None else ["--corpus", self.corpus])


def _study(
    what: _Loaded, count: int, guidance: str | None, seed: int, exemplars: Path | None, out: Path | None
) -> None:
    from exadec.api import load
    from exadec.views.swap_study import study_swaps
    from exadec.views.swap_tables import render_study, write_study

    if is_address(what.run):
        raise InputError(f"{what.run}: a server's splits are not here; give --study the run itself.")
    if guidance is not None and any(one.partition("=")[0].strip() == "search.guidance" for one in what.overrides):
        raise InputError("--guidance takes the place of --set search.guidance; use only one of them.")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, but is {seed}.")
    weights = None if guidance is None else _read_weights(guidance)
    texts = [] if exemplars is None else read_exemplars(exemplars)
    writer = load(*what)
    weights = weights or [writer.run.config.search.guidance]
    with Display(messages) as display:
        found = study_swaps(writer, count, weights, seed, display.report, texts)
    Console().print(render_study(found))
    if len(found.cases) < count:
        say(f"The test set has only {len(found.cases):,} instances; all of them were swapped.")
    if out is not None:
        command = ["exadec", "swap", what.run, "--study", count, "--seed", seed, "--out", out, *what.options]
        command += [] if guidance is None else ["--guidance", guidance]
        command += [] if exemplars is None else ["--exemplars", exemplars]
        say(f"Study: {write_study(found, out, shlex.join(map(str, command)))}")


def read_exemplars(path: Path) -> list[str]:
    """One on each line; empty lines do not count."""
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


def _generate_split(
    place: str, split: str, n_best: int, as_json: bool, overrides: list[str], device: str | None, corpus: Path | None
) -> None:
    from exadec.training.evaluation import check_facts, evaluate, find_outputs, outputs_path

    if is_address(place):
        raise InputError(f"{place}: a server's splits are not here; give --split the run itself.")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}.")
    run = Path(place)
    with Display(messages) as display:
        outputs = evaluate(run, split, overrides, display.report, device, corpus, n_best)
    for output, facts in zip(outputs, check_facts(run, outputs, split, overrides, corpus), strict=True):
        written = [output.text, *(text for text, _ in output.alternatives)]
        _show(as_json, n_best, output.uid, written, output.alternatives, _details(output, facts))
    path = find_outputs(run, split, overrides)
    say(f"{path}: {len(outputs):,} texts with sources, exemplars and references.")
    if path != outputs_path(run, split):
        say("They were written with other settings than the run's own, so reports and model cards do not show them.")


def _read_record(how: Request, told_groups: bool, reads_exemplars: bool, line: str, where: str) -> Request:
    """A record as a request. `how` has what the options say for all of them."""
    one = parse_request(line, where)
    if not told_groups and not reads_exemplars:
        one = replace(one, group=None)  # a column of the data, which says nothing to this model
    one.require_one_exemplar(told_groups)
    if not one.asks_for_exemplar:
        return replace(one, group=one.group or how.group)
    return replace(one, exemplar=how.exemplar, group=one.group or how.group, style=how.style)


def _requests(read: Callable[[str, str], Request], records: bool, most: int) -> "Iterator[list[Request | _Unread]]":
    """The lines of stdin as they arrive, at most so many at a time. A line that cannot be read is an error."""
    if sys.stdin is None:
        raise InputError("there is nothing to read: stdin is closed.")
    if sys.stdin.isatty():
        say("Reading sources from the terminal, one per line; end with Ctrl-D.")
    number = 0
    for lines in arriving_lines(cast(BufferedIOBase, sys.stdin.buffer)):
        for start in range(0, len(lines), most):
            part = lines[start : start + most]
            if number == 0 and not records and _LIKE_A_RECORD.match(part[0]):
                say("The first line looks like a JSON record, but is read as text; --records reads records.")
            yield [_read_request(raw, number + place, read, records) for place, raw in enumerate(part, 1)]
            number += len(part)


class _Unread(NamedTuple):
    """A line that cannot be read."""

    error: InputError
    uid: str | None


def _read_request(raw: bytes, number: int, read: Callable[[str, str], Request], records: bool) -> Request | _Unread:
    line = ""
    try:
        line = decode_line(raw, STDIN, number)
        if not line.strip():
            raise InputError(f"{STDIN}:{number}: the line is empty.")
        return read(line, f"{STDIN}:{number}")
    except InputError as error:
        return _Unread(error, _find_uid(line) if records else None)


def _find_uid(line: str) -> str | None:
    """The name of a record with other faults, so that its result is recognised."""
    try:
        uid = parse_json(line, STDIN)["uid"]
    except (InputError, TypeError, KeyError, IndexError):
        return None
    return str(uid) if isinstance(uid, str | int) and not isinstance(uid, bool) else None
