"""Several runs at a time on one machine: variants, seeds.

In: jobs, each a configuration and a run folder. Out: their runs, bit for bit the same as when trained one by one.
"""

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Protocol

import torch

from exadec.config import Config
from exadec.cores import available_cores
from exadec.corpus.prepare import Report, prepare, silent
from exadec.errors import InputError, InUseError, explain_lack_of_memory
from exadec.exemplars.retrieve import retrieve
from exadec.files import locked_for_writing
from exadec.model.backends.choice import on_device, pick_device
from exadec.training.checkpoint import LAST, open_run, read_notes
from exadec.training.distributed import count_processes
from exadec.training.evaluation import evaluate, outputs_path, report_as
from exadec.training.events import Evaluating, Failed, Finished, InterruptedRun, Message, RunEvent, Waiting
from exadec.training.memory import require_memory
from exadec.training.sharing import shared_card
from exadec.training.trainer import (
    Interrupted,
    find_checkpoint,
    join_device,
    refuse_settings,
    train,
)

AT_ONCE_ON_A_GPU = 4
"""Runs that share a GPU by default."""

_STOP: signal.Signals | None = getattr(signal, "SIGUSR1", None)
"""What tells the process of a run to stop after its step."""

logger = logging.getLogger(__name__)


class Afterwards(Protocol):
    """What to do with a run once it is trained. It happens in the run's process, so it must be picklable."""

    def __call__(self, folder: Path, observe: Callable[[Evaluating], None], /) -> None:
        """`folder` is the run's; `observe` hears how far it is."""

    def is_done(self) -> bool:
        """Whether it has been done, perhaps by another process."""


@dataclass(frozen=True)
class Job:
    """One run to train."""

    config: Config
    folder: Path
    evaluate: bool = False
    """Whether to decode the test set after training."""
    then: Afterwards | None = None
    """What to do with the trained run. A job that has it is skipped if that is done, however far the run is."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU if there is one."""

    @property
    def name(self) -> str:
        return self.folder.name


Running = dict[Connection, tuple[Job, BaseProcess]]
Observer = Callable[[Job, RunEvent], None]
"""Called with each job's events: `Waiting`, those of training, and finally `Finished`, `Failed` or `InterruptedRun`."""


@dataclass(frozen=True)
class TimeLimit:
    """How long runs may take together."""

    end: float | None = None
    """The moment, on the clock of `time.monotonic`, at which runs are interrupted; None for no limit."""
    expect: Callable[[Job], float] = lambda job: 0.0
    """The seconds that a job is expected to take. One that would not finish in time is not started."""

    def allows(self, job: Job) -> bool:
        return self.end is None or time.monotonic() + self.expect(job) < self.end

    def seconds_left(self) -> float | None:
        """None for no limit."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())


UNLIMITED = TimeLimit()


def plan_jobs(configs: Sequence[Config], seeds: Sequence[int] | None = None, device: str | None = None) -> list[Job]:
    """Each configuration with each seed, or as it is without seeds. A run is named after its variant and seed."""
    jobs = []
    for config in configs:
        folder = Path(config.folder) / config.model.variant
        if seeds is None:
            jobs.append(Job(config, folder, device=device))
        for seed in seeds or ():
            named = folder.with_name(f"{folder.name}-seed{seed}")
            jobs.append(Job(config.replace("training", seed=seed), named, device=device))
    return jobs


def train_side_by_side(
    jobs: Sequence[Job],
    at_once: int | None = None,
    resume: bool = False,
    force: bool = False,
    observe: Observer = lambda job, event: None,
    report: Report = silent,
    limit: TimeLimit = UNLIMITED,
) -> list[Job]:
    """Train each job in its own process, `at_once` at a time, and return those that failed.

    By default there are as many processes as cores, or four on a GPU. With `resume`, finished runs are skipped,
    interrupted ones continue, and missing ones start. After Ctrl-C, or when the time is up, current runs finish their
    step, no other run starts, and `Interrupted` is raised.
    """
    _refuse_impossible(jobs, at_once, resume, force)
    waiting = _find_unfinished(jobs, resume, observe, report)
    # Count all jobs, not only unfinished ones: with another number of threads, a resumed run would round differently.
    device = pick_device(jobs[0].device if jobs else None)
    at_once = at_once or choose_at_once(len(jobs), device)
    threads = max(1, available_cores() // at_once)
    failed, told = list[Job](), set[str]()
    running: Running = {}
    sharing = shared_card() if device.type == "cuda" and at_once > 1 and len(waiting) > 1 else nullcontext()
    with sharing, _stopping(running) as interrupted, _terminating(running):
        while True:
            while waiting and len(running) < at_once and not interrupted.is_set():
                job = next((job for job in waiting if limit.allows(job)), None)
                if job is None:
                    break
                waiting.remove(job)
                if job.then is not None and job.then.is_done():
                    observe(job, Finished())
                    continue
                with _held_interrupt():  # so that it reaches a process that has just been started
                    channel, process = _start(job, resume, force, threads)
                    running[channel] = job, process
            if not running:
                break
            ready = wait(list(running), None if interrupted.is_set() else limit.seconds_left())
            if not ready and not interrupted.is_set():  # the time is up
                interrupted.set()
                for _, process in running.values():
                    _interrupt(process)
            for channel in [channel for channel in running if channel in ready]:
                job, process = running[channel]
                event = _receive(channel, process)
                if isinstance(event, Message):
                    if event.text not in told:  # most messages are the same for all runs: log each once
                        logger.log(event.level, event.text)
                    told.add(event.text)
                    continue
                if isinstance(event, Finished | Failed | InterruptedRun):
                    del running[channel]
                    channel.close()
                    process.join()
                if isinstance(event, Failed):
                    failed.append(job)
                elif isinstance(event, InterruptedRun):
                    interrupted.set()
                observe(job, event)
    if interrupted.is_set():
        raise Interrupted
    return failed


def choose_at_once(jobs: int, device: torch.device) -> int:
    """How many of these runs to train at a time: one per core, or four on a GPU."""
    return max(1, min(AT_ONCE_ON_A_GPU if device.type == "cuda" else available_cores(), jobs))


def refuse_torchrun() -> None:
    if count_processes() > 1:
        raise InputError("`torchrun` trains one model with all its processes: it cannot start several runs.")


def _refuse_impossible(jobs: Sequence[Job], at_once: int | None, resume: bool, force: bool) -> None:
    refuse_torchrun()
    if at_once is not None and at_once < 1:
        raise InputError(f"`at_once` must be at least 1, but is {at_once} instead.")
    for job in jobs:
        refuse_settings(job.config, job.device)
    device = pick_device(jobs[0].device if jobs else None)
    if device.type == "cpu":
        models = [job.config.model for job in jobs]
        require_memory(models[: at_once or choose_at_once(len(jobs), device)], device)
    folders = [job.folder for job in jobs]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise InputError(f"{folder}: two of the runs would go into this folder.")
        if not resume:  # otherwise what is wrong with one run does not stop the others
            find_checkpoint(folder, resume, force)


def _find_unfinished(jobs: Sequence[Job], resume: bool, observe: Observer, report: Report) -> list[Job]:
    """Prepare and retrieve once, before any process starts, then return the jobs that are not finished."""
    hashes: dict[object, str] = {}
    unfinished = []
    for job in jobs:
        inputs = (job.config.folder, job.config.corpus, job.config.exemplars)
        if inputs not in hashes:
            corpus = prepare(job.config, report)
            with on_device(pick_device(job.device)):
                hashes[inputs] = retrieve(corpus, job.config.exemplars, report, join_device(job.device)).hash
        if resume and job.then is None and _is_known_to_have_finished(job, hashes[inputs]):
            observe(job, Finished())
        else:
            observe(job, Waiting())
            unfinished.append(job)
    return unfinished


def _is_known_to_have_finished(job: Job, exemplars: str) -> bool:
    """False for a damaged run: its process will say what is wrong with it, and the others go on."""
    try:
        return is_finished(job, exemplars)
    except InputError:
        return False


def is_finished(job: Job, exemplars: str) -> bool:
    """Whether a job has finished, with this configuration and with exemplars of this hash."""
    if not is_same_run(job, exemplars) or (job.evaluate and not outputs_path(job.folder, "test").is_file()):
        return False
    position = read_notes(job.folder / LAST)["position"]
    return bool(position["done"]) or position["epoch"] >= job.config.training.epochs


def is_same_run(job: Job, exemplars: str) -> bool:
    """Whether a job's folder has a checkpoint of this configuration, with exemplars of this hash."""
    if not (job.folder / LAST).is_file():
        return False
    run = open_run(job.folder)
    settings = replace(run.config, folder=job.config.folder)  # a project may have been moved or copied
    return settings == job.config and bool(run.facts["exemplars"] == exemplars)


def _interrupt(process: BaseProcess) -> None:
    """Stop a run after its current step. On Windows it is killed, and keeps its last checkpoint."""
    if process.pid is not None and process.is_alive():
        if _STOP is not None:
            os.kill(process.pid, _STOP)
        else:
            process.terminate()


@contextmanager
def _stopping(running: Running) -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event and end all runs after their step; a second one interrupts at once.

    A terminal sends Ctrl-C to all processes, `kill` to one. So only this process heeds it, and passes it on.
    """
    event, received = threading.Event(), list[int]()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        event.set()
        for _, process in list(running.values()):
            _interrupt(process)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _terminating(running: Running) -> Iterator[None]:
    """Terminate all processes after an error in this one, or after a second Ctrl-C."""
    try:
        yield
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()


def _start(job: Job, resume: bool, force: bool, threads: int) -> tuple[Connection, BaseProcess]:
    context = get_context("spawn")
    channel, far_end = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, resume, force, threads, far_end))
    process.start()
    far_end.close()  # now only the child holds it: when the child dies, the channel closes
    return channel, process


@contextmanager
def _held_interrupt() -> Iterator[None]:
    """Hold signals back until the end of the block, and in processes started inside it until their `_work`."""
    if _STOP is None:
        yield
        return
    resource_tracker.ensure_running()  # otherwise `start` does this, and unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, _STOP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _heed_parent() -> None:
    """In a process of its own: `_STOP` does what Ctrl-C does in others. Ctrl-C itself stays blocked."""
    if _STOP is None:
        return

    def stop(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(_STOP, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {_STOP, signal.SIGTERM})


def _receive(channel: Connection, process: BaseProcess) -> RunEvent | Message:
    try:
        event: RunEvent | Message = channel.recv()
    except (EOFError, OSError):  # killed before it could report, perhaps for lack of memory
        process.join()
        event = Failed(f"the process ended with status {process.exitcode}.")
    return event


def _work(job: Job, resume: bool, force: bool, threads: int, channel: Connection) -> None:
    """Main function of a process: train a run, and send its events."""
    lock = threading.RLock()

    def send(event: RunEvent | Message) -> None:
        with lock:  # while texts are scored, another thread tells of it
            channel.send(event)

    try:
        _heed_parent()
        torch.set_num_threads(threads)
        _forward_messages(send)
        with nullcontext() if job.then is None else locked_for_writing(job.folder, _lock_of_all(job.folder)):
            if job.then is None or not job.then.is_done():
                train(job.config, job.folder, resume, force, observe=send, device=job.device)
                if job.evaluate:
                    evaluate(job.folder, report=report_as("decoding", send, "test"), device=job.device)
                if job.then is not None:
                    job.then(job.folder, send)
        send(Finished())
    except (Interrupted, KeyboardInterrupt):
        send(InterruptedRun())
    except BrokenPipeError:  # the parent process is gone
        pass
    except (InputError, OSError) as error:
        send(Failed(str(error), in_use=isinstance(error, InUseError)))
    except Exception as error:
        send(Failed(explain_lack_of_memory(error) or traceback.format_exc().rstrip()))
    os._exit(0)  # a clean exit of torch takes a second, and the next run would wait for it


def _lock_of_all(folder: Path) -> Path:
    """Held from before a run is trained until what follows is done. `train` itself holds another one."""
    return folder.with_name(f".{folder.name}.whole.lock")


def _forward_messages(send: Callable[[Message], None]) -> None:
    package = logging.getLogger("exadec")
    package.addHandler(_Forward(send))
    package.setLevel(logging.INFO)


class _Forward(logging.Handler):
    """Sends a process's log messages to the parent, which has the terminal."""

    def __init__(self, send: Callable[[Message], None]):
        super().__init__()
        self.send = send

    def emit(self, record: logging.LogRecord) -> None:
        self.send(Message(record.levelno, record.getMessage()))
