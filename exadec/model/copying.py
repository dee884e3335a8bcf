"""Copying words from the memory (See et al., 2017).

In: a distribution over the vocabulary, attention over the memory, a gate. Out: their mixture over X words.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from exadec.model.attention import Memory, attend

_SMALLEST = 1e-30
"""Stands for a probability of zero where its logarithm is taken."""


@dataclass(frozen=True)
class Mixture:
    """How one next-word distribution is put together; T is the number of time steps (1 while searching)."""

    vocabulary: torch.Tensor
    """(B, T, V): log-probabilities of generating."""
    log_generate: torch.Tensor | None
    """(B, T): log of the gate; empty when there is no copying."""
    log_copy: torch.Tensor | None
    """(B, T): log of one minus the gate."""
    weights: torch.Tensor | None
    """(B, T, M): which position is copied, if one is."""

    def of_all(self, memory: Memory) -> torch.Tensor:
        """log p of every word: (B, T, X)."""
        size = self.vocabulary.shape[2]
        generated = functional.pad(self.vocabulary, (0, memory.extended - size), value=-torch.inf)  # (B, T, X)
        if self.log_generate is None or self.log_copy is None or self.weights is None:
            return generated
        index = memory.ids[:, None].expand(-1, self.weights.shape[1], -1)  # (B, T, M)
        copied = torch.zeros_like(generated).scatter_add(2, index, self.weights)  # (B, T, X)
        return torch.logaddexp(
            self.log_generate[:, :, None] + generated,
            self.log_copy[:, :, None] + copied.clamp_min(_SMALLEST).log(),
        )


def mix_targets(
    generated: torch.Tensor, gate: torch.Tensor, weights: torch.Tensor, targets: torch.Tensor, memory: Memory, size: int
) -> torch.Tensor:
    """log p of the given words alone, (B, T) -> (B, T): the mixture over all X words is never built.

    `generated` (B, T) is the log p of generating them, `gate` (B, T) the gate's logit, `size` the vocabulary's.
    """
    if generated.is_cuda and generated.dtype == weights.dtype == torch.float32:
        mixed: torch.Tensor = _MixTargets.apply(generated, gate, weights, targets, memory.ids, size)
        return mixed
    generated = generated.masked_fill(targets >= size, -torch.inf)
    matches = memory.ids[:, None] == targets[:, :, None]  # (B, T, M)
    copied = (weights * matches).sum(dim=2).clamp_min(_SMALLEST).log()  # (B, T)
    return torch.logaddexp(functional.logsigmoid(gate) + generated, functional.logsigmoid(-gate) + copied)


class _MixTargets(torch.autograd.Function):
    """The same in one launch, and one for the way back, instead of dozens; gradients by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        generated: torch.Tensor,
        gate: torch.Tensor,
        weights: torch.Tensor,
        targets: torch.Tensor,
        ids: torch.Tensor,
        size: int,
    ) -> torch.Tensor:
        from exadec.model.copying_kernels import mix  # Triton comes with torch where there is a GPU, and only there

        generated, gate, weights = generated.contiguous(), gate.contiguous(), weights.contiguous()
        targets, ids = targets.contiguous(), ids.contiguous()
        mixed, copied = mix(generated, gate, weights, targets, ids, size, _SMALLEST)
        ctx.save_for_backward(generated, gate, weights, targets, ids, mixed, copied)
        ctx.size = size
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from exadec.model.copying_kernels import differentiate

        generated, gate, weights, targets, ids, mixed, copied = ctx.saved_tensors
        grads = differentiate(
            grad.contiguous(), generated, gate, weights, targets, ids, mixed, copied, ctx.size, _SMALLEST
        )
        return *grads, None, None, None


class AttentionCopy(nn.Module):
    """See et al.: p_gen = σ(w·[context; state; input] + b); attention itself says which word is copied."""

    def __init__(self, context: int, hidden: int, inputs: int):
        super().__init__()
        self.gate = nn.Linear(context + hidden + inputs, 1)

    def forward(self, context: torch.Tensor, h: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """(B, T, ·) -> the gate's logit (B, T)."""
        logit: torch.Tensor = self.gate(torch.cat([context, h, inputs], dim=2)).squeeze(2)
        return logit


class SeparateCopy(nn.Module):
    """The released code: p_gen = σ(w·h̃ + b) from the attentional vector, and a copy attention with its own weights."""

    def __init__(self, values: int, hidden: int, attentional: int):
        super().__init__()
        self.gate = nn.Linear(attentional, 1)
        self.key = nn.Linear(values, hidden, bias=False)

    def forward(self, attentional: torch.Tensor, h: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T, ·) -> the gate's logit (B, T) and copy weights (B, T, M)."""
        assert memory.copy_keys is not None
        return self.gate(attentional).squeeze(2), attend(h, memory.copy_keys, memory.mask)
