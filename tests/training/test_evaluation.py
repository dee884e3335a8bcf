"""Outputs of a split, and the score of their styles."""

from pathlib import Path

import pytest

from exadec.config import CorpusConfig
from exadec.corpus.readers import known_styles
from exadec.exemplars.retrieve import retrieve
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import Output, decode_split, score_style
from exadec.training.trainer import train
from support.toys import variant_config


@pytest.fixture(scope="module")
def run(toy: Path) -> Run:
    return train(variant_config(toy, "adadec", epochs=1), toy / "run")


def test_outputs_keep_the_order_of_the_split(run: Run) -> None:
    corpus = open_corpus(run)
    outputs = decode_split(run.load_model(), corpus, retrieve(corpus), "test", run.config.search, limit=7)
    assert [output.source for output in outputs] == [record.source for record in list(corpus.records("test"))[:7]]


def test_style_score_counts_matching_styles() -> None:
    texts = ["On Friday, Riley won Senegal general election with 67 percent", "something else"]
    outputs = [Output("u", "s", texts[0], 1.0, ("r",), text, 0.0) for text in texts]
    styles = known_styles(CorpusConfig(format="wire"))
    assert styles
    assert score_style(outputs, styles).value == 50.0
