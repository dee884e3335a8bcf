"""Copying: distributions sum to one, and unknown words of the source can be written."""

import itertools
import math

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS
from exadec.corpus.vocabulary import BOS, EOS, PAD, UNK
from exadec.loading.batch import Instance, collate
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
    batch, generator = batch_for(model.config, 30), torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.embedding.weight.mul_(3.0)  # away from the uniform distribution
        if copy != "none":
            model.decoder.copy.gate.bias.fill_(0.5)
        state = model.encode(batch).select(torch.arange(30).repeat_interleave(2))
        words = torch.randint(6, VOCABULARY, (60,), generator=generator)
        log_probs, _ = model.step(state, words)
        for count, bans in ((1, 1), (4, 5), (VOCABULARY + 9, 2)):
            banned = torch.randint(0, log_probs.shape[1], (60, bans), generator=generator)
            banned[:, 0] = PAD
            found, chosen = model.choose(state, words)[0].best(count, banned)
            expected = log_probs.scatter(1, banned, -torch.inf)
            for mine, ids, whole in zip(found, chosen, expected, strict=True):
                known = mine > math.log(1e-25)  # the whole distribution gives words that cannot be written a trace
                assert len(set(ids[known].tolist())) == known.sum()
                torch.testing.assert_close(mine[known], whole[ids[known]])
                best = whole.topk(min(count, int((whole > math.log(1e-25)).sum()))).values
                torch.testing.assert_close(mine.sort(descending=True).values[: len(best)], best)
        torch.testing.assert_close(model.choose(state, words)[0].of(EOS), log_probs[:, EOS])
        asked = torch.randint(0, log_probs.shape[1], (60, 7), generator=generator)
        likely = log_probs.gather(1, asked) > math.log(1e-25)
        choices = model.choose(state, words)[0]
        torch.testing.assert_close(choices.of_words(asked)[likely], log_probs.gather(1, asked)[likely])
        choices.best(3, asked[:, :2])
        assert (choices.of_words(asked[:, :2])[asked[:, :2] < VOCABULARY] == -torch.inf).all()


@pytest.mark.parametrize("copy", ["attention", "separate", "none", "attention, either case"])
def test_rounded_weights_leave_the_likeliest_words_nearly_exact(copy: str) -> None:
    """Rounding to 8 bits of precision changes log p by up to 0.1; what is left of that comes from unlikely words."""
    copy, _, either_case = copy.partition(", ")
    model = build_small_model(**VARIANTS["adadec"], copy=copy, copy_case=bool(either_case)).float()
    batch = batch_for(model.config, 30)
    with torch.no_grad():
        model.embedding.weight.mul_(4.0)
        if copy != "none":
            model.decoder.copy.gate.bias.fill_(0.5)
        state = model.encode(batch).select(torch.arange(30).repeat_interleave(2))
        words, banned = torch.full((60,), 7), torch.full((60, 2), 9)
        banned[:, 0] = PAD
        rounded = model.decoder.round_softmax(torch.bfloat16)
        assert rounded.dtype == torch.bfloat16
        rough = model.decoder.step(state, words, rounded)[0].vocabulary
        exact = model.decoder.step(state, words)[0].vocabulary
        off = (rough - exact)[exact > -5].abs()
        assert off.max() > 2e-3
        found, chosen = model.choose(state, words, rounded)[0].best(6, banned)
        whole = model.step(state, words)[0].scatter(1, banned, -torch.inf)
        known = found > -5
        assert (found - whole.gather(1, chosen))[known].abs().max() < 2e-3
        for mine, ids, log_probs in zip(found, chosen, whole, strict=True):
            assert set(log_probs.topk(4).indices.tolist()) <= set(ids[mine > -torch.inf].tolist())
        model.embedding.weight.add_(1.0)
        assert not torch.equal(model.decoder.round_softmax(torch.bfloat16), rounded)  # not those of old weights


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
