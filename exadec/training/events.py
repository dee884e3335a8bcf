"""Events of training.

In: the trainer's numbers, or a line of `metrics.jsonl`. Out: typed events for observers, or the line for an event.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from exadec.errors import InputError
from exadec.reading.content import matches, parse_json

CURVES = "tensorboard"
"""The folder in a run where TensorBoard finds its events, if they are asked for."""


@dataclass(frozen=True)
class Started:
    """Training begins."""

    parameters: dict[str, int]
    """Trainable parameters of each part of the model."""
    cell: str
    """The size of the decoder's cell, as a formula."""
    total_steps: int


# The fields of the next two are the keys of a line of `metrics.jsonl`, in this order.


@dataclass(frozen=True)
class LossLine:
    """The mean training loss since the last such line."""

    learning_rate: float
    step: int
    epoch: float
    seconds: float
    """Training time so far, excluding decoding."""
    loss: float
    """-log p per target word."""


WITHOUT = "-log p without exemplars"
"""Among the further scores of a model that was trained to write without them, too."""


@dataclass(frozen=True)
class Evaluated:
    """The development set, or a sample of it, has been decoded and scored."""

    metric: str
    value: float
    signature: str
    """How the score was computed."""
    step: int
    epoch: float
    seconds: float
    surprise: float | None = None
    """-log p per piece of the development set's targets (`mean_surprise`); None in lines of earlier versions."""
    scores: dict[str, float] = field(default_factory=dict)
    """Further scores, by name: early stopping does not watch them."""
    instances: int | None = None
    """How many instances of the development set all of this is of; None in lines of earlier versions."""
    split_size: int | None = None
    """How many instances the development set has."""

    def merit(self, watch: str) -> float:
        """What early stopping compares (`training.watch`); more is better."""
        return self.value if watch == "metric" or self.surprise is None else -self.surprise

    @property
    def sample(self) -> str:
        """`2,000 of 22,421`; empty if the whole development set was decoded, or if that is not known."""
        if self.instances is None or self.instances == self.split_size:
            return ""
        return f"{self.instances:,} of {self.split_size:,}"


Doing = Literal["decoding", "scoring", "computing -log p of"]


@dataclass(frozen=True)
class Evaluating:
    """A split, or a sample of it, is being decoded and scored."""

    doing: Doing
    split: str
    done: int
    """Instances so far."""
    total: int | None = None
    """None for scoring, which has all instances at once."""


@dataclass(frozen=True)
class Waiting:
    """The run has not been started yet; others come first."""


@dataclass(frozen=True)
class Finished:
    """The run is complete, and so are its outputs if requested."""


@dataclass(frozen=True)
class Failed:
    """The run ended with an error."""

    message: str
    in_use: bool = False
    """Another process is training the run."""


@dataclass(frozen=True)
class InterruptedRun:
    """Ctrl-C stopped the run. It is usable as it is, and can be resumed."""


@dataclass(frozen=True)
class Message:
    """A log message of the process that trains the run."""

    level: int
    """A level of the `logging` module."""
    text: str


Line = LossLine | Evaluated
"""Events that are lines of `metrics.jsonl`."""
TrainingEvent = Started | Line | Evaluating
"""Events that `train` sends to its observer."""
RunEvent = TrainingEvent | Waiting | Finished | Failed | InterruptedRun
"""Events that the observer of several runs gets for each run."""

_PLACE = {"step": int, "epoch": float, "seconds": float}
_DEFAULTS: dict[str, Any] = {"surprise": None, "scores": {}}
_KINDS: dict[str, tuple[type[Line], dict[str, Any]]] = {
    "loss": (LossLine, {**_PLACE, "learning_rate": float, "loss": float}),
    "evaluation": (
        Evaluated,
        {
            **_PLACE,
            **{"metric": str, "value": float, "signature": str, "surprise": (float, None), "scores": {str: float}},
        },
    ),
}
"""The class of each type of line, and the shape of the line"""


def format_line(event: Line) -> str:
    """The event as a line of `metrics.jsonl`."""
    kind = next(name for name, (cls, _) in _KINDS.items() if isinstance(event, cls))
    return json.dumps({"kind": kind, **asdict(event)})


def parse_lines(text: str, where: str) -> list[Line]:
    """The events of `metrics.jsonl`. Types and keys of newer versions of exadec are skipped.

    So is an incomplete last line: whoever wrote it was killed.
    """
    events = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            row = parse_json(line, where)
        except InputError:
            if number == len(lines):
                break
            row = None
        if not matches(row, {"kind": str}):
            raise InputError(f"{where}:{number}: not a line of metrics; delete this line.")
        if row["kind"] in _KINDS:
            cls, shape = _KINDS[row["kind"]]
            if not matches(_DEFAULTS | row, shape):
                raise InputError(f"{where}:{number}: not a line of metrics; delete this line.")
            events.append(cls(**{item.name: row[item.name] for item in fields(cls) if item.name in row}))
    return events


def keep_until(text: str, step: int) -> str:
    """The lines up to a step, unchanged, whatever their type. Damaged lines and an incomplete last one are dropped."""
    kept = []
    for line in text.split("\n")[:-1]:
        try:
            row = parse_json(line, "")
        except InputError:
            continue
        of_step: Any = row.get("step", 0) if isinstance(row, dict) else None
        if matches(of_step, float) and of_step <= step:
            kept.append(f"{line}\n")
    return "".join(kept)
