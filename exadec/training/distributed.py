"""One run on several processes, which `torchrun` starts on one machine or on several.

In: the environment that `torchrun` makes. Out: `Processes`, which share sums and decisions; one alone shares none.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from exadec.errors import InputError

_PATIENCE = timedelta(days=2)
"""How long a process waits for another one: as long as it may take to prepare, retrieve or decode. It does not wait
for the dead: a closed connection is noticed at once, and `torchrun` ends all processes when one has failed."""

_LAST_WORDS = 5.0
"""Seconds that are left to a process that has failed for saying why."""

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """All processes of a run, as one of them sees them. The first one writes the run and decodes."""

    rank: int = 0
    """The number of this process."""
    count: int = 1
    local_rank: int = 0
    """Its number on its machine, which is also that of its GPU."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The same parameters, whose gradients become the mean over all processes in each backward pass."""
        if self.count == 1:
            return model
        wrapped = DistributedDataParallel(model)
        # It remembers where gradients were added before the model began to read source and exemplar side by side.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
        wrapped.broadcast_buffers = False  # training never changes them: sending them before each step would be in vain
        return wrapped

    def share(self, indices: np.ndarray) -> np.ndarray:
        """This process's instances of a batch; where there are fewer than processes, -1: a row without words."""
        own = indices[self.rank :: self.count]  # batches are sorted by length: so all have about the same work
        return own if len(own) else np.array([-1])

    def add_up(self, values: torch.Tensor) -> None:
        """Every process's values become the sum over all, in place."""
        if self.count > 1:
            distributed.all_reduce(values)

    def any(self, here: bool) -> bool:
        """Whether it is so in any process."""
        found = torch.tensor([int(here)])  # on the CPU, so that no GPU is waited for
        self.add_up(found)
        return bool(found)

    def gather(self, value: T) -> list[T]:
        """Every process's value, in the order of their numbers."""
        values = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(values, value)
        return values

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes while the others wait."""
        made: list[T | None] = [None]
        with self.together():
            if self.is_first:
                made[0] = make()
        if self.count > 1:
            distributed.broadcast_object_list(made)
        return made[0]  # type: ignore[return-value]

    def in_turn(self, make: Callable[[], T]) -> T:
        """Everyone's own, made by the first process first, then by one on each other machine, then by the rest.

        What is kept in files is so made once, whether the machines share a disk or not, and only opened by the rest.
        """
        made: list[T] = []
        turn = 0 if self.is_first else 1 if self.local_rank == 0 else 2
        for now in range(3):
            with self.together():
                if now == turn:
                    made.append(make())
        return made[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Come out of the block when all have; when it fails in one, which then says why, the others end silently."""
        try:
            yield
        except BaseException:
            self.any(True)
            raise
        if self.any(False):
            time.sleep(_LAST_WORDS)  # `torchrun` ends all processes as soon as the first one has ended
            sys.exit(2)


ALONE = Processes()


@contextmanager
def join_processes() -> Iterator[Processes]:
    """The processes that `torchrun` has started with this one; this one alone where it was started otherwise."""
    if count_processes() == 1:
        yield ALONE
        return
    processes = Processes(int(os.environ["RANK"]), count_processes(), int(os.environ["LOCAL_RANK"]))
    if not distributed.is_initialized():
        _choose_gpu(processes.local_rank)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_PATIENCE)
        atexit.register(distributed.destroy_process_group)  # not before: a group cannot be left and joined again
    try:
        yield processes
    except BaseException:
        if torch.cuda.is_available():  # NCCL would wait for the others, who may never come
            atexit.unregister(distributed.destroy_process_group)
        raise


def count_processes() -> int:
    return int(os.environ["WORLD_SIZE"]) if distributed.is_torchelastic_launched() else 1


def is_first_process() -> bool:
    return count_processes() == 1 or os.environ["RANK"] == "0"


def _choose_gpu(number: int) -> None:
    """From here on `cuda` is the GPU of this process."""
    here, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if not torch.cuda.is_available():
        return
    if here > gpus:
        raise InputError(
            f"`torchrun` has started {here} processes on this machine, which has {gpus} GPU{'s' * (gpus > 1)}: "
            f"use --nproc-per-node {gpus}, or set CUDA_VISIBLE_DEVICES to nothing to train on its CPUs."
        )
    torch.cuda.set_device(number)
