"""Which of several searches' texts is taken: each choice against the searches that it is made of."""

from collections.abc import Sequence

import pytest
import torch

from exadec.config import VARIANTS, Config, ConfigError, ModelConfig, SearchConfig, refuse_search
from exadec.loading.batch import Batch
from exadec.search.choosing import GUIDED, search_texts
from exadec.search.consensus import rank_by_agreement
from exadec.search.following import STRONGER, Judge, Manner
from exadec.search.generate import Searched, Task, search_batch
from exadec.search.guidance import without_exemplars
from exadec.search.rules import Rule
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model

CONFIG = SearchConfig(beam_size=3, max_length=7, choice="consensus")
FOLLOWED = SearchConfig(beam_size=3, max_length=7, choice="consensus", manner="followed")
FOLLOWED_ALONE = SearchConfig(beam_size=3, max_length=7, manner="followed")
OPTIONS = ALL_OPTIONS | {"exemplar_skipping": 0.1}
FORM = torch.arange(VOCABULARY) % 3 != 0
WORDS = ["storm", "Porto", ":", "?", '"', "Flood", "-"]
JUDGE = Judge(
    Manner.of(["Storm: two hurt", "Two hurt in storm?", '"Flood" - one']),
    lambda ids: " ".join(WORDS[word % len(WORDS)] for word in ids),
)


@pytest.mark.parametrize("variant", ["attexp", "adadec"])
def test_each_text_is_one_of_a_search_with_this_guidance(variant: str) -> None:
    """For a real model, in a batch whose instances need different strengths."""
    model = build_small_model(**VARIANTS[variant], **ALL_OPTIONS)
    batch = batch_for(model.config, 6)

    class ByRemainder(Judge):
        def differences(self, ids: list[int]) -> int:
            return sum(ids) % 13

    judge = ByRemainder(*JUDGE)
    differ = judge.differences
    found = search_texts(model, Task(batch, judges=[judge] * 6), FOLLOWED_ALONE, 2, form=FORM).hypotheses
    by_strength = [
        search_batch(
            model, Task(batch), SearchConfig(beam_size=3, max_length=7, guidance=more), 3, form=FORM
        ).hypotheses
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
    found = search_texts(model, Task(batch), CONFIG, 2, form=FORM)
    shown = [batch, *(batch.show_alone(number) for number in range(3)), without_exemplars(batch)]
    searches = [search_batch(model, Task(one), CONFIG, 3, form=FORM) for one in shown]
    for number in range(6):
        each = [one.hypotheses[number] for one in searches]
        expected = each[0] if number == 2 else rank_by_agreement(each, CONFIG.length_penalty)
        assert [one.ids for one in found.hypotheses[number]] == [one.ids for one in expected[:2]]
    if model.coefficients is not None:
        torch.testing.assert_close(found.coefficients, searches[0].coefficients)


@pytest.mark.parametrize("variant", ["attexp", "adadec", "adadec+attexp"])
def test_exemplars_that_agree_also_vote_on_the_form(variant: str) -> None:
    """Against nine searches, one by one. With one exemplar, or without a judge, a text is chosen as if nobody voted."""
    model = build_small_model(**VARIANTS[variant], **OPTIONS)
    batch = with_one_exemplar(batch_for(model.config, 8), 2)
    judges: list[Judge | None] = [JUDGE] * 8
    judges[5] = None

    def search(shown: Batch, guidance: float = 0.0) -> Searched:
        return search_batch(
            model, Task(shown), SearchConfig(beam_size=3, max_length=7, guidance=guidance), 3, form=FORM
        )

    alone = [batch.show_alone(number) for number in range(3)]
    free = [search(shown) for shown in (batch, *alone, without_exemplars(batch))]
    guided = [search(shown, GUIDED) for shown in (batch, *alone)]
    found = search_texts(model, Task(batch, judges=judges), FOLLOWED, 2, form=FORM)
    rounds = set()
    for number in {*range(8)} - {2, 5}:
        expected = rank_by_agreement([one.hypotheses[number] for one in free], 1.0, JUDGE.distance)
        searches = 1
        if JUDGE.differences(expected[0].ids) > 0:
            searches = 2
            every = [one.hypotheses[number] for one in (*free, *guided)]
            expected = rank_by_agreement(every, 1.0, JUDGE.distance)
        rounds.add(searches)
        assert [one.ids for one in found.hypotheses[number]] == [one.ids for one in expected[:2]]
    assert rounds == {1, 2}
    followed = search_texts(model, Task(batch, judges=judges), FOLLOWED_ALONE, 2, form=FORM).hypotheses
    assert [one.ids for one in found.hypotheses[2]] == [one.ids for one in followed[2]]
    agreed = rank_by_agreement([one.hypotheses[5] for one in free], 1.0)
    assert [one.ids for one in found.hypotheses[5]] == [one.ids for one in agreed[:2]]
    if model.coefficients is not None:
        torch.testing.assert_close(found.coefficients, free[0].coefficients)


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
    found = search_texts(model, Task(batch, coefficients=lam), CONFIG, form=FORM).hypotheses
    given = search_batch(model, Task(batch, coefficients=lam), CONFIG, 3, form=FORM).hypotheses
    agreed = search_texts(model, Task(batch), CONFIG, form=FORM).hypotheses
    assert found[1] == agreed[1]
    assert [found[number][0].ids for number in (0, 2, 3)] == [given[number][0].ids for number in (0, 2, 3)]


class Odd(Rule):
    """No word with an even number, except for the first few words."""

    def __init__(self, free: int = 0):
        self.free = free

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return word < 6 or word % 2 == 1 or len(ids) < self.free


@pytest.mark.parametrize("config", [CONFIG, FOLLOWED])
def test_rules_hold_for_every_search(config: SearchConfig) -> None:
    model = build_small_model(**VARIANTS["adadec+attexp"], **OPTIONS)
    task = Task(batch_for(model.config, 5), [Odd()] * 5, judges=[JUDGE] * 5)
    found = search_texts(model, task, config, 3, form=FORM).hypotheses
    words = {word for row in found for one in row for word in one.ids}
    assert words
    assert all(word < 6 or word % 2 == 1 for word in words)


@pytest.mark.parametrize("n_best", [1, 3])
def test_only_texts_that_break_a_rule_are_searched_again(n_best: int) -> None:
    """Rules are laxer from instance to instance, so that some of the free texts obey, some in part, and some do not."""
    model, size = build_small_model(**VARIANTS["adadec+attexp"], **OPTIONS), 14
    plain, batch, rules = (
        SearchConfig(beam_size=3, max_length=7),
        batch_for(model.config, size),
        [*map(Odd, range(7))] * 2,
    )
    told: dict[int, list[list[int]]] = {}
    task = Task(batch, rules)
    found = search_texts(model, task, plain, n_best, lambda number, ids: told.setdefault(number, []).append(ids), FORM)
    free = search_batch(model, Task(batch), plain, n_best)
    under = search_batch(model, Task(batch, rules), plain, n_best).hypotheses
    seen = set()
    for number, rule in enumerate(rules):
        texts, obeying = found.hypotheses[number], [rule.accepts(one.ids) for one in free.hypotheses[number]]
        expected = under[number]
        if obeying[0]:
            expected = [free.hypotheses[number][0]]
            known = [one for one, good in zip(free.hypotheses[number], obeying, strict=True) if good]
            others = {tuple(one.ids): one for one in (*under[number], *known)}
            del others[tuple(expected[0].ids)]
            expected += sorted(others.values(), key=lambda one: -one.score)
        assert [one.ids for one in texts] == [one.ids for one in expected[:n_best]]
        assert all(rule.accepts(one.ids) for one in texts)
        assert all(texts[0].ids[: len(ids)] == ids for ids in told[number])
        seen.add((obeying[0], all(obeying)))
    assert seen == {(True, True), (False, False)} | ({(True, False)} if n_best > 1 else set())
    torch.testing.assert_close(found.coefficients, free.coefficients)
    single = search_texts(model, task, plain).hypotheses
    assert [best.ids for [best] in single] == [best.ids for best, *_ in found.hypotheses]


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"reads one exemplar: set it to likeliest"):
        refuse_search(CONFIG, ModelConfig())
    with pytest.raises(ConfigError, match=r"\(seq2seq\) reads no exemplar"):
        refuse_search(CONFIG, ModelConfig(**VARIANTS["seq2seq"], exemplars_read=3))
    refuse_search(CONFIG, ModelConfig(exemplars_read=2))
    with pytest.raises(ConfigError, match=r"reads one exemplar"):
        Config("work", search=CONFIG)


def test_texts_that_are_drawn_are_not_chosen() -> None:
    assert CONFIG.seeks_agreement
    assert not SearchConfig(choice="consensus", temperature=0.5).seeks_agreement
    assert not SearchConfig().seeks_agreement
