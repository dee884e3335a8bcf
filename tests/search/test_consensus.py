"""The text that most others agree with: the ranking against a plain count, and searches against those that it makes."""

import math
from collections import Counter

import pytest
import torch

from exadec.config import VARIANTS, Config, ConfigError, ModelConfig, SearchConfig, refuse_search
from exadec.loading.batch import Batch
from exadec.search.beam import Hypothesis, length_penalty
from exadec.search.consensus import rank_by_agreement
from exadec.search.generate import search_batch, search_consensus
from exadec.search.guidance import without_exemplars
from exadec.search.rules import Rule
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model

CONFIG = SearchConfig(beam_size=3, max_length=7, choice="consensus")
OPTIONS = ALL_OPTIONS | {"exemplar_skipping": 0.1}
FORM = torch.arange(VOCABULARY) % 3 != 0


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


def with_one_exemplar(batch: Batch, instance: int) -> Batch:
    alone, every = batch.show_alone(0), batch.exemplar.clone()
    each = len(every) // batch.size
    rows = slice(each * instance, each * (instance + 1))
    every[rows] = alone.exemplar[rows]
    lengths = batch.exemplar_lengths.clone()
    lengths[rows] = alone.exemplar_lengths[rows]
    return Batch(**{**vars(batch), "exemplar": every, "exemplar_lengths": lengths})


@pytest.mark.parametrize("variant", ["attexp", "adadec", "adadec+attexp"])
def test_searches_are_with_all_exemplars_with_each_and_with_none(variant: str) -> None:
    model = build_small_model(**VARIANTS[variant], **OPTIONS)
    batch = with_one_exemplar(batch_for(model.config, 6), 2)
    assert batch.find_divided() == [0, 1, 3, 4, 5]
    found = search_consensus(model, batch, CONFIG, 2, form=FORM)
    shown = [batch, *(batch.show_alone(number) for number in range(3)), without_exemplars(batch)]
    searches = [search_batch(model, one, CONFIG, 3, form=FORM) for one in shown]
    for number in range(6):
        each = [one.hypotheses[number] for one in searches]
        expected = each[0] if number == 2 else rank_by_agreement(each, CONFIG.length_penalty)
        assert [one.ids for one in found.hypotheses[number]] == [one.ids for one in expected[:2]]
    if model.coefficients is not None:
        torch.testing.assert_close(found.coefficients, searches[0].coefficients)


def test_one_exemplar_alone_is_read_by_all_readers() -> None:
    """Of three exemplars for each of four instances, the second one."""
    batch = batch_for(build_small_model(**VARIANTS["adadec"], **OPTIONS).config, 4)
    shown = batch.show_alone(1)
    assert shown.exemplar.tolist() == batch.exemplar[1::3].repeat_interleave(3, 0).tolist()
    assert shown.exemplar_lengths.tolist() == [
        length for length in batch.exemplar_lengths[1::3].tolist() for _ in "123"
    ]
    assert shown.source is batch.source


def test_coefficients_that_are_given_are_kept() -> None:
    model = build_small_model(**VARIANTS["adadec"], **OPTIONS)
    batch = batch_for(model.config, 4)
    lam = model.exemplar_coefficients(batch.show_alone(2))
    assert lam is not None
    lam[1] = torch.nan
    found = search_consensus(model, batch, CONFIG, 1, coefficients=lam, form=FORM).hypotheses
    given = search_batch(model, batch, CONFIG, 3, coefficients=lam, form=FORM).hypotheses
    agreed = search_consensus(model, batch, CONFIG, 1, form=FORM).hypotheses
    assert found[1] == agreed[1]
    assert [found[number][0].ids for number in (0, 2, 3)] == [given[number][0].ids for number in (0, 2, 3)]


def test_rules_hold_for_every_search() -> None:
    class Never(Rule):
        """No word with an even number."""

        def allows(self, ids: list[int], word: int) -> bool:
            return word < 6 or word % 2 == 1

    model = build_small_model(**VARIANTS["adadec+attexp"], **OPTIONS)
    found = search_consensus(model, batch_for(model.config, 5), CONFIG, 3, [Never()] * 5, form=FORM).hypotheses
    words = {word for row in found for one in row for word in one.ids}
    assert words
    assert all(word < 6 or word % 2 == 1 for word in words)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"reads one exemplar: set it to likeliest"):
        refuse_search(CONFIG, ModelConfig())
    with pytest.raises(ConfigError, match=r"\(seq2seq\) reads no exemplar"):
        refuse_search(CONFIG, ModelConfig(**VARIANTS["seq2seq"], exemplars_read=3))
    refuse_search(CONFIG, ModelConfig(exemplars_read=2))
    with pytest.raises(ConfigError, match=r"reads one exemplar"):
        Config("work", search=CONFIG)


def test_texts_that_follow_or_are_drawn_are_chosen_by_that() -> None:
    assert CONFIG.seeks_agreement
    assert not SearchConfig(choice="consensus", manner="followed").seeks_agreement
    assert not SearchConfig(choice="consensus", temperature=0.5).seeks_agreement
    assert not SearchConfig().seeks_agreement
