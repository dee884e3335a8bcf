"""Beam search that is recorded once and replayed: on a GPU as CUDA graphs, so that reading a batch is a single launch,
and so is each step.

In: how to read a batch, and a `step`, as for `beam_search`. Out: the same hypotheses.

Recorded work reads and writes the same tensors each time. So a recording has a fixed number of places, and batches are
padded, so that few recordings serve all of them. As soon as enough texts are finished, others take their places.
"""

import gc
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.loading.batch import Batch
from exadec.model.backends.capture import Recorder
from exadec.search.beam import Advance, Beams, Hypothesis, Step, to_hypotheses
from exadec.search.beam import advance as advance_beams
from exadec.search.feeding import Feed, Part

RECORDINGS = 16
"""How many recordings of one model are kept: those that were used last."""
REFILLED, LEAST = 4, 64
"""Others take the places of finished texts when these are one in four, and 64: to read fewer takes as long."""

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""Makes work that can be repeated on the same tensors."""
Read = Callable[[Batch, torch.Tensor | None], Any]
"""A batch, and coefficients that take the place of λ -> the state before the first word, with one row an instance."""


class Work(NamedTuple):
    """What a search consists of, besides its settings."""

    read: Read
    step: Step[Any]
    advance: Advance = advance_beams
    coefficients: Callable[[Any], torch.Tensor | None] = attrgetter("coefficients")
    """λ of a state's hypotheses: (N, 1 or G, R)."""
    readings: int = 1
    """How many times a state has all instances, one after the other: with guidance, with and without exemplars."""


@dataclass(frozen=True)
class _Filling:
    """Recorded work that reads some instances into the places of others."""

    laid_out: torch.Tensor
    """The instances, the places, and how many of them are instances: the others are done from the start."""
    coefficients: torch.Tensor | None
    run: Callable[[], None]

    def fill(self, part: Part, places: np.ndarray) -> None:
        laid_out = part.lay_out(places)
        if self.laid_out.device.type == "cuda":
            laid_out = laid_out.pin_memory()  # so that the host need not wait until it is copied
        self.laid_out.copy_(laid_out, non_blocking=True)
        if self.coefficients is not None and part.coefficients is not None:
            self.coefficients.copy_(part.coefficients)
        self.run()


@dataclass(frozen=True)
class _Recording:
    beams: Beams[Any]
    fillings: dict[int, _Filling]
    """By their number of rows: all places, and those that are refilled at once."""
    go_on: Callable[[], None]
    told: torch.Tensor
    """(places,) bool, on the host: which were done after the last filling or step that has ended."""
    work: Work
    reads: Sequence[torch.Tensor]
    """They must not be freed."""


class RecordedSearch:
    """The recordings of one model. Threads search in turn: a recording has only one set of tensors."""

    def __init__(self, record: Record):
        self.record = record
        self._searching = threading.Lock()
        self._recordings: OrderedDict[Hashable, _Recording] = OrderedDict()

    def __deepcopy__(self, memo: object) -> "RecordedSearch":
        """Recordings read tensors of their model, so those of a copied model are yet to be made."""
        return RecordedSearch(self.record)

    def __call__(
        self,
        prepare: Callable[[], Work],
        batch: Batch,
        coefficients: torch.Tensor | None,
        config: SearchConfig,
        forbidden: Sequence[int],
        device: torch.device,
        n_best: int = 1,
        reads: Sequence[torch.Tensor] = (),
    ) -> tuple[list[list[Hypothesis]], torch.Tensor | None]:
        """The hypotheses, as `beam_search` gives them, and λ of the instances, (B, 1 or G, R), if the model adapts.

        At most `config.batch_size` instances are searched at a time, rounded up to a power of 2. Work is prepared when
        it has to be recorded. `reads` are tensors that it reads besides the batch and the model's own weights.
        """
        places = 1 << (min(batch.size, config.batch_size) - 1).bit_length()
        refilled = min(places, max(LEAST, places // REFILLED))
        rows = {places} if batch.size <= places else {places, refilled}
        feed = Feed(batch, coefficients, device)
        addresses = tuple(part.data_ptr() for part in reads)
        key = _what_counts(config), n_best, tuple(forbidden), feed.shapes, places, len(rows), addresses
        with self._searching:
            if key not in self._recordings:
                never = torch.tensor(forbidden, device=device, dtype=torch.long)
                more = prepare(), feed, rows, config, never, n_best, reads
                try:
                    self._recordings[key] = self._make(*more)
                except torch.OutOfMemoryError:
                    if not self._recordings:
                        raise
                    self._forget()  # other programs may need the GPU, too
                    self._recordings[key] = self._make(*more)
                if len(self._recordings) > RECORDINGS:
                    self._recordings.popitem(last=False)
            self._recordings.move_to_end(key)
            return _search(self._recordings[key], feed, refilled, n_best)

    def _forget(self) -> None:
        """Drop all recordings, and give their memory back."""
        self._recordings.clear()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _make(
        self,
        work: Work,
        feed: Feed,
        rows: Collection[int],
        config: SearchConfig,
        never: torch.Tensor,
        n_best: int,
        reads: Sequence[torch.Tensor],
    ) -> _Recording:
        places = max(rows)
        part = feed.take(0, places)
        batch, _, count = feed.view(part.lay_out(np.arange(places)).to(never.device), places)
        held = _clone(_start(work.read(batch, part.coefficients), places, count, config))
        told = torch.empty(places, dtype=torch.bool, pin_memory=never.device.type == "cuda")

        def go_on() -> None:
            _copy(work.advance(work.step, held, config, never, n_best), held)
            told.copy_(held.done, non_blocking=True)

        fillings = {number: self._make_filling(work, feed, number, held, told, config) for number in rows}
        return _Recording(held, fillings, self.record(go_on), told, work, (never, *reads))

    def _make_filling(
        self, work: Work, feed: Feed, rows: int, held: Beams[Any], told: torch.Tensor, config: SearchConfig
    ) -> _Filling:
        part = feed.take(0, rows)
        laid_out = part.lay_out(np.arange(rows)).to(held.done.device)
        batch, places, count = feed.view(laid_out, rows)

        def fill() -> None:
            fresh = _start(work.read(batch, part.coefficients), rows, count, config)
            _put(fresh, None if rows == len(held.done) else places, held, work.readings)
            told.copy_(held.done, non_blocking=True)

        return _Filling(laid_out, part.coefficients, self.record(fill))


@lru_cache
def _what_counts(config: SearchConfig) -> SearchConfig:
    """The settings without those that a recorded search does not read: they need no recording of their own."""
    usual = SearchConfig()
    others = "seed", "top_p", "facts", "choice", "manner", "batch_size"
    return replace(config, **{name: getattr(usual, name) for name in others})


def graphs() -> Record:
    """Records CUDA graphs."""
    recorder = Recorder()

    def record(work: Callable[[], None]) -> Callable[[], None]:
        work()  # once before it is recorded, because libraries start up at their first call
        return recorder(work).replay

    return record


def recorded_search(model: nn.Module) -> RecordedSearch:
    """The recordings of this model. They are made anew if its weights have moved.

    The model itself holds them, because they hold the model: a dictionary of models would keep both for ever.
    """
    address = next(model.parameters()).data_ptr()
    known: tuple[int, RecordedSearch] | None = vars(model).get("_recorded")
    if known is None or known[0] != address:
        known = vars(model)["_recorded"] = address, RecordedSearch(graphs())
    return known[1]


def _search(
    recording: _Recording, feed: Feed, refilled: int, n_best: int
) -> tuple[list[list[Hypothesis]], torch.Tensor | None]:
    """Until all is done. Each step starts before a GPU has told of the last one, so it never waits.

    Nothing changes the texts of instances that are done. So it does no harm if a step tells of more of them meanwhile.
    """
    beams, work = recording.beams, recording.work
    done = np.ones(len(beams.done), bool)
    arrived = torch.cuda.Event() if beams.done.device.type == "cuda" else None
    numbers = np.full(len(done), -1)  # those of the instances at all places; -1 for none
    waiting = deque(feed.cut(len(done), refilled))
    found: list[_Found] = []
    while waiting or not done.all():
        free = np.flatnonzero(done)
        while waiting and len(free) >= waiting[0].rows:
            part = waiting.popleft()
            places, free = np.split(free, [part.rows])
            if part.first > 0:
                found.append(_Found.at(places, numbers, beams, work, n_best))
            recording.fillings[part.rows].fill(part, places)
            numbers[places], done[places] = -1, False
            numbers[places[: part.count]] = part.first + np.arange(part.count)
        if arrived is not None:
            arrived.record()
        recording.go_on()
        if arrived is not None:
            arrived.synchronize()
        done = recording.told.numpy().copy()
    found.append(_Found.at(None, numbers, beams, work, n_best))
    return _put_in_order(found, feed.size)


class _Found(NamedTuple):
    """What was found for the instances at some places, still on the device."""

    numbers: np.ndarray
    """Those of the instances; -1 for none."""
    scores: torch.Tensor
    texts: torch.Tensor
    coefficients: torch.Tensor | None
    """(places, 1 or G, R)"""

    @classmethod
    def at(cls, places: np.ndarray | None, numbers: np.ndarray, beams: Beams[Any], work: Work, n_best: int) -> "_Found":
        """At some of the places, or at all: then they are not copied."""
        lam = work.coefficients(beams.state)  # of all hypotheses
        lam = None if lam is None else lam[:: beams.log_p.shape[1]][: len(numbers)]
        scores, texts = beams.scores[:, :n_best], beams.texts[:, :n_best]
        if places is None:
            return cls(numbers, scores, texts, lam)
        here = torch.from_numpy(places).to(scores.device)
        return cls(numbers[places], scores[here], texts[here], None if lam is None else lam[here])


def _put_in_order(found: Sequence[_Found], size: int) -> tuple[list[list[Hypothesis]], torch.Tensor | None]:
    """What was found for each instance."""
    scores, texts, lam = found[0][1:]
    if len(found) == 1:
        return to_hypotheses(scores[:size], texts[:size]), None if lam is None else lam[:size].clone()
    where, numbers = np.empty(size, np.int64), np.concatenate([one.numbers for one in found])
    where[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    rows = torch.from_numpy(where).to(scores.device)
    scores, texts = (torch.cat(parts)[rows] for parts in zip(*(one[1:3] for one in found), strict=True))
    if lam is not None:
        lam = torch.cat([one.coefficients for one in found if one.coefficients is not None])[rows]
    return to_hypotheses(scores, texts), lam


def _put(fresh: Beams[Any], places: torch.Tensor | None, held: Beams[Any], readings: int) -> None:
    """Overwrite what is held at some places, or at all."""
    if places is None:
        _copy(fresh, held)
        return
    for field in fields(Beams):
        # Rows are (readings · instances · hypotheses of each), or fewer: a part of these three may be 1.
        sizes = [(readings if field.name == "state" else 1, len(one), -1) for one in (held.done, places)]
        pairs = zip(*(_tensors(getattr(beams, field.name)) for beams in (held, fresh)), strict=True)
        for old, new in pairs:
            old.unflatten(0, sizes[0]).index_copy_(1, places, new.unflatten(0, sizes[1]))


def _start(state: Any, instances: int, count: torch.Tensor, config: SearchConfig) -> Beams[Any]:
    """K hypotheses for each instance, of which all but one cannot be; `count` (1,) instances are not done yet."""
    numbers = torch.arange(instances, device=count.device)
    beams = Beams.start(state, instances, config, count.device)
    impossible = torch.full((instances, config.beam_size - 1), -torch.inf, device=count.device)
    words = functional.pad(beams.words.expand(-1, config.beam_size, -1), (0, config.max_length))
    return replace(
        beams,
        state=state.select(numbers.repeat_interleave(config.beam_size, output_size=instances * config.beam_size)),
        words=words,
        log_p=torch.cat([beams.log_p, impossible], 1),
        done=numbers >= count,
    )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))


def _copy(values: Any, into: Any) -> None:
    for source, target in zip(_tensors(values), _tensors(into), strict=True):
        if source is not target:
            target.copy_(source)


def _clone(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone(memory_format=torch.contiguous_format)
    if isinstance(value, tuple):
        return tuple(map(_clone, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _clone(getattr(value, field.name)) for field in fields(value)})
    return value
