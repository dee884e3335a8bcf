"""The decoder against itself, and the model against arithmetic."""

import itertools

import numpy as np
import pytest
import torch
from conftest import (
    VOCABULARY,
    build_small_model,
    random_batch,
    random_instances,
    small_model_config,
)

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, PAD, UNK
from exadec.loading.batch import Instance, collate
from exadec.model.attention import attend
from exadec.model.backends.reference import reverse_padded
from exadec.model.embedding import Embedding
from exadec.model.encoder import BiLstmEncoder, sequence_dropout
from exadec.model.seq2seq import Seq2seq, count_parameters, explain_cell

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


@pytest.mark.parametrize("copy", ["attention", "separate", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_distributions_sum_to_one_without_mass_on_padding(variant: str, copy: str) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, copy=copy)
    batch = random_batch(5, copy_exemplar=switches["attend_exemplar"])
    log_probs, _ = model.step(model.encode(batch), torch.full((5,), BOS))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    absent = batch.unknown == 0  # (B, X - V): slots that this instance has no word for
    assert (log_probs[:, VOCABULARY:].exp()[absent] < 1e-25).all()
    if copy != "none":
        weights = model.explain(model.encode(batch), batch.target_input).weights
        padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
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


def test_exemplar_is_copied_from_only_when_attended() -> None:
    instance = Instance(np.array([7]), np.array([VOCABULARY + 9]), np.array([VOCABULARY + 9]))
    assert collate([instance], VOCABULARY, copy_exemplar=True).target_output[0, 0] == VOCABULARY
    assert collate([instance], VOCABULARY, copy_exemplar=False).target_output[0, 0] == UNK


@pytest.mark.parametrize("variant", VARIANTS)
def test_exemplar_matters_exactly_where_the_paper_says(variant: str) -> None:
    model = build_small_model(**VARIANTS[variant])
    one, other = (
        collate([Instance(np.array([7, 8]), np.array(z), np.array([9, 10]))], VOCABULARY, copy_exemplar=True)
        for z in ([11, 12], [13])
    )
    changes = not torch.allclose(model(one), model(other))
    assert changes == (variant != "seq2seq")


def test_reverse_padded() -> None:
    x = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])[:, :, None]
    expected = torch.tensor([[3, 2, 1, 0, 0], [8, 7, 6, 5, 4]])[:, :, None]
    assert torch.equal(reverse_padded(x, torch.tensor([3, 5])), expected)


def test_one_layer_encoder_equals_packed_bidirectional_lstm() -> None:
    torch.manual_seed(0)
    encoder = BiLstmEncoder(5, 4, 1, 0.0)
    oracle = torch.nn.LSTM(5, 4, bidirectional=True, batch_first=True)
    for ours, suffix in ((encoder.forwards, ""), (encoder.backwards, "_reverse")):
        for name, parameter in ours.layers[0].named_parameters():
            getattr(oracle, name + suffix).data.copy_(parameter.data)
    x, lengths = torch.randn(3, 6, 5), torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, (last, _) = oracle(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    positions, state = encoder(x, lengths)
    inside = (torch.arange(6) < lengths[:, None])[:, :, None]
    torch.testing.assert_close(positions * inside, expected)
    torch.testing.assert_close(state, torch.cat([last[0], last[1]], dim=1))


def test_residual_connections_join_every_layer_of_equal_size() -> None:
    torch.manual_seed(0)
    encoder = BiLstmEncoder(4, 4, 3, 0.0)
    x = torch.randn(2, 5, 4)
    expected = x
    for layer in encoder.forwards.layers:
        own = layer(expected)[0]
        expected = expected + own
    positions, last = encoder(x, torch.full((2,), 5))
    torch.testing.assert_close(positions[..., :4], expected)
    torch.testing.assert_close(last[:, :4], own[:, -1])  # without what was added: the decoder starts from this


def test_sequence_dropout_has_one_mask_a_sequence() -> None:
    torch.manual_seed(0)
    mask = sequence_dropout(torch.ones(3, 7, 100), 0.5)
    assert mask.shape == (3, 1, 100)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(mask[0], mask[1])


def test_encoder_drops_out_in_training_only() -> None:
    torch.manual_seed(0)
    encoder, x, lengths = BiLstmEncoder(4, 4, 2, 0.5), torch.randn(2, 5, 4), torch.tensor([5, 3])
    assert not torch.equal(encoder.train()(x, lengths)[0], encoder(x, lengths)[0])
    assert torch.equal(encoder.eval()(x, lengths)[0], encoder(x, lengths)[0])


def test_attention_is_luongs_general_score() -> None:
    torch.manual_seed(0)
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    expected = torch.zeros(2, 3, 5)
    for b, t in itertools.product(range(2), range(3)):
        scores = torch.stack([query[b, t] @ keys[b, s] for s in range(5) if mask[b, s]])
        expected[b, t, : len(scores)] = scores.exp() / scores.exp().sum()
    torch.testing.assert_close(attend(query, keys, mask), expected)


def test_frozen_vectors_stay_and_missing_ones_learn() -> None:
    pretrained = torch.randn(6, 3)
    pretrained[4] = torch.nan
    embedding = Embedding(6, 3, pretrained, freeze=True)
    ids = torch.tensor([2, 4])
    embedding(ids).sum().backward()
    assert embedding.weight.grad[2].abs().sum() == 0
    assert embedding.weight.grad[4].abs().sum() > 0
    torch.testing.assert_close(embedding(ids)[0], pretrained[2])
    torch.testing.assert_close(embedding.table()[5], pretrained[5])


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_have_the_same_dropout(variant: str) -> None:
    """The released code trains its baselines without output and bridge dropout: a confound."""
    rates = {"embedding": 0.1, "encoder": 0.2, "output": 0.3, "bridge": 0.4}
    dropouts = {f"{name}_dropout": rate for name, rate in rates.items()}
    model = Seq2seq(small_model_config(**VARIANTS[variant], **dropouts), VOCABULARY)
    assert model.embedding_dropout.p == model.decoder.embedding_dropout.p == 0.1
    assert model.encoder.dropout == 0.2
    assert model.decoder.output_dropout.p == 0.3
    assert model.bridge_dropout.p == 0.4


def test_all_parameters_get_a_gradient() -> None:
    for variant, copy in itertools.product(VARIANTS, ["attention", "separate"]):
        switches = VARIANTS[variant]
        model = build_small_model(**switches, copy=copy, exemplar_layer=True)
        batch = random_batch(6, copy_exemplar=switches["attend_exemplar"])
        words = batch.target_output != PAD
        model(batch)[words].sum().backward()
        without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
        assert without == [], variant
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_parameter_table_adds_up_and_explains_itself() -> None:
    for variant in VARIANTS:
        counts = count_parameters(build_small_model(**VARIANTS[variant]))
        assert sum(count for part, count in counts.items() if part != "all") == counts["all"]
    config = small_model_config(cell="elman", adaptive=True)
    counts = count_parameters(Seq2seq(config, VOCABULARY))
    assert counts["decoder P and Q"] == 4 * config.hidden**2
    assert counts["decoder bias"] == config.hidden**2
    assert explain_cell(config).startswith("1 gate × 4d², bias d² a gate")
    plain = small_model_config(cell="elman", adaptive=False)
    counts = count_parameters(Seq2seq(plain, VOCABULARY))
    assert counts["decoder P and Q"] == 2 * plain.hidden**2
    assert counts["decoder bias"] == plain.hidden
    assert explain_cell(plain).startswith("1 gate × 2d², bias d a gate")


def test_weights_are_never_materialised(monkeypatch: pytest.MonkeyPatch) -> None:
    """P and Q are not built: neither to train, nor to search, nor to explain."""
    model = build_small_model().train()

    def refuse(*_: object) -> None:
        raise AssertionError("P was built")

    monkeypatch.setattr("exadec.model.adaptive.FactoredLinear.materialize", refuse)
    batch = random_batch(4)
    model(batch).sum().backward()
    model.explain(model.encode(batch), batch.target_input)
    model.step(model.encode(batch), torch.full((4,), BOS))


def test_first_state_is_one_tanh_layer_over_the_last_states() -> None:
    model = build_small_model()
    batch = random_batch(3)
    _, last = model.encoder(model.embedding(batch.source), batch.source_lengths)
    state = model.encode(batch)
    h, c = state.recurrent
    torch.testing.assert_close(h, torch.tanh(model.bridge_h(last)))
    torch.testing.assert_close(c, torch.tanh(model.bridge_c(last)))


def test_initial_embeddings_and_softmax_bias() -> None:
    torch.manual_seed(0)
    model = Seq2seq(small_model_config(embedding=12, hidden=12), 500)
    bound = (3 / 12) ** 0.5
    assert model.embedding.weight.abs().max() <= bound
    assert model.embedding.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert (model.decoder.softmax_bias == 0).all()
    assert model.decoder.softmax_bias.requires_grad
