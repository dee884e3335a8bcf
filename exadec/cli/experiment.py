"""The command `experiment`.

In: a PLAN. Out: runs, result files, tables and figures.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exadec.cli.console import messages, say
from exadec.cli.runs import INTERRUPTED
from exadec.errors import InputError
from exadec.views.progress import RunsDisplay

if TYPE_CHECKING:
    from exadec.experiment.driver import Outcome, State


def experiment(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="YAML file, or a name such as plans/wire.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what is done and what is to do.")] = False,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Only write the tables, from the result files alone.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Only runs whose name matches, such as 'news-adadec*'. Give it several times, most urgent first.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0, help="Stop after this many minutes, and start no run that is not expected to finish by then."
        ),
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Runs to train at a time; by default one per core, or 4 on a GPU.")
    ] = None,
    keep_runs: Annotated[
        bool,
        typer.Option("--keep-runs/--drop-runs", help="Keep or delete the weights of a run once it has its results."),
    ] = True,
) -> None:
    """Train, decode and score everything a plan names, then write its tables and figures.

    A plan lists corpora, models, exemplar policies, settings and seeds; docs/experiments.md explains it.

    exadec experiment configs/plans/wire.yaml --dry-run       what is done, what is to do, and how long it will take

    exadec experiment configs/plans/wire.yaml                 do it; stop it at any time, and call it again to go on

    A result is used again if and only if neither its settings nor its data have changed.
    """
    if dry_run and tables_only:
        raise InputError("--dry-run writes nothing and --tables-only writes tables: use only one of them.")
    from exadec.experiment.driver import find_state, run_plan
    from exadec.experiment.plan import load_plan
    from exadec.experiment.tables import write_tables
    from exadec.settings import find_config
    from exadec.training.side_by_side import refuse_torchrun

    loaded = load_plan(find_config(plan))
    title, command = f"Results of {plan.stem}", shlex.join(["exadec", "experiment", str(plan), "--tables-only"])
    if tables_only:
        say(f"Tables: {write_tables(loaded, title, command)}")
        return
    refuse_torchrun()
    state = find_state(loaded, only or ())
    if not loaded.tables:
        raise InputError(f"{plan}: `tables` is empty, so there is nothing to do.")
    if not state.tasks and not state.problems:
        patterns = " or ".join(repr(pattern) for pattern in only or ())
        raise InputError(f"no run of {plan} has a name like {patterns}; --dry-run without --only lists the names.")
    if dry_run:
        _say_state(state)
        return
    with RunsDisplay(messages) as shown:
        outcome = run_plan(loaded, state, minutes, at_once, not keep_runs, shown.follow, shown.report)
    if any(Path(loaded.results).glob("*.json")):
        say(f"Tables: {write_tables(loaded, title, command)}")
    _say_outcome(outcome, state, minutes)


def _say_state(state: "State") -> None:
    for task in state.done:
        print(f"done     {task.name}")
    for task in state.to_do:
        time = "time unknown" if task.seconds is None else f"about {task.seconds / 60:.1f} minutes"
        print(f"to do    {task.name}    {time}")
    for name, reason in state.problems.items():
        print(f"problem  {name}    {reason}")
    known = [task.seconds for task in state.to_do if task.seconds is not None]
    total = f", about {sum(known) / 60:.1f} minutes one after another" if known else ""
    unknown = f" ({len(state.to_do) - len(known)} unknown)" if known and len(known) < len(state.to_do) else ""
    say(f"Runs done: {len(state.done)}. To do: {len(state.to_do)}{total}{unknown}.")


def _say_outcome(outcome: "Outcome", state: "State", minutes: float | None) -> None:
    for name, reason in outcome.failed.items():
        say(f"{name} failed: {reason.splitlines()[-1]}", style="red")
    if outcome.left:
        expected = [task.seconds for task in state.tasks if task.name in outcome.left and task.seconds is not None]
        what_next = "Repeat the command to go on."
        if minutes is not None and len(expected) == len(outcome.left) and min(expected) > 60 * minutes:
            shortest = min(expected) / 60
            what_next = f"The shortest is expected to take {shortest:.1f} minutes, so none was started; allow more."
        say(f"Runs still to do: {len(outcome.left)}. {what_next}")
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    if outcome.failed:
        raise typer.Exit(2)
