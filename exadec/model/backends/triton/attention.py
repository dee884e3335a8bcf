"""The softmax of attention, with one launch forward and one backward.

In: scores, and a mask of the positions that are words. Out: weights in two precisions, and gradients.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from exadec.model.backends.triton.attention_kernels import differentiate, masked_softmax


class MaskedSoftmax(torch.autograd.Function):
    """`Backend.attention`: weights in float32, and in the dtype of the scores."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        weights, rounded = masked_softmax(scores.contiguous(), mask.contiguous())
        ctx.save_for_backward(weights)
        ctx.dtype = scores.dtype
        return weights, rounded

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: torch.Tensor | None, grad_rounded: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, None]:
        (weights,) = ctx.saved_tensors
        exact, rounded = (None if one is None else one.contiguous() for one in (grad, grad_rounded))
        return differentiate(exact, rounded, weights, ctx.dtype), None
