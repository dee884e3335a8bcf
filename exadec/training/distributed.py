"""One run on several processes, which `torchrun` starts on one or more machines.

In: the environment variables of `torchrun`. Out: `Processes`, for sums and decisions that all of them share.
"""

import atexit
import gc
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
import torch.distributed.nn  # before a group exists: its default arguments would keep the group for ever
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from exadec.errors import InputError

_PATIENCE = timedelta(days=2)
"""How long a process waits for another: long enough to prepare, retrieve or decode. It does not wait for a dead one: it
notices a closed connection at once, and `torchrun` ends all processes when one fails."""

_LAST_WORDS = 5.0
"""Seconds a failed process gets to print its error before the others exit."""

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """All processes of a run, seen from one of them. Rank 0 writes the run's files and decodes."""

    rank: int = 0
    """The rank of this process."""
    count: int = 1
    local_rank: int = 0
    """Its rank on its machine, and the index of its GPU."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sharing_memory(self, device: torch.device) -> int:
        """How many processes have their model in the memory of this device."""
        return int(os.environ["LOCAL_WORLD_SIZE"]) if self.count > 1 and device.type == "cpu" else 1

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap a model so that each backward pass averages gradients over all processes."""
        if self.count == 1:
            return model
        wrapped = DistributedDataParallel(model)
        # DDP expects all gradients on the stream it was built on, but the model uses two streams.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
        wrapped.broadcast_buffers = False  # each process changes them alike
        return wrapped

    def share(self, indices: np.ndarray) -> np.ndarray:
        """This process's instances of a batch. A process that gets none gets -1: a row without words."""
        own = indices[self.rank :: self.count]  # batches are sorted by length: round-robin balances the work
        return own if len(own) else np.array([-1])

    def add_up(self, values: torch.Tensor) -> None:
        """Sum the values over all processes, in place."""
        if self.count > 1:
            distributed.all_reduce(values)

    def any(self, here: bool) -> bool:
        """Whether `here` is true on any process."""
        found = torch.tensor([int(here)])  # on the CPU, to avoid waiting for the GPU
        self.add_up(found)
        return bool(found)

    def gather(self, value: T) -> list[T]:
        """Every process's value, in order of rank."""
        values = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(values, value)
        return values

    def from_first(self, make: Callable[[], T]) -> T:
        """Run `make` on rank 0, and return its result on every process."""
        made: list[T | None] = [None]
        with self.together():
            if self.is_first:
                made[0] = make()
        if self.count > 1:
            distributed.broadcast_object_list(made)
        return made[0]  # type: ignore[return-value]

    def in_turn(self, make: Callable[[], T]) -> T:
        """Run `make` on rank 0, then on one process of each other machine, then on the rest.

        So each file is made once, whether or not the machines share a disk; the other processes only open it.
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
        """Leave the block when all processes have finished it. If one fails, it says why; the others exit silently."""
        try:
            yield
        except BaseException:
            self.any(True)
            raise
        if self.any(False):
            time.sleep(_LAST_WORDS)  # `torchrun` ends all processes as soon as one exits
            sys.exit(2)


ALONE = Processes()


@contextmanager
def join_processes() -> Iterator[Processes]:
    """The processes that `torchrun` started; without `torchrun`, only this one."""
    if count_processes() == 1:
        yield ALONE
        return
    processes = Processes(int(os.environ["RANK"]), count_processes(), int(os.environ["LOCAL_RANK"]))
    if not distributed.is_initialized():
        _choose_gpu(processes.local_rank)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_PATIENCE)
        atexit.register(_leave_group)  # not earlier: a group cannot be joined twice
    try:
        yield processes
    except BaseException:
        if torch.cuda.is_available():  # NCCL would wait for the others, which may never come
            atexit.unregister(_leave_group)
        raise


def _leave_group() -> None:
    """End the group's threads: one that still needs Python when Python has ended aborts the process."""
    gc.collect()  # wrapped models refer to the group, and to themselves
    distributed.destroy_process_group()


def count_processes() -> int:
    return int(os.environ["WORLD_SIZE"]) if distributed.is_torchelastic_launched() else 1


def is_first_process() -> bool:
    return count_processes() == 1 or os.environ["RANK"] == "0"


def _choose_gpu(number: int) -> None:
    """Make `cuda` mean the GPU of this process."""
    here, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if not torch.cuda.is_available():
        return
    if here > gpus:
        raise InputError(
            f"`torchrun` has started {here} processes on this machine, which has {gpus} GPU{'s' * (gpus > 1)}: "
            f"use --nproc-per-node {gpus}, or set CUDA_VISIBLE_DEVICES to nothing to train on its CPUs."
        )
    torch.cuda.set_device(number)
