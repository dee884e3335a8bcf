"""What two processes do for the tests of distributed training; `torchrun` starts this file."""

import atexit
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from exadec.config import VARIANTS, Config
from exadec.errors import InputError
from exadec.training import distributed
from exadec.training.distributed import is_first_process
from exadec.training.trainer import Interrupted, Trainer, train

KINDS = {**dict.fromkeys([*VARIANTS, "released", "residual"], torch.float32), "double": torch.float64}
"""The precision of each model of which two processes and one train the same."""


def train_in(kind: torch.dtype, config: Config, folder: Path) -> None:
    torch.set_default_dtype(kind)
    try:
        train(config, folder)
    finally:
        torch.set_default_dtype(torch.float32)


def train_on_two(folder: Path) -> None:
    """What both processes do for the tests below, so that one start of them is enough."""
    atexit.register(note_threads, folder / f"threads-{os.environ['RANK']}")  # registered first, called last
    for path in sorted((folder / "same").glob("*.yaml")):
        train_in(KINDS[path.stem], Config.load(path), folder / "same" / f"{path.stem}-two")
    for path in sorted((folder / "resumed").glob("*.yaml")):
        train_in_parts(Config.load(path), folder / "resumed" / path.stem)
    distributed._LAST_WORDS = 0
    try:
        train(Config.load(path, ["training.batch_size=7"]), folder / "refused")
    except (InputError, SystemExit) as end:
        (folder / f"refused-{os.environ['RANK']}").write_text(f"{type(end).__name__}: {end}", "utf-8")


def note_threads(path: Path) -> None:
    path.write_text("".join(thread.read_text("utf-8") for thread in Path("/proc/self/task").glob("*/comm")), "utf-8")


def train_in_parts(config: Config, folder: Path) -> None:
    """Once as a whole, once interrupted and resumed; the second process alone is interrupted."""
    train(config, folder / "whole")
    steps, step = [], Trainer._step

    def interrupted_step(self: Trainer, *arguments: object) -> None:
        step(self, *arguments)
        steps.append(1)
        if len(steps) == 8 and not is_first_process():  # in the second epoch, between two evaluations
            signal.raise_signal(signal.SIGINT)

    Trainer._step = interrupted_step
    try:
        train(config, folder / "parts")
        raise AssertionError("was not interrupted")
    except Interrupted:
        Trainer._step = step
    if is_first_process():
        shutil.copytree(folder / "parts", folder / "left")
    train(config, folder / "parts", resume=True)


def train_on_one_gpu(path: Path) -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.distributed.init_process_group("gloo")
    train(Config.load(path), path.with_name("toy-two"))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    given = Path(sys.argv[1])
    train_on_two(given) if given.is_dir() else train_on_one_gpu(given)
