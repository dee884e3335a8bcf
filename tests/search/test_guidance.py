"""Guidance against the formula written plainly, against two separate readings of the text, and on a trained model."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from exadec.config import VARIANTS, Config, SearchConfig
from exadec.corpus.record import SPLITS
from exadec.corpus.segment import BpeSegmenter, WordSegmenter
from exadec.corpus.vocabulary import BOS, EOS, NONE, UNK, Vocabulary
from exadec.exemplars.retrieve import retrieve
from exadec.loading.batch import Batch
from exadec.search import generate, rounding
from exadec.search.beam import Known, beam_search, length_penalty
from exadec.search.cpu import quick_step
from exadec.search.generate import NEVER_WRITTEN, Task, search_batch
from exadec.search.guidance import (
    FLOOR,
    IMPLAUSIBLE,
    Emphasis,
    GuidedState,
    Weighing,
    find_form,
    guide,
    guide_distributions,
    with_and_without,
)
from exadec.training.checkpoint import LAST, open_corpus
from exadec.training.evaluation import decode_split
from exadec.training.trainer import train
from support.small_models import VOCABULARY, build_small_model, random_batch
from support.toys import toy_config, write_splits

CPU = torch.device("cpu")
READING = [variant for variant in VARIANTS if variant != "seq2seq"]
GUIDED = SearchConfig(beam_size=2, max_length=4, guidance=1.5)
EMPHASIS = Emphasis(GUIDED.guidance, torch.arange(VOCABULARY) % 3 != 0)
"""Two of three words of the small models are words of form."""
LOG_PROBS = arrays.arrays(np.float64, (3, 5), elements=st.floats(-30, 0) | st.just(-math.inf))


def combine_plainly(seen: np.ndarray, unseen: np.ndarray, weights: Sequence[float]) -> list[float]:
    """The formula, word by word, for one distribution each; w is 0 for content words."""
    best, scores = np.exp(seen).max(), {}
    for word, (one, other) in enumerate(zip(seen, unseen, strict=True)):
        if np.exp(one) >= FLOOR * best:
            scores[word] = one + weights[word] * min(one - other, math.log(1 / FLOOR)) if weights[word] else one
    total = np.logaddexp.reduce(list(scores.values()))
    return [scores[word] - total if word in scores else one - IMPLAUSIBLE for word, one in enumerate(seen)]


def combine(seen: torch.Tensor, unseen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Of whole distributions."""
    return Weighing.over(seen, unseen, weights).combine(seen, unseen, weights)


@settings(deadline=None)
@given(LOG_PROBS, LOG_PROBS, st.floats(0, 8), st.lists(st.booleans(), min_size=5, max_size=5))
def test_combination_equals_the_formula(seen: np.ndarray, unseen: np.ndarray, weight: float, form: list[bool]) -> None:
    weights = [weight * one for one in form]
    seen[:, 0] = np.maximum(seen[:, 0], -30)  # some word can be written
    margin = np.exp(seen) / np.exp(seen).max(axis=1, keepdims=True)
    seen[np.abs(margin - FLOOR) < 1e-9] -= 0.1  # rounding decides about a word that is exactly at the floor
    found = combine(torch.from_numpy(seen), torch.from_numpy(unseen), torch.tensor([weights], dtype=torch.float64))
    expected = [combine_plainly(*rows, weights) for rows in zip(seen, unseen, strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert not found.isnan().any()


def test_weight_of_one_doubles_the_evidence_by_hand() -> None:
    seen, unseen = torch.tensor([[0.6, 0.3, 0.09, 0.01]]), torch.tensor([[0.8, 0.1, 0.05, 0.05]])
    scores = torch.tensor([0.6 * 0.6 / 0.8, 0.3 * 0.3 / 0.1, 0.09 * 0.09 / 0.05])  # the fourth is below a tenth of 0.6
    found = combine(seen.log(), unseen.log(), torch.ones(1, 4))[0]
    torch.testing.assert_close(found[:3].exp(), scores / scores.sum())
    assert found[3] == pytest.approx(math.log(0.01) - IMPLAUSIBLE)


def test_odds_of_content_words_stay_by_hand() -> None:
    """The first word is of form, the others are not: what it gains, they lose in proportion."""
    seen, unseen = torch.tensor([[0.2, 0.6, 0.2]]), torch.tensor([[0.1, 0.3, 0.6]])
    found = combine(seen.log(), unseen.log(), torch.tensor([[1.0, 0.0, 0.0]]))[0].exp()
    torch.testing.assert_close(found, torch.tensor([0.4, 0.6, 0.2]) / 1.2)


def everywhere(weight: float, size: int = 20) -> Emphasis:
    """As if all words were words of form."""
    return Emphasis(weight, torch.ones(size, dtype=torch.bool))


def test_words_of_form_by_hand() -> None:
    pieces = ["the", "The", "storm", ":", "?", "12", "don't", "\u201c", "in"]
    vocabulary = Vocabulary(pieces)
    form = find_form(vocabulary, WordSegmenter(pretokenized=True, lower_case=False), CPU).tolist()
    named = {vocabulary.pieces[number] for number, is_form in enumerate(form) if is_form}
    assert named == {"</s>", "the", "The", ":", "?", "don't", "\u201c", "in"}


def test_words_of_form_are_looked_for_once_for_each_device() -> None:
    vocabulary, segmenter = Vocabulary(["the"]), WordSegmenter(pretokenized=True, lower_case=False)
    form = find_form(vocabulary, segmenter, CPU)
    elsewhere = find_form(vocabulary, segmenter, torch.device("meta"))
    assert elsewhere.device.type == "meta"
    assert find_form(vocabulary, segmenter, CPU) is form
    assert find_form(vocabulary, segmenter, torch.device("meta")) is elsewhere


def test_pieces_of_form_are_whole_words_and_punctuation() -> None:
    segmenter = BpeSegmenter.learn(["the storm at the other gate: why?"] * 9, 300, lower_case=False)
    vocabulary = Vocabulary(segmenter.pieces())
    form = find_form(vocabulary, segmenter, CPU).tolist()
    named = {vocabulary.pieces[number] for number, is_form in enumerate(form) if is_form}
    assert {"\u0120the", "\u0120at", ":", "?", "</s>"} <= named
    assert not named & {"\u0120storm", "at", "the", "a", "\u00e2"}  # within a word, or half a character
    emphasis = Emphasis(2.0, torch.tensor(form))
    known = vocabulary.get("\u0120the")
    assert known is not None
    assert emphasis.of(torch.tensor([[known, len(vocabulary), len(vocabulary) + 5]])).tolist() == [[2.0, 0.0, 0.0]]


class Tables:
    """A model of two distributions that do not depend on what was written: the first half of the rows sees z."""

    def __init__(self, seen: list[float], unseen: list[float]):
        self.log_probs = torch.tensor([seen, unseen]).log_softmax(dim=1)

    def select(self, indices: torch.Tensor) -> "Tables":
        return self

    keep = select

    def choose(self, state: "Tables", words: torch.Tensor) -> tuple["Rows", "Tables"]:
        return Rows(self.log_probs[:, None].expand(-1, len(words) // 2, -1)), self


class Rows:
    """The next words of two instances, (2, K, X)."""

    def __init__(self, log_probs: torch.Tensor):
        self.log_probs = log_probs

    def take(self, instances: slice) -> Known:
        return Known(self.log_probs[instances].flatten(0, 1).clone())


def search_tables(tables: Tables, config: SearchConfig) -> list[int]:
    step = guide(tables.choose, everywhere(config.guidance, 7))
    ((best,),) = beam_search(step, GuidedState(tables, 1, 1), 1, config, NEVER_WRITTEN, CPU)
    return best.ids


@pytest.mark.parametrize("block_ngram", [0, 1])
def test_text_ends_although_its_end_is_implausible(block_ngram: int) -> None:
    tables = Tables(seen=[0, 0, 0, -9, 0, 5, 4.9], unseen=[0] * 7)
    config = SearchConfig(beam_size=2, max_length=4, guidance=1.0, block_ngram=block_ngram)
    # The order of two words makes no difference to their score.
    assert sorted(search_tables(tables, config)) == ([5, 6] if block_ngram else [5, 5, 5])


def test_word_that_is_never_written_does_not_make_others_implausible() -> None:
    seen, unseen = [0.0] * 7, [0.0] * 7
    seen[UNK], seen[5], seen[6], unseen[5] = 20.0, 5.0, 4.9, 3.0
    assert search_tables(Tables(seen, unseen), SearchConfig(beam_size=1, max_length=2, guidance=1.0)) == [6]


def without_exemplar(batch: Batch) -> Batch:
    return replace(
        batch, exemplar=torch.full((batch.size, 1), NONE), exemplar_lengths=torch.ones(batch.size, dtype=torch.int64)
    )


@pytest.mark.parametrize("variant", READING)
def test_score_is_that_of_two_separate_readings(variant: str) -> None:
    """Each text of a guided search, read again word by word with its exemplar and with `<none>`."""
    switches = VARIANTS[variant]
    model = build_small_model(**switches)
    with torch.no_grad():
        model.embedding.weight.mul_(3.0)  # away from the uniform distribution, under which every word is plausible
    batch = random_batch(4, copy_exemplar=switches["attend_exemplar"])
    config = SearchConfig(beam_size=3, max_length=5, guidance=1.5)
    step, start = guide(model.choose, EMPHASIS), GuidedState(model.encode(with_and_without(batch)), 4, 4)
    found = beam_search(step, start, 4, config, NEVER_WRITTEN, CPU, n_best=3)
    plain = beam_search(model.choose, model.encode(batch), 4, config, NEVER_WRITTEN, CPU, n_best=3)
    assert found != plain
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            seen, unseen, total = model.encode(batch), model.encode(without_exemplar(batch)), 0.0
            for previous, word in pairwise([BOS, *hypothesis.ids, EOS]):
                words = torch.full((4,), previous)
                (first, seen), (second, unseen) = model.step(seen, words), model.step(unseen, words)
                rows = [part.detach()[row].numpy() for part in (first, second)]
                for part in rows:
                    part[list(NEVER_WRITTEN)] = -math.inf
                weights = EMPHASIS.of(torch.arange(len(rows[0]))).tolist()
                total += combine_plainly(*rows, weights)[word]
            penalty = length_penalty(len(hypothesis.ids) + 1, config.length_penalty)
            assert hypothesis.score == pytest.approx(total / penalty, rel=1e-4)


@pytest.mark.parametrize("variant", READING)
@pytest.mark.parametrize(("quick", "rounded"), [(False, False), (True, False), (True, True)])
def test_likeliest_words_have_what_the_whole_distribution_gives_them(
    variant: str, quick: bool, rounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that are left out are less likely."""
    monkeypatch.setattr(rounding, "halves", lambda: False)
    switches = VARIANTS[variant]
    model = build_small_model(**switches).eval()
    model = model.float() if quick else model
    with torch.no_grad():
        model.embedding.weight.mul_(3.0)
    batch, words = random_batch(4, copy_exemplar=switches["attend_exemplar"]), torch.full((4,), BOS)
    start = GuidedState(model.encode(with_and_without(batch)), 4, 4)
    never = torch.tensor(NEVER_WRITTEN)
    with torch.no_grad():
        found, _ = guide(quick_step(model, rounded) if quick else model.choose, EMPHASIS)(start, words)
        whole, _ = guide_distributions(model.step, EMPHASIS, NEVER_WRITTEN)(start, words)
        best, offered = found.best(6, never.expand(4, -1))
        tolerance = 5e-3 if rounded else 1e-5
        real = best > -math.inf
        torch.testing.assert_close(best[real], whole.of_words(offered)[real], rtol=0, atol=tolerance)
        torch.testing.assert_close(found.of(EOS), whole.of(EOS), rtol=0, atol=tolerance)
        likeliest = whole.log_probs.topk(6, dim=1).values
        torch.testing.assert_close(best.topk(6, dim=1).values, likeliest, rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_guidance_the_search_is_the_model_alone(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("guide", "GuidedState", "with_and_without"):
        monkeypatch.delattr(generate, name)
    switches = VARIANTS[variant]
    model, config = build_small_model(**switches), SearchConfig(beam_size=3, max_length=6)
    batch = random_batch(5, copy_exemplar=switches["attend_exemplar"])
    state = model.encode(batch)
    expected = beam_search(model.choose, state, 5, config, NEVER_WRITTEN, CPU)
    found, coefficients = search_batch(model, Task(batch), config)
    assert [[one.score for one in row] for row in found] == [[one.score for one in row] for row in expected]
    assert (coefficients is None) == (state.coefficients is None)
    assert coefficients is None or torch.equal(coefficients, state.coefficients)


def test_guided_search_keeps_the_coefficients_of_the_exemplars() -> None:
    model, batch = build_small_model(), random_batch(5)
    found = search_batch(model, Task(batch), GUIDED, form=EMPHASIS.form)
    torch.testing.assert_close(found.coefficients, model.exemplar_coefficients(batch).detach())


@pytest.fixture(scope="module")
def lopsided(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Five of six texts begin with `up`, the others with `down`. The exemplar begins alike in four of five cases, and
    every fourth instance has none. So `up` is the better guess, whatever the exemplar."""
    folder, random = tmp_path_factory.mktemp("lopsided"), np.random.default_rng(0)
    ups = random.random(800) < 5 / 6
    names = [f"n{random.integers(6)}" for _ in ups]
    write_splits(
        folder,
        [{"source": name, "target": f"{'up' if up else 'down'} {name}"} for up, name in zip(ups, names, strict=True)],
    )
    rows = []
    for i in range(800):
        if i % 4:
            shown = ups[i] ^ (random.random() < 0.2)
            j = random.choice(np.flatnonzero((ups == shown) & (np.arange(800) != i)))
            rows += [{"split": split, "uid": f"{split}-{i}", "exemplar": f"train-{j}"} for split in SPLITS]
    (folder / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    config = toy_config(folder, epochs=8, batch_size=16, learning_rate=0.01, annealing_epochs=99, patience=99)
    config = config.replace("model", hidden=32, embedding=32, exemplar_hidden=16)
    return config.replace("exemplars", policy="given", given=str(folder / "given.jsonl"))


@pytest.mark.parametrize("variant", ["adadec", "attexp"])
def test_guidance_makes_the_exemplar_win_where_it_is_outweighed(lopsided: Config, tmp_path: Path, variant: str) -> None:
    run = train(lopsided.replace("model", **VARIANTS[variant]), tmp_path / "run")
    # The best weights are early ones: the texts are right before the model has learnt what an exemplar is worth.
    model, corpus = run.load_model(LAST), open_corpus(run)
    exemplars = retrieve(corpus, run.config.exemplars)
    followed = []
    for guidance in (0.0, 3.0):
        search = replace(run.config.search, guidance=guidance)
        outputs = [one for one in decode_split(model, corpus, exemplars, "test", search) if one.exemplar is not None]
        followed.append(np.mean([one.text.split()[0] == one.exemplar.split()[0] for one in outputs]))
        assert np.mean([one.text.split()[1:] == one.source.split() for one in outputs]) > 0.9  # what to say stays
    assert followed[0] < 0.8
    assert followed[1] > 0.9
