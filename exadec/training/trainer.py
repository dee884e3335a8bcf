"""The training loop, the same for all four models.

In: a configuration. Out: a run folder with the best weights, a checkpoint to resume from, and `metrics.jsonl`.
"""

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exadec.config import Config
from exadec.corpus.prepare import Corpus, Report, prepare, silent
from exadec.corpus.segment import find_other_case
from exadec.corpus.vectors import read_vectors
from exadec.errors import InputError
from exadec.exemplars.audit import find_faults
from exadec.exemplars.join import Device, choose_device
from exadec.exemplars.retrieve import ExemplarMap, keeping, retrieve
from exadec.files import flush, locked_for_writing, replacing
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader
from exadec.model.backends.choice import choose_backend, on_device, pick_device, refuse_backend
from exadec.model.cells import CELLS
from exadec.model.seq2seq import Seq2seq, count_parameters, explain_cell
from exadec.reading.content import LARGE, read_bytes
from exadec.settings import check_names
from exadec.strict_yaml import require_choice
from exadec.textmetrics import Score
from exadec.training.checkpoint import (
    BEST,
    LAST,
    METRICS,
    Run,
    create_run,
    delete_outputs,
    explain_end,
    open_run,
    read_checkpoint,
    refuse_other_files,
    write_checkpoint,
    write_config,
)
from exadec.training.distributed import Processes, join_processes
from exadec.training.evaluation import score_development
from exadec.training.events import (
    Evaluated,
    Line,
    LossLine,
    Started,
    TrainingEvent,
    format_line,
    keep_until,
)
from exadec.training.interrupts import deferred_interrupt
from exadec.training.memory import require_batch_memory, require_memory
from exadec.training.optimizer import build_optimizer, learning_rate, set_learning_rate
from exadec.training.step import CapturedSteps, Step, Stepper, choose_precision, repeatable
from exadec.training.weights import require_weights_of

logger = logging.getLogger(__name__)

LOG_EVERY = 25
"""Steps between two logged training losses."""

EXTENDING = ("training.epochs", "training.patience")
"""Settings that may change when a run is resumed. What it has done so far does not depend on them."""

Observer = Callable[[TrainingEvent], None]


@dataclass
class Position:
    """Where training stands; saved with each checkpoint."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    best: float = -math.inf
    stale: int = 0
    """Evaluations since the best one."""
    done: bool = False


class Interrupted(Exception):  # noqa: N818 - an event, not an error
    """Ctrl-C stopped training; the run is usable and can be resumed."""


def train(
    config: Config,
    folder: Path | str,
    resume: bool = False,
    force: bool = False,
    observe: Observer = lambda event: None,
    report: Report = silent,
    device: str | None = None,
) -> Run:
    """Train one model in a new run folder, or resume an interrupted run exactly where it stopped.

    With `resume`, a run that is not there is started, and one that has finished is extended if `config` has more epochs
    or more patience. A run that stopped before its first checkpoint is started again, with or without `resume`.
    `device` is cpu, cuda or cuda:N; by default a GPU if there is one. Under `torchrun` all processes train the run
    together, each on its own GPU, and only rank 0 calls `observe`. While texts are scored, another thread calls it.
    """
    folder = Path(folder)
    with repeatable(config.training.deterministic), join_processes() as processes, ExitStack() as held:
        processes.from_first(lambda: _refuse_impossible(config, processes.count, device))
        processes.from_first(lambda: held.enter_context(locked_for_writing(folder)))
        go_on = processes.from_first(lambda: find_checkpoint(folder, resume, force))
        place = pick_device(device)
        held.enter_context(on_device(place))
        precision = choose_precision(config.training.precision, place)
        with processes.together():
            chosen = choose_backend(config.training.backend, place, precision, config.model)
        if go_on:  # before the corpus could be replaced by another one
            config = processes.from_first(lambda: _extend_settings(open_run(folder), config))
        corpus, exemplars = processes.in_turn(lambda: _prepare(config, report, device))
        with processes.together():
            if processes.gather(exemplars.hash)[0] != exemplars.hash:
                raise InputError(f"{corpus.folder}: not the corpus of the first machine; give both the same files.")
            held.enter_context(keeping(corpus, exemplars))
            sharing = processes.sharing_memory(place)
            require_memory([config.model] * sharing, place, len(corpus.vocabulary))
            lengths = corpus.sources("train").lengths, corpus.targets("train").lengths
            rows = config.training.batch_size // processes.count * sharing
            require_batch_memory(config.model, lengths, rows, precision.itemsize, place)
        if config.model.reads_exemplars:
            processes.from_first(lambda: _check_exemplars(corpus, exemplars))
        # Before creating the run's folder, so that a failure leaves none.
        model = build_model(config, corpus).to(place)
        model.backend = chosen.backend
        if not processes.is_first:
            torch.manual_seed(config.training.seed + processes.rank)  # same weights, different dropout
        facts = {"backend": model.backend.name, "precision": str(precision).removeprefix("torch.")}
        was_there = folder.exists()
        run = processes.from_first(lambda: _start_run(config, folder, go_on, corpus, exemplars, facts))
        if processes.is_first:
            if resume and not go_on and was_there:
                logger.info("%s: there is no checkpoint yet, so the run starts from the beginning.", folder)
            logger.info("%s", chosen.message)
        end = processes.from_first(lambda: explain_end(run) if go_on else None)
        if end is None:
            trainer = Trainer(run, model, corpus, exemplars, observe, processes)
            if go_on:
                trainer.restore()
            trainer.run_epochs()
        elif processes.is_first:
            logger.info("%s: the run has finished: %s", folder, end)
    return run


class Trainer:
    """Holds the model, the optimiser and the position while a run is being trained."""

    def __init__(
        self,
        run: Run,
        model: Seq2seq,
        corpus: Corpus,
        exemplars: ExemplarMap,
        observe: Observer,
        processes: Processes,
    ):
        self.run, self.model, self.corpus, self.exemplars, self.processes = run, model, corpus, exemplars, processes
        self.observe: Observer = observe if processes.is_first else lambda event: None
        self.config = run.config.training
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model, self.config)
        of_model = run.config.model
        exemplars_each = of_model.exemplars_read, of_model.exemplars_in_training
        self.loader = Loader(corpus, exemplars, "train", of_model.attend_exemplar, *exemplars_each)
        self.position = Position()
        self.losses = torch.zeros(2, device=self.device, dtype=torch.float64)
        """Sum of -log p and number of target words over all processes since the last logged loss."""
        self.pending: deque[tuple[LossLine, torch.Tensor, torch.cuda.Event | None]] = deque()
        """Losses to log that the GPU has not computed yet."""
        self.rate = math.nan
        self.precision = choose_precision(self.config.precision, self.device)
        self.rows = self.config.batch_size // processes.count
        """Instances of a step that this process takes."""
        step = Step(
            processes.wrap(model), self.optimizer, self.config.clip_norm, self.losses, self.precision, processes
        )
        self.stepper: Stepper = lambda indices: step(self.loader.batch(indices).to(self.device))
        if model.backend.captured:
            self.stepper = CapturedSteps(step, ResidentLoader(self.loader, self.device), self.rows)

    def run_epochs(self) -> None:
        cell = explain_cell(self.run.config.model)
        self.observe(Started(count_parameters(self.model), cell, self.total_steps()))
        with deferred_interrupt() as interrupted:
            while self.position.epoch < self.config.epochs and not self.position.done:
                self._run_epoch(interrupted)
        self._save()

    def total_steps(self) -> int:
        return self.config.epochs * math.ceil(len(self.loader) / self.config.batch_size)

    def _run_epoch(self, interrupted: threading.Event) -> None:
        position, config = self.position, self.config
        batches = self.loader.training_batches(config.batch_size, config.seed, position.epoch)
        parts = config.evaluations_per_epoch
        evaluate_at = {round(len(batches) * (part + 1) / parts) for part in range(parts)}
        started = time.monotonic() - position.seconds
        while position.batch < len(batches) and not position.done:
            rate = learning_rate(config, position.epoch + position.batch / len(batches))
            self._step(batches[position.batch], rate)
            position.batch += 1
            position.step += 1
            position.seconds = time.monotonic() - started
            if position.step % LOG_EVERY == 0:
                self._log_loss(rate, len(batches))
            if position.batch in evaluate_at:
                self._evaluate(len(batches))
                started = time.monotonic() - position.seconds  # decoding does not count as training time
            if self.processes.any(interrupted.is_set()):
                self._leave_usable()
                raise Interrupted
        if position.batch == len(batches):  # not if its patience ended the run before: with more, it can go on
            position.epoch, position.batch = position.epoch + 1, 0

    def _step(self, indices: np.ndarray, rate: float) -> None:
        if rate != self.rate:
            self.rate = rate
            set_learning_rate(self.optimizer, rate)
        self.stepper(self.processes.share(indices))

    def _log_loss(self, rate: float, batches: int) -> None:
        """Request the loss without waiting for the GPU; its line is written once the value has arrived."""
        line = LossLine(rate, *self._place(batches), loss=math.nan)
        done = None
        if self.device.type == "cuda":
            done = torch.cuda.Event()
        self.pending.append((line, self.losses.to("cpu", copy=True, non_blocking=True), done))
        self.losses.zero_()
        if done is not None:
            done.record()
        self._write_losses(wait=False)

    def _write_losses(self, wait: bool) -> None:
        while self.pending and (wait or self.pending[0][2] is None or self.pending[0][2].query()):
            line, losses, done = self.pending.popleft()
            if done is not None:
                done.synchronize()
            total, words = losses.tolist()
            self._refuse_divergence(math.isfinite(total), line.step)
            self._write(replace(line, loss=total / words))

    def _refuse_divergence(self, is_finite: bool, step: int) -> None:
        if not is_finite:
            raise InputError(
                f"{self.run.folder}: the loss or the weights are no longer finite at step {step}; "
                "try a lower training.learning_rate."
            )

    def _evaluate(self, batches: int) -> None:
        """Decode the development set or a sample of it, keep the best weights, and stop when patience runs out."""
        self._write_losses(wait=True)
        position = self.position
        self._refuse_divergence(all(bool(p.isfinite().all()) for p in self.model.parameters()), position.step)
        score, surprise, others = self.processes.from_first(self._score)
        size = self.corpus.size("valid")
        counts = min(self.config.evaluation_size, size), size
        place = self._place(batches)
        event = Evaluated(score.name, score.value, score.signature, *place, surprise, others, *counts)
        self._write(event)
        if (merit := event.merit(self.config.watch)) > position.best:
            position.best, position.stale = merit, 0
            self._write_weights(BEST)
        else:
            position.stale += 1
            position.done = position.stale >= self.config.patience
        self._save()

    def _score(self) -> tuple[Score, float, dict[str, float]]:
        split = self.model, self.corpus, self.exemplars
        return score_development(*split, self.run.config, self.rows, self.precision, self.observe)

    def _place(self, batches: int) -> tuple[int, float, float]:
        """Step, epoch and seconds, for a line of metrics."""
        position = self.position
        epoch = round(position.epoch + position.batch / batches, 4)
        return position.step, epoch, round(position.seconds, 3)

    def _write(self, event: Line) -> None:
        """Append an event to `metrics.jsonl` and tell the observer."""
        if not self.processes.is_first:
            return
        path = self.run.folder / METRICS
        size = path.stat().st_size
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(format_line(event) + "\n")
        except OSError:  # such as a full disk: leave no half line
            os.truncate(path, size)
            raise
        self.observe(event)

    def _write_weights(self, name: str, extra: dict[str, torch.Tensor] | None = None) -> None:
        if not self.processes.is_first:
            return
        if name == BEST:
            delete_outputs(self.run.folder)
        notes = {"vocabulary": self.run.vocabulary.hash(), "position": asdict(self.position)}
        write_checkpoint(self.run.folder / name, self.model, notes, extra or {})

    def _save(self) -> None:
        """Save everything needed to resume: weights, Adam's moments, random states, position."""
        self._write_losses(wait=True)
        extra = {"losses": self.losses}
        for states in self.processes.gather(self._random_states()):
            extra |= states
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                extra[f"adam.{key}.{name}"] = value
        with self.processes.together():  # no process may exit before it is written
            if self.processes.is_first:
                flush(self.run.folder / METRICS)
            self._write_weights(LAST, extra)

    def _random_states(self) -> dict[str, torch.Tensor]:
        """The random states of this process, by their names in a checkpoint."""
        suffix = "" if self.processes.is_first else f".{self.processes.rank}"
        states = {f"random.cpu{suffix}": torch.get_rng_state()}
        if self.device.type == "cuda":
            states[f"random.cuda{suffix}"] = torch.cuda.get_rng_state(self.device)
        return states

    def _leave_usable(self) -> None:
        if not (self.run.folder / BEST).is_file():
            self._write_weights(BEST)
        self._save()

    def _read_last(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The last checkpoint, if it has all that is needed to go on."""
        tensors, notes = read_checkpoint(self.run.folder / LAST)
        with self.run.files.checking(LAST):
            require_weights_of(self.model, tensors)
        shapes = {"losses": self.losses.shape}
        for name, parameter in self.model.named_parameters():
            shapes |= {f"adam.step.{name}": torch.Size([])}
            shapes |= {f"adam.{key}.{name}": parameter.shape for key in ("exp_avg", "exp_avg_sq")}
        for name, shape in shapes.items():
            if name not in tensors or tensors[name].shape != shape or not tensors[name].is_floating_point():
                raise InputError(f"{self.run.folder / LAST}: the state of training is damaged; start the run again.")
        return tensors, notes

    def restore(self) -> None:
        """Return to the last checkpoint, and drop the lines of metrics that came after it."""
        tensors, notes = self.processes.from_first(self._read_last)
        self.position = Position(**notes["position"])
        self.position.done = self.position.stale >= self.config.patience  # it may have changed
        self.model.load_state_dict({key[6:]: value for key, value in tensors.items() if key.startswith("model.")})
        for name, parameter in self.model.named_parameters():
            self.optimizer.state[parameter] = {
                key: tensors[f"adam.{key}.{name}"].to(self.device) for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.losses.copy_(tensors["losses"])
        for name in self._random_states().keys() & tensors.keys():  # a new process has none
            if name.startswith("random.cuda"):
                torch.cuda.set_rng_state(tensors[name], self.device)
            else:
                torch.set_rng_state(tensors[name])
        if not self.processes.is_first:
            return
        path = self.run.folder / METRICS
        written = read_bytes(path, LARGE, follow=False).decode(errors="replace")
        kept = keep_until(written, self.position.step)
        with replacing(path) as draft:
            draft.write_text(kept, encoding="utf-8")


def build_model(config: Config, corpus: Corpus) -> Seq2seq:
    """A model with its initial weights, which depend only on the seed, or on the run to start from."""
    torch.manual_seed(config.training.seed)
    vectors = None
    if config.model.glove is not None:
        vectors = torch.from_numpy(read_vectors(Path(config.model.glove), corpus.vocabulary, config.model.embedding))
    other_case = torch.from_numpy(find_other_case(corpus.vocabulary)) if config.model.copy_case else None
    model = Seq2seq(config.model, len(corpus.vocabulary), vectors, other_case=other_case)
    if config.training.start_from is not None:
        open_run(Path(config.training.start_from)).copy_weights(model, corpus.vocabulary)
    return model


def refuse_settings(config: Config, wanted: str | None = None) -> None:
    """Refuse a configuration that cannot be trained on this device, as far as it shows before any work is done."""
    training, device = config.training, pick_device(wanted)
    check_names(config)
    require_choice(config.model.cell, CELLS, "model.cell")
    if training.precision == "bfloat16" and device.type == "cpu":
        raise InputError("`training.precision` is bfloat16, which needs a GPU; leave it at auto.")
    if device.type == "cpu":  # a GPU is asked by the process that trains there
        require_memory([config.model], device)
    refuse_backend(training.backend, device, choose_precision(training.precision, device), config.model)


def _refuse_impossible(config: Config, processes: int, device: str | None) -> None:
    refuse_settings(config, device)
    training = config.training
    if processes > 1 and pick_device(device).index is not None:
        raise InputError(f"`torchrun` gives each process a GPU of its own: the device cannot be {device}.")
    if training.batch_size % processes:
        raise InputError(
            f"`training.batch_size` is {training.batch_size}, which {processes} processes cannot share evenly: it "
            f"counts the instances of all processes together. Set it to a multiple of {processes}."
        )


def find_checkpoint(folder: Path, resume: bool, force: bool) -> bool:
    """Whether a run goes on from a checkpoint; if not, a new one begins. Refuses what would overwrite other files."""
    if resume and force:
        raise InputError("`resume` continues a run and `force` replaces it: use only one of them.")
    if (folder / LAST).is_file() and not force:
        if resume:
            return True
        raise InputError(
            f"{folder}: the run already exists; use `resume=True` to continue it or `force=True` to replace it."
        )
    refuse_other_files(folder)
    return False


def _prepare(config: Config, report: Report, device: str | None) -> tuple[Corpus, ExemplarMap]:
    corpus = prepare(config, report)
    return corpus, retrieve(corpus, config.exemplars, report, join_device(device))


def _check_exemplars(corpus: Corpus, exemplars: ExemplarMap) -> None:
    """Warn of exemplars that are of little use, and refuse to train without a single one, unless that is wanted."""
    faults = find_faults(corpus, exemplars)
    if faults and (exemplars.indices("train") < 0).all():
        raise InputError(f"{exemplars.folder}: {faults[0]} To train without exemplars, set exemplars.policy=none.")
    for fault in faults:
        logger.warning("%s: %s", exemplars.folder, fault)


def join_device(wanted: str | None) -> Device:
    """Where exemplars are retrieved for training on a device."""
    return "auto" if wanted is None else choose_device(pick_device(wanted).type)


def _start_run(
    config: Config, folder: Path, go_on: bool, corpus: Corpus, exemplars: ExemplarMap, facts: dict[str, Any]
) -> Run:
    """Create the folder of a new run, or open the run to go on with."""
    if not go_on:
        facts = {"exemplars": exemplars.hash, "variant": config.model.variant, **facts}
        return create_run(folder, config, corpus, facts)
    run = open_run(folder)
    for name, value in (("corpus", corpus.hash), ("exemplars", exemplars.hash)):
        if run.facts[name] != value:
            raise InputError(f"{run.folder}: the {name} changed since the run was started; it cannot be resumed.")
    if run.config != config:
        write_config(folder, config)
    return open_run(folder)


def _extend_settings(run: Run, config: Config) -> Config:
    """The settings to go on with. A run that was made longer stays so, whatever its configuration file says."""
    before, now = run.config.flat(), config.flat()
    changed = [key for key in now if before[key] != now[key] and key not in (*EXTENDING, "folder")]
    if changed:
        settings = ", ".join(f"{key}={before[key]}" for key in changed)
        raise InputError(
            f"{run.folder}: the run was started with {settings}. Only {' and '.join(EXTENDING)} may change, to make it "
            "longer; with anything else it would be another run, so train that in another folder."
        )
    longest = {key.split(".")[1]: max(before[key], now[key]) for key in EXTENDING}
    return config.replace("training", **longest)
