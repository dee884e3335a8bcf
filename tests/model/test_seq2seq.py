"""The whole model against arithmetic: gradients, parameters, first states, dropout."""

import itertools
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS, ModelConfig
from exadec.corpus.vocabulary import BOS, EOS, NONE, PAD, UNK
from exadec.loading.batch import Batch, Instance, collate
from exadec.model.backends.reference import Backend
from exadec.model.seq2seq import Seq2seq, count_parameters, explain_cell
from support.small_models import (
    ALL_OPTIONS,
    OPTIONS,
    VOCABULARY,
    batch_for,
    build_small_model,
    random_batch,
    small_model_config,
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_exemplar_matters_exactly_where_the_paper_says(variant: str) -> None:
    model = build_small_model(**VARIANTS[variant])
    one, other = (
        collate([Instance(np.array([7, 8]), (np.array(z),), np.array([9, 10]))], VOCABULARY, copy_exemplar=True)
        for z in ([11, 12], [13])
    )
    changes = not torch.allclose(model(one), model(other))
    assert changes == (variant != "seq2seq")


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
    options = [{"exemplar_layer": True}, *OPTIONS, ALL_OPTIONS]
    for variant, copy, option in itertools.product(VARIANTS, ["attention", "separate"], options):
        model = build_small_model(**VARIANTS[variant], copy=copy, **option)
        batch = batch_for(model.config, 6)
        words = batch.target_output != PAD
        model(batch)[words].sum().backward()
        without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
        assert without == [], (variant, option)
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


def test_parameter_table_names_what_adapts() -> None:
    model = build_small_model(**VARIANTS["adadec+attexp"], **ALL_OPTIONS)
    counts = count_parameters(model)
    decoder = model.decoder
    assert counts["extensions by λ"] == decoder.extension.V.numel() + decoder.attention.extension.V.numel() > 0
    layers = [*model.exemplar_layer.parameters(), *model.exemplar_values.parameters()]
    assert counts["exemplar layers"] == sum(parameter.numel() for parameter in layers) > 0
    assert counts["all"] == sum(parameter.numel() for parameter in model.parameters())


def test_frozen_word_vectors_are_no_trainable_parameters() -> None:
    config = small_model_config(glove="vectors.txt", freeze_embeddings=True)
    vectors = torch.full((VOCABULARY, config.embedding), torch.nan)
    free = count_parameters(Seq2seq(config, VOCABULARY, vectors))  # no word has a vector
    vectors[7:12] = 0.5
    frozen = count_parameters(Seq2seq(config, VOCABULARY, vectors))
    assert free["embeddings"] - frozen["embeddings"] == free["all"] - frozen["all"] == 5 * config.embedding


@pytest.mark.parametrize("shape", [{}, {"rank": 4}, {"input_feeding": True}, {"adaptive": False}])
@pytest.mark.parametrize("weights", ["factored", "residual", "unconstrained"])
def test_explained_sizes_are_those_of_the_parameters(weights: str, shape: dict[str, object]) -> None:
    config = small_model_config(weights=weights, **shape)
    counts = count_parameters(Seq2seq(config, VOCABULARY))
    d, r, inputs = config.hidden, config.coefficient_rank, config.decoder_inputs
    formula, bias = re.search(r"gates × (.*), bias (.*) a gate", explain_cell(config)).groups()
    assert counts["decoder P and Q"] == 4 * evaluate(formula, d, r, inputs)
    assert counts["decoder bias"] == 4 * evaluate(bias, d, r, inputs)


def evaluate(formula: str, d: int, r: int, inputs: int) -> int:
    """A polynomial as people write it: `r(3d + inputs)`, `6d²`, `d·r + d`."""
    spelt = re.sub(r"(?<=[\dr d])(?=\()|(?<=\d)(?=[dr])", "*", formula.replace("·", "*").replace("²", "**2"))
    return int(eval(spelt, {"d": d, "r": r, "inputs": inputs}))


def several(model: Seq2seq, *exemplars: list[int]) -> Batch:
    instance = Instance(np.array([7, 8]), tuple(np.array(one) for one in exemplars), np.array([9, 10]))
    return collate([instance], VOCABULARY, model.config.attend_exemplar)


@pytest.mark.parametrize("variant", ["attexp", "adadec", "adadec+attexp"])
@pytest.mark.parametrize("option", [{}, ALL_OPTIONS], ids=["plain", "all"])
def test_order_and_repetition_of_exemplars_do_not_matter(variant: str, option: dict[str, object]) -> None:
    model = build_small_model(**{**option, **VARIANTS[variant], "exemplars_read": 3})
    one, two, three = [11, 12], [13], [VOCABULARY + 1, 9, 14, 15]
    expected = model(several(model, one, two, three))
    torch.testing.assert_close(model(several(model, three, one, two)), expected)
    assert not torch.allclose(model(several(model, one, one, two)), expected)
    if not model.config.attend_exemplar:  # where each copy competes with the source
        torch.testing.assert_close(model(several(model, one, one, one)), model(several(model, one)))


@pytest.mark.parametrize("weights", ["factored", "residual"])
def test_coefficients_are_the_mean_over_exemplars(weights: str) -> None:
    each = weights == "factored"
    model = build_small_model(weights=weights, per_gate_coefficients=each, exemplars_read=2)
    one, two = [11, 12, 13], [14]
    single = [model.exemplar_coefficients(several(model, exemplar)) for exemplar in (one, two)]
    both = model.exemplar_coefficients(several(model, one, two))
    assert both.shape == (1, 4 if each else 1, 6)
    torch.testing.assert_close(both, (single[0] + single[1]) / 2)


def test_residual_training_starts_from_a_plain_decoder() -> None:
    """λ is zero at first, whatever the exemplar; a factored decoder and an attention over exemplars differ at once."""
    for option, same in (
        ({"weights": "residual"}, True),
        ({"weights": "residual", "exemplar_context": True}, False),
        ({}, False),
    ):
        torch.manual_seed(0)
        model = Seq2seq(small_model_config(**option), VOCABULARY).double().eval()
        found = [model(several(model, exemplar)) for exemplar in ([11, 12], [13])]
        assert torch.allclose(*found) == same, option
    model = Seq2seq(small_model_config(weights="residual"), VOCABULARY)
    model(batch_for(model.config, 5)).sum().backward()
    assert model.coefficients.C.grad.abs().max() > 0


@pytest.mark.parametrize(("norm", "expected"), [(None, 6**0.5), (2.5, 2.5)])
def test_coefficients_have_the_norm_that_is_set(norm: float | None, expected: float) -> None:
    model, free = build_small_model(coefficient_norm=norm), build_small_model(coefficient_norm=0)
    batch = batch_for(model.config, 5)
    norms, others = (one.exemplar_coefficients(batch).norm(dim=2) for one in (model, free))
    torch.testing.assert_close(norms, torch.full_like(norms, expected))
    assert others.std() > 0.01


@pytest.mark.parametrize("variant", VARIANTS)
def test_options_for_exemplars_leave_the_plain_baseline_alone(variant: str) -> None:
    """`--variant seq2seq` of any configuration has the parameters of the paper's baseline."""
    options = {key: value for key, value in ALL_OPTIONS.items() if key != "copy_case"}
    plain, other = (
        {name: tuple(p.shape) for name, p in build_small_model(**{**o, **VARIANTS[variant]}).named_parameters()}
        for o in ({}, options)
    )
    assert (plain == other) == (not VARIANTS[variant]["adaptive"])


def none_batch(batch: Batch, rows: torch.Tensor) -> Batch:
    """The batch with `<none>` as the exemplars of some instances (B,)."""
    rows = rows.repeat_interleave(len(batch.exemplar) // batch.size)
    exemplar, lengths = batch.exemplar.clone(), batch.exemplar_lengths.clone()
    exemplar[rows] = torch.tensor([NONE] + [PAD] * (exemplar.shape[1] - 1))
    lengths[rows] = 1
    return replace(batch, exemplar=exemplar, exemplar_lengths=lengths)


@pytest.mark.parametrize("variant", VARIANTS)
def test_skipping_replaces_all_exemplars_of_some_instances_in_training(variant: str) -> None:
    model = build_small_model(**VARIANTS[variant], exemplars_read=2, exemplar_skipping=0.5)
    batch = replace(batch_for(model.config, 40), target_output=torch.full((40, 6), 7))
    shown, hidden = model(batch), model(none_batch(batch, torch.ones(40, dtype=torch.bool)))
    torch.manual_seed(0)
    torch.testing.assert_close(model(batch), shown)  # not while evaluating
    trained = model.train()(batch)
    if variant == "seq2seq":
        torch.testing.assert_close(trained, shown)
        return
    rows = [(torch.allclose(t, s), torch.allclose(t, h)) for t, s, h in zip(trained, shown, hidden, strict=True)]
    assert set(rows) == {(True, False), (False, True)}
    assert not torch.equal(model(batch), trained)  # drawn again at each step
    model.config = replace(model.config, exemplar_skipping=0.9999)
    torch.testing.assert_close(model(batch), hidden)


def test_without_an_exemplar_residual_weights_are_those_of_the_plain_decoder() -> None:
    """λ of `<none>` is zero, whatever C has learnt, and has no part in the mean that is taken away."""
    model = build_small_model(**ALL_OPTIONS, adaptive=True)
    assert model.config.weights == "residual"
    rows = torch.tensor([True, False, True, False])
    batch = none_batch(batch_for(model.config, 4), rows)
    lam = model.exemplar_coefficients(batch)
    assert (lam[rows] == 0).all()
    assert (lam[~rows] != 0).all()
    before, model.coefficients.C.data = model(batch), torch.randn_like(model.coefficients.C)
    torch.testing.assert_close(model(batch)[rows], before[rows])
    assert not torch.allclose(model(batch)[~rows], before[~rows])
    model.config = replace(model.config, exemplar_skipping=0.0)
    model.train()(none_batch(batch, torch.ones(4, dtype=torch.bool)))
    assert model.centring.steps == 0
    model(batch)
    after = model.centring.mean.clone()
    model.centring.steps.zero_()
    model(batch.take([1, 3]))
    torch.testing.assert_close(model.centring.mean, after)


def test_word_that_only_a_skipped_exemplar_has_is_unknown() -> None:
    """With AttExp it could be copied from the exemplar. Without it, it counts as unknown, not as impossible."""
    model = build_small_model(**VARIANTS["attexp"], exemplar_skipping=0.9999).train()
    rare, known = VOCABULARY + 5, VOCABULARY + 6
    with_rare, without = (
        collate([Instance(np.array([7, known]), (np.array(z),), np.array([rare, known]))], VOCABULARY, True)
        for z in ([rare, 8], [NONE])
    )
    assert with_rare.target_output[0].tolist() == [VOCABULARY + 1, VOCABULARY, EOS]
    assert without.target_output[0].tolist() == [UNK, VOCABULARY, EOS]
    torch.testing.assert_close(model(with_rare), model(without))
    torch.testing.assert_close(model.eval()(without), model(without))


@pytest.mark.parametrize("option", [{}, ALL_OPTIONS], ids=["paper", "all"])
def test_weights_are_never_materialised(option: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """P and Q are not built: neither to train, nor to search, nor to explain."""
    model = build_small_model(**option).train()

    def refuse(*_: object) -> None:
        raise AssertionError("P was built")

    monkeypatch.setattr("exadec.model.adaptive.FactoredLinear.materialize", refuse)
    batch = batch_for(model.config, 4)
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_first_weights_do_not_depend_on_the_number_of_threads(variant: str) -> None:
    """At the sizes of the paper: small matrices are the same anyway."""
    settings = VARIANTS[variant] | {"hidden": 256, "embedding": 256}
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.manual_seed(1)
            found.append(Seq2seq(ModelConfig(**settings), 20).state_dict())
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(found[0][name], other[name]) for other in found[1:] for name in found[0])


def test_initial_embeddings_and_softmax_bias() -> None:
    torch.manual_seed(0)
    model = Seq2seq(small_model_config(embedding=12, hidden=12), 500)
    bound = (3 / 12) ** 0.5
    assert model.embedding.weight.abs().max() <= bound
    assert model.embedding.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert (model.decoder.softmax_bias == 0).all()
    assert model.decoder.softmax_bias.requires_grad


def test_search_uses_the_reference_whatever_the_backend() -> None:
    class Refusing(Backend):
        def lookup(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            raise AssertionError("the backend was asked")

    model, batch = build_small_model(), random_batch(3)
    model.backend = Refusing()
    state = model.encode(batch)
    model.step(state, batch.target_input[:, 0])
    model.explain(state, batch.target_input)
    with pytest.raises(AssertionError, match="the backend was asked"):
        model(batch)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_source_that_several_instances_have_is_read_once(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_small_model(**VARIANTS[variant])
    batch = batch_for(model.config, 6)
    batch = replace(
        batch, source=batch.source[[0, 1, 0, 1, 2, 0]], source_lengths=batch.source_lengths[[0, 1, 0, 1, 2, 0]]
    )
    rows: list[int] = []
    forward = model.encoder.forward
    monkeypatch.setattr(model.encoder, "forward", lambda x, *more: rows.append(len(x)) or forward(x, *more))
    with torch.no_grad():
        state = model.encode(batch)
        assert rows == [3]
        found, _ = model.step(state, torch.full((6,), BOS))
        for place in range(6):
            alone = Batch(*(getattr(batch, item.name)[[place]] for item in fields(Batch)))
            expected, _ = model.step(model.encode(alone), torch.full((1,), BOS))
            torch.testing.assert_close(found[place], expected[0, : found.shape[1]], rtol=1e-9, atol=1e-9)


def test_coefficients_can_be_given() -> None:
    model = build_small_model(adaptive=True)
    batch = batch_for(model.config, 4)
    with torch.no_grad():
        own = model.exemplar_coefficients(batch)
        given = torch.full_like(own, torch.nan)
        given[1] = own[3]
        state = model.encode(batch, given)
    torch.testing.assert_close(state.coefficients, own[[0, 3, 2, 3]])
