"""The loader: batches of an epoch, and rows that stand for no instance."""

from pathlib import Path

import numpy as np
import pytest

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import prepare
from exadec.corpus.vocabulary import PAD
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from support.toys import toy_config, toy_records, write_splits


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    folder = tmp_path_factory.mktemp("toy")
    write_splits(folder, toy_records(600, seed=0))
    corpus = prepare(toy_config(folder))
    return Loader(corpus, retrieve(corpus), "train", copy_exemplar=False)


def test_every_instance_is_seen_once_an_epoch(loader: Loader) -> None:
    epochs = [loader.training_batches(32, seed=1, epoch=epoch) for epoch in (0, 1)]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(600))
    assert not all(np.array_equal(a, b) for a, b in zip(*epochs, strict=True))


def test_row_that_stands_for_no_instance_has_no_words(loader: Loader) -> None:
    batch, alone = loader.batch(np.array([3, -1])), loader.batch(np.array([3]))
    assert (batch.target_output[1] == PAD).all()
    assert (batch.target_output[0] != PAD).sum() == (alone.target_output != PAD).sum()


def test_drawn_exemplars_are_among_the_nearest_and_change_with_the_batch(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(200, seed=0))
    corpus = prepare(toy_config(tmp_path))
    exemplars = retrieve(corpus, ExemplarConfig(neighbours=4))
    loader = Loader(corpus, exemplars, "train", False, exemplars_each=4, exemplars_drawn=2)
    batches = loader.training_batches(8, seed=1, epoch=0)
    draws = [loader.draw(batch) for batch in batches]
    assert len({tuple(draw) for draw in draws}) > 4
    assert {int(column) for draw in draws for column in draw} == {0, 1, 2, 3}
    for indices, columns in zip(batches, draws, strict=True):
        assert len(set(columns.tolist())) == 2
        np.testing.assert_array_equal(loader.draw(indices), columns)  # a pure function: a run can be resumed
        batch = loader.batch(indices)
        shown = exemplars.nearest("train", 4)[indices][:, columns].ravel()
        for row, number in zip(batch.exemplar, shown, strict=True):
            words = corpus.targets("train")[number]
            known = words < len(corpus.vocabulary)  # unknown words have other numbers in each instance
            np.testing.assert_array_equal(row[: len(words)][known], words[known])
