"""The decoder against itself, and the model against arithmetic."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import (
    VOCABULARY,
    build_small_model,
    interpret_kernels,
    random_batch,
    random_instances,
    small_model_config,
)
from torch.nn import functional

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, PAD, UNK
from exadec.loading.batch import Instance, collate
from exadec.model.attention import Memory, attend
from exadec.model.copying import mix_targets
from exadec.model.embedding import Embedding
from exadec.model.encoder import BiLstmEncoder, SequenceDropout, reverse_padded
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
    absent = torch.from_numpy(batch.unknown == 0)  # (B, X - V): slots that this instance has no word for
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


MIXED = """
import torch
from test_model import mixture_and_gradients
from exadec.model.copying import _MixTargets
def by_kernels(generated, gate, weights, targets, memory, size):
    return _MixTargets.apply(generated, gate, weights, targets, memory.ids, size)
found, exact = mixture_and_gradients(by_kernels), mixture_and_gradients()
print(max(float((a - b).abs().max()) for a, b in zip(found, exact)))
"""


def mixture_and_gradients(mix: Callable[..., torch.Tensor] = mix_targets) -> list[torch.Tensor]:
    """log p of targets of which some can only be copied, some only generated, and some neither; and gradients."""
    torch.manual_seed(0)
    batch, steps, places, size = 3, 5, 11, 8
    ids = torch.randint(size + 4, (batch, places))
    targets = torch.randint(size + 4, (batch, steps))
    targets[:, 0] = size + 9
    memory = Memory(*[torch.empty(0)] * 2, None, torch.empty(0), ids, size + 10)
    leaves = [
        -torch.rand(batch, steps) * 5,
        torch.randn(batch, steps) * 3,
        torch.randn(batch, steps, places).softmax(2),
    ]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    mixed = mix(*leaves, targets, memory, size)
    return [mixed, *torch.autograd.grad((mixed * torch.linspace(-1, 2, steps)).sum(), leaves)]


def test_mixture_is_right_when_triton_interprets_the_kernels() -> None:
    assert float(interpret_kernels(MIXED)) < 1e-5


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_mixture_on_a_gpu_equals_the_cpu() -> None:
    def on_gpu(*values: object) -> torch.Tensor:
        *tensors, memory, size = values
        generated, gate, weights, targets = (tensor.cuda() for tensor in tensors)
        return mix_targets(generated, gate, weights, targets, replace(memory, ids=memory.ids.cuda()), size).cpu()

    for found, exact in zip(mixture_and_gradients(on_gpu), mixture_and_gradients(), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


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
    output, states = encoder.forwards(x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(states, own)  # the top layer's own, which the decoder's first state is made of


def test_sequence_dropout_has_one_mask_a_sequence() -> None:
    torch.manual_seed(0)
    dropped = SequenceDropout(0.5).train()(torch.ones(3, 7, 100))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(dropped[0], dropped[1])


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
    assert model.encoder.forwards.dropout.rate == model.encoder.backwards.dropout.rate == 0.2
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_of_padding_are_zero_wherever_they_are_added(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    switches = VARIANTS[variant]
    model = build_small_model(**switches, tied=False)
    batch = random_batch(20, copy_exemplar=switches["attend_exemplar"])
    words = batch.target_output != PAD
    assert not words.all()

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(model(batch)[words].sum(), model.embedding.weight)[0]

    found = gradient()
    monkeypatch.setattr("exadec.model.embedding._Lookup.apply", lambda table, ids: functional.embedding(ids, table))
    exact = gradient()
    assert exact[PAD].abs().max() == 0
    torch.testing.assert_close(found, exact)


SUMMED = """
import torch
from exadec.model.embedding_kernels import sum_rows
torch.manual_seed(0)
for count, size in ((1, 5), (16, 3), (40, 2), (77, 30), (100, 1), (130, 900)):
    ids, grad = torch.randint(size, (count,)), torch.randn(count, 6, dtype=torch.float64)
    places, order = ids.int().sort(stable=True)
    exact = torch.zeros(size, 6, dtype=torch.float64).index_add(0, ids, grad)
    torch.testing.assert_close(sum_rows(grad, places, order, size), exact)
    torch.testing.assert_close(sum_rows(grad.float(), places, order, size), exact.float())
print("equal")
"""


def test_gradient_of_the_table_is_right_when_triton_interprets_the_kernels() -> None:
    assert interpret_kernels(SUMMED) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("count", "size"), [(1, 5), (5000, 3), (5000, 25_000), (46_000, 700)])
def test_gradient_of_the_table_on_a_gpu_is_exact_and_repeats_itself(count: int, size: int) -> None:
    torch.manual_seed(0)
    ids = torch.randint(1, size, (count,))
    ids[::3] = PAD
    wanted = torch.randn(count, 300)
    wanted[::3] = 0
    exact = torch.zeros(size, 300, dtype=torch.float64).index_add(0, ids, wanted.double())
    table = Embedding(size, 300).cuda()
    found = [torch.autograd.grad((table(ids.cuda()) * wanted.cuda()).sum(), table.weight)[0] for _ in range(3)]
    torch.testing.assert_close(found[0].double().cpu(), exact, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(found[0], other) for other in found[1:])


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
    torch.testing.assert_close(state.h, torch.tanh(model.bridge_h(last)))
    torch.testing.assert_close(state.c, torch.tanh(model.bridge_c(last)))


def test_initial_embeddings_and_softmax_bias() -> None:
    torch.manual_seed(0)
    model = Seq2seq(small_model_config(embedding=12, hidden=12), 500)
    bound = (3 / 12) ** 0.5
    assert model.embedding.weight.abs().max() <= bound
    assert model.embedding.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert (model.decoder.softmax_bias == 0).all()
    assert model.decoder.softmax_bias.requires_grad
