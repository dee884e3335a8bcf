"""Batches: which unknown words can be copied."""

import numpy as np

from exadec.corpus.vocabulary import UNK
from exadec.loading.batch import Instance, collate
from support.small_models import VOCABULARY, random_instances


def test_exemplar_is_copied_from_only_when_attended() -> None:
    instance = Instance(np.array([7]), (np.array([VOCABULARY + 9]),), np.array([VOCABULARY + 9]))
    assert collate([instance], VOCABULARY, copy_exemplar=True).target_output[0, 0] == VOCABULARY
    assert collate([instance], VOCABULARY, copy_exemplar=False).target_output[0, 0] == UNK


def test_unknown_words_are_numbered_over_all_exemplars() -> None:
    """An unknown word has one number in the source and in all exemplars of an instance."""
    for instances in (random_instances(9, exemplars=3), random_instances(9, exemplars=3, seed=1)):
        batch = collate(instances, VOCABULARY, copy_exemplar=True)
        for row, instance in enumerate(instances):
            words = np.concatenate([instance.source, *instance.exemplars])
            local = [*batch.source[row, : len(instance.source)].tolist()]
            for i, exemplar in enumerate(instance.exemplars):
                local += batch.exemplar[3 * row + i, : len(exemplar)].tolist()
                assert batch.exemplar_lengths[3 * row + i] == len(exemplar)
            unknown = batch.unknown[row].tolist()
            assert [w if w < VOCABULARY else unknown[w - VOCABULARY] for w in local] == words.tolist()
            assert len({w for w in local if w >= VOCABULARY}) == len({w for w in words if w >= VOCABULARY})


def test_some_instances_of_a_batch_keep_their_exemplars() -> None:
    instances = random_instances(5, exemplars=3)
    batch, some = collate(instances, VOCABULARY, True), [3, 0]
    taken, alone = batch.take(some), collate([instances[number] for number in some], VOCABULARY, True)
    assert taken.size == 2
    for name, part in vars(alone).items():
        found = getattr(taken, name)
        assert found.shape[0] == part.shape[0]
        if part.dim() == 2:  # as wide as it was, and padding beyond
            assert not found[:, part.shape[1] :].any()
            found = found[:, : part.shape[1]]
        assert found.equal(part), name
