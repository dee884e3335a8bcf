"""The whole model against arithmetic: gradients, parameters, first states, dropout."""

import itertools

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, PAD
from exadec.loading.batch import Instance, collate
from exadec.model.backends.reference import Backend
from exadec.model.seq2seq import Seq2seq, count_parameters, explain_cell
from support.small_models import VOCABULARY, build_small_model, random_batch, small_model_config


@pytest.mark.parametrize("variant", VARIANTS)
def test_exemplar_matters_exactly_where_the_paper_says(variant: str) -> None:
    model = build_small_model(**VARIANTS[variant])
    one, other = (
        collate([Instance(np.array([7, 8]), np.array(z), np.array([9, 10]))], VOCABULARY, copy_exemplar=True)
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
