"""Same source, different exemplars.

In: a trained model, a source, exemplars. Out: a `Swap`: what the model writes with each exemplar, side by side.
"""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from exadec.api import Generation, RemoteWriter, Writer
from exadec.corpus.prepare import Corpus
from exadec.corpus.readers import KnownStyles, known_styles
from exadec.corpus.record import Record
from exadec.corpus.record import Table as SourceTable
from exadec.errors import InputError
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import follows_style

OTHERS = 2
"""Exemplars of a picked swap, in addition to the retrieved one."""
_SEED = 2019
_POOL = 400  # training records that exemplars are picked from


@dataclass(frozen=True)
class Swap:
    """One source, written with several exemplars."""

    source: str
    generations: list[Generation]
    styles: KnownStyles | None = None
    """The corpus's styles, if they are known."""
    table: SourceTable | None = None
    """The table that the source was made from."""


def make_swap(writer: Writer, source: str, exemplars: Sequence[str | None]) -> Swap:
    """Write the source with each exemplar; None stands for the retrieved one."""
    refuse_without_exemplar(writer)
    generations = [writer.write(source, exemplar) for exemplar in exemplars]
    if isinstance(writer, RemoteWriter):  # a server does not tell what its run was trained on
        return Swap(source, generations)
    return Swap(source, generations, known_styles(writer.run.config.corpus))


def pick_swaps(writer: Writer, count: int = 3) -> list[Swap]:
    """Swaps on test instances drawn with a fixed seed, each with the retrieved exemplar and two others.

    If the corpus has known styles, the others are in two other styles, and about other subjects.
    """
    refuse_without_exemplar(writer)
    corpus = open_corpus(writer.run)
    random = np.random.default_rng(_SEED)
    styles = known_styles(writer.run.config.corpus)
    records = pick_records(corpus, "test", _POOL if styles else count, random)
    if styles is not None:
        records = _with_different_subjects(records, styles)
    pool = pick_records(corpus, "train", _POOL, random)
    named = groups_to_name(writer.run, corpus)
    swaps = []
    for record in records[:count]:
        pool = [pool[i] for i in random.permutation(len(pool))]
        group = record.group if record.group in named else None
        retrieved = writer.write(record.source, group=group)
        others = _pick_exemplars(pool, record, retrieved.exemplar, styles)
        generations = [retrieved, *(writer.write(record.source, exemplar, group=group) for exemplar in others)]
        swaps.append(Swap(record.source, generations, styles, record.table))
    return swaps


def refuse_without_exemplar(writer: Writer) -> None:
    if not writer.reads_exemplars:
        raise InputError("this model reads no exemplar, so there is nothing to swap; take one that does.")


def groups_to_name(run: Run, corpus: Corpus) -> frozenset[str]:
    """The groups that a `Writer` should be told for records of the corpus, so that it writes as in evaluation.

    These are the groups of the training records, if the run retrieves within a group or its model is told the group.
    """
    named = run.config.corpus.group_in_source or run.config.exemplars.group != "any"
    return frozenset(corpus.trained_groups() if named else ())


def pick_records(corpus: Corpus, split: str, count: int, random: np.random.Generator) -> list[Record]:
    """Some records of a split, in random order, without keeping the whole split in memory."""
    size = corpus.size(split)
    chosen = random.permutation(size)[:count].tolist()
    wanted = set(chosen)
    found = {index: record for index, record in enumerate(corpus.records(split)) if index in wanted}
    return [found[index] for index in chosen]


def _with_different_subjects(records: Sequence[Record], styles: KnownStyles) -> list[Record]:
    """The first record on each subject, then the rest."""
    seen: set[str] = set()
    firsts: list[Record] = []
    rest: list[Record] = []
    for record in records:
        subject = styles.subject_of(record)
        (rest if subject in seen else firsts).append(record)
        seen.add(subject)
    return [*firsts, *rest]


def _pick_exemplars(
    pool: Sequence[Record], record: Record, retrieved: str | None, styles: KnownStyles | None
) -> list[str]:
    """Targets of the pool that differ from the retrieved exemplar and from each other, in style if it is known."""

    def manner(text: str) -> str | None:
        return text if styles is None else styles.style_of(text)

    def same_subject(other: Record) -> bool:
        return styles is not None and styles.subject_of(other) == styles.subject_of(record)

    shown = {manner(retrieved)} if retrieved is not None else set()
    chosen: list[str] = []
    # Another subject shows best that the model adopts the exemplar's manner but not its content.
    for candidate in sorted(pool, key=same_subject):
        if manner(candidate.target) not in shown and len(chosen) < OTHERS:
            shown.add(manner(candidate.target))
            chosen.append(candidate.target)
    return chosen


def mark_new_words(text: str, first: str) -> list[tuple[str, bool]]:
    """Split a text into runs of words, each marked by whether the first text lacks it. Spaces join them back."""
    known = set(_bare_words(first))
    marked = [
        (word, bool(bare) and bare not in known) for word, bare in zip(text.split(), _bare_words(text), strict=True)
    ]
    return [(" ".join(word for word, _ in run), new) for new, run in groupby(marked, key=lambda pair: pair[1])]


def _bare_words(text: str) -> Iterator[str]:
    """Words for comparison: case-folded, without punctuation at their ends."""
    return (word.casefold().strip(string.punctuation + "“”‘’") for word in text.split())  # noqa: RUF001


def style_name(styles: KnownStyles, text: str) -> str:
    """The style of a text, for display."""
    return (styles.style_of(text) or "no house style").replace("_", " ")


def render_swap(swap: Swap) -> RenderableType:
    """The source, then exemplar -> output, with the words that are not in the first output highlighted."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, expand=True)
    table.add_column("exemplar: how to say it", ratio=1)
    table.add_column("")
    table.add_column("output", ratio=1)
    first = swap.generations[0].text if swap.generations else ""
    for generation in swap.generations:
        shown = Text(generation.exemplar or "(none found)")
        if generation.similarity is not None:
            shown.append(f"\nretrieved, similarity {generation.similarity:.2f}", "dim")
        written = Text()
        for words, new in mark_new_words(generation.text, first):
            written.append(" " if written else "").append(words, "bold yellow" if new else "")
        if swap.styles is not None:
            shown.append(f"\n{style_name(swap.styles, generation.exemplar or '')}", "dim italic")
            followed = follows_style(swap.styles, generation.text, generation.exemplar)
            written.append("\n✓ " if followed else "\n✗ ", "green" if followed else "red")
            written.append(style_name(swap.styles, generation.text), "dim italic")
        table.add_row(shown, "→", written)
    source = Text.assemble(("source: what to say\n", "bold"), swap.source)
    return Group(source, Padding(table, (1, 0, 0, 2)))
