"""Outputs of a split, and the score of their styles."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from exadec.config import VARIANTS, CorpusConfig
from exadec.corpus.readers import known_styles
from exadec.corpus.vocabulary import BOS, EOS, UNK
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.model.seq2seq import Seq2seq
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import Output, decode_split, mean_surprise, score_style
from exadec.training.trainer import train
from support.toys import variant_config


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
    for limit in (None, 7):
        pieces = [one for index in range(limit or len(loader)) for one in read_word_by_word(model, loader, index)]
        assert len({round(piece, 4) for piece in pieces}) > 10
        for batch_size in (1, 4, 64):
            found = mean_surprise(model, corpus, exemplars, "test", limit, batch_size)
            assert found == pytest.approx(sum(pieces) / len(pieces), rel=1e-5)


def test_surprise_is_measured_without_dropout_and_leaves_training_as_it_was(runs: dict[str, Run]) -> None:
    model, corpus = runs["adadec"].load_model(), open_corpus(runs["adadec"])
    expected = mean_surprise(model, corpus, retrieve(corpus), "valid")
    assert not model.training
    random = torch.get_rng_state()
    assert mean_surprise(model.train(), corpus, retrieve(corpus), "valid") == expected
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_outputs_keep_the_order_of_the_split(runs: dict[str, Run]) -> None:
    run = runs["adadec"]
    corpus = open_corpus(run)
    outputs = decode_split(run.load_model(), corpus, retrieve(corpus), "test", run.config.search, limit=7)
    assert [output.source for output in outputs] == [record.source for record in list(corpus.records("test"))[:7]]


def test_style_score_counts_matching_styles() -> None:
    texts = ["On Friday, Riley won Senegal general election with 67 percent", "something else"]
    outputs = [Output("u", "s", texts[0], 1.0, ("r",), text, 0.0) for text in texts]
    styles = known_styles(CorpusConfig(format="wire"))
    assert styles
    assert score_style(outputs, styles).value == 50.0
