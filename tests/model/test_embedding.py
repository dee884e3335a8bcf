"""Embeddings: pretrained vectors, frozen and learnt."""

import torch

from exadec.model.embedding import Embedding


def test_frozen_vectors_stay_and_missing_ones_learn() -> None:
    pretrained = torch.randn(6, 3)
    pretrained[4] = torch.nan
    embedding = Embedding(6, 3, pretrained, freeze=True)
    ids = torch.tensor([2, 4])
    embedding(ids).sum().backward()
    assert embedding.weight.grad[2].abs().sum() == 0
    assert embedding.weight.grad[4].abs().sum() > 0
    torch.testing.assert_close(embedding(ids)[0], pretrained[2])
    torch.testing.assert_close(embedding.table()[5], pretrained[5])
