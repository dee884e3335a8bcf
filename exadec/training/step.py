"""One step of training: forward, backward, clipping, Adam.

In: a model, its optimiser, a batch. Out: updated parameters, and the loss added to a running sum.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.loading.batch import Batch
from exadec.loading.resident import ResidentLoader, Shape
from exadec.model.backends.capture import Recorder
from exadec.training.distributed import ALONE, Processes

_CAPTURE_AFTER = 2
"""A shape is captured the third time it occurs. Capturing takes a second, which rare shapes do not repay."""


@dataclass(frozen=True)
class Step:
    """The step itself: it runs as it is on a CPU, and is captured on a GPU."""

    model: nn.Module
    """A `Seq2seq`, perhaps wrapped by `Processes.wrap`."""
    optimizer: torch.optim.Optimizer
    clip_norm: float
    losses: torch.Tensor
    """(2,) float64: sum of -log p and number of target words over all processes; each step adds to it"""
    precision: torch.dtype
    processes: Processes = ALONE

    def __call__(self, batch: Batch) -> None:
        self.backward(batch)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()

    def backward(self, batch: Batch) -> None:
        """Gradients of the mean loss per word, over the words of all processes."""
        self.model.train()
        device = self.losses.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            log_probs = self.model(batch)  # (B, T)
        words = batch.target_output != PAD
        total = -log_probs.masked_fill(~words, 0.0).sum()
        sums = torch.stack([total.detach().double(), words.sum().double()])
        self.processes.add_up(sums)
        self.optimizer.zero_grad()
        # Gradients are averaged over processes, so each process divides by the mean number of words per process.
        (total / (sums[1] / self.processes.count).to(total.dtype)).backward()
        self.losses.add_(sums)


class CapturedSteps:
    """The step as CUDA graphs, one for each frequent shape: hundreds of launches become one.

    With several processes nothing is captured, because they exchange gradients during the backward pass.
    """

    def __init__(self, step: Step, loader: ResidentLoader, batch_size: int):
        self.step, self.loader, self.batch_size = step, loader, batch_size
        self.seen: Counter[Shape] = Counter()
        self.graphs: dict[Shape, torch.cuda.CUDAGraph] = {}
        self.record = Recorder()
        self.address = torch.from_numpy(loader.address(np.array([], np.int64), batch_size)).to(step.losses.device)

    def __call__(self, indices: np.ndarray) -> None:
        """Run a step on these instances; the host does not wait for it."""
        shape = self.loader.shape(indices, self.batch_size)
        address = torch.from_numpy(self.loader.address(indices, self.batch_size))
        self.address.copy_(address.pin_memory(), non_blocking=True)
        if shape in self.graphs:
            self.graphs[shape].replay()
        elif self.seen[shape] < _CAPTURE_AFTER or self.step.processes.count > 1:
            self.seen[shape] += 1
            self._work(shape)
        else:
            self.graphs[shape] = self._capture(shape)
            self.graphs[shape].replay()

    def _work(self, shape: Shape) -> None:
        self.step(self.loader.gather(self.address, shape))

    def _capture(self, shape: Shape) -> torch.cuda.CUDAGraph:
        """Record the step without running it. Earlier steps have initialised all libraries."""
        self.step.optimizer.zero_grad()
        return self.record(lambda: self._work(shape))


def choose_precision(wanted: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU that supports it, otherwise float32."""
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.bfloat16 if wanted == "bfloat16" or (wanted == "auto" and has_bfloat16) else torch.float32


Stepper = Callable[[np.ndarray], None]
"""Runs a step, given the indices of a batch's instances."""


@contextmanager
def repeatable(wanted: bool) -> Iterator[None]:
    """Inside the block, torch does the same computation with the same bits each time, if that is wanted."""
    if not wanted:
        yield
        return
    if torch.cuda.is_initialized() and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
        raise InputError(
            "`training.deterministic` needs a GPU that this process has not used yet, or the environment variable "
            "CUBLAS_WORKSPACE_CONFIG=:4096:8 set before."
        )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, when the GPU is first used
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
