"""The reference backend: plain PyTorch. It runs anywhere, and the other backends are tested against it.

In: tensors and weights of the model. Out: the paper's equations, differentiable by autograd.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch.nn import functional

from exadec.corpus.vocabulary import PAD
from exadec.model.adaptive import FixedLinear, RecurrentCell
from exadec.model.backends.softmax import Rows, chunked_log_probability
from exadec.model.cells import LSTM, State

SMALLEST = 1e-30
"""Replaces a probability of zero before taking its logarithm."""

Unrolled = Callable[[State], torch.Tensor]
"""Runs all time steps from an initial state: (B, D) each -> hidden states (B, T, D)."""

One = TypeVar("One")
Other = TypeVar("Other")


class Backend:
    """The operations a model needs, in plain PyTorch. Other backends override the ones they do faster."""

    name = "reference"
    captured = False
    """Whether training steps have static shapes and are captured as CUDA graphs."""

    def lookup(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Rows of a table: (V, E), (...) -> (..., E)."""
        return functional.embedding(ids, table)

    def bilstm_layer(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor,
        weights: Sequence[Sequence[torch.Tensor]],
        *,
        mask: torch.Tensor | None,
        residual: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One layer of two LSTMs; the second reads each text from its last word to its first.

        x is (2, B, S, E), or (1, B, S, E) shared by both; it is multiplied by the dropout mask (2, B, 1, E), if any.
        `weights` are torch's four tensors for each LSTM. Returns the states (2, B, S, D), with x added if `residual`,
        and each LSTM's final state (2, B, D) without it. Values at padding are undefined.
        """
        own = x.expand(2, -1, -1, -1)
        ahead, back = own if mask is None else own * mask  # (B, S, E) each
        zeros = x.new_zeros(len(ahead), weights[0][1].shape[1])  # (B, D)
        ahead, back = self.lstms([ahead, reverse_padded(back, lengths)], [(zeros, zeros)] * 2, weights)
        end = (lengths - 1)[:, None, None].expand(-1, 1, ahead.shape[2])  # (B, 1, D)
        last = torch.stack([states.gather(1, end).squeeze(1) for states in (ahead, back)])
        states = torch.stack([ahead, reverse_padded(back, lengths)])
        return states + own if residual else states, last

    def lstms(
        self, inputs: Sequence[torch.Tensor], first: Sequence[State], weights: Sequence[Sequence[torch.Tensor]]
    ) -> Sequence[torch.Tensor]:
        """Ordinary LSTMs from left to right: inputs (B, T, E), h and c (B, D), torch's four weights -> (B, T, D)."""
        return [_lstm(*parts) for parts in zip(inputs, first, weights, strict=True)]

    def unroll(self, cell: RecurrentCell, x: torch.Tensor, lam: torch.Tensor | None) -> Unrolled:
        """Prepare all steps over known inputs (B, T, inputs) with λ (B, 1 or G, R).

        Whatever does not depend on the initial state is computed here; the returned function does the rest.
        """
        if cell.cell == LSTM and isinstance(cell.Q, FixedLinear):
            return lambda state: self.lstms([x], [state], [_in_one_piece(plain_weights(cell))])[0]
        projected = cell.project(x, lam)  # (B, T, G, D)

        def run(state: State) -> torch.Tensor:
            outputs = []
            for step in projected.unbind(1):
                state = cell.step(step, state, lam)
                outputs.append(state[0])
            return torch.stack(outputs, dim=1)

        return run

    def step(self, cell: RecurrentCell, projected: torch.Tensor, state: State, lam: torch.Tensor | None) -> State:
        """One step of a search: projected (N, G, D), the state (N, D) each and λ -> the next state."""
        return cell.step(projected, state, lam)

    def attention(self, scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """softmax over the last dimension where the mask is true, and 0 elsewhere: (B, T, M), (B, M) -> (B, T, M).

        Twice: as exact as softmaxes are, to copy by, and in the dtype of the scores, to average by.
        """
        weights = torch.softmax(scores.masked_fill(~mask[:, None], -torch.inf), dim=2)
        return weights, weights.to(scores.dtype)

    def log_probability(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """log softmax(Wx + b) at the targets: (B, T, E), (V, E), (V,), (B, T) -> (B, T); undefined at padding."""
        words = targets != PAD
        found = chunked_log_probability(x[words], weight, bias, targets[words], Rows())
        return found.new_zeros(targets.shape).masked_scatter(words, found)

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
        """log p of the targets under the copy mixture: (B, T). The mixture over all X words is never built.

        `generated` (B, T) is the log p of generating each target, `gate` (B, T) the gate's logit, `weights` (B, T, M)
        the attention over the words `ids` (B, M), and `size` the size of the vocabulary. If a copied word may change
        its case, `other_case` has the words in their other case (B, M), and the logit of the change (B, T).
        """
        generated = generated.masked_fill(targets >= size, -torch.inf)
        matches: torch.Tensor = ids[:, None] == targets[:, :, None]  # (B, T, M)
        if other_case is not None:
            words, logit = other_case
            changed = torch.sigmoid(logit.to(weights.dtype))[:, :, None]  # (B, T, 1)
            matches = (1 - changed) * matches + changed * (words[:, None] == targets[:, :, None])
        copied = (weights * matches).sum(dim=2).clamp_min(SMALLEST).log()  # (B, T)
        return torch.logaddexp(functional.logsigmoid(gate) + generated, functional.logsigmoid(-gate) + copied)

    def overlap(self, first: Callable[[], One], second: Callable[[], Other]) -> tuple[One, Other]:
        """Return both results; a backend may compute them at the same time."""
        return first(), second()


REFERENCE = Backend()


def reverse_padded(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Reverse each sequence; the padding stays in place."""
    positions = torch.arange(x.shape[1], device=x.device)  # (S,)
    mirrored = lengths[:, None] - 1 - positions  # (B, S)
    index = torch.where(mirrored >= 0, mirrored, positions)
    rows = index + x.shape[1] * torch.arange(len(x), device=x.device)[:, None]  # (B, S)
    return x.flatten(0, 1).index_select(0, rows.flatten()).view_as(x)


def plain_weights(cell: RecurrentCell) -> list[torch.Tensor]:
    """A non-adaptive LSTM cell as torch's four tensors; the constant offset is the second bias."""
    assert isinstance(cell.Q, FixedLinear)
    assert isinstance(cell.P, FixedLinear)
    return [part.flatten(0, 1) for part in (cell.Q.weight, cell.P.weight, cell.B, cell.offset)]


def _lstm(x: torch.Tensor, state: State, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """torch's LSTM in the precision of its weights: (B, T, E) -> (B, T, D)."""
    dtype = weights[0].dtype
    # Autocast would run cuDNN's LSTM in float16, whatever dtype it is set to, and we do not scale the loss for that.
    with torch.autocast(x.device.type, enabled=False):
        first = tuple(part.to(dtype)[None] for part in state)
        states: torch.Tensor = torch.lstm(x.to(dtype), first, list(weights), True, 1, 0.0, True, False, True)[0]
    return states


def _in_one_piece(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Views of one piece of memory, as `nn.LSTM` keeps its weights. cuDNN would gather others, and warn each time."""
    together = torch.cat([weight.flatten() for weight in weights])
    parts = together.split([weight.numel() for weight in weights])
    return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]
