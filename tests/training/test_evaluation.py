"""Outputs of a split, and the score of their styles."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exadec.config import VARIANTS, CorpusConfig, ExemplarConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.readers import known_styles
from exadec.corpus.vocabulary import BOS, EOS, UNK
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.model.seq2seq import Seq2seq
from exadec.search.following import Manner
from exadec.textmetrics.metrics import score_all
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import (
    Output,
    choose_sample,
    decode_split,
    gather_references,
    mean_surprise,
    score_outputs,
    score_style,
)
from exadec.training.trainer import train
from support.toys import toy_config, variant_config, write_splits


@pytest.fixture(scope="module")
def runs(toy: Path) -> dict[str, Run]:
    """Some names are outside the vocabulary: they can only be copied."""
    configs = {variant: variant_config(toy, variant, epochs=1) for variant in VARIANTS}
    return {
        variant: train(config.replace("corpus", vocabulary_size=25), toy / variant)
        for variant, config in configs.items()
    }


@torch.no_grad()
def read_word_by_word(model: Seq2seq, loader: Loader, index: int) -> list[float]:
    """-log p of each piece of one target and of its end, by the steps of the search."""
    instance, size = loader.instance(index), loader.vocabulary_size
    batch = loader.batch(torch.tensor([index]).numpy())
    local = {word: size + place for place, word in enumerate(batch.unknown[0].tolist())}
    target = [word if word < size else local.get(word, UNK) for word in instance.target.tolist()]
    state, found = model.encode(batch), []
    for previous, word in pairwise([BOS, *target, EOS]):
        log_probs, state = model.step(state, torch.tensor([previous]))
        found.append(-log_probs[0, word].item())
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_surprise_is_the_mean_over_pieces_read_word_by_word(runs: dict[str, Run], variant: str) -> None:
    model, corpus = runs[variant].load_model(), open_corpus(runs[variant])
    exemplars = retrieve(corpus)
    loader = Loader(corpus, exemplars, "test", model.config.attend_exemplar)
    assert any((loader.instance(index).target >= loader.vocabulary_size).any() for index in range(7))
    for chosen in (None, np.array([2, 3, 11, 59])):
        indices = range(len(loader)) if chosen is None else chosen.tolist()
        pieces = [one for index in indices for one in read_word_by_word(model, loader, index)]
        assert len({round(piece, 4) for piece in pieces}) > 10
        for batch_size in (1, 4, 64):
            found = mean_surprise(model, corpus, exemplars, "test", chosen, batch_size)
            assert found == pytest.approx(sum(pieces) / len(pieces), rel=1e-5)


@pytest.mark.parametrize("variant", ["attexp", "adadec", "adadec+attexp"])
def test_surprise_without_exemplars_is_that_of_a_split_that_has_none(runs: dict[str, Run], variant: str) -> None:
    """Unknown words that only an exemplar has cannot be copied then."""
    model, corpus = runs[variant].load_model(), open_corpus(runs[variant])
    shown, none = retrieve(corpus), retrieve(corpus, ExemplarConfig(policy="none"))
    found = mean_surprise(model, corpus, shown, "test", hidden=True)
    assert found == pytest.approx(mean_surprise(model, corpus, none, "test"), rel=1e-6)
    assert found != pytest.approx(mean_surprise(model, corpus, shown, "test"), rel=1e-4)


def test_surprise_is_measured_without_dropout_and_leaves_training_as_it_was(runs: dict[str, Run]) -> None:
    model, corpus = runs["adadec"].load_model(), open_corpus(runs["adadec"])
    expected = mean_surprise(model, corpus, retrieve(corpus), "valid")
    assert not model.training
    random = torch.get_rng_state()
    assert mean_surprise(model.train(), corpus, retrieve(corpus), "valid") == expected
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_surprise_keeps_nothing_of_a_batch_for_gradients(runs: dict[str, Run]) -> None:
    """A graph of each batch, kept until the end, would fill any memory."""
    model, corpus = runs["adadec"].load_model(), open_corpus(runs["adadec"])
    outputs: list[torch.Tensor] = []
    model.register_forward_hook(lambda model, batch, output: outputs.append(output))
    mean_surprise(model, corpus, retrieve(corpus), "valid", batch_size=8)
    assert len(outputs) > 1
    assert not any(output.requires_grad for output in outputs)


def test_outputs_keep_the_order_of_the_split(runs: dict[str, Run]) -> None:
    run = runs["adadec"]
    corpus = open_corpus(run)
    split = run.load_model(), corpus, retrieve(corpus), "test", run.config.search
    outputs = decode_split(*split)
    assert [output.uid for output in outputs] == [record.uid for record in corpus.records("test")]
    chosen = np.array([59, 2, 11, 3])
    assert [replace(some, score=0.0) for some in decode_split(*split, chosen)] == [
        replace(outputs[index], score=0.0) for index in sorted(chosen)
    ]


def test_followed_outputs_differ_from_their_exemplars_no_more_than_free_ones(runs: dict[str, Run]) -> None:
    run = runs["adadec"]
    corpus = open_corpus(run)
    split = run.load_model(), corpus, retrieve(corpus), "test"
    search, chosen = replace(run.config.search, max_length=10), np.arange(6)
    free = decode_split(*split, search, chosen)
    followed = decode_split(*split, replace(search, manner="followed"), chosen)
    assert [output.uid for output in followed] == [output.uid for output in free]
    assert [output.exemplar for output in followed] == [output.exemplar for output in free]
    for mine, theirs in zip(followed, free, strict=True):
        manner = Manner.of([mine.exemplar or ""])
        assert manner.differences(mine.text) <= manner.differences(theirs.text)


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_sample_is_sorted_and_holds_smaller_ones(size: int, count: int) -> None:
    found = choose_sample(size, count)
    if count >= size:
        assert found is None
        return
    assert found is not None
    assert len(set(found.tolist())) == count
    assert found.tolist() == sorted(found.tolist())
    assert 0 <= found[0] <= found[-1] < size
    assert count == 1 or set(choose_sample(size, count - 1)) < set(found)


def test_a_sample_comes_from_the_whole_split() -> None:
    found = choose_sample(872, 100)
    assert found is not None
    assert np.bincount(found * 4 // 872).min() > 10  # some from each quarter
    assert found.tolist() == choose_sample(872, 100).tolist()


def test_outputs_of_one_source_share_their_references(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"source": "oak thai", "target": "oak serves thai"},
        {"source": "elm", "target": "elm"},
        {"source": "oak thai", "target": "thai food at oak", "references": ["thai at oak", "oak serves thai"]},
        {"source": "oak thai", "target": "oak is thai"},
    ]
    write_splits(tmp_path, records)
    corpus = prepare(toy_config(tmp_path))
    outputs = [
        Output("0", "oak thai", None, 0.0, ("oak serves thai",), "oak", 0.0),
        Output("1", "elm", None, 0.0, ("elm",), "elm", 0.0),
    ]
    shared = gather_references(outputs, corpus, "valid")
    assert shared[0] == replace(outputs[0], references=("oak serves thai", "thai at oak", "oak is thai"))
    assert shared[1] == outputs[1]


@pytest.mark.parametrize("variant", ["adadec", "attexp"])
def test_mean_surprise_is_the_mean_over_pieces_one_instance_at_a_time(toy: Path, variant: str, tmp_path: Path) -> None:
    run = train(variant_config(toy, variant, epochs=1), tmp_path / "run")
    corpus, model = open_corpus(run), run.load_model()
    exemplars = retrieve(corpus)
    loader = Loader(corpus, exemplars, "test", model.config.attend_exemplar)
    log_probs, chosen = [], np.arange(20, 29)
    with torch.no_grad():
        for index in chosen:
            log_probs += model(loader.batch(np.array([index])))[0].tolist()  # a batch of one has no padding
    assert len(log_probs) == sum(len(corpus.targets("test")[index]) + 1 for index in chosen)
    model.train()
    found = mean_surprise(model, corpus, exemplars, "test", chosen)
    assert model.training
    assert found == pytest.approx(-np.mean(log_probs), rel=1e-4)
    assert found != pytest.approx(mean_surprise(model, corpus, exemplars, "test"), rel=1e-4)


def test_outputs_are_scored_with_what_they_hold() -> None:
    table = (("name", "oak"), ("food", "thai"))
    outputs = [Output("u", "s", None, 0.0, ("oak serves thai",), text, 0.0, table) for text in ("oak thai", "elm")]
    expected = score_all(["parent", "rougeL"], ["oak thai", "elm"], [["oak serves thai"]] * 2, [table] * 2)
    assert [score.value for score in score_outputs(["parent", "rougeL"], outputs)] == [s.value for s in expected]
    with pytest.raises(ValueError, match="needs the tables"):
        score_outputs(["parent"], [outputs[0], replace(outputs[1], table=None)])


def test_style_score_counts_matching_styles() -> None:
    texts = ["On Friday, Riley won Senegal general election with 67 percent", "something else"]
    outputs = [Output("u", "s", texts[0], 1.0, ("r",), text, 0.0) for text in texts]
    styles = known_styles(CorpusConfig(format="wire"))
    assert styles
    assert score_style(outputs, styles).value == 50.0
