"""Searching a batch for the likeliest texts, on any device.

In: a model and a batch. Out: the best hypotheses of each instance, in corpus ids.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple, cast

import torch

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import BOS, EOS, NONE, PAD, UNK
from exadec.loading.batch import Batch
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Hypothesis, Known, Step, Tell, beam_search
from exadec.search.captured import Work, recorded_search
from exadec.search.cpu import advance, quick_step
from exadec.search.following import Judge
from exadec.search.gpu import work_on_gpu
from exadec.search.guidance import (
    Emphasis,
    GuidedState,
    guide,
    guide_distributions,
    with_and_without,
)
from exadec.search.rounding import read_rounded
from exadec.search.rules import Renumbered, Rule
from exadec.search.sampling import Draw, sample

NEVER_WRITTEN = (PAD, UNK, BOS, NONE)
_WIDER = 4
"""How much wider the beam is where strict search found no text"""
_SMALLEST_PART, _LARGEST_PART = 16, 64
"""Texts that a thread of a CPU searches together"""
_MOST_PARTS = 8
"""Parts of a batch that are searched side by side: each needs memory"""
_BATCHES = 8
"""Batches that a GPU is given at once: texts of the next ones take the places of those that are finished"""
_SWITCH = 1e-4
"""Seconds after which a thread of Python gives way to others, while several search"""
_SIDE_BY_SIDE = Lock()
"""Whoever changes torch's number of threads for a while"""
LARGE = 8192
"""From this many words on, a search on a CPU has compiled loops: to load them takes half a second, to compile them, at
the first search on a machine, about five. They save most for many words"""


class Task(NamedTuple):
    """Instances, and what holds for each of them."""

    batch: Batch
    rules: Sequence[Rule] | None = None
    """What the texts must obey."""
    seeds: Sequence[int] | None = None
    """For drawing texts."""
    coefficients: torch.Tensor | None = None
    """(B, 1 or G, R): they take the place of λ, except where they are NaN."""
    judges: Sequence[Judge | None] | None = None
    """Compare texts with their exemplars, if a choice of texts asks for that; None for an instance without any."""
    openings: Sequence[int] | None = None
    """How many words of each source say for which group it is; None if no source does."""

    def take(self, instances: Sequence[int]) -> "Task":
        def each(part: Sequence[Any] | None) -> Any:
            return None if part is None else [part[number] for number in instances]

        lam = self.coefficients
        some = None if lam is None else lam[list(instances)]
        judges, openings = each(self.judges), each(self.openings)
        return Task(self.batch.take(instances), each(self.rules), each(self.seeds), some, judges, openings)


class Searched(NamedTuple):
    """What a search found, and what it started from."""

    hypotheses: list[list[Hypothesis]]
    """The best ones of each instance, best first."""
    coefficients: torch.Tensor | None
    """(B, 1 or G, R): λ of each exemplar; None for a model that does not adapt."""


def search_batch(
    model: Seq2seq,
    task: Task,
    config: SearchConfig,
    n_best: int = 1,
    tell: Tell | None = None,
    form: torch.Tensor | None = None,
) -> Searched:
    """Encode a batch once and search it, or draw texts. A copied unknown word has its corpus id again.

    So it has in rules and in `tell`. `form` (V,) bool are the words that guidance is for.
    """
    batch, rules = task.batch, task.rules
    device = next(model.parameters()).device
    if config.guidance > 0:
        assert model.config.reads_exemplars, "there is nothing to be guided by"
        assert form is not None, "guidance needs to know the words of form"
    size = len(model.embedding.weight)
    numbering = [_Numbering(size, unknown) for unknown in batch.unknown.tolist()]
    with torch.no_grad():
        if device.type == "cuda" and config.temperature == 0 and rules is None and tell is None:
            found, lam = _replay(model, batch, config, n_best, task.coefficients, form)
        else:
            if rules is not None:
                rules = [Renumbered(rule, one.restore, one.find) for rule, one in zip(rules, numbering, strict=True)]
            told = None if tell is None else _tell_restored(tell, numbering)
            found, lam = _search_in_parts(model, task._replace(rules=rules), config, n_best, told, form)
    if not batch.unknown.shape[1]:
        return Searched(found, lam)
    restored = [
        [replace(hypothesis, ids=[*map(one.restore, hypothesis.ids)]) for hypothesis in hypotheses]
        for hypotheses, one in zip(found, numbering, strict=True)
    ]
    return Searched(restored, lam)


def _replay(
    model: Seq2seq,
    batch: Batch,
    config: SearchConfig,
    n_best: int,
    coefficients: torch.Tensor | None,
    form: torch.Tensor | None,
) -> Searched:
    """With recordings of what a GPU does."""
    device, reads = next(model.parameters()).device, list[torch.Tensor]()
    if config.guidance > 0:
        assert form is not None
        reads = [form]

    def prepare() -> Work:
        plain = work_on_gpu(model, config)
        return _guide_work(plain, Emphasis(config.guidance, form)) if form is not None and reads else plain

    more = batch, coefficients, config, NEVER_WRITTEN, device, n_best, reads
    return Searched(*recorded_search(model)(prepare, *more))


def _guide_work(plain: Work, emphasis: Emphasis) -> Work:
    def read(one: Batch, given: torch.Tensor | None) -> GuidedState:
        return GuidedState(plain.read(with_and_without(one), _for_both(given)), one.size, one.size)

    step = guide(plain.step, emphasis)  # type: ignore[arg-type]
    return Work(read, step, plain.advance, attrgetter("both.coefficients"), readings=2)


def _search_in_parts(
    model: Seq2seq, task: Task, config: SearchConfig, n_best: int, tell: Tell | None, form: torch.Tensor | None
) -> Searched:
    """`_search`, in parts. On a CPU, small products gain little from more threads, and large ones leave the cache."""
    size = task.batch.size
    if not _is_on_cpu(model):
        return _search_in_turn(model, task, config, n_best, tell, form)
    at_once = max(1, min(_parts_at_once(), size // _SMALLEST_PART))
    count = max(at_once, math.ceil(size / min(config.batch_size, _LARGEST_PART)))
    if count == 1 or tell is not None:
        return _search(model, task, config, n_best, tell, form)

    def search(part: range) -> Searched:
        with torch.no_grad():
            return _search(model, task.take(part), config, n_best, None, form)

    borders = [size * number // count for number in range(count + 1)]
    with _sharing_threads(at_once) as pool:
        return _join(list(pool.map(search, map(range, borders, borders[1:]))))


def _search_in_turn(
    model: Seq2seq, task: Task, config: SearchConfig, n_best: int, tell: Tell | None, form: torch.Tensor | None
) -> Searched:
    """`_search`, one batch after the other."""
    found = []
    for first in range(0, task.batch.size, config.batch_size):
        part = range(first, min(first + config.batch_size, task.batch.size))
        told = None if tell is None else _tell_after(tell, first)
        found.append(_search(model, task.take(part), config, n_best, told, form))
    return _join(found)


def _join(found: Sequence[Searched]) -> Searched:
    lam = [one.coefficients for one in found if one.coefficients is not None]
    return Searched([*chain.from_iterable(one.hypotheses for one in found)], torch.cat(lam) if lam else None)


def _tell_after(tell: Tell, first: int) -> Tell:
    return lambda number, ids: tell(first + number, ids)


@contextmanager
def _sharing_threads(at_once: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads that search, each with its share of torch's. Meanwhile new threads would get the share, too.

    Python lets another thread go on when one has run for 5 ms, which is long beside a step of a search.
    """
    with _SIDE_BY_SIDE:
        threads, interval = torch.get_num_threads(), sys.getswitchinterval()
        sys.setswitchinterval(min(interval, _SWITCH))
        try:
            with ThreadPoolExecutor(
                at_once, initializer=torch.set_num_threads, initargs=(max(1, threads // at_once),)
            ) as pool:
                yield pool
        finally:
            torch.set_num_threads(threads)
            sys.setswitchinterval(interval)


def _search(
    model: Seq2seq, task: Task, config: SearchConfig, n_best: int, tell: Tell | None, form: torch.Tensor | None
) -> Searched:
    """On any device, step by step."""
    batch, rules, seeds, coefficients, *_ = task
    device = next(model.parameters()).device
    drawing, guided = config.temperature > 0, config.guidance > 0
    quick = _can_be_quick(model) and not drawing
    rounded = quick and config.precision == "rounded"
    step: Step[Any] = quick_step(model, rounded) if quick else model.choose
    if drawing:
        step = _whole_distributions(model)
    given = None if coefficients is None else coefficients.to(device)
    both, given = (with_and_without(batch), _for_both(given)) if guided else (batch, given)
    read = read_rounded if rounded else type(model).encode
    state: Any = read(model, both.to(device), given)
    lam = None if state.coefficients is None else state.coefficients[: batch.size]
    if guided:
        assert form is not None
        emphasis = Emphasis(config.guidance, form)
        whole = guide_distributions(model.step, emphasis, NEVER_WRITTEN)
        step = whole if drawing else guide(step, emphasis)  # type: ignore[arg-type]
        state = GuidedState(state, batch.size, batch.size)
    # A strict search may start afresh, so what it has written so far is not there to stay.
    strict = config.facts == "strict" and rules is not None
    more = config, NEVER_WRITTEN, device, n_best, rules, None if strict else tell
    if drawing:
        assert seeds is not None
        found = sample(cast(Draw[Any], step), state, seeds, *more)
    else:
        found = beam_search(step, state, batch.size, *more, advance if quick else None)
    if strict:
        assert rules is not None
        lost = [number for number, hypotheses in enumerate(found) if not hypotheses]
        for number in lost:
            opening = 0 if task.openings is None else task.openings[number]
            source = batch.source[number][opening : batch.source_lengths[number]].tolist()
            alone = state.keep(torch.tensor([number], device=device))
            found[number] = _search_on(step, alone, config, device, rules[number], source)[:n_best]
        if tell is not None:
            for number in (number for number, hypotheses in enumerate(found) if hypotheses):
                tell(number, found[number][0].ids)
    return Searched(found, lam)


def texts_at_once(model: Seq2seq, config: SearchConfig) -> int:
    """How many texts a search is best given: several batches on a GPU, and on a CPU one for each of its threads."""
    return config.batch_size * (_parts_at_once() if _is_on_cpu(model) else _BATCHES)


def _parts_at_once() -> int:
    with _SIDE_BY_SIDE:  # a thread keeps the number that it finds when it first asks
        return min(torch.get_num_threads(), _MOST_PARTS)


def _is_on_cpu(model: Seq2seq) -> bool:
    return next(model.parameters()).device.type == "cpu"


def _can_be_quick(model: Seq2seq) -> bool:
    is_large = len(model.embedding.weight) >= LARGE
    return is_large and _is_on_cpu(model) and next(model.parameters()).dtype == torch.float32


def _for_both(coefficients: torch.Tensor | None) -> torch.Tensor | None:
    """What is given for instances with their exemplars, and nothing for those without."""
    if coefficients is None:
        return None
    return torch.cat([coefficients, torch.full_like(coefficients, torch.nan)])


def _tell_restored(tell: Tell, numbering: Sequence["_Numbering"]) -> Tell:
    return lambda number, ids: tell(number, [*map(numbering[number].restore, ids)])


def _search_on(
    step: Step[Any], state: Any, config: SearchConfig, device: torch.device, rule: Rule, source: list[int]
) -> list[Hypothesis]:
    """For one instance whose hypotheses all came to a dead end.

    Search with a wider beam. Failing that, cut what the model would write freely before the first thing that the rule
    refuses; and failing that, take the beginning of the source. These texts keep the score of the free one.
    """
    wider = replace(config, beam_size=min(_WIDER * config.beam_size, 10_000))
    [found] = beam_search(step, state, 1, wider, NEVER_WRITTEN, device, config.beam_size, [rule])
    if found:
        return found
    [free] = beam_search(step, state, 1, config, NEVER_WRITTEN, device, config.beam_size)
    texts = [(_cut(one.ids, rule), one.score) for one in free]
    texts = [one for one in texts if one[0]] or [(_cut(source[: config.max_length - 1], rule), free[0].score)]
    ids, score = max(texts, key=lambda one: len(one[0]))
    return [Hypothesis(ids, score)] if ids else []


def _cut(ids: Sequence[int], rule: Rule) -> list[int]:
    """The longest beginning that is a text by itself and obeys the rule."""
    kept: list[int] = []
    for word in ids:
        if not rule.allows(kept, word):
            break
        kept.append(word)
    while kept and not rule.allows(kept, EOS):
        kept.pop()
    return kept


def _whole_distributions(model: Seq2seq) -> Draw[Any]:
    def step(state: Any, words: torch.Tensor) -> tuple[Known, Any]:
        log_probs, state = model.step(state, words)
        return Known(log_probs), state

    return step


class _Numbering(NamedTuple):
    """How a batch numbers the words of one instance: unknown ones from the size of the vocabulary."""

    size: int
    unknown: list[int]

    def restore(self, word: int) -> int:
        return word if word < self.size else self.unknown[word - self.size]

    def find(self, number: int) -> int | None:
        if number < self.size:
            return number
        return self.size + self.unknown.index(number) if number in self.unknown else None
