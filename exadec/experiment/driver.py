"""The driver: works out what a plan still lacks, and does it.

In: a `Plan`. Out: result files, as soon as each run is finished. Started again, it goes on where it stopped.
"""

import fnmatch
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exadec.config import Config, CorpusConfig
from exadec.corpus.prepare import Report, hash_inputs, prepare, silent
from exadec.corpus.stage import hash_file, hash_value
from exadec.errors import InputError
from exadec.exemplars.retrieve import retrieve
from exadec.experiment.plan import Plan, Trial, list_trials
from exadec.experiment.results import (
    FURTHER_INPUTS,
    Measuring,
    Result,
    describe_device,
    has_scores,
    read_results,
    rescore,
    trial_outputs,
    write_result,
)
from exadec.model.backends.choice import pick_device
from exadec.textmetrics.metrics import METRICS
from exadec.training.checkpoint import BEST, LAST, read_notes
from exadec.training.events import Failed, RunEvent
from exadec.training.side_by_side import Job, TimeLimit, choose_at_once, train_side_by_side
from exadec.training.trainer import Interrupted, refuse_settings


@dataclass(frozen=True)
class Task:
    """One run of the plan, with all searches that decode it."""

    trials: tuple[Trial, ...]
    inputs: dict[str, str]
    """SHA-256 of each file that the run depends on."""
    folder: Path
    missing: tuple[Trial, ...]
    """Those without a result on these inputs."""
    seconds: float | None
    """Expected, as far as it is not done; None if no run of the same corpus has finished on this device."""
    rank: int = 0
    """Runs of a lower rank come first."""

    @property
    def name(self) -> str:
        return self.trials[0].name


@dataclass(frozen=True)
class State:
    """Where an experiment stands."""

    tasks: list[Task]
    problems: dict[str, str]
    """Runs that cannot be trained here: name -> reason."""

    @property
    def done(self) -> list[Task]:
        return [task for task in self.tasks if not task.missing]

    @property
    def to_do(self) -> list[Task]:
        """By rank; of one rank the longest first, so that none is left alone at the end, unknown ones before them."""
        missing = (task for task in self.tasks if task.missing)
        return sorted(missing, key=lambda task: (task.rank, -_or_infinite(task.seconds)))


@dataclass
class Outcome:
    """What a call of `run_plan` has done."""

    failed: dict[str, str] = field(default_factory=dict)
    """Name -> message."""
    left: list[str] = field(default_factory=list)
    """Runs that the time limit left out, or that another process is training."""
    interrupted: bool = False
    """By Ctrl-C, not by the time limit."""


def find_state(plan: Plan, only: Sequence[str] = ()) -> State:
    """Compare a plan with its results.

    `only` has patterns for names of runs, such as `news-*`, most urgent first; with none, all runs are as urgent.
    """
    results = read_results(Path(plan.results))
    hashes: dict[CorpusConfig, dict[str, str]] = {}
    tasks: list[Task] = []
    problems: dict[str, str] = {}
    groups: dict[str, list[Trial]] = {}
    for trial in list_trials(plan):
        groups.setdefault(hash_value(trial.settings), []).append(trial)
    for trials in groups.values():
        name, config = trials[0].name, trials[0].config
        ranks = [rank for rank, pattern in enumerate(only or ("*",)) if fnmatch.fnmatchcase(name, pattern)]
        if not ranks:
            continue
        try:
            if config.corpus not in hashes:
                hashes[config.corpus] = hash_inputs(config.corpus)
            inputs = hashes[config.corpus] | _hash_further(trials[0])
        except (InputError, OSError) as error:
            problems[name] = str(error)
            continue
        main = plan.main if plan.needs_instances else None
        missing = tuple(one for one in trials if not has_scores(results.get(one.key), inputs, plan.scores, main))
        folder = _find_folder(plan, trials[0], inputs)
        tasks.append(Task(tuple(trials), inputs, folder, missing, _expect(missing, folder, results), ranks[0]))
    return State(tasks, problems)


def run_plan(
    plan: Plan,
    state: State,
    minutes: float | None = None,
    at_once: int | None = None,
    drop_runs: bool = False,
    observe: Callable[[Job, RunEvent], None] = lambda job, event: None,
    report: Report = silent,
) -> Outcome:
    """Train, decode and score what is missing. A run that fails does not stop the others.

    With `minutes`, runs that are not expected to finish in time are not started, and those that are not finished by
    then are interrupted; they go on in the next call.
    """
    limit = None if minutes is None else time.monotonic() + 60 * minutes
    outcome = Outcome(failed=dict(state.problems))
    results = read_results(Path(plan.results))
    tasks = {task.folder: task for task in state.to_do if not _rescore(plan, task, results, outcome)}
    prepare_for = _Preparation(plan.scores, report)
    ready = []
    for task in tasks.values():
        problem = prepare_for(task)
        if problem is None:
            ready.append(task)
        else:
            outcome.failed[task.name] = problem
    jobs = [Job(task.trials[0].config, task.folder, then=_measure(plan, task, drop_runs)) for task in ready]

    def follow(job: Job, event: RunEvent) -> None:
        if isinstance(event, Failed) and not event.in_use:
            outcome.failed[tasks[job.folder].name] = event.message
        observe(job, event)

    def expect(job: Job) -> float:
        return tasks[job.folder].seconds or 0.0

    # Count the whole plan, whatever is left: with another number of threads, a run would round differently.
    runs = {hash_value(trial.settings) for trial in list_trials(plan)}
    at_once = at_once or choose_at_once(len(runs), pick_device())
    try:
        if jobs:
            time_limit = TimeLimit(limit, expect)
            train_side_by_side(jobs, at_once, resume=True, observe=follow, report=report, limit=time_limit)
    except Interrupted:
        outcome.interrupted = limit is None or time.monotonic() < limit
    for task in tasks.values():
        if task.name not in outcome.failed and not _measure(plan, task).is_done():
            outcome.left.append(task.name)
    return outcome


def _measure(plan: Plan, task: Task, drop_runs: bool = False) -> Measuring:
    folder = Path(plan.results)
    return Measuring(task.missing, plan.scores, plan.main, task.inputs, folder, plan.needs_instances, drop_runs)


def _hash_further(trial: Trial) -> dict[str, str]:
    """Files that a run depends on, in addition to its corpus."""
    config, start = trial.config, trial.config.training.start_from
    paths = config.exemplars.given, config.model.glove, start and f"{start}/{BEST}"
    named = zip(FURTHER_INPUTS, paths, strict=True)
    return {name: hash_file(Path(path)) for name, path in named if path is not None}


def _find_folder(plan: Plan, trial: Trial, inputs: dict[str, str]) -> Path:
    """The run's folder. Its name ends with a hash, by which it is found even if the plan now has other names."""
    runs, identity = Path(plan.folder) / "runs", hash_value({"settings": trial.settings, "inputs": inputs})[:8]
    found = sorted(runs.glob(f"*-{identity}"))
    return found[0] if found else runs / f"{trial.name}-{identity}"


def _expect(missing: Sequence[Trial], folder: Path, results: dict[str, Result]) -> float | None:
    """Seconds for what is missing of a run, by finished runs on the same corpus and device.

    Those of the same model count, or else all of them.
    """
    if all(trial.key in results and trial_outputs(folder, trial).is_file() for trial in missing):
        return 0.0  # only scores are missing
    settings, device = missing[0].settings, describe_device()
    corpus = _part(settings, "corpus")
    same_corpus = [
        result for result in results.values() if result.device == device and _part(result.settings, "corpus") == corpus
    ]
    same_model = [result for result in same_corpus if _part(result.settings, "model") == _part(settings, "model")]
    known = same_model or same_corpus
    if not known:
        return None
    whole, decoding = (sum(one.seconds.get(part, 0.0) for one in known) / len(known) for part in ("whole", "decoding"))
    return max(0.0, whole + decoding * (len(missing) - 1) - _seconds_done(folder))


def _part(settings: dict[str, object], section: str) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name.startswith(f"{section}.")}


def _or_infinite(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _seconds_done(folder: Path) -> float:
    """Training time of an interrupted run."""
    if not (folder / LAST).is_file():
        return 0.0
    try:
        seconds: float = read_notes(folder / LAST)["position"]["seconds"]
    except InputError:  # the run itself will say what is wrong, and no other run has to wait for it
        return 0.0
    return seconds


def _rescore(plan: Plan, task: Task, results: dict[str, Result], outcome: Outcome) -> bool:
    """If only metrics are missing, compute them from outputs; returns whether there is nothing else to do."""
    for trial in task.missing:
        result = results.get(trial.key)
        if result is None or result.inputs != task.inputs:
            return False
        try:
            again = rescore(result, trial, task.folder, plan.scores, plan.main)
        except (InputError, OSError, ValueError) as error:  # such as a metric that needs tables
            outcome.failed[task.name] = str(error)
            return True
        if again is None:
            return False
        write_result(Path(plan.results), trial.file_name, again)
    return True


class _Preparation:
    """Makes corpus and exemplars of runs, so that an error in one corpus does not stop runs on others."""

    def __init__(self, metrics: Sequence[str], report: Report):
        self.metrics, self.report = metrics, report
        self.known: dict[object, str | None] = {}

    def __call__(self, task: Task) -> str | None:
        """What is wrong; None if nothing is. Runs of the same data share the answer."""
        config = task.trials[0].config
        try:
            refuse_settings(config)
        except InputError as error:
            return str(error)
        inputs = config.folder, config.corpus, config.exemplars
        if inputs not in self.known:
            self.known[inputs] = self._prepare(config)
        return self.known[inputs]

    def _prepare(self, config: Config) -> str | None:
        try:
            corpus = prepare(config, self.report)
            for metric in self.metrics:
                if "tables" in METRICS[metric].needs and corpus.contents("test")["tables"] < corpus.size("test"):
                    raise InputError(f"`{metric}` needs tables, but not every test record has one.")
            retrieve(corpus, config.exemplars, self.report)
        except (InputError, OSError) as error:
            return str(error)
        return None
