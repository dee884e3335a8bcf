"""Copying: distributions sum to one, and unknown words of the source can be written."""

import itertools

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, UNK
from exadec.loading.batch import Instance, collate
from support.choices import check_choices, spread_out
from support.small_models import OTHER_CASE, VOCABULARY, batch_for, build_small_model


@pytest.mark.parametrize("option", [{}, {"exemplars_read": 3, "exemplar_context": True}], ids=["one", "several"])
@pytest.mark.parametrize("copy", ["attention", "attention, either case", "separate", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_distributions_sum_to_one_without_mass_on_padding(variant: str, copy: str, option: dict[str, object]) -> None:
    copy, _, either_case = copy.partition(", ")
    model = build_small_model(**VARIANTS[variant], copy=copy, copy_case=bool(either_case), **option)
    batch = batch_for(model.config, 5)
    log_probs, _ = model.step(model.encode(batch), torch.full((5,), BOS))
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    absent = batch.unknown == 0  # (B, X - V): slots that this instance has no word for
    assert absent.any()
    assert (log_probs[:, VOCABULARY:].exp()[absent] < 1e-25).all()
    if copy != "none":
        weights = model.explain(model.encode(batch), batch.target_input).weights
        padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
        assert padding.any()
        assert (weights[:, :, : batch.source.shape[1]][padding[:, None].expand(-1, weights.shape[1], -1)] == 0).all()


@pytest.mark.parametrize("copy", ["attention", "attention, either case", "separate", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_likeliest_words_are_those_of_the_whole_distribution(variant: str, copy: str) -> None:
    copy, _, either_case = copy.partition(", ")
    model = build_small_model(**VARIANTS[variant], copy=copy, copy_case=bool(either_case), exemplars_read=2)
    check_choices(spread_out(model), model.choose)


def test_copying_reaches_the_unknown_words_of_the_source() -> None:
    """An unknown word that stands in the source has a probability; one that does not is the unknown symbol."""
    model = build_small_model()
    present = Instance(np.array([7, VOCABULARY + 5]), (np.array([6]),), np.array([VOCABULARY + 5]))
    absent = Instance(np.array([7, VOCABULARY + 5]), (np.array([6]),), np.array([VOCABULARY + 6]))
    batch = collate([present, absent], VOCABULARY, copy_exemplar=False)
    assert batch.target_output[0, 0] == VOCABULARY
    assert batch.target_output[1, 0] == UNK
    mixture = model.explain(model.encode(batch), batch.target_input)
    expected = mixture.log_copy[0, 0].exp() * mixture.weights[0, 0, 1]
    torch.testing.assert_close(model(batch)[0, 0].exp(), expected)


@pytest.mark.parametrize("copy", ["attention", "separate"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_copied_words_change_their_case_as_counted_by_hand(variant: str, copy: str) -> None:
    """Each position of the memory, in its own case and in the other; others have one case."""
    model = build_small_model(**VARIANTS[variant], copy=copy, copy_case=True, exemplars_read=2)
    batch = batch_for(model.config, 12)
    state = model.encode(batch)
    mixture = model.explain(state, batch.target_input)
    p, copied = mixture.of_all(state.memory).exp(), mixture.log_copy.exp()
    ids, changes = state.memory.ids.tolist(), mixture.changes_case
    expected = torch.zeros_like(p)
    expected[:, :, :VOCABULARY] = mixture.log_generate.exp()[:, :, None] * mixture.vocabulary.exp()
    changed = 0
    for b, t, m in itertools.product(*map(range, mixture.weights.shape)):
        word, mass = ids[b][m], copied[b, t] * mixture.weights[b, t, m]
        other = int(OTHER_CASE[word]) if word < VOCABULARY else word
        changed += other != word
        expected[b, t, word] += mass * (1 - changes[b, t])
        expected[b, t, other] += mass * changes[b, t]
    assert changed > 0
    assert any(word >= VOCABULARY for row in ids for word in row)
    torch.testing.assert_close(p, expected)
    torch.testing.assert_close(p.sum(2), torch.ones_like(copied))
