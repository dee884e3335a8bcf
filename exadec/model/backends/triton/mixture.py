"""The copy mixture at known targets, with one launch forward and one backward.

In: log p of generating each target, the gate, attention, the words of the memory. Out: log p, and gradients.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.model.backends.reference import SMALLEST
from exadec.model.backends.triton.mixture_kernels import differentiate, mix


class MixTargets(torch.autograd.Function):
    """`Backend.mix_targets`, in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        generated: torch.Tensor,
        gate: torch.Tensor,
        weights: torch.Tensor,
        case: torch.Tensor | None,
        targets: torch.Tensor,
        ids: torch.Tensor,
        other_ids: torch.Tensor | None,
        size: int,
    ) -> torch.Tensor:
        generated, gate, weights = generated.contiguous(), gate.contiguous(), weights.contiguous()
        targets, ids = targets.contiguous(), ids.contiguous()
        if case is not None and other_ids is not None:
            case, other_ids = case.contiguous(), other_ids.contiguous()
        mixed, copied = mix(generated, gate, weights, case, targets, ids, other_ids, size, SMALLEST)
        ctx.save_for_backward(generated, gate, weights, case, targets, ids, other_ids, mixed, copied)
        ctx.size = size
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        generated, gate, weights, case, targets, ids, other_ids, mixed, copied = ctx.saved_tensors
        grads = differentiate(
            grad.contiguous(),
            generated,
            gate,
            weights,
            case,
            targets,
            ids,
            other_ids,
            mixed,
            copied,
            ctx.size,
            SMALLEST,
        )
        return *grads, None, None, None, None
