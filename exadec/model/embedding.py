"""Word embeddings, shared by source, exemplar and target (section 4.1).

In: ids, unknown words included. Out: vectors.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from exadec.corpus.vocabulary import PAD, UNK


class Embedding(nn.Module):
    """A table whose rows may partly be fixed to given vectors (GloVe on WikiBio, appendix A.2).

    `pretrained` is (V, E) with NaN rows for words that have no vector: those stay trainable.
    """

    def __init__(self, size: int, dimension: int, pretrained: torch.Tensor | None = None, freeze: bool = False):
        super().__init__()
        bound = math.sqrt(3 / dimension)
        self.weight = nn.Parameter(torch.empty(size, dimension).uniform_(-bound, bound))
        self.register_buffer("fixed", None)
        self.register_buffer("is_fixed", None)
        if pretrained is not None:
            known = ~pretrained.isnan().any(dim=1, keepdim=True)  # (V, 1)
            with torch.no_grad():
                self.weight.copy_(torch.where(known, pretrained, self.weight * 0.1))
            if freeze:
                self.fixed = pretrained.nan_to_num(0.0)
                self.is_fixed = known

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        known = torch.where(ids < len(self.weight), ids, UNK)
        vectors: torch.Tensor = _Lookup.apply(self.weight, known)  # (..., E)
        if self.fixed is None:
            return vectors
        return torch.where(self.is_fixed[known], self.fixed[known], vectors)

    def table(self) -> torch.Tensor:
        """(V, E): the vectors in use, for a tied softmax."""
        return self.weight if self.fixed is None else torch.where(self.is_fixed, self.fixed, self.weight)


class _Lookup(torch.autograd.Function):
    """Rows of a table, with a quicker way back than torch's, which adds the gradients of a word one after another.

    Padding is the most frequent word by far, and nothing reads it, so its gradients are zeros: they may be added to any
    row. Spread over all rows, they delay none.
    """

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.rows = len(table)
        return functional.embedding(ids, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (ids,) = ctx.saved_tensors
        anywhere = torch.arange(ids.numel(), device=ids.device).view(ids.shape) % ctx.rows
        places = torch.where(ids == PAD, anywhere, ids).int()  # narrow ids are sorted in half the time
        return torch.ops.aten.embedding_dense_backward(grad.contiguous(), places, ctx.rows, -1, False), None
