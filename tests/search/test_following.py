"""Texts with the manner of their exemplars: a search that is repeated with more guidance."""

from collections.abc import Sequence

import pytest

from exadec.config import VARIANTS, ConfigError, ModelConfig, SearchConfig, refuse_search
from exadec.search.beam import Hypothesis
from exadec.search.following import Judge, Manner, search_until_followed


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


def test_distance_weighs_each_trait_by_the_exemplars_that_are_against_it() -> None:
    manner = Manner.of(["Storm: two hurt", "Two hurt in storm", "Flood hits Porto", "Why floods come?"])
    assert manner.distance("Fire in Porto") == 1 / 4 + 1 / 4  # one has a colon, one a question mark
    assert manner.distance("Fire: one hurt") == 3 / 4 + 1 / 4
    assert manner.distance("Fire: who was hurt?") == 3 / 4 + 3 / 4
    alone = Manner.of(["Storm: two hurt"])
    assert [alone.distance(text) for text in ("Fire: one hurt", "Fire?")] == [0, alone.differences("Fire?")]


def test_a_judge_reads_ids_and_counts_each_exemplar_once() -> None:
    words = ["fire", "in", "Porto", ":", "?"]
    judge = Judge.of(["Storm: two hurt", "Storm: two hurt", "Two hurt"], lambda ids: " ".join(words[i] for i in ids))
    assert judge is not None
    assert judge.manner.shares["colon"] == 1 / 2
    assert judge.distance([0, 1, 2]) == 1 / 2
    assert judge.differences([0, 3, 1, 2, 4]) == 1
    assert Judge.of([], str) is None


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


def test_what_cannot_be_followed_is_refused() -> None:
    followed = SearchConfig(manner="followed")
    with pytest.raises(ConfigError, match=r"`search.manner` is followed, but this model \(seq2seq\) does not read"):
        refuse_search(followed, ModelConfig(**VARIANTS["seq2seq"]))
    with pytest.raises(ConfigError, match="was not trained to write without an exemplar"):
        refuse_search(followed, ModelConfig(**VARIANTS["adadec"]))
    with pytest.raises(ConfigError, match=r"`search.temperature` draws texts"):
        SearchConfig(manner="followed", temperature=1.0)
