"""The whole paper on the embedded corpus, in a few minutes on two cores.

In: nothing but a folder. Out: four trained models, their scores, three exemplar swaps and a report.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID

from exadec.config import VARIANTS, Config
from exadec.corpus.prepare import prepare
from exadec.display import Display, describe
from exadec.errors import InputError
from exadec.exemplars.retrieve import ExemplarMap, retrieve
from exadec.settings import load_config
from exadec.training.checkpoint import open_run
from exadec.training.side_by_side import Job, refuse_torchrun, train_side_by_side
from exadec.views.report import write_report
from exadec.views.results import compare_runs, render_table
from exadec.views.swap import pick_swaps, render_swap

AT_ONCE = 2
"""Models trained side by side. The matrices are too small for one of them to use two cores."""


def run_demo(folder: Path, overrides: Sequence[str], force: bool, console: Console) -> Path:
    """Run what has not been run, show the results, and return the report's path."""
    refuse_torchrun()
    started = time.monotonic()
    configs = {
        variant: load_config(find_config("wire"), [*overrides, f"folder={folder}"], variant) for variant in VARIANTS
    }
    with Display(console) as display:
        corpus = prepare(configs["seq2seq"], display.report)
        exemplars = retrieve(corpus, configs["seq2seq"].exemplars, display.report)
    similarity = exemplars.manifest["test"]["mean_similarity"]
    console.print(
        f"A wire of {corpus.size('train'):,} stories and their headlines; "
        f"each test story has an exemplar, at a mean similarity of {similarity:.2f}."
    )
    runs = {variant: folder / variant for variant in VARIANTS}
    missing = {v: config for v, config in configs.items() if force or not is_finished(runs[v], config, exemplars)}
    for variant in missing:
        shutil.rmtree(runs[variant], ignore_errors=True)  # after Ctrl-C no earlier run must pass for one of these
    jobs = [Job(config, runs[variant], evaluate=True) for variant, config in missing.items()]
    if failed := show_side_by_side(jobs, AT_ONCE, resume=False, force=True, console=console):
        raise InputError(f"{', '.join(job.name for job in failed)}: not trained; the reason is above.")
    results = compare_runs(list(runs.values()))
    out = Console()
    out.print(render_table(results))
    swaps = pick_swaps(runs["adadec"])
    for swap in swaps:
        out.print(render_swap(swap))
    report = write_report(results, folder / "report.html", swaps)
    console.print(f"Done in {time.monotonic() - started:.0f} s. The report: [bold]{report}[/]")
    return report


def find_config(name: str) -> Path:
    """A configuration that comes with exadec: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parent
    inside = package / "configs" / f"{name}.yaml"
    return inside if inside.is_file() else package.parent / "configs" / f"{name}.yaml"


def is_finished(folder: Path, config: Config, exemplars: ExemplarMap) -> bool:
    """Whether a run was trained with this very configuration and these exemplars, and has its outputs."""
    if not (folder / "test.outputs.jsonl").is_file():
        return False
    run = open_run(folder)
    return run.config == config and run.facts["exemplars"] == exemplars.hash


def show_side_by_side(
    jobs: Sequence[Job], at_once: int | None, resume: bool, force: bool, console: Console
) -> list[Job]:
    """Train runs side by side with a line of progress each; return those that failed, and have said why."""
    display = RunsDisplay(console)
    with display:
        return train_side_by_side(jobs, at_once, resume, force, display.follow, display.report)


class RunsDisplay(Display):
    """Shows the stages before training, then several runs, a line each."""

    def __init__(self, console: Console):
        super().__init__(console)
        self.runs: dict[Path, TaskID] = {}

    def follow(self, job: Job, event: dict[str, Any]) -> None:
        """A run has come to an event."""
        self._clear()
        if job.folder not in self.runs:
            self.runs[job.folder] = self.progress.add_task(job.name, total=1.0, start=False, note="waiting")
        task = self.runs[job.folder]
        if event["kind"] == "start":
            self.progress.start_task(task)
        elif event["kind"] == "finished":
            note = "trained, test set written" if job.evaluate else "trained"
            self.progress.update(task, completed=1.0, note=note)
        elif event["kind"] == "failed":
            self.progress.update(task, note="failed")
            text = f"{job.name}: {event['message']}"
            self.console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        elif "epoch" in event:
            self.progress.update(task, completed=event["epoch"] / job.config.training.epochs, note=describe(event))
