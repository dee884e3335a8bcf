"""Curves for TensorBoard, written to a stand-in: the package is an extra that tests do not need."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from exadec.errors import InputError
from exadec.training.events import Evaluated, LossLine, Started
from exadec.views.tensorboard import TensorBoard

LOSS = LossLine(loss=1.25, learning_rate=0.01, step=25, epoch=1.5, seconds=2.0)
SCORE = Evaluated("ROUGE-L", 62.5, "s", step=38, epoch=2.0, seconds=3.0, surprise=1.5, scores={"leak": 3.0})


class Recorder:
    """What `SummaryWriter` would write."""

    made: list["Recorder"]

    def __init__(self, log_dir: str, purge_step: int):
        self.log_dir, self.purge_step = log_dir, purge_step
        self.scalars: list[tuple[str, float, int]] = []
        self.flushed = 0
        Recorder.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None:
        self.flushed = len(self.scalars)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> TensorBoard:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    Recorder.made = []
    return TensorBoard()


def test_losses_and_scores_are_written_at_their_steps(board: TensorBoard) -> None:
    board.observe(Path("run"), Started({}, "", 40))
    assert not Recorder.made  # the folder of the run may not exist before it is trained
    board.observe(Path("run"), LOSS)
    board.observe(Path("run"), SCORE)
    (written,) = Recorder.made
    assert written.log_dir == str(Path("run") / "tensorboard")
    assert written.scalars == [
        ("training/loss", 1.25, 25),
        ("training/learning rate", 0.01, 25),
        ("development/ROUGE-L", 62.5, 38),
        ("development/leak", 3.0, 38),
        ("development/-log p", 1.5, 38),
    ]
    assert written.flushed == 5


def test_each_run_has_its_own_curves_and_a_resumed_one_drops_later_steps(board: TensorBoard) -> None:
    board.observe(Path("a"), LOSS)
    board.observe(Path("b"), SCORE)
    assert [(one.log_dir, one.purge_step) for one in Recorder.made] == [
        (str(Path("a") / "tensorboard"), 25),
        (str(Path("b") / "tensorboard"), 38),
    ]


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not there
    with pytest.raises(InputError, match=r"pip install 'exadec\[tensorboard\]'"):
        TensorBoard()
