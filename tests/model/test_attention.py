"""Attention against a loop over words."""

import itertools
from dataclasses import replace

import torch

from exadec.model.attention import AttentionLayer, Memory, Positions, attend


def test_attention_is_luongs_general_score() -> None:
    torch.manual_seed(0)
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    expected = torch.zeros(2, 3, 5)
    for b, t in itertools.product(range(2), range(3)):
        scores = torch.stack([query[b, t] @ keys[b, s] for s in range(5) if mask[b, s]])
        expected[b, t, : len(scores)] = scores.exp() / scores.exp().sum()
    torch.testing.assert_close(attend(query, keys, mask)[0], expected)


def test_exemplars_have_an_attention_of_their_own() -> None:
    """h̃ = tanh(W_c [c; h; z]) by a loop over words; the weights over the source do not change."""
    torch.manual_seed(0)
    layer = AttentionLayer(hidden=4, values=6, outputs=3, linear=False, exemplar_values=5).double()
    h, values, shown = torch.randn(2, 3, 4).double(), torch.randn(2, 5, 6).double(), torch.randn(2, 7, 5).double()
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    shown_mask = torch.tensor([[True, True, False, True, False, True, True], [True] + [False] * 6])
    memory = Memory(values, layer.key(values), None, mask, torch.zeros(2, 5, dtype=torch.int64), 9)
    exemplars = Positions(shown, layer.exemplar_key(shown), shown_mask)
    attentional, context, weights = layer(h, replace(memory, exemplars=exemplars))
    torch.testing.assert_close(weights, attend(h, memory.keys, mask)[0])
    for b, t in itertools.product(range(2), range(3)):
        words = [z for z in range(7) if shown_mask[b, z]]
        scores = torch.stack([h[b, t] @ layer.exemplar_key.weight @ shown[b, z] for z in words]).exp()
        own = sum(score / scores.sum() * shown[b, z] for score, z in zip(scores, words, strict=True))
        joined = torch.cat([context[b, t], h[b, t], own])
        torch.testing.assert_close(attentional[b, t], torch.tanh(layer.combine.weight @ joined))
