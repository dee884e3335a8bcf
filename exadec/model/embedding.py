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
from exadec.model.streams import aside, join


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
    """Rows of a table. On a GPU its gradient is built in a quicker way than torch's.

    Words are sorted while the model does other things. Padding is the most frequent word by far, and nothing reads it,
    so its gradients are zeros, which may be added to any row: spread over all of them, they delay none.
    """

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        ctx.rows = len(table)
        if not ids.is_cuda:
            ctx.save_for_backward(ids)
        elif ctx.needs_input_grad[0]:
            with aside(ids.device, number=1):
                anywhere = torch.arange(ids.numel(), device=ids.device).view(ids.shape) % len(table)
                places = torch.where(ids == PAD, anywhere, ids).int()
                ctx.save_for_backward(*places.flatten().sort(stable=True), ids)  # ids must not go while they are read
        return functional.embedding(ids, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        if not grad.is_cuda:
            (ids,) = ctx.saved_tensors
            return torch.ops.aten.embedding_dense_backward(grad.contiguous(), ids, ctx.rows, -1, False), None
        from exadec.model.embedding_kernels import sum_rows  # Triton comes with torch where there is a GPU

        join(grad.device, number=1)
        places, order, _ = ctx.saved_tensors
        return sum_rows(grad.flatten(0, -2).contiguous(), places, order, ctx.rows), None
