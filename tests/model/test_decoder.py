"""The decoder against itself: step by step and unrolled, alone and in a batch."""

import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import PAD, UNK
from exadec.loading.batch import collate
from support.small_models import VOCABULARY, build_small_model, random_batch, random_instances

SHAPES = [
    {"copy": copy, "input_feeding": feeding, "tied": tied, "cell": cell}
    for copy, feeding, tied, cell in [
        ("attention", False, True, "lstm"),
        ("attention", True, True, "gru"),
        ("separate", True, False, "lstm"),
        ("separate", False, True, "elman"),
        ("none", False, False, "gru"),
        ("none", True, True, "lstm"),
    ]
]


def name_of(value: object) -> str:
    return "-".join(f"{v}" for v in value.values()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("shape", SHAPES, ids=name_of)
@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_equal_unrolled(variant: str, shape: dict[str, object]) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, **shape)
    batch = random_batch(20, copy_exemplar=switches["attend_exemplar"])
    unrolled = model(batch)  # (B, T)
    assert (batch.target_output >= VOCABULARY).any()
    state = model.encode(batch)
    for t in range(batch.target_input.shape[1]):
        log_probs, state = model.step(state, batch.target_input[:, t])  # (B, X)
        chosen = batch.target_output[:, t]
        if shape["copy"] == "none":
            chosen = torch.where(chosen < VOCABULARY, chosen, UNK)  # it cannot be written, so it counts as unknown
        words = chosen != PAD
        torch.testing.assert_close(log_probs.gather(1, chosen[:, None])[words, 0], unrolled[words, t])


@pytest.mark.parametrize("shape", SHAPES[:3], ids=name_of)
@pytest.mark.parametrize("variant", VARIANTS)
def test_instance_alone_equals_itself_in_a_batch(variant: str, shape: dict[str, object]) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, **shape)
    instances = random_instances(6)
    together = model(collate(instances, VOCABULARY, switches["attend_exemplar"]))
    for row, instance in zip(together, instances, strict=True):
        alone = model(collate([instance], VOCABULARY, switches["attend_exemplar"]))[0]
        torch.testing.assert_close(row[: len(alone)], alone)
