"""Word embeddings, shared by source, exemplar and target (section 4.1).

In: ids, unknown words included. Out: vectors.
"""

import math

import torch
from torch import nn

from exadec.corpus.vocabulary import UNK
from exadec.model.backends.reference import REFERENCE, Backend


class Embedding(nn.Module):
    """A table in which some rows may be frozen pretrained vectors (GloVe on WikiBio, appendix A.2).

    `pretrained` is (V, E), with NaN rows for words that have no vector. Those rows stay trainable.
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

    def forward(self, ids: torch.Tensor, backend: Backend = REFERENCE) -> torch.Tensor:
        known = torch.where(ids < len(self.weight), ids, UNK)
        vectors = backend.lookup(self.weight, known)  # (..., E)
        if self.fixed is None:
            return vectors
        return torch.where(self.is_fixed[known], self.fixed[known], vectors)

    def table(self) -> torch.Tensor:
        """(V, E): the vectors in use, for a tied softmax."""
        return self.weight if self.fixed is None else torch.where(self.is_fixed, self.fixed, self.weight)
