"""The softmax of attention, in Triton.

In: scores, and a mask of the positions that are words. Out: weights in two precisions, or gradients.
"""

import torch
import triton
import triton.language as tl


def masked_softmax(
    scores: torch.Tensor,  # (B, T, M)
    mask: torch.Tensor,  # (B, M) bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (B, T, M): in float32, and in the dtype of the scores."""
    weights, rounded = torch.empty_like(scores, dtype=torch.float32), torch.empty_like(scores)
    batch, steps, memory = scores.shape
    _softmax[(batch * steps,)](
        scores, mask, weights, rounded, steps, memory, block=triton.next_power_of_2(memory), num_warps=1
    )
    return weights, rounded


def differentiate(
    grad: torch.Tensor | None,  # (B, T, M) of the weights, and of the rounded ones
    grad_rounded: torch.Tensor | None,
    weights: torch.Tensor,  # (B, T, M) float32
    dtype: torch.dtype,
) -> torch.Tensor:
    """Gradient of the scores; a gradient that is None counts as zero."""
    result = torch.empty_like(weights, dtype=dtype)
    batch, steps, memory = weights.shape
    _differentiate[(batch * steps,)](
        grad, grad_rounded, weights, result, memory, exact=grad is not None, rounded=grad_rounded is not None,
        block=triton.next_power_of_2(memory), num_warps=1,
    )  # fmt: skip
    return result


@triton.jit
def _softmax(scores, mask, weights, rounded, steps, memory, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, block)
    inside = places < memory
    words = tl.load(mask + row // steps * memory + places, mask=inside, other=0) != 0
    values = tl.load(scores + row * memory + places, mask=inside, other=0.0).to(tl.float32)
    values = tl.where(words, values, -float("inf"))
    shares = tl.exp(values - tl.max(values, axis=0))
    shares = shares / tl.sum(shares, axis=0)
    tl.store(weights + row * memory + places, shares, mask=inside)
    tl.store(rounded + row * memory + places, shares, mask=inside)


@triton.jit
def _differentiate(
    grad, grad_rounded, weights, result, memory, exact: tl.constexpr, rounded: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, block)
    inside = places < memory
    shares = tl.load(weights + row * memory + places, mask=inside, other=0.0)
    total = tl.zeros((block,), tl.float32)
    if exact:
        total += tl.load(grad + row * memory + places, mask=inside, other=0.0).to(tl.float32)
    if rounded:
        total += tl.load(grad_rounded + row * memory + places, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(shares * total, axis=0)
    tl.store(result + row * memory + places, shares * (total - mean), mask=inside)
