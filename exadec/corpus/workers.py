"""Worker processes.

In: a module-level function, and a stream of arguments. Out: the results, in the same order.
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

from exadec.cores import available_cores
from exadec.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

FEW = 4
"""For this many tasks or fewer, starting processes takes longer than the work."""
_MOST = 16
"""Maximum number of processes. More would only wait for the one that reads the input and collects the results."""
_CHILD = "from exadec.corpus.workers import serve; serve()"


class Workers:
    """A pool of worker processes. They start lazily, with the first work worth it, and end with the block.

    These are plain subprocesses rather than a `multiprocessing` pool. A pool that spawns runs the caller's script
    again, which fails without a `__main__` guard; a pool that forks is not safe with threads.
    """

    def __init__(self, count: int | None = None):
        self._count = min(available_cores(), _MOST) if count is None else count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of all tasks, in order. Workers run at most a few tasks ahead of the caller.

        If a task fails, or the next task cannot be read, the results before it come first, then the error.
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
            self._stop()  # threads that wait for an answer then read EOF
            raise
        finally:
            if threads is not None:
                threads.shutdown(cancel_futures=True)

    def _start(self) -> ThreadPoolExecutor:
        """Start the processes if there are none. Each one talks to one thread at a time."""
        if not self._processes:
            paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
            # One process per core: threads started by libraries would compete with them.
            environment = {**os.environ, "PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
            for _ in range(self._count):
                process = subprocess.Popen(  # noqa: S603 - this Python, and a fixed program
                    [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
                self._processes.append(process)
                self._idle.put(process)
        return ThreadPoolExecutor(self._count)

    def _stop(self) -> None:
        """Terminate the processes. They have no state to lose."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):  # unread data
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
            is_error, answer = pickle.load(process.stdout)  # noqa: S301 - our own child wrote it, to a pipe
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            raise InputError(
                "a worker process has ended unexpectedly; the machine may have run out of memory."
            ) from None
        finally:
            idle.put(process)
        if is_error:
            raise answer
        result: Result = answer
        return result


def _take(tasks: Iterator[Task], count: int) -> tuple[list[Task], Exception | None]:
    """The next `count` tasks, or fewer, and the error if the next one cannot be read."""
    taken: list[Task] = []
    try:
        taken.extend(islice(tasks, count))
    except Exception as error:
        return taken, error
    return taken, None


def serve() -> None:
    """Main loop of a worker process: read calls from stdin and write results to stdout, until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the workers
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that prints of libraries do not mix with results
    while True:
        answer: tuple[bool, Any]
        try:
            function, task = pickle.load(calls)  # noqa: S301 - our parent wrote it, to a pipe
        except EOFError:
            return
        try:
            answer = False, function(task)
        except Exception as error:
            answer = True, error
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
