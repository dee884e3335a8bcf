"""Texts with the manner of their exemplars: a search that is repeated with more guidance."""

from collections.abc import Sequence

import pytest
import torch

from exadec.config import VARIANTS, ConfigError, ModelConfig, SearchConfig, refuse_search
from exadec.search.beam import Hypothesis
from exadec.search.following import STRONGER, Manner, search_until_followed
from exadec.search.generate import search_batch, search_followed
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model

FORM = torch.arange(VOCABULARY) % 3 != 0


def test_differences_count_what_is_missing_and_what_is_in_excess() -> None:
    manner = Manner.of(["Storm Hits Coast: What We Know So Far?"])
    assert manner.differences("Flood Hits Porto: What Comes Next?") == 0
    assert manner.differences("Flood hits Porto: what comes next?") == 1  # no Title Case
    assert manner.differences("Flood hits Porto") == 3  # no Title Case, no colon, no question mark
    assert manner.differences('Flood Hits Porto: "What Comes Next?"') == 1  # quotation marks


@pytest.mark.parametrize(
    ("exemplars", "colon"),
    [
        (["Storm: two hurt", "Two hurt in storm"], True),
        (["Two hurt in storm", "Storm: two hurt"], False),
        (["Two hurt in storm", "Storm: two hurt", "Flood: one hurt"], True),
    ],
)
def test_most_exemplars_decide_and_the_first_if_they_are_divided(exemplars: list[str], colon: bool) -> None:
    assert Manner.of(exemplars).traits["colon"] is colon


def test_no_text_is_guided_more_than_it_needs() -> None:
    """The first instance follows at once, the second one with its second best text at 0.5, the third one never."""
    tried: list[tuple[list[int], float]] = []

    def search(numbers: Sequence[int], guidance: float) -> list[list[Hypothesis]]:
        tried.append((list(numbers), guidance))
        return [[Hypothesis([number, place, int(10 * guidance)], -place) for place in range(2)] for number in numbers]

    def second(ids: list[int]) -> int:
        return 0 if ids[1:] == [1, 7] else 1

    def never(ids: list[int]) -> int:
        return 1 if ids[2] == 12 else 2

    found = search_until_followed(search, [None, second, never], 0.25)
    assert [row[0].ids for row in found] == [[0, 0, 2], [1, 1, 7], [2, 0, 12]]
    assert found[1][1].ids == [1, 0, 7]
    assert tried == [([0, 1, 2], 0.25), ([1, 2], 0.75), ([2], 1.25), ([2], 1.75)]


def test_an_instance_without_hypotheses_is_tried_again() -> None:
    found = search_until_followed(lambda numbers, w: [[Hypothesis([4], 0.0)] if w else []], [lambda ids: 0], 0.0)
    assert found == [[Hypothesis([4], 0.0)]]


@pytest.mark.parametrize("variant", ["attexp", "adadec"])
def test_each_text_is_one_of_a_search_with_this_guidance(variant: str) -> None:
    """For a real model, in a batch whose instances need different strengths."""
    model = build_small_model(**VARIANTS[variant], **ALL_OPTIONS)
    batch, config = batch_for(model.config, 6), SearchConfig(beam_size=3, max_length=7)

    def differ(ids: list[int]) -> int:
        return sum(ids) % 13

    found = search_followed(model, batch, config, [differ] * 6, 2, form=FORM).hypotheses
    by_strength = [
        search_batch(model, batch, SearchConfig(beam_size=3, max_length=7, guidance=more), 3, form=FORM).hypotheses
        for more in STRONGER
    ]
    strengths = set()
    for number, hypotheses in enumerate(found):
        best = [min(differ(one.ids) for one in searched[number]) for searched in by_strength]
        until = best.index(0) + 1 if 0 in best else len(best)
        wanted = min(best[:until])
        strengths.add(best.index(wanted))
        expected = sorted(by_strength[best.index(wanted)][number], key=lambda one: differ(one.ids))[:2]
        assert [one.ids for one in hypotheses] == [one.ids for one in expected]
        assert [one.score for one in hypotheses] == pytest.approx([one.score for one in expected])
    assert len(strengths) > 1


def test_what_cannot_be_followed_is_refused() -> None:
    followed = SearchConfig(manner="followed")
    with pytest.raises(ConfigError, match=r"`search.manner` is followed, but this model \(seq2seq\) does not read"):
        refuse_search(followed, ModelConfig(**VARIANTS["seq2seq"]))
    with pytest.raises(ConfigError, match="was not trained to write without an exemplar"):
        refuse_search(followed, ModelConfig(**VARIANTS["adadec"]))
    with pytest.raises(ConfigError, match=r"`search.temperature` draws texts"):
        SearchConfig(manner="followed", temperature=1.0)
