"""The decoder against itself: step by step and unrolled, alone and in a batch."""

import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import PAD, UNK
from exadec.loading.batch import collate
from exadec.model.attention import attend
from support.small_models import ALL_OPTIONS, OPTIONS, VOCABULARY, batch_for, build_small_model, random_instances

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


@pytest.mark.parametrize("option", [{}, *OPTIONS, ALL_OPTIONS], ids=name_of)
@pytest.mark.parametrize("shape", SHAPES, ids=name_of)
@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_equal_unrolled(variant: str, shape: dict[str, object], option: dict[str, object]) -> None:
    if shape["copy"] == "none":
        option = {**option, "copy_case": False}
    model = build_small_model(**VARIANTS[variant], **shape, **option)
    batch = batch_for(model.config, 20)
    unrolled = model(batch)  # (B, T)
    assert (batch.target_output >= VOCABULARY).any()
    state = model.encode(batch)
    explained = model.explain(state, batch.target_input).of_all(state.memory)  # (B, T, X)
    for t in range(batch.target_input.shape[1]):
        log_probs, state = model.step(state, batch.target_input[:, t])  # (B, X)
        torch.testing.assert_close(explained[:, t], log_probs)
        chosen = batch.target_output[:, t]
        if shape["copy"] == "none":
            chosen = torch.where(chosen < VOCABULARY, chosen, UNK)  # it cannot be written, so it counts as unknown
        words = chosen != PAD
        torch.testing.assert_close(log_probs.gather(1, chosen[:, None])[words, 0], unrolled[words, t])


@pytest.mark.parametrize("variant", VARIANTS)
def test_several_hypotheses_equal_one_at_a_time(variant: str) -> None:
    """Hypotheses of an instance share its memory, its λ and its exemplars."""
    model = build_small_model(**VARIANTS[variant], **ALL_OPTIONS)
    batch = batch_for(model.config, 4)
    state, words = model.encode(batch), torch.randint(5, VOCABULARY, (4, 3))
    together, _ = model.step(state.select(torch.arange(4).repeat_interleave(3)), words.flatten())
    for k in range(3):
        torch.testing.assert_close(together.unflatten(0, (4, 3))[:, k], model.step(state, words[:, k])[0])


def test_coefficients_reach_the_cell_the_attentional_layer_and_the_copy_gate() -> None:
    """With residual weights all three are ordinary layers of inputs that λ extends."""
    model = build_small_model(weights="residual", rank=4)
    batch = batch_for(model.config, 3)
    state, decoder = model.encode(batch), model.decoder
    lam = state.coefficients
    assert lam.shape == (3, 1, 4)
    extended = decoder.extension(model.embedding(batch.target_input[:, :1]), lam)  # (B, 1, inputs + 2R)
    h, _ = decoder.cell.step(decoder.cell.project(extended, None)[:, 0], state.recurrent, None)
    mixture, after = decoder.step(state, batch.target_input[:, 0])
    torch.testing.assert_close(after.recurrent[0], h)
    weights, _ = attend(h[:, None], state.memory.keys, state.memory.mask)
    context = weights @ state.memory.values
    joined = decoder.attention.extension(torch.cat([context, h[:, None]], dim=2), lam)
    torch.testing.assert_close(after.attentional, torch.tanh(decoder.attention.combine(joined))[:, 0])
    gate = decoder.copy.gate(torch.cat([context, h[:, None], extended], dim=2))[:, :, 0]
    torch.testing.assert_close(mixture.log_generate, torch.nn.functional.logsigmoid(gate))


@pytest.mark.parametrize("shape", [*SHAPES[:3], ALL_OPTIONS], ids=name_of)
@pytest.mark.parametrize("variant", VARIANTS)
def test_instance_alone_equals_itself_in_a_batch(variant: str, shape: dict[str, object]) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, **shape)
    instances = random_instances(6, exemplars=model.config.exemplars_read)
    together = model(collate(instances, VOCABULARY, switches["attend_exemplar"]))
    for row, instance in zip(together, instances, strict=True):
        alone = model(collate([instance], VOCABULARY, switches["attend_exemplar"]))[0]
        torch.testing.assert_close(row[: len(alone)], alone)
