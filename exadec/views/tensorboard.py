"""Training curves for TensorBoard.

In: events of training. Out: the losses and scores in the folder `tensorboard` of each run.

TensorBoard is an extra of its own. It is imported only if someone asks for these files.
"""

from pathlib import Path

from exadec.errors import InputError
from exadec.training.events import CURVES, Evaluated, LossLine, RunEvent


class TensorBoard:
    """Writes the curves of any number of runs."""

    def __init__(self) -> None:
        """Raises an `InputError` if TensorBoard is not installed, before anything is trained."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError("TensorBoard is not installed; run `pip install 'exadec[tensorboard]'`.") from None
        self._open = SummaryWriter
        self._writers: dict[Path, SummaryWriter] = {}
        self._told: set[Path] = set()
        """Runs whose curves say how many instances their scores are of."""

    def observe(self, run: Path, event: RunEvent) -> None:
        """Write what an event of a run measured."""
        if not isinstance(event, LossLine | Evaluated):
            return
        if run not in self._writers:
            # A resumed run goes back to its last checkpoint; what was written after it does not count any more.
            self._writers[run] = self._open(str(run / CURVES), purge_step=event.step)
        writer = self._writers[run]
        for name, value in _values(event).items():
            writer.add_scalar(name, value, event.step)
        if isinstance(event, Evaluated) and event.sample and run not in self._told:
            writer.add_text("development", f"Scores are of {event.sample} instances.", event.step)
            self._told.add(run)
        writer.flush()


def _values(event: LossLine | Evaluated) -> dict[str, float]:
    """By TensorBoard's names, where what is before the slash groups the curves."""
    if isinstance(event, LossLine):
        return {"training/loss": event.loss, "training/learning rate": event.learning_rate}
    scores = {event.metric: event.value, **event.scores}
    if event.surprise is not None:
        scores["-log p"] = event.surprise
    return {f"development/{name}": value for name, value in scores.items()}
