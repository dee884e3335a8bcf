"""Work for several processes.

In: a function of a module, and its arguments one after the other. Out: the results in the same order.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from exadec.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

FEW = 4
"""Starting processes takes longer than so many tasks."""
_MOST = 16
"""Processes. More of them wait for the one that reads the input and puts the results together."""
_CHILD = "from exadec.corpus.workers import serve; serve()"


def cores() -> int:
    """How many processes can run at the same time."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MOST)


class Workers:
    """Processes that call functions for us. They start with the first work that is worth it, and end with the block.

    These are plain subprocesses rather than a `multiprocessing` pool: a pool that does not fork runs the caller's
    script again, which fails in a script without a `__main__` guard, and one that forks is not safe beside threads.
    """

    def __init__(self, count: int | None = None):
        self._count = cores() if count is None else count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of all tasks, in the order of the tasks, and at most a few ahead of whoever asks for them.

        When a task fails, or the tasks cannot be read on, the results before that come first and then the error.
        """
        waiting = iter(tasks)
        batch, failure = _take(waiting, FEW + 1)
        alone = self._count == 1 or len(batch) <= FEW
        threads = None if alone else self._start()
        pending: deque[Future[Result]] = deque()
        try:
            while batch:
                for task in batch:
                    if threads is None:
                        yield function(task)
                        continue
                    pending.append(threads.submit(self._call, function, task))
                    if len(pending) > 2 * self._count:
                        yield pending.popleft().result()
                batch, failure = _take(waiting, 1) if failure is None else ([], failure)
            while pending:
                yield pending.popleft().result()
            if failure is not None:
                raise failure
        except BaseException:
            self._stop()  # threads that wait for an answer then read the end of a file
            raise
        finally:
            if threads is not None:
                threads.shutdown(cancel_futures=True)

    def _start(self) -> ThreadPoolExecutor:
        """Start the processes if there are none. Each is served by one thread at a time."""
        if not self._processes:
            paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
            # Each of them is a thread of its own: libraries that would start more threads would be in their way.
            environment = {**os.environ, "PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
            for _ in range(self._count):
                process = subprocess.Popen(
                    [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
                self._processes.append(process)
                self._idle.put(process)
        return ThreadPoolExecutor(self._count)

    def _stop(self) -> None:
        """End the processes. They hold nothing that could be lost."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):  # of what nobody reads any more
                    pipe.close()
        self._processes, self._idle = [], queue.SimpleQueue()

    def _call(self, function: Callable[[Task], Result], task: Task) -> Result:
        call = pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL)
        idle = self._idle
        process = idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(call)
            process.stdin.flush()
            is_error, answer = pickle.load(process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            raise InputError("a worker process has ended; the machine may have run out of memory.") from None
        finally:
            idle.put(process)
        if is_error:
            raise answer
        result: Result = answer
        return result


def _take(tasks: Iterator[Task], count: int) -> tuple[list[Task], Exception | None]:
    """The next `count` tasks, or fewer and why the next one cannot be read."""
    taken: list[Task] = []
    try:
        taken.extend(islice(tasks, count))
    except Exception as error:
        return taken, error
    return taken, None


def serve() -> None:
    """What a worker process does: calls and answers over its pipes, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one that asked ends the others
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not get among the answers
    while True:
        answer: tuple[bool, Any]
        try:
            function, task = pickle.load(calls)
        except EOFError:
            return
        try:
            answer = False, function(task)
        except Exception as error:
            answer = True, error
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
