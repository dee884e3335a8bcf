"""The Triton backend: any CUDA GPU, in float32 or bfloat16.

In: the calls of `Backend`. Out: the same results with fewer launches, and with static shapes for CUDA graphs.
"""

from collections.abc import Callable, Sequence

import torch

from exadec.model.adaptive import FactoredLinear, RecurrentCell
from exadec.model.backends import streams
from exadec.model.backends.reference import Backend, One, Other, Unrolled
from exadec.model.backends.softmax import autocast_dtype, chunked_log_probability
from exadec.model.backends.triton.attention import MaskedSoftmax
from exadec.model.backends.triton.lookup import Lookup
from exadec.model.backends.triton.lstm import AdaptiveLstm, PlainLstms
from exadec.model.backends.triton.lstm_kernels import lstm_gates_forward
from exadec.model.backends.triton.mixture import MixTargets
from exadec.model.backends.triton.softmax_kernels import TritonRows
from exadec.model.cells import LSTM, State


class TritonBackend(Backend):
    """Triton kernels, and cuDNN for plain LSTMs in float32."""

    name = "triton"
    captured = True

    def __init__(self, device: torch.device):
        self.device = device

    def lookup(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():  # there is nothing to prepare for a backward pass
            return super().lookup(table, ids)
        rows: torch.Tensor = Lookup.apply(table, ids)
        return rows

    def lstms(
        self, inputs: Sequence[torch.Tensor], first: Sequence[State], weights: Sequence[Sequence[torch.Tensor]]
    ) -> Sequence[torch.Tensor]:
        x = torch.stack(list(inputs))  # (N, B, T, E)
        if autocast_dtype(x) != torch.bfloat16:
            return super().lstms(inputs, first, weights)  # in float32 cuDNN is faster
        h, c = (torch.stack(part) for part in zip(*first, strict=True))  # (N, B, D)
        of_inputs, of_states, *biases = (torch.stack(part) for part in zip(*weights, strict=True))
        projected = torch.baddbmm(
            (biases[0] + biases[1])[:, None].bfloat16(),
            x.flatten(1, 2).bfloat16(),
            of_inputs.bfloat16().transpose(1, 2),
        )  # (N, B·T, 4D)
        states: torch.Tensor = PlainLstms.apply(projected.unflatten(1, x.shape[1:3]), h, c, of_states)
        return states.unbind(0)

    def unroll(self, cell: RecurrentCell, x: torch.Tensor, lam: torch.Tensor | None) -> Unrolled:
        P = cell.P  # noqa: N806 - the paper's name
        if cell.cell != LSTM or not isinstance(P, FactoredLinear):
            return super().unroll(cell, x, lam)
        assert lam is not None
        projected, dtype = cell.project(x, lam), autocast_dtype(x)
        return lambda state: AdaptiveLstm.apply(projected, *state, P.V, P.U, lam, dtype)

    def step(self, cell: RecurrentCell, projected: torch.Tensor, state: State, lam: torch.Tensor | None) -> State:
        if cell.cell != LSTM:
            return super().step(cell, projected, state, lam)
        h, c = state
        recurrent = cell.P(h[:, None], lam)[:, 0].transpose(0, 1)  # (4, N, D)
        next_h, next_c, activations = torch.empty_like(h), torch.empty_like(c), projected.new_empty(recurrent.shape)
        lstm_gates_forward(projected.contiguous(), recurrent, c, activations, next_c, next_h)
        return next_h, next_c

    def attention(self, scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, rounded = MaskedSoftmax.apply(scores, mask)
        return weights, rounded

    def log_probability(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        found = chunked_log_probability(x.flatten(0, 1), weight, bias, targets.flatten(), TritonRows())
        return found.view(targets.shape)

    def mix_targets(
        self,
        generated: torch.Tensor,
        gate: torch.Tensor,
        weights: torch.Tensor,
        targets: torch.Tensor,
        ids: torch.Tensor,
        size: int,
        other_case: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> torch.Tensor:
        words, logit = (None, None) if other_case is None else other_case
        mixed: torch.Tensor = MixTargets.apply(generated, gate, weights, logit, targets, ids, words, size)
        return mixed

    def overlap(self, first: Callable[[], One], second: Callable[[], Other]) -> tuple[One, Other]:
        """Run `first` on a second stream; the backward pass of the current one may read its tensors."""
        with streams.second_stream(self.device):
            aside = first()
        here = second()
        made = aside if isinstance(aside, tuple) else (aside,)
        streams.wait_for(self.device, *(part for part in made if isinstance(part, torch.Tensor)))
        return aside, here
