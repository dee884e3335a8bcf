"""The loader: batches of an epoch, and rows that stand for no instance."""

import numpy as np
import pytest

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
