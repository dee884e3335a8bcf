"""Beam search against exhaustive enumeration, and its parts one by one."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.config import VARIANTS, SearchConfig
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.model.decoder import DecoderState
from exadec.search.beam import Hypothesis, Known, beam_search, length_penalty, repeating_words
from exadec.search.generate import NEVER_WRITTEN
from support.random_models import Prefix, RandomModel, start
from support.small_models import ALL_OPTIONS, batch_for, build_small_model

WORDS = 6
"""A tiny vocabulary: ids 0 to 5, among them BOS = 2 and EOS = 3."""


FORBIDDEN = (0, BOS)


CPU = torch.device("cpu")


def enumerate_all(model: RandomModel, instance: int, config: SearchConfig) -> list[Hypothesis]:
    """Every text of at most `max_length` words, its end symbol counted, best first."""
    allowed = [word for word in range(WORDS) if word not in (EOS, *FORBIDDEN)]
    found = []
    for length in range(config.min_length, config.max_length):
        for words in itertools.product(allowed, repeat=length):
            prefix, total = [100 + instance, BOS], 0.0
            for word in (*words, EOS):
                total += model.distribution(prefix)[word].item()
                prefix.append(word)
            if config.block_ngram and repeats(words, config.block_ngram):
                continue
            found.append(Hypothesis(list(words), total / length_penalty(length + 1, config.length_penalty)))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def repeats(words: tuple[int, ...], n: int) -> bool:
    ngrams = [words[i : i + n] for i in range(len(words) - n + 1)]
    return len(ngrams) != len(set(ngrams))


@pytest.mark.parametrize("stopping", ["full", "certain"])
@pytest.mark.parametrize("block_ngram", [0, 1, 2])
@pytest.mark.parametrize("min_length", [0, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_wide_beam_equals_exhaustive_search(
    seed: int, alpha: float, min_length: int, block_ngram: int, stopping: str
) -> None:
    """There are fewer texts than the beam is wide, so that `full` never stops because the beam is full."""
    model = RandomModel(WORDS, seed)
    config = SearchConfig(
        beam_size=200,
        length_penalty=alpha,
        max_length=4,
        min_length=min_length,
        block_ngram=block_ngram,
        stopping=stopping,
    )
    expected = [enumerate_all(model, i, config)[:5] for i in range(3)]
    found = beam_search(model.step, start(3), 3, config, FORBIDDEN, CPU, n_best=5)
    for mine, oracle in zip(found, expected, strict=True):
        assert [hypothesis.ids for hypothesis in mine] == [hypothesis.ids for hypothesis in oracle]
        for one, other in zip(mine, oracle, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)


def search_slowly(model: RandomModel, instance: int, config: SearchConfig, n_best: int) -> list[Hypothesis]:
    """One instance, one list of texts at a time, each rule for stopping in its own words."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    for length in range(1, config.max_length + 1):
        grown = []
        for total, words in live:
            log_probs = model.distribution([100 + instance, BOS, *words]).tolist()
            last = length == config.max_length
            ends = (EOS,) if length <= config.min_length else ()
            allowed = [EOS] if last else [word for word in range(WORDS) if word not in (*FORBIDDEN, *ends)]
            grown += [(total + log_probs[word], [*words, word]) for word in allowed]
        grown.sort(key=lambda one: -one[0])
        penalty = ((5 + length) / 6) ** config.length_penalty
        for total, words in grown[: config.beam_size]:
            if words[-1] == EOS:
                finished.append(Hypothesis(words[:-1], total / penalty))
        finished = sorted(finished, key=lambda one: -one.score)[: config.beam_size]
        live = [one for one in grown if one[1][-1] != EOS][: config.beam_size]
        if not live:
            break
        if (config.stopping == "full" or config.beam_size == 1) and len(finished) == config.beam_size:
            break
        if len(finished) < n_best:
            continue
        reachable = [length] if config.stopping == "first" else range(length + 1, config.max_length + 1)
        best_live = max(live[0][0] / ((5 + end) / 6) ** config.length_penalty for end in reachable)
        if finished[n_best - 1].score >= best_live:
            break
    return finished[:n_best]


@settings(max_examples=300, deadline=None)
@given(
    model=st.builds(RandomModel, st.just(WORDS), st.integers(0, 10**6), st.sampled_from([-3.0, 0.0, 2.0])),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 2.5]),
    max_length=st.integers(1, 7),
    min_length=st.integers(0, 6),
    beam=st.integers(1, 5),
    n_best=st.integers(1, 5),
    stopping=st.sampled_from(["full", "certain", "first"]),
)
def test_every_rule_for_stopping_equals_a_slow_search(
    model: RandomModel, alpha: float, max_length: int, min_length: int, beam: int, n_best: int, stopping: str
) -> None:
    shortest = min(min_length, max_length - 1)
    config = SearchConfig(
        beam_size=beam, length_penalty=alpha, max_length=max_length, min_length=shortest, stopping=stopping
    )
    n_best = min(n_best, beam)
    found = beam_search(model.step, start(2), 2, config, FORBIDDEN, CPU, n_best)
    for instance, mine in enumerate(found):
        slow = search_slowly(model, instance, config, n_best)
        assert [hypothesis.ids for hypothesis in mine] == [hypothesis.ids for hypothesis in slow]
        assert [one.score for one in mine] == pytest.approx([one.score for one in slow], abs=1e-5)


def test_going_on_until_certain_finds_texts_that_score_higher() -> None:
    """The rules only decide when to stop, so the longest search has found what the others found, and sometimes more."""
    model, better = RandomModel(WORDS, 8), dict.fromkeys(("full", "first"), 0)
    rules = {
        stopping: beam_search(
            model.step, start(60), 60, SearchConfig(beam_size=3, max_length=9, stopping=stopping), FORBIDDEN, CPU
        )
        for stopping in ("certain", *better)
    }
    for stopping in better:
        for (certain,), (other,) in zip(rules["certain"], rules[stopping], strict=True):
            assert certain.score >= other.score
            better[stopping] += certain.score > other.score
    assert all(better.values())
    assert rules["full"] != rules["first"]


def test_beam_of_one_is_greedy_search() -> None:
    model, config = RandomModel(WORDS, 3), SearchConfig(beam_size=1, max_length=8)
    for instance, (found,) in enumerate(beam_search(model.step, start(5), 5, config, FORBIDDEN, CPU)):
        prefix = [100 + instance, BOS]
        while prefix[-1] != EOS and len(prefix) < 2 + config.max_length - 1:
            log_probs = model.distribution(prefix)
            log_probs[list(FORBIDDEN)] = -math.inf
            prefix.append(int(log_probs.argmax()))
        assert found.ids == [word for word in prefix[2:] if word != EOS]


@pytest.mark.parametrize("beam", [1, 2, 7])
def test_instances_do_not_disturb_one_another(beam: int) -> None:
    model, config = RandomModel(WORDS, 5), SearchConfig(beam_size=beam, max_length=6)
    together = beam_search(model.step, start(4), 4, config, FORBIDDEN, CPU)
    for i in range(4):
        alone = beam_search(model.step, Prefix(torch.tensor([[100 + i]]), 1), 1, config, FORBIDDEN, CPU)
        assert alone[0] == together[i]


def test_every_hypothesis_ends_within_the_limit_and_avoids_forbidden_words() -> None:
    model, config = RandomModel(WORDS, 6), SearchConfig(beam_size=4, max_length=3)
    for hypotheses in beam_search(model.step, start(8), 8, config, (0, BOS, 5), CPU, n_best=4):
        assert hypotheses
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            assert len(hypothesis.ids) <= 2
            assert not {0, BOS, EOS, 5} & set(hypothesis.ids)


def test_length_penalty_is_wu_et_als() -> None:
    assert length_penalty(1, 1.0) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(7, 0.0) == 1.0
    assert length_penalty(19, 0.5) == 2.0


def test_words_that_repeat_an_ngram_by_hand() -> None:
    words = torch.tensor([[BOS, 7, 8, 9, 7, 8], [BOS, 7, 7, 7, 5, 7], [BOS, 1, 4, 5, 6, 9]])
    expected = {3: [{9}, set(), set()], 2: [{9}, {5, 7}, set()], 1: [{7, 8, 9}, {5, 7}, {1, 4, 5, 6, 9}]}
    room = torch.cat([words, words[:, 1:4]], dim=1)  # what comes after the words does not count
    for n, banned in expected.items():
        for rows in (words, room):
            found = repeating_words(rows, torch.tensor([5, 5, 5]), n)
            assert [set(row.tolist()) - {PAD} for row in found] == banned
    different = repeating_words(room, torch.tensor([4, 3, 0]), 2)
    assert [set(row.tolist()) - {PAD} for row in different] == [{8}, {7}, set()]
    assert repeating_words(words[:, :3], torch.tensor([2, 2, 2]), 3).shape == (3, 0)


def test_n_best_beyond_the_beam_is_refused() -> None:
    with pytest.raises(ValueError, match="from 1 to the beam size 2, but is 3"):
        beam_search(RandomModel(WORDS, 0).step, start(1), 1, SearchConfig(beam_size=2), (), CPU, n_best=3)


@pytest.mark.parametrize("option", [{}, ALL_OPTIONS], ids=["paper", "all"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_model_state_search_equals_scoring_the_text_again(variant: str, option: dict[str, object]) -> None:
    """The score a search reports is the model's own log-probability of that text over the penalty."""
    model = build_small_model(**VARIANTS[variant], input_feeding=True, **option)
    batch = batch_for(model.config, 4)
    config = SearchConfig(beam_size=3, max_length=5)
    with torch.no_grad():
        found = beam_search(model.choose, model.encode(batch), 4, config, NEVER_WRITTEN, CPU, n_best=3)
        for row, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                state, total = model.encode(batch), 0.0
                for previous, word in itertools.pairwise([BOS, *hypothesis.ids, EOS]):
                    log_probs, state = model.step(state, torch.full((4,), previous))
                    total += log_probs[row, word].item()
                penalty = length_penalty(len(hypothesis.ids) + 1, 1.0)
                assert hypothesis.score == pytest.approx(total / penalty, abs=1e-4)


@pytest.mark.parametrize(
    "option", [{}, ALL_OPTIONS, {"copy": "separate", "input_feeding": True}], ids=["paper", "all", "released"]
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_search_over_the_likeliest_words_equals_a_search_over_all(variant: str, option: dict[str, object]) -> None:
    """And the search drops finished instances on its way, so that the others keep theirs."""
    model = build_small_model(**VARIANTS[variant], **option)
    with torch.no_grad():
        model.embedding.weight.mul_(5.0)  # so that texts end at different lengths
        model.decoder.softmax_bias[EOS] += 4.0
    batch = batch_for(model.config, 20)

    def step(state: DecoderState, words: torch.Tensor) -> tuple[Known, DecoderState]:
        log_probs, state = model.step(state, words)
        return Known(log_probs), state

    for block_ngram in (0, 2):
        config = SearchConfig(beam_size=3, max_length=9, block_ngram=block_ngram)
        found, expected = (
            beam_search(one, model.encode(batch), 20, config, NEVER_WRITTEN, CPU, n_best=3)
            for one in (model.choose, step)
        )
        assert len({len(best.ids) for best, *_ in found}) > 1
        for mine, all_words in zip(found, expected, strict=True):
            assert [one.ids for one in mine] == [one.ids for one in all_words]
            assert [one.score for one in mine] == pytest.approx([one.score for one in all_words], abs=1e-5)
