"""Batches: which unknown words can be copied."""

import numpy as np

from exadec.corpus.vocabulary import UNK
from exadec.loading.batch import Instance, collate
from support.small_models import VOCABULARY


def test_exemplar_is_copied_from_only_when_attended() -> None:
    instance = Instance(np.array([7]), np.array([VOCABULARY + 9]), np.array([VOCABULARY + 9]))
    assert collate([instance], VOCABULARY, copy_exemplar=True).target_output[0, 0] == VOCABULARY
    assert collate([instance], VOCABULARY, copy_exemplar=False).target_output[0, 0] == UNK
