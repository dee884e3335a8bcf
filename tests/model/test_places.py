"""Sums over the positions of a word, and looking for it, against all pairs of positions."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.corpus.vocabulary import PAD
from exadec.model.places import Places


@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 9), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_merging_and_finding_agree_with_comparing_all_pairs(
    instances: int, hypotheses: int, positions: int, words: int, seed: int
) -> None:
    torch.manual_seed(seed)
    ids = torch.randint(words, (instances, positions))
    weights = torch.rand(instances, hypotheses, positions, dtype=torch.float64)
    places = Places.of(ids)
    same = ids[:, :, None] == torch.arange(words)  # (B, P, V)
    expected = weights @ same.double()  # (B, K, V)
    asked = torch.arange(words).expand(instances, hypotheses, -1)
    where, is_there = places.find(asked)
    assert torch.equal(is_there[:, 0], same.any(1))
    found = places.merge(weights).gather(2, where) * is_there
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.allclose(places.merge(weights).sum(2), weights.sum(2), atol=1e-12)


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_counted_neighbours_are_the_positions_of_a_word(instances: int, positions: int, words: int, seed: int) -> None:
    """What the GPU's kernel adds up."""
    torch.manual_seed(seed)
    ids = torch.randint(words, (instances, positions))
    places = Places.of(ids)
    for row, order, counts, sorted_ids in zip(ids, places.order, places.counts, places.ids, strict=True):
        found = {
            int(sorted_ids[place]): order[place : place + count].tolist()
            for place, count in enumerate(counts.tolist())
            if count
        }
        expected = {word: (row == word).nonzero()[:, 0].tolist() for word in row.tolist() if word != PAD}
        assert found == expected
