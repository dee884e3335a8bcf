"""The commands for training: `demo`, `train`.

In: a CONFIG, variants, seeds. Out: runs.
"""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from exadec.cli.console import ConfigFile, DeviceName, Overrides, messages, say
from exadec.cli.serving import require_packages, serve
from exadec.config import VARIANTS
from exadec.errors import InputError
from exadec.settings import load_config
from exadec.views.progress import Display, RunsDisplay
from exadec.views.tensorboard import TensorBoard

INTERRUPTED = 130
"""Exit status after Ctrl-C, by shell convention."""


def demo(
    folder: Annotated[Path, typer.Option(help="Where the corpus, the runs and the report go.")] = Path("demo"),
    set_: Overrides = None,
    force: Annotated[bool, typer.Option(help="Train again even if the folder holds finished runs.")] = False,
    serve_: Annotated[
        bool, typer.Option("--serve", help="Then start the page on the demo's model, as `exadec serve` does.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port of --serve, by default 8000; 0 picks a free one.")
    ] = None,
) -> None:
    """The whole paper on a generated news wire: four models, scores, exemplar swaps, a report."""
    from exadec.demo import run_demo
    from exadec.training.trainer import Interrupted

    if port is not None and not serve_:
        raise InputError("--port is that of --serve; add --serve, or leave the port out.")
    if serve_:
        require_packages()  # not only after minutes of training
    try:
        run_demo(folder, set_ or [], force, messages)
    except Interrupted:
        say("Interrupted. Run the same command again to continue with the unfinished models.")
        raise typer.Exit(INTERRUPTED) from None
    run = folder / "adadec"
    if serve_:
        serve(run, port=8000 if port is None else port)
    else:
        say(f"To write with its model in a browser: {shlex.join([_own_name(), 'serve', str(run)])}")


def _own_name() -> str:
    """What the user types to get this command: its path, unless the shell finds it by its name."""
    path = Path(sys.argv[0])
    return "exadec" if path.name != "exadec" or shutil.which("exadec") == str(path) else str(path)


def train(
    config: ConfigFile,
    variant: Annotated[
        str,
        typer.Option(
            "--variant", "--variants", help=f"Model of the paper, or several, comma-separated: {', '.join(VARIANTS)}."
        ),
    ] = "adadec",
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, comma-separated; every variant is trained with each.")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Runs to train at a time; by default one per core, or 4 on a GPU.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Folder of the new run; by default inside CONFIG's folder.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue a run exactly where it stopped, or start it. With a higher training.epochs or "
            "training.patience, a finished run goes on.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing run; a folder with other files is refused.")
    ] = False,
    device: DeviceName = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Use only operations that repeat bit for bit on the same GPU; the same as "
            "--set training.deterministic=true.",
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write training curves for TensorBoard into each run.")
    ] = False,
    set_: Overrides = None,
) -> None:
    """Train one model, or several side by side. Prepares the data and retrieves exemplars first, if needed.

    exadec train CONFIG --variants seq2seq,adadec --seeds 1,2,3        six runs: seq2seq-seed1 ... adadec-seed3

    With several runs, --resume skips finished ones, continues interrupted ones and starts missing ones.
    """
    overrides = [*(set_ or []), *["training.deterministic=true"] * deterministic]
    settings = [load_config(config, overrides, name.strip()) for name in variant.split(",")]
    numbers = None if seeds is None else _whole_numbers(seeds)
    from exadec.training.distributed import is_first_process
    from exadec.training.side_by_side import plan_jobs, train_side_by_side
    from exadec.training.trainer import Interrupted
    from exadec.training.trainer import train as run_train

    messages.quiet = not is_first_process()
    jobs = plan_jobs(settings, numbers, device)
    if run is not None and len(jobs) > 1:
        raise InputError(f"--run names the folder of one run, but {len(jobs)} were asked for.")
    folders = [run or job.folder for job in jobs]
    failed: list[Path] = []
    curves = TensorBoard().observe if tensorboard else lambda folder, event: None
    try:
        if len(jobs) > 1:
            with RunsDisplay(messages) as shown:
                follow = _both(shown.follow, lambda job, event: curves(job.folder, event))
                failed_jobs = train_side_by_side(jobs, at_once, resume, force, follow, shown.report)
            failed = [job.folder for job in failed_jobs]
        else:
            with Display(messages) as display:
                observe = _both(display.observe, lambda event: curves(folders[0], event))
                run_train(jobs[0].config, folders[0], resume, force, observe, display.report, device)
    except Interrupted:
        usable = "The runs that have started are usable" if len(jobs) > 1 else f"{folders[0]} is usable"
        say(f"Interrupted. {usable}; repeat the command with --resume to continue.")
        raise typer.Exit(INTERRUPTED) from None
    if is_first_process():
        _say_best_scores([folder for folder in folders if folder not in failed], settings[0].training.metric)
    if failed:
        raise typer.Exit(2)


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    """An observer that tells two others."""

    def observe(*event: object) -> None:
        first(*event)
        second(*event)

    return observe


def _say_best_scores(trained: Sequence[Path], metric: str) -> None:
    from exadec.training.checkpoint import open_run

    for folder in trained:
        best = open_run(folder).best_evaluation()
        sample = f" ({best.sample} instances)" if best.sample else ""
        say(f"{folder}: best {metric} on the development set {best.value:.2f}{sample}.")
    if len(trained) > 1:
        say("To compare them, run `exadec generate RUN --split test` for each, then:")
        say(f"exadec report {shlex.join(map(str, trained))}")


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds takes whole numbers separated by commas, such as 1,2,3, but got {text!r}.") from None
