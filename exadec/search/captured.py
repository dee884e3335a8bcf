"""Beam search that is recorded once and replayed: on a GPU as CUDA graphs, so that reading a batch is a single launch,
and so is each step.

In: how to read a batch, and a `step`, as for `beam_search`. Out: the same hypotheses.

Recorded work reads and writes the same tensors each time. So all instances stay until the last of them is done, and
batches are padded, so that few recordings serve all of them.
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.loading.batch import Batch
from exadec.model.backends.capture import Recorder
from exadec.search.beam import Beams, Hypothesis, Step
from exadec.search.beam import advance as advance_beams

POSITIONS = 16
"""Lengths of sources and exemplars are rounded up to multiples of this."""
RECORDINGS = 16
"""How many recordings of one model are kept: those that were used last."""

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""Makes work that can be repeated on the same tensors."""
Read = Callable[[Batch, torch.Tensor | None], Any]
"""A batch, and coefficients that take the place of λ -> the state before the first word, with one row an instance."""


class Advance(Protocol):
    """`beam.advance` without rules. It may change its beams in place."""

    def __call__(
        self, step: Step[Any], beams: Beams[Any], config: SearchConfig, never: torch.Tensor, n_best: int
    ) -> Beams[Any]: ...


class Work(NamedTuple):
    """What a search consists of, besides its settings."""

    read: Read
    step: Step[Any]
    advance: Advance = advance_beams
    reads: Sequence[torch.Tensor] = ()
    """What it reads besides the batch and the model's own weights."""
    coefficients: Callable[[Any], torch.Tensor | None] = attrgetter("coefficients")
    """λ of a state's hypotheses: (N, 1 or G, R)."""


@dataclass(frozen=True)
class _Recording:
    inputs: torch.Tensor
    """The ids and lengths of a batch, one after the other, and the number of its instances."""
    coefficients: torch.Tensor | None
    beams: Beams[Any]
    begin: Callable[[], None]
    go_on: Callable[[], None]
    work: Work
    never: torch.Tensor
    """Like those of `work`, it is read, and must not be freed."""


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
        work: Work,
        batch: Batch,
        coefficients: torch.Tensor | None,
        config: SearchConfig,
        forbidden: Sequence[int],
        device: torch.device,
        n_best: int = 1,
    ) -> tuple[list[list[Hypothesis]], torch.Tensor | None]:
        """The hypotheses, as `beam_search` gives them, and λ of the instances, (B, 1 or G, R), if the model adapts."""
        padded = _pad_batch(batch)
        shapes = tuple(part.shape for part in _read_parts(padded))
        given = None
        if coefficients is not None:
            rows = torch.arange(padded.size).clamp_max(batch.size - 1)
            given = coefficients.to(device)[rows.to(device)]
        shape_given = None if given is None else given.shape
        addresses = tuple(part.data_ptr() for part in work.reads)
        key = _what_counts(config), n_best, tuple(forbidden), shapes, shape_given, addresses
        inputs = torch.cat([*(part.flatten() for part in _read_parts(padded)), torch.tensor([batch.size])])
        with self._searching:
            if key not in self._recordings:
                never = torch.tensor(forbidden, device=device, dtype=torch.long)
                more = work, shapes, inputs.to(device), given, config, never, n_best
                try:
                    self._recordings[key] = self._make(*more)
                except torch.OutOfMemoryError:
                    if not self._recordings:
                        raise
                    self._forget()  # other programs may need the GPU, too
                    self._recordings[key] = self._make(*more)
                if len(self._recordings) > RECORDINGS:
                    self._recordings.popitem(last=False)
            found = self._recordings[key]
            self._recordings.move_to_end(key)
            found.inputs.copy_(inputs)
            if found.coefficients is not None and given is not None:
                found.coefficients.copy_(given)
            found.begin()
            _repeat(found.go_on, found.beams.done)
            lam = work.coefficients(found.beams.state)  # of all hypotheses; the next search overwrites it
            lam = None if lam is None else lam[:: config.beam_size][: batch.size].clone()
            return found.beams.best(torch.arange(batch.size, device=device), n_best), lam

    def _forget(self) -> None:
        """Drop all recordings, and give their memory back."""
        self._recordings.clear()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _make(
        self,
        work: Work,
        shapes: Sequence[torch.Size],
        inputs: torch.Tensor,
        coefficients: torch.Tensor | None,
        config: SearchConfig,
        never: torch.Tensor,
        n_best: int,
    ) -> _Recording:
        sizes = [shape.numel() for shape in shapes]
        *parts, count = inputs.split([*sizes, 1])
        source, lengths, exemplar, exemplar_lengths = (
            part.view(shape) for part, shape in zip(parts, shapes, strict=True)
        )
        nothing = source[:, :0]  # targets and unknown words are not read
        batch = Batch(source, lengths, exemplar, exemplar_lengths, nothing, nothing, nothing)

        def begin() -> Beams[Any]:
            return _start(work.read(batch, coefficients), batch.size, count, config)

        held = _clone(begin())
        return _Recording(
            inputs,
            coefficients,
            held,
            self.record(lambda: _copy(begin(), held)),
            self.record(lambda: _copy(work.advance(work.step, held, config, never, n_best), held)),
            work,
            never,
        )


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


def _read_parts(batch: Batch) -> tuple[torch.Tensor, ...]:
    return batch.source, batch.source_lengths, batch.exemplar, batch.exemplar_lengths


def _pad_batch(batch: Batch) -> Batch:
    """More positions, and as many instances as a power of 2: the last one again and again."""
    each, more = batch.exemplar.shape[0] // batch.size, (1 << (batch.size - 1).bit_length()) - batch.size

    def pad(part: torch.Tensor, rows: int) -> torch.Tensor:
        """numpy does such small things at once, where torch would start threads."""
        last = np.tile(part[-rows:].numpy(), (more, *[1] * (part.dim() - 1)))
        padded = np.concatenate([part.numpy(), last])
        if part.dim() == 2:
            padded = np.pad(padded, ((0, 0), (0, -part.shape[1] % POSITIONS)))  # with PAD, which is 0
        return torch.from_numpy(padded)

    return replace(
        batch,
        source=pad(batch.source, 1),
        source_lengths=pad(batch.source_lengths, 1),
        exemplar=pad(batch.exemplar, each),
        exemplar_lengths=pad(batch.exemplar_lengths, each),
    )


def _repeat(go_on: Callable[[], None], done: torch.Tensor) -> None:
    """Until all is done, and one step more: each step starts before a GPU has told of the last one, so it never waits.

    Nothing changes the texts of instances that are done.
    """
    go_on()
    while True:
        is_over = _ask(done)
        go_on()
        if is_over():
            return


def _ask(done: torch.Tensor) -> Callable[[], bool]:
    """Whether all is done now. The answer may be waited for later."""
    over = done.all()
    if done.device.type == "cpu":
        return over.item  # type: ignore[return-value]
    answer = torch.empty((), dtype=torch.bool, pin_memory=True)
    answer.copy_(over, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()

    def wait() -> bool:
        arrived.synchronize()
        return bool(answer)

    return wait


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
