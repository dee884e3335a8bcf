"""Results on disk: one small JSON file for each run and search.

In: a finished run. Out: a `Result` with all that tables and figures need, so that neither corpus nor run is needed.
"""

import base64
import json
import logging
import platform
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exadec.corpus.readers import known_styles
from exadec.corpus.stage import hash_value
from exadec.errors import InputError
from exadec.exemplars.retrieve import open_trained_exemplars
from exadec.experiment.plan import Trial
from exadec.files import write_text
from exadec.model.seq2seq import count_parameters
from exadec.reading.content import matches, read_json
from exadec.reading.folder import refuse_links
from exadec.textmetrics import MeanScore, Score
from exadec.textmetrics.bootstrap import RESAMPLES, resample_all
from exadec.textmetrics.scores import FloatArray, package_version
from exadec.training.checkpoint import BEST, LAST, OUTPUTS, Run, open_corpus, open_run
from exadec.training.evaluation import (
    Output,
    decode_split,
    mean_surprise,
    outputs_path,
    read_outputs,
    repeating,
    report_as,
    score_outputs,
    score_style,
    write_outputs,
)
from exadec.training.events import Evaluating

logger = logging.getLogger(__name__)

FORMAT = 1
FURTHER_INPUTS = ("given", "glove", "start_from")
"""Names in `Result.inputs` of what a run reads in addition to its corpus."""


@dataclass(frozen=True)
class Measure:
    """A score, and the recipe that made it."""

    heading: str
    value: float
    low: float
    """Lower end of the 95% bootstrap interval over instances."""
    high: float
    signature: str
    resampled: str
    """Its values on resamples of the instances, see `pack`. They are the same resamples for all results on a test set,
    so that any two results can be compared."""


@dataclass(frozen=True)
class Result:
    """What is known about one run, decoded with one search."""

    name: str
    search: str
    key: str
    """`Trial.key`"""
    inputs: dict[str, str]
    """SHA-256 of each file that the run depends on."""
    settings: dict[str, Any]
    """Those that differ from the defaults."""
    instances: int
    """Of the test set."""
    references: str
    """A hash of the test set's uids and references: results with the same one can be compared instance by instance."""
    scores: dict[str, Measure]
    """By the metric's name; `style` is there if the corpus has known styles."""
    per_instance: dict[str, str]
    """The main metric's value for each instance, see `pack`, if it is a mean over instances: of the `texts`, and of
    their `exemplars` if the model reads any, as if someone had copied them."""
    similarities: str
    """Of each instance's exemplar, in per cent, see `pack`; empty for a model that reads none."""
    surprise: dict[str, float]
    """-log p per target piece in nats, for each split."""
    pieces: dict[str, float]
    """Mean number of pieces of a target, for each split; end symbols included."""
    parameters: int
    """Trainable parameters."""
    best_epoch: float
    """At which the development score was best."""
    best_score: float
    seconds: dict[str, float]
    """`training`: without decoding. `whole`: with decoding of development and test sets, for estimates."""
    device: str
    versions: dict[str, str]
    evaluated: int | None = None
    """Instances of the development set that `best_score` is of; None in results of earlier versions."""
    development: int | None = None
    """All instances of the development set; None in results of earlier versions."""
    main: str | None = None
    """The metric that `per_instance` has the values of; None in results of earlier versions."""
    scored: dict[str, str] | None = None
    """As `versions`, of what computed the latest `scores`; None in results of earlier versions."""


_MEASURE = {
    **dict.fromkeys(("heading", "signature", "resampled"), str),
    **dict.fromkeys(("value", "low", "high"), float),
}
_SHAPE = {
    "format": int,
    **dict.fromkeys(("name", "search", "key", "references", "similarities", "device"), str),
    **dict.fromkeys(("instances", "parameters"), int),
    **dict.fromkeys(("best_epoch", "best_score"), float),
    "settings": {str: object},
    "scores": {str: _MEASURE},
    **{key: {str: str} for key in ("inputs", "per_instance", "versions")},
    **{key: {str: float} for key in ("surprise", "pieces", "seconds")},
}
"""A file of a result"""
_ADDED_LATER = {"evaluated": (int, None), "development": (int, None), "main": (str, None), "scored": ({str: str}, None)}
"""What results of earlier versions do not have"""
_LONGEST = 1 << 27
"""Bytes that packed scores have at most"""


def pack(values: Sequence[float] | FloatArray) -> str:
    """Scores from 0 to 655 as hundredths in 16 bits each, little-endian, zlib, base64."""
    hundredths = np.rint(np.asarray(values, np.float64) * 100)
    if not ((hundredths >= 0) & (hundredths < 1 << 16)).all():
        raise ValueError("scores to pack must be from 0 to 655.35.")
    return base64.b64encode(zlib.compress(hundredths.astype("<u2").tobytes(), 9)).decode("ascii")


def unpack(packed: str) -> FloatArray:
    """The values of `pack`, rounded to hundredths. `ValueError` if there are none, or too many."""
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(packed), _LONGEST + 1)
    except (ValueError, zlib.error):
        content = b""
    if not content or len(content) % 2 or len(content) > _LONGEST:
        raise ValueError("packed scores are damaged.")
    return np.frombuffer(content, "<u2") / 100


def write_result(folder: Path, file_name: str, result: Result) -> None:
    """Write a result; it replaces earlier ones of the same key, whatever their name."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(result)}, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / file_name, text)
    for path in folder.glob(f"*-{result.key[:8]}.json"):
        if path.name != file_name:
            path.unlink(missing_ok=True)


def read_results(folder: Path) -> dict[str, Result]:
    """All results of a folder, by key."""
    refuse_links(folder)
    results = {}
    for path in sorted(folder.glob("*.json")):
        other = InputError(f"{path}: not a result of an experiment, or damaged; move it to another folder.")
        try:
            row = read_json(path)
        except InputError as error:
            raise InputError(f"{other} ({error})") from None
        if matches(row, {"format": int}) and row["format"] != FORMAT:
            raise InputError(f"{path}: written by another version of exadec; move it away and run it again.")
        if isinstance(row, dict):
            row = {**dict.fromkeys(_ADDED_LATER), **row}
        shape = _SHAPE | _ADDED_LATER
        if not matches(row, shape) or row.keys() != shape.keys():
            raise other
        if not all(measure.keys() == _MEASURE.keys() for measure in row["scores"].values()):
            raise other
        scores = {name: Measure(**measure) for name, measure in row["scores"].items()}
        result = Result(**{name: value for name, value in row.items() if name != "format"} | {"scores": scores})
        if not _is_sound(result):
            raise other
        results[result.key] = result
    return results


def _is_sound(result: Result) -> bool:
    """Whether packed values are there, and as many as there should be."""
    by_instance = [*result.per_instance.values(), *([result.similarities] if result.similarities else [])]
    try:
        return all(len(unpack(measure.resampled)) == RESAMPLES for measure in result.scores.values()) and all(
            len(unpack(packed)) == result.instances for packed in by_instance
        )
    except ValueError:
        return False


def has_scores(result: Result | None, inputs: Mapping[str, str], metrics: Iterable[str], main: str | None) -> bool:
    """Whether there is a result on these inputs with these scores, and with `main` of each instance, if asked for."""
    if result is None or result.inputs != inputs:
        return False
    return set(metrics) <= set(result.scores) and (main is None or result.main in (None, main))


@dataclass(frozen=True)
class Measuring:
    """What to do in the process of a run once it is trained: decode, score, write results. Can be pickled."""

    trials: tuple[Trial, ...]
    """Of the same run, with different searches."""
    metrics: tuple[str, ...]
    main: str
    inputs: Mapping[str, str]
    results: Path
    by_instance: bool
    """Whether the main score of each instance is asked for, too."""
    drop_weights: bool

    def missing(self) -> list[Trial]:
        """The trials that have no result yet; another process may have written some."""
        results = read_results(self.results)
        main = self.main if self.by_instance else None
        return [
            trial for trial in self.trials if not has_scores(results.get(trial.key), self.inputs, self.metrics, main)
        ]

    def is_done(self) -> bool:
        return not self.missing()

    def __call__(self, folder: Path, observe: Callable[[Evaluating], None]) -> None:
        run = open_run(folder)
        corpus = open_corpus(run)
        exemplars = open_trained_exemplars(corpus, run.config.exemplars, run.facts["exemplars"])
        model = run.load_model()
        started = time.monotonic()
        surprise = {}
        for split in ("valid", "test"):
            report = report_as("computing -log p of", observe, split)
            surprise[split] = round(mean_surprise(model, corpus, exemplars, split, report=report), 6)
        measuring = time.monotonic() - started
        events, best = run.evaluations(), run.best_evaluation()
        trained = max(event.seconds for event in run.metrics())
        for trial in self.missing():
            started = time.monotonic()
            report = report_as("decoding", observe, "test")
            outputs = decode_split(model, corpus, exemplars, "test", trial.search, report=report)
            write_outputs(trial_outputs(folder, trial), outputs)
            decoding = time.monotonic() - started
            # The development set was decoded after each evaluation, in about as much time per instance.
            evaluated = min(run.config.training.evaluation_size, corpus.size("valid"))
            share = evaluated / corpus.size("test")
            whole = trained + measuring + decoding * (1 + len(events) * share)
            with repeating(partial(observe, Evaluating("scoring", "test", len(outputs)))):
                scored = _score(run, outputs, self.metrics, self.main)
            result = Result(
                name=trial.name,
                search=trial.search_name,
                key=trial.key,
                inputs=dict(self.inputs),
                settings=trial.settings,
                instances=len(outputs),
                references=_hash_references(outputs),
                surprise=surprise,
                pieces={split: round(float(corpus.targets(split).lengths.mean()) + 1, 4) for split in surprise},
                parameters=count_parameters(model)["all"],
                best_epoch=best.epoch,
                best_score=best.value,
                evaluated=evaluated,
                development=corpus.size("valid"),
                seconds={"training": round(trained, 1), "decoding": round(decoding, 1), "whole": round(whole, 1)},
                device=describe_device(),
                versions=find_versions(),
                **scored,
            )
            write_result(self.results, trial.file_name, result)
        if self.drop_weights:
            for name in (BEST, LAST):
                (folder / name).unlink(missing_ok=True)


def trial_outputs(folder: Path, trial: Trial) -> Path:
    """Where a run keeps a trial's outputs. Those of the run's own search are where `exadec report` looks for them."""
    if trial.search == trial.config.search:
        return outputs_path(folder, "test")
    path = outputs_path(folder, f"test.{trial.search_name}-{trial.key[:8]}")
    found = sorted(folder.glob(f"test.*-{trial.key[:8]}{OUTPUTS}"))  # the search may have had another name
    return found[0] if found else path


def rescore(result: Result, trial: Trial, run_folder: Path, metrics: Sequence[str], main: str) -> Result | None:
    """The same result with further metrics, from the outputs that the run keeps; None if it does not have them all."""
    path = trial_outputs(run_folder, trial)
    if not path.is_file():
        return None
    try:
        outputs = read_outputs(path)
    except InputError as error:
        logger.warning("%s The run is decoded again.", error)
        return None
    if _hash_references(outputs) != result.references:
        logger.warning("%s: not the outputs of this result; the run is decoded again.", path)
        return None
    found = _score(open_run(run_folder), outputs, metrics, main)
    found["scores"] = {**result.scores, **found["scores"]}  # another plan may ask for the earlier ones
    return replace(result, name=trial.name, search=trial.search_name, **found)


def _hash_references(outputs: Sequence[Output]) -> str:
    return hash_value([[output.uid, *output.references] for output in outputs])


def _score(run: Run, outputs: Sequence[Output], metrics: Sequence[str], main: str) -> dict[str, Any]:
    """The fields of a result that depend on metrics."""
    scores: dict[str, Score] = dict(zip(metrics, score_outputs(metrics, outputs, run), strict=True))
    styles = known_styles(run.config.corpus)
    if styles is not None:
        scores["style"] = score_style(outputs, styles)
    resampled = resample_all(list(scores.values()))
    measures = {name: _measure(score, values) for (name, score), values in zip(scores.items(), resampled, strict=True)}
    by_instance, similarities = {}, ""
    if isinstance(compared := scores[main], MeanScore):
        by_instance["texts"] = pack(compared.per_instance)
    if run.config.model.reads_exemplars:
        similarities = pack([100 * max(output.similarity, 0.0) for output in outputs])
        copied = score_outputs([main], [replace(output, text=output.exemplar or "") for output in outputs], run)[0]
        if isinstance(copied, MeanScore):
            by_instance["exemplars"] = pack(copied.per_instance)
    return {
        "scores": measures,
        "main": main,
        "per_instance": by_instance,
        "similarities": similarities,
        "scored": find_versions(),
    }


def _measure(score: Score, resampled: FloatArray) -> Measure:
    low, high = np.quantile(resampled, [0.025, 0.975])
    value, low, high = (round(float(number), 4) for number in (score.value, low, high))
    return Measure(score.name, value, low, high, score.signature, pack(resampled))


def describe_device() -> str:
    """The GPU's name, or the processor's type."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"


def find_versions() -> dict[str, str]:
    """Of exadec and torch, and of the code if it is a checkout."""
    versions = {"exadec": package_version(), "torch": torch.__version__}
    try:
        # A file that git does not track was installed into somebody else's repository.
        _git("ls-files", "--error-unmatch", __file__)
        described = _git("describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return versions
    return {**versions, "code": described}


def _git(*words: str) -> str:
    """What git says about the folder of this file."""
    command = ["git", *words]  # as the user has it
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True, text=True)  # noqa: S603 - no word of a user
    return done.stdout.strip()
