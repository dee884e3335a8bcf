"""Search over a batch: copied words get their ids back."""

import torch

from exadec.config import SearchConfig
from exadec.search.generate import search_batch
from support.small_models import build_small_model, random_batch


def test_copied_unknown_words_get_their_corpus_ids_back() -> None:
    model = build_small_model()
    with torch.no_grad():
        model.decoder.copy.gate.bias.fill_(-50.0)  # always copy
    batch = random_batch(6, seed=2)
    known = len(model.embedding.weight)
    found = search_batch(model, batch, SearchConfig(beam_size=2, max_length=4)).hypotheses
    for row, (best,) in enumerate(found):
        source = {int(i) if i < known else int(batch.unknown[row][i - known]) for i in batch.source[row].tolist()}
        assert set(best.ids) <= source
