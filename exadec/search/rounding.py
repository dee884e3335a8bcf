"""Weights that are rounded once, for a search on a CPU with `search.precision=rounded`.

In: a model in float32. Out: the softmax's weights in 8 bits, and a copy of the model that multiplies in bfloat16.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from exadec.loading.batch import Batch
from exadec.model.adaptive import Extension, FactoredLinear, FixedLinear, RecurrentCell
from exadec.model.backends.reference import Backend
from exadec.model.cells import LSTM, State
from exadec.model.decoder import DecoderState
from exadec.model.seq2seq import Seq2seq


class Rounded(NamedTuple):
    """What is rounded of a model."""

    codes: tuple[torch.Tensor, torch.Tensor]
    """int8 codes of the softmax's weights (V, E), and what to multiply those of each word by (V,)."""
    halved: Seq2seq | None
    """The model with bfloat16 in place of all weights that autocast would convert in each step; None for a processor
    that does not multiply in bfloat16: to imitate it would take longer than float32."""


class HalvedBackend(Backend):
    """The reference in bfloat16, for the halved model."""

    name = "bfloat16"

    def lstms(
        self, inputs: Sequence[torch.Tensor], first: Sequence[State], weights: Sequence[Sequence[torch.Tensor]]
    ) -> Sequence[torch.Tensor]:
        states = super().lstms(inputs, first, [[weight.bfloat16() for weight in some] for some in weights])
        return [one.float() for one in states]  # torch adds numbers of two precisions slowly

    def step(self, cell: RecurrentCell, projected: torch.Tensor, state: State, lam: torch.Tensor | None) -> State:
        if cell.cell != LSTM:
            return super().step(cell, projected, state, lam)
        from exadec.search.cpu_kernels import step_lstm

        recurrent = cell.P(state[0][:, None], lam)[:, 0].bfloat16()  # (N, 4, D)
        gates = projected.float(), recurrent.view(torch.int16)
        after = torch.empty_like(state[0]), torch.empty_like(state[1])
        strides = tuple(step for half in gates for step in half.stride()[:2])
        step_lstm(*map(_flat, gates), strides, *(part.numpy() for part in (state[1], *after)))
        return after


def halves() -> bool:
    """Whether this processor multiplies in bfloat16."""
    return torch.cpu._is_avx512_bf16_supported()


_ROUNDED: "WeakKeyDictionary[nn.Module, tuple[object, Rounded]]" = WeakKeyDictionary()


def round_once(model: Seq2seq) -> Rounded:
    """Kept until the weights change."""
    weights = [weight.detach() for weight in model.parameters()]
    # A fused optimizer changes weights without a new version of them. But then it changes vectors, too.
    sums = torch.stack([weight.sum() for weight in weights if weight.dim() == 1]).tolist()
    key = sums, [(weight.data_ptr(), weight._version) for weight in weights]
    known = _ROUNDED.get(model)
    if known is None or known[0] != key:
        codes = round_rows(model.decoder.softmax()[0].detach())
        known = _ROUNDED[model] = key, Rounded(codes, _halve(model) if halves() else None)
    return known[1]


def round_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 codes of each row, and what to multiply them by: (N, E) -> (N, E), (N,)."""
    from exadec.search.cpu_kernels import fill_codes

    codes, scales = torch.empty(rows.shape, dtype=torch.int8), torch.empty(len(rows))
    fill_codes(rows.numpy(), codes.numpy(), scales.numpy())
    return codes, scales


def read_rounded(model: Seq2seq, batch: Batch, coefficients: torch.Tensor | None = None) -> DecoderState:
    """As `Seq2seq.encode`. What is attended to stays in bfloat16, because all steps read it."""
    halved = round_once(model).halved
    if halved is None:
        return model.encode(batch, coefficients)
    with torch.autocast("cpu", torch.bfloat16):
        state = halved.encode(batch, coefficients, HalvedBackend())
    memory = state.memory
    if memory.exemplars is not None:
        memory = replace(memory, exemplars=replace(memory.exemplars, values=memory.exemplars.values.bfloat16()))
    state = replace(state, memory=replace(memory, values=memory.values.bfloat16()))
    return state.map(torch.Tensor.float)


def _flat(part: torch.Tensor) -> np.ndarray:
    """The memory from the first to the last number, (N, 4, D) -> (M,). To copy it into this order takes time."""
    assert part.stride(2) == 1
    size = sum((length - 1) * step for length, step in zip(part.shape, part.stride(), strict=True)) + 1
    return part.as_strided((size,), (1,)).numpy()


def _halve(model: Seq2seq) -> Seq2seq:
    """All other tensors are those of the model itself."""
    kept = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.LSTM, FixedLinear, FactoredLinear, Extension)):
            for weight in module.parameters(recurse=False):
                if weight.dim() > 1:
                    kept[id(weight)] = nn.Parameter(weight.detach().bfloat16(), requires_grad=False)
    halved: Seq2seq = deepcopy(model, kept)
    return halved
