"""Outputs of a split, and the score of their styles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.config import CorpusConfig
from exadec.corpus.readers import known_styles
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.textmetrics.metrics import score_all
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import Output, decode_split, mean_surprise, score_outputs, score_style
from exadec.training.trainer import train
from support.toys import variant_config


@pytest.fixture(scope="module")
def run(toy: Path) -> Run:
    return train(variant_config(toy, "adadec", epochs=1), toy / "run")


def test_outputs_keep_the_order_of_the_split(run: Run) -> None:
    corpus = open_corpus(run)
    outputs = decode_split(run.load_model(), corpus, retrieve(corpus), "test", run.config.search, limit=7)
    assert [output.source for output in outputs] == [record.source for record in list(corpus.records("test"))[:7]]


@pytest.mark.parametrize("variant", ["adadec", "attexp"])
def test_mean_surprise_is_the_mean_over_pieces_one_instance_at_a_time(toy: Path, variant: str, tmp_path: Path) -> None:
    run = train(variant_config(toy, variant, epochs=1), tmp_path / "run")
    corpus, model = open_corpus(run), run.load_model()
    exemplars = retrieve(corpus)
    loader = Loader(corpus, exemplars, "test", model.config.attend_exemplar)
    log_probs = []
    with torch.no_grad():
        for index in range(9):
            log_probs += model(loader.batch(np.array([index])))[0].tolist()  # a batch of one has no padding
    assert len(log_probs) == sum(len(corpus.targets("test")[index]) + 1 for index in range(9))
    model.train()
    found = mean_surprise(model, corpus, exemplars, "test", 9)
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
