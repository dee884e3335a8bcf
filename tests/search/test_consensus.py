"""The text that most others agree with: the ranking against a plain count."""

import math
from collections import Counter

import pytest
import torch

from exadec.search.beam import Hypothesis, length_penalty
from exadec.search.consensus import FORM, rank_by_agreement


def hypothesis(ids: list[int], p: float, alpha: float = 1.0) -> Hypothesis:
    return Hypothesis(ids, math.log(p) / length_penalty(len(ids) + 1.0, alpha))


def test_one_odd_search_does_not_decide() -> None:
    odd = [hypothesis([7, 8, 9], 0.9)]
    others = [[hypothesis([1, 2, 3], 0.3)], [hypothesis([1, 2, 4], 0.2)], [hypothesis([1, 2, 3], 0.1)]]
    assert [one.ids for one in rank_by_agreement([odd, *others], 1.0)] == [[1, 2, 3], [1, 2, 4], [7, 8, 9]]


def test_texts_of_one_search_share_its_vote_in_proportion_to_p() -> None:
    likely, unlikely = hypothesis([1, 1], 0.6, 0.5), hypothesis([2, 2, 2, 2], 0.2, 0.5)
    [first, second] = rank_by_agreement([[unlikely, likely]], 0.5)
    assert (first, second) == (likely, unlikely)
    twice = rank_by_agreement([[unlikely, likely], [hypothesis([2, 2, 2, 2], 0.9, 0.5)]], 0.5)
    assert twice[0] is unlikely  # 1/4 + 1 votes against 3/4, and it keeps the score of the first search


def test_ranking_is_that_of_a_plain_count() -> None:
    random = torch.Generator().manual_seed(3)
    for _ in range(30):
        searches = [
            [
                Hypothesis(
                    torch.randint(4, 9, (int(torch.randint(0, 7, (), generator=random)),), generator=random).tolist(),
                    -2 * float(torch.rand((), generator=random)),
                )
                for _ in range(3)
            ]
            for _ in range(4)
        ]
        votes: Counter[tuple[int, ...]] = Counter()
        for found in searches:
            p = [math.exp(one.score * length_penalty(len(one.ids) + 1.0, 0.7)) for one in found]
            for one, share in zip(found, p, strict=True):
                votes[tuple(one.ids)] += share / sum(p)

        def agreement(text: tuple[int, ...], votes: Counter[tuple[int, ...]] = votes) -> float:
            return sum(
                share * 2 * (Counter(text) & Counter(other)).total() / max(len(text) + len(other), 1)
                for other, share in votes.items()
            )

        ranked = [agreement(tuple(one.ids)) for one in rank_by_agreement(searches, 0.7)]
        assert len(ranked) == len(votes)
        assert ranked == pytest.approx(sorted(ranked, reverse=True))
        assert ranked[0] == pytest.approx(max(map(agreement, votes)))


def test_nothing_found_is_nothing_chosen() -> None:
    assert rank_by_agreement([[], []], 1.0) == []
    only = Hypothesis([], -1.0)
    assert rank_by_agreement([[], [only]], 1.0) == [only]


def test_texts_far_too_unlikely_for_a_float_still_share_a_vote() -> None:
    searches = [[Hypothesis([1, 2], -5000.0), Hypothesis([1, 3], -5001.0), Hypothesis([9], -9000.0)]]
    assert [one.ids for one in rank_by_agreement(searches, 0.0)] == [[1, 2], [1, 3], [9]]


def test_exemplars_have_a_say_in_the_form() -> None:
    """Two texts agree in three of four words each; the third one is odd, but has the form that is asked for."""
    searches = [[hypothesis([1, 2, 3, 4], 0.5)], [hypothesis([1, 2, 3, 5], 0.5)], [hypothesis([7, 8], 0.5)]]
    assert rank_by_agreement(searches, 1.0)[0].ids == [1, 2, 3, 4]
    missing = {4: 1.0, 5: 0.0, 8: 0.0}
    assert rank_by_agreement(searches, 1.0, lambda ids: missing[ids[-1]])[0].ids == [1, 2, 3, 5]
    # (1 + 3/4) / 3 of the first two against 1/3: form decides from 1/4 / FORM traits on.
    for more, chosen in ((-0.01, 5), (0.01, 8)):
        missing = {4: 9.0, 5: 0.25 / FORM + more, 8: 0.0}
        ranked = rank_by_agreement(searches, 1.0, lambda ids, missing=missing: missing[ids[-1]])
        assert ranked[0].ids[-1] == chosen
