"""Search over a batch: copied words get their ids back."""

import numpy as np
import torch

from exadec.config import SearchConfig
from exadec.loading.batch import Instance, collate
from exadec.search.generate import search_batch
from support.small_models import VOCABULARY, build_small_model, random_instances


def test_copied_unknown_words_get_their_corpus_ids_back() -> None:
    model = build_small_model()
    with torch.no_grad():
        model.decoder.copy.gate.bias.fill_(-50.0)  # always copy

    def far(ids: np.ndarray) -> np.ndarray:
        """Unknown words with ids that no batch gives them."""
        return np.where(ids >= VOCABULARY, ids + 100, ids)

    instances = [
        Instance(far(one.source), (far(one.exemplars[0]),), far(one.target)) for one in random_instances(6, seed=4)
    ]
    batch = collate(instances, VOCABULARY, copy_exemplar=False)
    found = search_batch(model, batch, SearchConfig(beam_size=2, max_length=4)).hypotheses
    assert any(number >= VOCABULARY for (best,) in found for number in best.ids)
    for instance, (best,) in zip(instances, found, strict=True):
        assert best.ids
        assert set(best.ids) <= set(instance.source.tolist())
