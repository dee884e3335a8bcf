"""Beam search whose step is recorded once and replayed: on a GPU a CUDA graph, so that a step is a single launch.

In: a model's `step` and state, as for `beam_search`. Out: the same hypotheses.

A recorded step reads and writes the same tensors each time. So all instances stay until the last of them is done, and
shapes are rounded up, so that few recordings serve all batches.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.search.beam import Beams, Hypothesis, Step, advance

POSITIONS = 16
"""Lengths of sources and exemplars are rounded up to multiples of this."""
RECORDINGS = 16
"""How many recordings of one model are kept: those that were used last."""

Record = Callable[[Callable[[], None]], Callable[[], None]]
"""Makes work that can be repeated on the same tensors."""


@dataclass(frozen=True)
class _Recording:
    beams: Beams[Any]
    replay: Callable[[], None]
    reads: Sequence[torch.Tensor]
    """What the work reads besides. It must not be freed."""


class RecordedSearch:
    """The recordings of one model. Threads search in turn: a recording has only one set of tensors."""

    def __init__(self, record: Record):
        self.record = record
        self._searching = threading.Lock()
        self._recordings: OrderedDict[Hashable, _Recording] = OrderedDict()

    def __call__(
        self,
        step: Step[Any],
        state: Any,
        instances: int,
        config: SearchConfig,
        forbidden: Sequence[int],
        device: torch.device,
        n_best: int = 1,
        reads: Sequence[torch.Tensor] = (),
    ) -> list[list[Hypothesis]]:
        """As `beam_search`. `reads` are what the step reads besides the state and the model's own weights."""
        never = torch.tensor(forbidden, device=device, dtype=torch.long)
        beams = Beams.start(state, instances, config, device).make_room()
        beams = _round_up(advance(step, beams, config, never, n_best), config)
        shapes = tuple((part.shape, part.dtype) for part in _tensors(beams))
        key = config, n_best, shapes, tuple(part.data_ptr() for part in reads)
        with self._searching:
            if key not in self._recordings:
                forward = partial(advance, step, config=config, never=never, n_best=n_best)
                self._recordings[key] = self._make(beams, forward, [never, *reads])
                if len(self._recordings) > RECORDINGS:
                    self._recordings.popitem(last=False)
            found = self._recordings[key]
            self._recordings.move_to_end(key)
            _copy(beams, found.beams)
            while not bool(found.beams.done.all()):
                found.replay()
            return found.beams.best(torch.arange(instances, device=device), n_best)

    def _make(
        self, beams: Beams[Any], forward: Callable[[Beams[Any]], Beams[Any]], reads: Sequence[torch.Tensor]
    ) -> _Recording:
        held = _clone(beams)
        return _Recording(held, self.record(lambda: _copy(forward(held), held)), reads)


def graphs() -> Record:
    """Records CUDA graphs, which share their working memory: they run one after the other."""
    pool = torch.cuda.graph_pool_handle()

    def record(work: Callable[[], None]) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()  # once before it is recorded, because libraries start up at their first call
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            work()
        return graph.replay

    return record


_OF_MODELS: "WeakKeyDictionary[nn.Module, tuple[int, RecordedSearch]]" = WeakKeyDictionary()


def recorded_search(model: nn.Module) -> RecordedSearch:
    """The recordings of this model. They are made anew if its weights have moved."""
    address = next(model.parameters()).data_ptr()
    if model not in _OF_MODELS or _OF_MODELS[model][0] != address:
        _OF_MODELS[model] = address, RecordedSearch(graphs())
    return _OF_MODELS[model][1]


def _round_up(beams: Beams[Any], config: SearchConfig) -> Beams[Any]:
    """Room for the longest text, more positions, and copies of the last instance that count as done."""
    instances = len(beams.done)
    size = 1 << (instances - 1).bit_length()
    wider = functional.pad(beams.words, (0, config.max_length + 1 - beams.words.shape[2]))
    beams = replace(beams, words=wider, state=beams.state.pad(POSITIONS))
    if size == instances:
        return beams
    numbers = torch.arange(size, device=beams.done.device)
    beams = beams.keep(numbers.clamp_max(instances - 1))
    return replace(beams, done=beams.done | (numbers >= instances))


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
