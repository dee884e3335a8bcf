"""The one thread that uses the model: requests that wait together are written together.

In: `Task`s and calls, from any thread. Out: a `Future` for each.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from exadec.api import Writer
from exadec.config import SearchConfig
from exadec.errors import RequestError
from exadec.generation import Generation
from exadec.request import Request

One = TypeVar("One")


class BusyError(Exception):
    """The queue is full."""

    def __init__(self, seconds: int):
        super().__init__("too many requests are waiting; ask again later.")
        self.seconds = seconds
        """When to ask again"""


class ClosedError(Exception):
    """The server is stopping."""


Observe = Callable[[str, dict[str, Any]], None]
"""Called in the worker's thread with the name and the data of an event."""


def _ignore(name: str, data: dict[str, Any]) -> None:
    pass


@dataclass(frozen=True)
class Task:
    """One text to write."""

    request: Request
    n_best: int = 1
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings of the search that are not the run's, by name."""
    explain: bool = False
    observe: Observe = _ignore
    """Hears `started`, then `text` with the beginning of the text, each time the search has settled more of it."""

    def change(self, search: SearchConfig) -> SearchConfig:
        """A run's settings of the search, with those of the task."""
        return replace(search, **dict(self.settings))


@dataclass(frozen=True)
class _Job:
    """A task to write, or something to call."""

    what: Task | Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)

    @property
    def kind(self) -> object:
        """Jobs of the same kind are done together; a call is alone."""
        return (self.what.n_best, self.what.settings) if isinstance(self.what, Task) else self


class Worker:
    """Owns a `Writer`. Since everything that touches exemplars runs in its thread, too, what is deleted when a batch
    begins is not in it.
    """

    def __init__(
        self, writer: Writer, limit: int, observe_batch: Callable[[int, float], None] = lambda size, took: None
    ):
        """At most `limit` jobs wait. `observe_batch` is called with the size of each batch and its seconds."""
        self.writer, self.limit, self._observe_batch = writer, limit, observe_batch
        self._most = writer.run.config.search.batch_size
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._seconds = 0.1  # of a batch, smoothed
        self._thread = threading.Thread(target=self._work, name="exadec-writer", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many jobs wait. Those that were cancelled, because their time was up, do not."""
        with self._changed:
            return sum(not job.future.cancelled() for job in self._waiting)

    def write(self, task: Task) -> "Future[Generation | RequestError]":
        """The text of a task, or why there is none."""
        return self._submit(_Job(task))

    def call(self, what: Callable[[], One]) -> "Future[One]":
        """The result of a function, called in the worker's thread."""
        return self._submit(_Job(what))

    def close(self) -> None:
        """Finish what waits, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _submit(self, job: _Job) -> Future[Any]:
        with self._changed:
            if self._closed:
                raise ClosedError("the server is stopping.")
            if len(self._waiting) >= self.limit:
                self._waiting = deque(job for job in self._waiting if not job.future.cancelled())
            if len(self._waiting) >= self.limit:
                raise BusyError(max(1, math.ceil(self._seconds * (1 + len(self._waiting) / self._most))))
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def _work(self) -> None:
        while jobs := self._take():
            # A future that was cancelled, because its time was up, is not begun.
            jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            begun = time.monotonic()
            tasks = [(job.what, job.future) for job in jobs if isinstance(job.what, Task)]
            if tasks:
                listeners = [_Listener(task.observe) for task, _ in tasks]
                self._write(tasks, listeners)
                took = time.monotonic() - begun
                self._seconds += 0.2 * (took - self._seconds)
                self._observe_batch(len(tasks), took)
            for job in jobs:
                if not isinstance(job.what, Task):
                    _settle(job.future, job.what)

    def _take(self) -> list[_Job]:
        """The job that has waited longest and others that can be done with it; none when everything is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return []
            kind = self._waiting[0].kind
            taken: list[_Job] = []
            left: deque[_Job] = deque()
            for job in self._waiting:
                (taken if job.kind == kind and len(taken) < self._most else left).append(job)
            self._waiting = left
            return taken

    def _write(self, tasks: list[tuple[Task, "Future[Any]"]], listeners: "list[_Listener]") -> None:
        first, _ = tasks[0]
        try:
            for listener in listeners:
                listener.start(len(tasks))
            requests = [task.request for task, _ in tasks]
            streamed = any(task.observe is not _ignore for task, _ in tasks)
            tell = (lambda number, text: listeners[number].tell(text)) if streamed else None
            search = first.change(self.writer.run.config.search)
            results = self.writer.answer(requests, first.n_best, search=search, tell=tell)
        except Exception as error:
            if len(tasks) > 1:  # it may be the fault of one of them, or of their number
                for one, listener in zip(tasks, listeners, strict=True):
                    self._write([one], [listener])
                return
            tasks[0][1].set_exception(error)
            return
        for (task, future), result in zip(tasks, results, strict=True):
            _settle(future, partial(_explained, task, result))


class _Listener:
    """Tells an observer once that its task has started, and the beginning of its text each time it has grown.

    A batch that fails is written again, one task after the other. Since a text does not depend on its batch, what was
    told before still holds.
    """

    def __init__(self, observe: Observe):
        self._observe, self._started, self._known = observe, False, ""

    def start(self, together: int) -> None:
        if not self._started:
            self._started = True
            self._observe("started", {"together": together})

    def tell(self, text: str) -> None:
        text = text.rstrip("\ufffd")  # the first bytes of a character
        if len(text) > len(self._known):
            self._known = text
            self._observe("text", {"text": text})


def _explained(task: Task, result: Generation | RequestError) -> Generation | RequestError:
    """The result, with its explanation computed here if it is wanted."""
    if task.explain and isinstance(result, Generation):
        _ = result.attention
    return result


def _settle(future: Future[Any], what: Callable[[], Any]) -> None:
    try:
        future.set_result(what())
    except Exception as error:
        future.set_exception(error)
