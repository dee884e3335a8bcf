"""The copy mixture at known targets, in Triton.

In: log p of generating each target, the gate, attention, the words of the memory. Out: log p, or gradients.
"""

import torch
import triton
import triton.language as tl


def mix(
    generated: torch.Tensor,  # (B, T) float32
    gate: torch.Tensor,  # (B, T)
    weights: torch.Tensor,  # (B, T, M)
    case: torch.Tensor | None,  # (B, T)
    targets: torch.Tensor,  # (B, T)
    ids: torch.Tensor,  # (B, M)
    other_ids: torch.Tensor | None,  # (B, M)
    size: int,
    smallest: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log p (B, T), and the probability of each target among the copied words (B, T)."""
    result, copied = torch.empty_like(generated), torch.empty_like(generated)
    steps, memory = weights.shape[1:]
    _mix[(targets.numel(),)](
        generated, gate, weights, case, targets, ids, other_ids, result, copied, steps, memory, size, smallest,
        cased=case is not None, block=triton.next_power_of_2(memory), num_warps=1,
    )  # fmt: skip
    return result, copied


def differentiate(
    grad: torch.Tensor,
    generated: torch.Tensor,
    gate: torch.Tensor,
    weights: torch.Tensor,
    case: torch.Tensor | None,
    targets: torch.Tensor,
    ids: torch.Tensor,
    other_ids: torch.Tensor | None,
    result: torch.Tensor,
    copied: torch.Tensor,
    size: int,
    smallest: float,
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of `generated`, `gate`, `weights` and `case`."""
    grads = tuple(None if tensor is None else torch.empty_like(tensor) for tensor in (generated, gate, weights, case))
    steps, memory = weights.shape[1:]
    _differentiate[(targets.numel(),)](
        grad, generated, gate, weights, case, targets, ids, other_ids, result, copied, *grads, steps, memory, size,
        smallest, cased=case is not None, block=triton.next_power_of_2(memory), num_warps=1,
    )  # fmt: skip
    return grads


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _mix(
    generated, gate, weights, case, targets, ids, other_ids, result, copied, steps, memory, size, smallest,
    cased: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, block)
    inside = places < memory
    target = tl.load(targets + row)
    words = tl.load(ids + row // steps * memory + places, mask=inside, other=-1)
    attention = tl.load(weights + row * memory + places, mask=inside, other=0.0).to(tl.float32)
    share = tl.sum(tl.where(words == target, attention, 0.0), axis=0)
    if cased:
        changed = tl.exp(_log_sigmoid(tl.load(case + row).to(tl.float32)))
        others = tl.load(other_ids + row // steps * memory + places, mask=inside, other=-1)
        share += changed * (tl.sum(tl.where(others == target, attention, 0.0), axis=0) - share)
    logit = tl.load(gate + row).to(tl.float32)
    generate = _log_sigmoid(logit) + tl.where(target < size, tl.load(generated + row), -float("inf"))
    copy = _log_sigmoid(-logit) + tl.log(tl.maximum(share, smallest))
    highest = tl.maximum(generate, copy)
    tl.store(result + row, highest + tl.log(tl.exp(generate - highest) + tl.exp(copy - highest)))
    tl.store(copied + row, share)


@triton.jit
def _differentiate(
    grad, generated, gate, weights, case, targets, ids, other_ids, result, copied, grad_generated, grad_gate,
    grad_weights, grad_case, steps, memory, size, smallest, cased: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, block)
    inside = places < memory
    target, total = tl.load(targets + row), tl.load(result + row)
    scale, share = tl.load(grad + row), tl.load(copied + row)
    logit = tl.load(gate + row).to(tl.float32)
    value = tl.where(target < size, tl.load(generated + row), -float("inf"))
    generate = tl.exp(_log_sigmoid(logit) + value - total)
    copy = tl.exp(_log_sigmoid(-logit) + tl.log(tl.maximum(share, smallest)) - total)
    opened = tl.exp(_log_sigmoid(logit))
    tl.store(grad_generated + row, scale * generate)
    tl.store(grad_gate + row, scale * (generate * (1.0 - opened) - copy * opened))
    of_share = tl.where(share >= smallest, scale * copy / tl.maximum(share, smallest), 0.0)
    words = tl.load(ids + row // steps * memory + places, mask=inside, other=-1)
    matches = tl.where(words == target, 1.0, 0.0)
    if cased:
        changed = tl.exp(_log_sigmoid(tl.load(case + row).to(tl.float32)))
        others = tl.load(other_ids + row // steps * memory + places, mask=inside, other=-1)
        difference = tl.where(others == target, 1.0, 0.0) - matches
        attention = tl.load(weights + row * memory + places, mask=inside, other=0.0).to(tl.float32)
        of_changed = of_share * tl.sum(difference * attention, axis=0)
        tl.store(grad_case + row, of_changed * changed * (1.0 - changed))
        matches += changed * difference
    tl.store(grad_weights + row * memory + places, of_share * matches, mask=inside)
