"""The whole paper on the embedded corpus, in a few minutes on two cores.

In: nothing but a folder. Out: four trained models, their scores, three exemplar swaps and a report.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, TaskID

from exadec.config import VARIANTS, Config
from exadec.corpus.prepare import prepare
from exadec.display import Display, describe, make_progress
from exadec.exemplars.retrieve import ExemplarMap, retrieve
from exadec.training.checkpoint import METRICS, open_run
from exadec.training.evaluation import evaluate
from exadec.training.trainer import Interrupted, train
from exadec.views.report import write_report
from exadec.views.results import compare_runs, render_table
from exadec.views.swap import pick_swaps, render_swap

AT_ONCE = 2
"""Models trained side by side. The matrices are too small for one of them to use two cores."""


def run_demo(folder: Path, overrides: Sequence[str], force: bool, console: Console) -> Path:
    """Run what has not been run, show the results, and return the report's path."""
    started = time.monotonic()
    configs = {
        variant: Config.load(find_config("wire"), [*overrides, f"folder={folder}"], variant) for variant in VARIANTS
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
    if missing:
        _train_side_by_side(missing, runs, console)
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


def train_and_evaluate(config: Config, folder: Path, threads: int) -> None:
    """The work of one process: a run, and its outputs for the test set."""
    torch.set_num_threads(threads)
    try:
        train(config, folder, force=True)
        evaluate(folder)
    except (Interrupted, KeyboardInterrupt):
        sys.exit(130)


def _train_side_by_side(configs: dict[str, Config], runs: dict[str, Path], console: Console) -> None:
    threads = max(1, (os.cpu_count() or 1) // AT_ONCE)
    waiting, running = list(configs), dict[str, BaseProcess]()
    for variant in configs:
        shutil.rmtree(runs[variant], ignore_errors=True)  # an earlier run's metrics must not be taken for this one's
    with make_progress(console) as progress:
        tasks = {variant: progress.add_task(variant, total=1.0, start=False, note="waiting") for variant in configs}
        try:
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    variant = waiting.pop(0)
                    arguments = (configs[variant], runs[variant], threads)
                    running[variant] = get_context("spawn").Process(target=train_and_evaluate, args=arguments)
                    running[variant].start()
                time.sleep(0.5)
                for variant, process in list(running.items()):
                    _follow(progress, tasks[variant], runs[variant] / METRICS, configs[variant].training.epochs)
                    if not process.is_alive():
                        del running[variant]
                        if process.exitcode:
                            raise RuntimeError(f"training of {variant} ended with status {process.exitcode}.")
                        progress.update(tasks[variant], completed=1.0, note="trained, test set written")
        except KeyboardInterrupt:  # the running models have been told, too, and finish their step
            raise Interrupted from None
        finally:
            for process in running.values():
                process.join()


def _follow(progress: Progress, task: TaskID, metrics: Path, epochs: int) -> None:
    """Show where a run stands, by the last line of its metrics."""
    if not metrics.is_file():
        return
    progress.start_task(task)
    lines = metrics.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines[-2:] if line.endswith("}")]
    for event in events:
        progress.update(task, completed=event["epoch"] / epochs, note=describe(event))
