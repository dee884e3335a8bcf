"""A run with its exemplars, ready for requests.

In: a run folder or a file of `export`, and a folder for accepted exemplars. Out: `Desk`, whose methods can be awaited.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial
from http import HTTPStatus
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from exadec.api import Writer, load
from exadec.corpus.record import Record, Table, linearize
from exadec.errors import InputError, RequestError
from exadec.exemplars.growing import GrowingRetriever
from exadec.exemplars.journal import Accepted, Journal, journal_folder
from exadec.generation import Generation
from exadec.reading.content import require_plain_text
from exadec.request import Request, require_sources
from exadec.server.door import Limits
from exadec.server.refusals import RefusedError
from exadec.server.worker import Task, Worker
from exadec.strict_yaml import Overrides
from exadec.training.checkpoint import open_corpus

logger = logging.getLogger(__name__)

One = TypeVar("One")
Event = tuple[str, dict[str, Any]]
_EXAMPLES = 8
_GROUPS = 20
"""Groups that are named where there may be thousands"""


def open_writer(
    place: Path,
    exemplars: Path | None,
    overrides: Overrides = (),
    device: str | None = None,
    corpus: Path | None = None,
) -> tuple[Writer, GrowingRetriever | None]:
    """A writer, and its exemplars if any can be retrieved; `exemplars` is by default beside the run."""
    writer = load(place, overrides, device, corpus)
    try:
        trained = writer.run.open_retriever()
        _ = trained.index  # opened or built now, not at the first request
    except InputError as error:
        logger.warning("%s", error)
        return writer, None
    growing = GrowingRetriever(trained, Journal(exemplars or journal_folder(place), writer.run.facts["corpus"]))
    writer = Writer(writer.run, writer.model, growing)
    for count in (1, 2):  # what is loaded or compiled at first use is there before the first request
        writer.answer([Request("nothing in particular")] * count)
    return writer, growing


class Desk:
    """Takes requests one by one, has them written together, and gives each its result within the time limit."""

    def __init__(self, writer: Writer, exemplars: GrowingRetriever | None, worker: Worker, limits: Limits):
        self.writer, self.worker = writer, worker
        self._exemplars, self._limits = exemplars, limits

    def close(self) -> None:
        """Finish what was begun."""
        self.worker.close()
        if self._exemplars is not None:
            self._exemplars.journal.close()

    async def write(self, task: Task) -> Generation:
        """The text of a task."""
        self._check(task)
        return _text(await self._result(self.worker.write(task)))

    def stream(self, task: Task) -> AsyncIterator[Event | Generation]:
        """Events while a text is written, then the text. The task is queued, or refused, before the first."""
        self._check(task)
        loop, events = asyncio.get_running_loop(), asyncio.Queue[Event | None]()

        def tell(event: Event | None) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        waiting = len(self.worker)
        future = self.worker.write(replace(task, observe=lambda name, data: tell((name, data))))
        future.add_done_callback(lambda _: tell(None))
        return self._follow(future, events, ("queued", {"before": waiting}))

    async def _follow(
        self, future: "Future[Generation | RequestError]", events: "asyncio.Queue[Event | None]", first: Event
    ) -> AsyncIterator[Event | Generation]:
        deadline = time.monotonic() + self._limits.seconds
        try:
            event: Event | None = first
            while event is not None:
                yield event
                try:
                    event = await asyncio.wait_for(events.get(), deadline - time.monotonic())
                except TimeoutError:
                    raise self._time_is_up() from None
            yield _text(future.result())
        finally:
            future.cancel()  # the client left, or the time is up: do not begin

    async def vary(self, task: Task, count: int) -> list[Generation]:
        """Different texts for the nearest exemplars."""
        self._check(task)
        return await self.call(partial(self._vary, task, count))

    def _vary(self, task: Task, count: int) -> list[Generation]:
        _ = self.retriever
        return self.writer.vary(task.request, count, search=task.change(self.writer.run.config.search))

    async def retrieve(self, source: str, group: str | None, count: int) -> list[dict[str, Any]]:
        """The nearest exemplars, as the run's policy finds them."""
        return await self._result(self.worker.call(partial(self._retrieve, source, group, count)))

    def _retrieve(self, source: str, group: str | None, count: int) -> list[dict[str, Any]]:
        require_sources([source], group)
        retriever = self.retriever
        (found,) = retriever.find_several([source], group, count)
        return [
            {
                "id": retriever.name(one.number),
                "text": self.writer.exemplar_text(one.number),
                "similarity": one.similarity,
            }
            for one in dict.fromkeys(found)
            if one.number is not None
        ]

    async def accept(self, text: Accepted) -> tuple[str, bool]:
        """Make a text an exemplar, unless it is one; its id, once it is on disk, and whether it is new."""
        return await self._result(self.worker.call(partial(self._accept, text)), finish=True)

    def _accept(self, text: Accepted) -> tuple[str, bool]:
        retriever = self.retriever
        Request(text.source, text.target, text.group)
        self.writer.refuse(text.target, None)  # nobody could write in its manner
        known = retriever.find_accepted(text)
        return (retriever.accept(text), True) if known is None else (known, False)

    async def delete(self, name: str) -> None:
        if not await self._result(self.worker.call(lambda: self.retriever.delete(name)), finish=True):
            raise _not_found(name)

    async def show(self, name: str) -> dict[str, Any]:
        """One exemplar."""
        return await self._result(self.worker.call(partial(self._show, name)))

    def _show(self, name: str) -> dict[str, Any]:
        retriever = self.retriever
        number = retriever.find_number(name)
        if number is None:
            raise _not_found(name)
        return {"id": name, "text": self.writer.exemplar_text(number), "group": retriever.group_of(number)}

    async def groups(self, search: str, start: int, count: int) -> dict[str, Any]:
        """Some of the groups whose names have these letters, those with the most exemplars first."""
        found = {} if self._exemplars is None else await self.call(self._exemplars.count_groups)
        wanted = search.casefold()
        fitting = sorted(
            (one for one in found.items() if wanted in one[0].casefold()), key=lambda one: (-one[1], one[0])
        )
        shown = [{"name": name, "exemplars": number} for name, number in fitting[start : start + count]]
        return {"count": len(fitting), "groups": shown}

    @cached_property
    def _trained_groups(self) -> list[str]:
        """The groups of the training records, the most frequent first."""
        if self._exemplars is None:
            return []
        corpus = self._exemplars.corpus
        groups = corpus.groups("train")
        numbers, counts = np.unique(groups[groups >= 0], return_counts=True)
        return [corpus.group_names[number] for number in numbers[np.argsort(-counts, kind="stable")].tolist()]

    def describe(self) -> dict[str, Any]:
        """What runs here."""
        run, model = self.writer.run, self.writer.model
        config, created = run.config, run.created_on
        return {
            "exadec": version("exadec"),
            "variant": config.model.variant,
            "created": None if created is None else str(created),
            "vocabulary": len(run.vocabulary),
            "parameters": sum(one.numel() for one in model.parameters()),
            "device": str(next(model.parameters()).device),
            "beam_size": config.search.beam_size,
            "batch_size": config.search.batch_size,
            "max_source": config.corpus.max_source,
            "max_target": config.corpus.max_target,
            "max_length": config.search.max_length,
            "max_bytes": self._limits.max_bytes,
            "max_waiting": self._limits.waiting,
            "max_seconds": self._limits.seconds,
            "reads_exemplars": config.model.reads_exemplars,
            "adapts": config.model.adaptive,
            "copies": config.model.copy != "none",
            "told_groups": config.corpus.group_in_source,
            "group_count": len(self._trained_groups),
            "groups": self._trained_groups[:_GROUPS],
            "exemplars": self.exemplar_count(),
            "policy": config.exemplars.policy,
            "guidance": config.search.guidance,
            "manner": config.search.manner,
            "facts": config.search.facts,
            "takes_guidance": config.model.guidable,
        }

    def exemplar_count(self) -> int | None:
        """How many exemplars can be found; None if none can be retrieved."""
        return None if self._exemplars is None else len(self._exemplars)

    @cached_property
    def examples(self) -> list[dict[str, Any]]:
        """A few sources that the model was not trained on, if the corpus is there; for the worker's thread.

        Those with the most similar exemplars come first: they show best what an exemplar does.
        """
        try:
            every = open_corpus(self.writer.run).records("test")
            records = list(islice((one for one in every if _may_be_asked(one.source)), _EXAMPLES))
        except InputError:
            return []
        if self._exemplars is not None:
            found = self._exemplars.find([record.source for record in records])
            order = sorted(range(len(records)), key=lambda number: -found[number].similarity)
            records = [records[number] for number in order]
        return [{"source": one.source, "table": _table_of(one), "group": one.group} for one in records]

    @property
    def retriever(self) -> GrowingRetriever:
        """For the worker's thread alone."""
        if self._exemplars is None:
            raise RequestError(
                "this model was opened without its exemplars, so none can be retrieved or accepted, and there is no "
                "map; give an exemplar with the request."
            )
        return self._exemplars

    def _check(self, task: Task) -> None:
        """Refuse what would be an error for all requests of a batch."""
        run, request = self.writer.run, task.request
        settings, search = dict(task.settings), run.config.search
        beam = settings.get("beam_size", search.beam_size)
        if beam > search.beam_size:
            raise RequestError(f"'beam_size' is {beam}, but this server searches with {search.beam_size} at most.")
        if task.n_best > beam:
            raise RequestError(f"'k' is {task.n_best}, but the beam of this model has {beam}.")
        if settings.get("min_length", 0) >= search.max_length:
            raise RequestError(f"'min_length' must be below {search.max_length}, the longest text of this model.")
        followed = settings.get("manner", search.manner) == "followed"
        guided = "the guidance" if settings.get("guidance") else "'manner'" if followed else None
        if guided and not run.config.model.reads_exemplars:
            raise RequestError(f"this model ({run.config.model.variant}) reads no exemplar; leave out {guided}.")
        if guided and not run.config.model.guidable:
            raise RequestError(
                f"this model was not trained to write without an exemplar; leave out {guided}, or serve one that was "
                "trained with model.exemplar_skipping=0.1."
            )
        if settings.get("choice") == "consensus" and not run.config.model.reads_several:
            raise RequestError("this model does not read several exemplars, so none can agree; leave out 'choice'.")
        if settings.get("temperature", search.temperature) > 0 and (request.required or followed):
            what = "required phrases need" if request.required else "a followed manner needs"
            raise RequestError(f"{what} a search; set 'temperature' to 0.")
        request.require_one_exemplar(run.config.corpus.group_in_source)
        if request.asks_for_exemplar and run.config.model.reads_exemplars:
            _ = self.retriever

    async def call(self, what: Callable[[], One], finish: bool = False) -> One:
        """The result of what may use the writer: it is called in the worker's thread."""
        return await self._result(self.worker.call(what), finish)

    async def _result(self, future: "Future[One]", finish: bool = False) -> One:
        """The result of a job. One that has begun is waited for if it must `finish`: then it is known what holds."""
        waiting = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait([waiting], timeout=self._limits.seconds)
            if not done and (future.cancel() or not finish):
                raise self._time_is_up()
            return await waiting
        finally:
            waiting.cancel()

    def _time_is_up(self) -> RefusedError:
        message = f"this took longer than {self._limits.seconds:g} seconds; ask again later."
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, {"Retry-After": "1"})


def _text(result: Generation | RequestError) -> Generation:
    if isinstance(result, RequestError):
        raise result
    return result


def _not_found(name: str) -> RefusedError:
    return RefusedError(HTTPStatus.NOT_FOUND, f"there is no exemplar {name}; it may have been deleted.")


def _table_of(record: Record) -> Table | None:
    """The table that a request can give in place of the record's source."""
    return record.table if record.table and record.source == linearize(record.table) else None


def _may_be_asked(source: str) -> bool:
    """Training data may have control characters, which a request may not."""
    try:
        require_plain_text(source, "source")
    except InputError:
        return False
    return True
