"""Live progress.

In: reports of stages and events of training. Out: the parameter table of a model, and bars on a terminal. In a log,
where bars are of no use, each evaluation is a line, and so is each minute of a long stage.

This module does not import torch: commands that do not train show progress, too.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from exadec.training.events import (
    WITHOUT,
    Evaluated,
    Evaluating,
    Failed,
    Finished,
    Line,
    LossLine,
    RunEvent,
    Started,
    TrainingEvent,
)

if TYPE_CHECKING:
    from exadec.training.side_by_side import Job


LINE_EVERY = 60
"""Seconds between two lines about the same stage or run, where there is no terminal."""


class Display:
    """Shows one stage at a time, with a count, then training, with loss, score and remaining time."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        self.console, self.clock = console, clock
        self.progress = make_progress(console)
        self.stages: dict[str, TaskID] = {}
        self.training: TaskID | None = None
        self.total_steps = 0
        self.told: dict[str, float] = {}
        """Stage or run -> when a line about it was last written."""

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def report(self, what: str, count: int, total: int | None = None) -> None:
        """Show how many records a stage has done, and the total if it is known."""
        if what not in self.stages:
            self._clear()
            self.stages[what] = self.progress.add_task(what, total=total, note="")
        note = f"{count:,} records" if total is None else f"{count:,} of {total:,} records"
        self.progress.update(self.stages[what], completed=count, total=total, note=note)
        self._write_line(what, note)

    def observe(self, event: TrainingEvent) -> None:
        """Show a training event: the start, a loss, an evaluation."""
        self._clear()
        if isinstance(event, Started):
            self.console.print(parameter_table(event.parameters, event.cell))
            self.training = self.progress.add_task("training", total=event.total_steps, note="")
            self.total_steps = event.total_steps
        elif isinstance(event, Evaluating):
            self._show_evaluating(self.training, "training", event)
        elif self.training is not None:
            self.progress.update(self.training, completed=event.step, note=describe(event))
            place = f"step {event.step:,} of {self.total_steps:,}, {describe_place(event)}"
            self._write_line("training", f"{place}: {describe(event)}", at_once=isinstance(event, Evaluated))

    def _show_evaluating(self, task: TaskID | None, what: str, event: Evaluating) -> None:
        name = {"valid": "development", "test": "test"}[event.split]
        total = " texts" if event.total is None else f" of {event.total:,}"
        note = f"{event.doing} the {name} set, {event.done:,}{total}"
        if task is not None:
            self.progress.update(task, note=note)
        self._write_line(what, note)

    def _write_line(self, what: str, text: str, at_once: bool = False) -> None:
        """A line about a stage or a run, if there is no terminal: at once, or when the last one is a minute old."""
        if self.console.is_terminal:
            return
        now = self.clock()
        if at_once or now - self.told.setdefault(what, now) >= LINE_EVERY:
            self.told[what] = now
            self.console.print(f"{what}: {text}", markup=False, highlight=False, soft_wrap=True)

    def _clear(self) -> None:
        for task in self.stages.values():
            self.progress.update(task, visible=False)


class RunsDisplay(Display):
    """Shows the stages before training, then several runs, one line each."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        super().__init__(console, clock)
        self.runs: dict[Path, TaskID] = {}

    def follow(self, job: "Job", event: RunEvent) -> None:
        """Show an event of one run."""
        self._clear()
        if job.folder not in self.runs:
            self.runs[job.folder] = self.progress.add_task(job.name, total=1.0, start=False, note="waiting")
        task = self.runs[job.folder]
        if isinstance(event, Started):
            self.progress.start_task(task)
            self._write_line(job.name, "training starts", at_once=True)
        elif isinstance(event, Finished):
            note = "done" if job.then else "trained, test set written" if job.evaluate else "trained"
            self.progress.update(task, completed=1.0, note=note)
            self._write_line(job.name, note, at_once=True)
        elif isinstance(event, Failed):
            self.progress.update(task, note="failed")
            text = f"{job.name}: {event.message}"
            self.console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        elif isinstance(event, Evaluating):
            self._show_evaluating(task, job.name, event)
        elif isinstance(event, LossLine | Evaluated):
            self.progress.update(task, completed=event.epoch / job.config.training.epochs, note=describe(event))
            text = f"{describe_place(event)}: {describe(event)}"
            self._write_line(job.name, text, at_once=isinstance(event, Evaluated))


def make_progress(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def describe(event: Line) -> str:
    """One event in a few words."""
    if isinstance(event, Evaluated):
        surprise = "" if event.surprise is None else f", -log p {event.surprise:.3f}"
        if WITHOUT in event.scores:
            surprise += f" ({event.scores[WITHOUT]:.3f} without exemplars)"
        sample = f" on {event.sample}" if event.sample else ""
        return f"dev {event.metric} {event.value:.2f}{surprise}{sample}"
    return f"loss {event.loss:.3f}"


def describe_place(event: Line) -> str:
    """How far training has come."""
    return f"epoch {event.epoch:.2f}, {event.seconds / 60:.1f} min"


def parameter_table(counts: dict[str, int], cell: str) -> Table:
    """Trainable parameters of each part, with the formula for the decoder's cell (section 3.1)."""
    table = Table(title="Parameters", title_justify="left", box=None)
    table.add_column("part")
    table.add_column("numbers", justify="right")
    table.add_column("")
    for part, count in counts.items():
        table.add_row(
            part, f"{count:,}", cell if part == "decoder P and Q" else "", style="bold" if part == "all" else ""
        )
    return table
