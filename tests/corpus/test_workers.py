"""Work for several processes: order, errors, and no process left behind."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest

from exadec.corpus.record import Record
from exadec.corpus.scan import scan_chunk
from exadec.corpus.workers import FEW, Workers
from exadec.errors import InputError


def chunk_of(number: int, text: str = "a b") -> list[Record]:
    return [Record(str(number), text, f"t{number}")]


def targets(workers: Workers, tasks: Iterable[list[Record]]) -> Iterator[str]:
    """The targets that come back."""
    return (scanned.words[-1] for scanned in workers.map(scan_chunk, tasks))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("tasks", [0, FEW, 40])
def test_results_come_in_the_order_of_the_tasks(count: int, tasks: int) -> None:
    with Workers(count) as workers:
        assert list(targets(workers, [chunk_of(i) for i in range(tasks)])) == [f"t{i}" for i in range(tasks)]
        assert len(workers._processes) == (count if count > 1 and tasks > FEW else 0)
        started = [process.pid for process in workers._processes]
        assert list(targets(workers, map(chunk_of, range(9)))) == [f"t{i}" for i in range(9)]  # the same processes
        assert not started or [process.pid for process in workers._processes] == started
    assert not workers._processes


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("place", [1, 7, 30])
def test_the_first_error_is_raised_after_the_results_before_it(count: int, place: int) -> None:
    tasks = [chunk_of(i, "" if i in (place, place + 1) else "a") for i in range(40)]
    results: list[str] = []
    with Workers(count) as workers:
        with pytest.raises(InputError, match=f"the source of the record '{place}' is empty"):
            results.extend(targets(workers, tasks))
        assert not workers._processes
        assert list(targets(workers, map(chunk_of, range(9)))) == [f"t{i}" for i in range(9)]  # starts again
    assert results == [f"t{i}" for i in range(place)]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("place", [1, 7])
def test_a_broken_stream_of_tasks_fails_after_the_results_before_it(count: int, place: int) -> None:
    def tasks() -> Iterator[list[Record]]:
        yield from (chunk_of(i) for i in range(place))
        raise InputError("file:8: damaged")

    results: list[str] = []
    with Workers(count) as workers, pytest.raises(InputError, match="file:8: damaged"):
        results.extend(targets(workers, tasks()))
    assert results == [f"t{i}" for i in range(place)]


def test_stopping_early_leaves_no_process() -> None:
    workers = Workers(2)
    results = workers.map(scan_chunk, (chunk_of(i) for i in range(1000)))
    next(results)
    processes = list(workers._processes)
    results.close()  # type: ignore[attr-defined]
    assert len(processes) == 2
    assert all(process.poll() is not None for process in processes)


def test_a_worker_that_is_killed_is_an_error() -> None:
    with Workers(2) as workers:
        results = targets(workers, (chunk_of(i) for i in range(1000)))
        next(results)
        for process in workers._processes:
            process.kill()
        with pytest.raises(InputError, match="a worker process has ended"):
            list(results)


SCRIPT = """
from exadec.corpus.record import Record
from exadec.corpus.scan import scan_chunk
from exadec.corpus.workers import Workers
with Workers(2) as workers:
    for scanned in workers.map(scan_chunk, ([Record(str(i), "a", "b")] for i in range({count}))):
        if int(scanned.lines[9:].split(b'"')[0]) == 6:
            print(*(process.pid for process in workers._processes), flush=True)
"""


def test_a_script_needs_no_guard_and_may_come_from_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=SCRIPT.format(count=20), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2


def test_ctrl_c_ends_all_processes() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT).format(count=10**9)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    workers = [int(number) for number in process.stdout.readline().split()]
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to all processes in the foreground
    try:
        _, shown = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):  # they have ended, as they should
            os.killpg(process.pid, signal.SIGKILL)
    assert shown.count("KeyboardInterrupt") == 1  # the workers say nothing
    for number in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
