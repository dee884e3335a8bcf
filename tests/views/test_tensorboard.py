"""Curves for TensorBoard, read back by TensorBoard itself."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from exadec.errors import InputError
from exadec.training.events import Evaluated, LossLine, Started
from exadec.views.tensorboard import TensorBoard

LOSS = LossLine(loss=1.25, learning_rate=0.5, step=25, epoch=1.5, seconds=2.0)
SCORE = Evaluated("ROUGE-L", 62.5, "s", step=38, epoch=2.0, seconds=3.0, surprise=1.5, scores={"leak": 3.0})


def read_curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would draw: name -> (step, value)."""
    curves = EventAccumulator(str(run / "tensorboard")).Reload()
    return {name: [(event.step, event.value) for event in curves.Scalars(name)] for name in curves.Tags()["scalars"]}


def test_losses_and_scores_are_written_at_their_steps(tmp_path: Path) -> None:
    board = TensorBoard()
    board.observe(tmp_path / "run", Started({}, "", 40))
    assert not (tmp_path / "run").exists()  # the folder of the run may not exist before it is trained
    board.observe(tmp_path / "run", LOSS)
    board.observe(tmp_path / "run", SCORE)
    assert read_curves(tmp_path / "run") == {
        "training/loss": [(25, 1.25)],
        "training/learning rate": [(25, 0.5)],
        "development/ROUGE-L": [(38, 62.5)],
        "development/leak": [(38, 3.0)],
        "development/-log p": [(38, 1.5)],
    }


def test_scores_of_a_sample_say_so(tmp_path: Path) -> None:
    board = TensorBoard()
    for event in (
        LOSS,
        replace(SCORE, instances=2000, split_size=22421),
        replace(SCORE, step=76, instances=2000, split_size=22421),
    ):
        board.observe(tmp_path / "sample", event)
    board.observe(tmp_path / "whole", replace(SCORE, instances=2000, split_size=2000))
    assert read_texts(tmp_path / "sample") == [(38, "Scores are of 2,000 of 22,421 instances.")]
    assert read_texts(tmp_path / "whole") == []


def read_texts(run: Path) -> list[tuple[int, str]]:
    curves = EventAccumulator(str(run / "tensorboard")).Reload()
    return [
        (event.step, event.tensor_proto.string_val[0].decode())
        for name in curves.Tags()["tensors"]
        for event in curves.Tensors(name)
    ]


def test_each_run_has_its_own_curves_and_a_resumed_one_drops_later_steps(tmp_path: Path) -> None:
    board = TensorBoard()
    for step in (25, 50, 75):
        board.observe(tmp_path / "a", replace(LOSS, step=step))
    board.observe(tmp_path / "b", SCORE)
    TensorBoard().observe(tmp_path / "a", replace(LOSS, loss=2.0, step=50))  # went on from step 30
    assert read_curves(tmp_path / "a")["training/loss"] == [(25, 1.25), (50, 2.0)]
    assert read_curves(tmp_path / "b")["development/ROUGE-L"] == [(38, 62.5)]


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not there
    with pytest.raises(InputError, match=r"pip install 'exadec\[tensorboard\]'"):
        TensorBoard()
