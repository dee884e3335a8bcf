"""Attention against a loop over words."""

import itertools

import torch

from exadec.model.attention import attend


def test_attention_is_luongs_general_score() -> None:
    torch.manual_seed(0)
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    expected = torch.zeros(2, 3, 5)
    for b, t in itertools.product(range(2), range(3)):
        scores = torch.stack([query[b, t] @ keys[b, s] for s in range(5) if mask[b, s]])
        expected[b, t, : len(scores)] = scores.exp() / scores.exp().sum()
    torch.testing.assert_close(attend(query, keys, mask), expected)
