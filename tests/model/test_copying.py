"""Copying: distributions sum to one, and unknown words of the source can be written."""

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, UNK
from exadec.loading.batch import Instance, collate
from support.small_models import VOCABULARY, build_small_model, random_batch


@pytest.mark.parametrize("copy", ["attention", "separate", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_distributions_sum_to_one_without_mass_on_padding(variant: str, copy: str) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, copy=copy)
    batch = random_batch(5, copy_exemplar=switches["attend_exemplar"])
    log_probs, _ = model.step(model.encode(batch), torch.full((5,), BOS))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    absent = batch.unknown == 0  # (B, X - V): slots that this instance has no word for
    assert absent.any()
    assert (log_probs[:, VOCABULARY:].exp()[absent] < 1e-25).all()
    if copy != "none":
        weights = model.explain(model.encode(batch), batch.target_input).weights
        padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
        assert padding.any()
        assert (weights[:, :, : batch.source.shape[1]][padding[:, None].expand(-1, weights.shape[1], -1)] == 0).all()


def test_copying_reaches_the_unknown_words_of_the_source() -> None:
    """An unknown word that stands in the source has a probability; one that does not is the unknown symbol."""
    model = build_small_model()
    present = Instance(np.array([7, VOCABULARY + 5]), np.array([6]), np.array([VOCABULARY + 5]))
    absent = Instance(np.array([7, VOCABULARY + 5]), np.array([6]), np.array([VOCABULARY + 6]))
    batch = collate([present, absent], VOCABULARY, copy_exemplar=False)
    assert batch.target_output[0, 0] == VOCABULARY
    assert batch.target_output[1, 0] == UNK
    mixture = model.explain(model.encode(batch), batch.target_input)
    expected = mixture.log_copy[0, 0].exp() * mixture.weights[0, 0, 1]
    torch.testing.assert_close(model(batch)[0, 0].exp(), expected)
