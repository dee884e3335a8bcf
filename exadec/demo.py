"""The whole paper on the built-in corpus, in a few minutes on two cores.

In: a folder. Out: four trained models, their scores, three exemplar swaps and a report.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from exadec.config import VARIANTS, Config
from exadec.corpus.prepare import prepare
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.settings import load_config, shipped_configs
from exadec.strict_yaml import list_overrides
from exadec.training.checkpoint import LAST, delete_run, open_run
from exadec.training.side_by_side import Job, is_finished, is_same_run, refuse_torchrun, train_side_by_side
from exadec.training.trainer import refuse_settings
from exadec.views.progress import Display, RunsDisplay
from exadec.views.report import choose_swaps, write_report
from exadec.views.results import compare_runs, render_table
from exadec.views.swap import render_swap

AT_ONCE = 2
"""Models trained side by side. The matrices are too small for one model to use two cores."""


def run_demo(folder: Path, overrides: Sequence[str], force: bool, console: Console) -> Path:
    """Train the models that are not finished, show the results, and return the report's path."""
    refuse_torchrun()
    for override in list_overrides(overrides):
        if override.startswith("folder="):
            raise InputError("the demo has its folder from `exadec demo --folder`, not from a setting.")
    started = time.monotonic()
    wire = shipped_configs()["wire"]
    configs = {variant: load_config(wire, [*overrides, f"folder={folder}"], variant) for variant in VARIANTS}
    for config in configs.values():
        refuse_settings(config)  # before runs that cannot be trained again are deleted
    if not force:
        _refuse_other_runs(folder, configs)
    with Display(console) as display:
        corpus = prepare(configs["seq2seq"], display.report)
        exemplars = retrieve(corpus, configs["seq2seq"].exemplars, display.report)
    similarity = exemplars.manifest["test"]["mean_similarity"]
    console.print(
        f"A wire of {corpus.size('train'):,} stories and their headlines; "
        f"each test story has an exemplar, at a mean similarity of {similarity:.2f}."
    )
    runs = {variant: folder / variant for variant in VARIANTS}
    jobs = [Job(config, runs[variant], evaluate=True) for variant, config in configs.items()]
    jobs = [job for job in jobs if force or not is_finished(job, exemplars.hash)]
    for job in jobs:
        if force or not is_same_run(job, exemplars.hash):
            delete_run(job.folder)  # so that after Ctrl-C no old run is taken for a new one
    with RunsDisplay(console) as shown:
        failed = train_side_by_side(jobs, AT_ONCE, resume=True, observe=shown.follow, report=shown.report)
    if failed:
        raise InputError(f"{', '.join(job.name for job in failed)}: training failed; the reason is above.")
    results = compare_runs(list(runs.values()))
    out = Console()
    out.print(render_table(results))
    swaps = choose_swaps(results)
    for swap in swaps:
        out.print(render_swap(swap))
    report = write_report(results, folder / "report.html", swaps)
    console.print(f"Done in {time.monotonic() - started:.0f} s. The report: [bold]{report}[/]")
    return report


def _refuse_other_runs(folder: Path, configs: Mapping[str, Config]) -> None:
    """Refuse a folder with runs that are not the demo's: it would replace their corpus, and those with its names."""
    for path in sorted(folder.glob(f"*/{LAST}")):
        found = open_run(path.parent).config
        own = configs.get(path.parent.name)
        same_corpus = found.corpus == configs["seq2seq"].corpus
        if not same_corpus or (own is not None and replace(found, folder=own.folder) != own):
            raise InputError(
                f"{path.parent}: this run has other settings than the demo's, which would take its place or its "
                "corpus; choose another folder, or train again with `exadec demo --force`."
            )
