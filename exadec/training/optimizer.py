"""The optimiser of appendix A.1.

In: parameters and the training configuration. Out: AdamW, and the learning rate at any point.
"""

import math

import torch
from torch import nn

from exadec.config import TrainingConfig


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Adam with TensorFlow's defaults; the weight decay of 0.01·η is decoupled and covers all parameters.

    On a GPU the learning rate and Adam's step count are tensors there, so that a step can be captured.
    """
    # One launch takes 36 tensors. Large tensors together keep the whole device busy. If a few of them are left for a
    # last launch of their own, it takes as long as a third of all others.
    parameters = sorted(model.parameters(), key=torch.Tensor.numel, reverse=True)
    device = parameters[0].device
    on_gpu = device.type == "cuda"
    return torch.optim.AdamW(
        parameters,
        lr=torch.tensor(config.learning_rate, device=device) if on_gpu else config.learning_rate,
        capturable=on_gpu,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=config.weight_decay,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(config: TrainingConfig, epochs_done: float) -> float:
    """η₀ times the annealing rate for each full annealing period so far."""
    # The epsilon makes 1/3 + 1/3 + 1/3 of an epoch count as one.
    return config.learning_rate * config.annealing_rate ** math.floor(epochs_done / config.annealing_epochs + 1e-9)
