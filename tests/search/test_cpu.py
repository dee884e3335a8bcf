"""The search of a CPU: its loops against numpy, its next words against whole distributions, its texts."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exadec.config import VARIANTS, SearchConfig
from exadec.corpus.vocabulary import PAD
from exadec.model.seq2seq import Seq2seq
from exadec.search import cpu, rounding
from exadec.search.beam import Known, beam_search
from exadec.search.cpu import QuickChoices, Softmax, quick_step
from exadec.search.cpu_kernels import LOWEST, make_exact, read_products
from exadec.search.generate import NEVER_WRITTEN
from exadec.search.rounding import read_rounded, round_once, round_rows
from support.choices import check_choices, spread_out
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model

COPYING = ["attention", "attention, either case", "separate", "none"]
CPU = torch.device("cpu")


@given(st.data(), st.integers(1, 4), st.integers(1, 5000), st.integers(1, 90), st.booleans(), st.integers(0, 1000))
@settings(max_examples=120, deadline=None)
def test_sums_and_likeliest_words_are_those_of_numpy(
    data: st.DataObject, rows: int, size: int, count: int, whole: bool, seed: int
) -> None:
    """Whatever the parts in which the products come. Some logits are equal."""
    random, count = np.random.default_rng(seed), min(count, size)
    products = random.normal(0, 100, (rows, size)).round(1 if size % 2 else -2)
    products = products.astype(np.int32 if whole else np.float32)
    scales, word_scales, bias = (random.normal(size=number).astype(np.float32) for number in (rows, size, size))
    if size % 3:
        bias[:], word_scales[:] = 0, 1
    logits = products * (word_scales * scales[:, None] / 100) + bias
    highest, sums = np.full(rows, LOWEST), np.zeros(rows, np.float32)
    words, found = np.zeros((rows, count), np.int64), np.full((rows, count), -np.inf, np.float32)
    borders = [0, *sorted(data.draw(st.lists(st.integers(0, size), max_size=3))), size]
    for part in itertools.starmap(slice, itertools.pairwise(borders)):
        some = np.ascontiguousarray(products[:, part])
        given = scales, word_scales / np.float32(100), bias, part.start
        read_products(some, *given, highest, sums, words, found)
    exact = logits.astype(np.float64)
    top = exact.max(1, keepdims=True)
    expected = top[:, 0] + np.log(np.exp(exact - top).sum(1))
    np.testing.assert_allclose(highest + np.log(sums), expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(found, -np.sort(-logits, axis=1)[:, :count], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, np.take_along_axis(logits, words, 1), rtol=1e-5, atol=1e-5)
    assert all(len(set(row)) == count for row in words.tolist())


def test_exact_logits_take_the_place_of_rounded_ones_in_the_sum() -> None:
    random = np.random.default_rng(0)
    vectors, weight, bias = (random.normal(size=size).astype(np.float32) for size in ((5, 16), (50, 16), 50))
    exact = vectors @ weight.T + bias
    rough = exact + random.normal(0, 0.1, exact.shape).astype(np.float32)
    words = np.stack([random.permutation(50)[:9] for _ in range(5)])
    logits, totals = np.take_along_axis(rough, words, 1), np.log(np.exp(rough).sum(1))
    make_exact(vectors, words, weight, bias, logits, totals)
    np.testing.assert_allclose(logits, np.take_along_axis(exact, words, 1), rtol=1e-5, atol=1e-5)
    np.put_along_axis(rough, words, logits, 1)
    np.testing.assert_allclose(totals, np.log(np.exp(rough).sum(1)), rtol=1e-5)


@given(
    st.builds(
        SearchConfig,
        beam_size=st.integers(1, 6),
        max_length=st.integers(3, 7),
        min_length=st.integers(0, 2),
        block_ngram=st.integers(0, 2),
        length_penalty=st.sampled_from([0.0, 0.9, 1.5]),
        stopping=st.sampled_from(["full", "certain", "first"]),
    ),
    st.integers(1, 4),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_a_compiled_advance_finds_the_hypotheses_of_the_ordinary_one(
    config: SearchConfig, instances: int, seed: int
) -> None:
    """For any log p, given the instance, the word before and its place. Some vocabularies are smaller than 2K."""
    random = torch.Generator().manual_seed(seed)
    size = 6 + seed % 30
    table = torch.log_softmax(3 * torch.randn(config.max_length, instances, size, size, generator=random), 3)

    def step(state: _Rows, words: torch.Tensor) -> tuple[Known, _Rows]:
        return Known(table[state.written, state.instances, words].clone()), state._replace(written=state.written + 1)

    n_best, start = 1 + seed % config.beam_size, _Rows(torch.arange(instances), 0)
    expected, found = (
        beam_search(step, start, instances, config, [PAD], CPU, n_best, advance_freely=advance)
        for advance in (None, cpu.advance)
    )
    assert found == expected


class _Rows(NamedTuple):
    """The state of hypotheses: the instance of each, and how many words they have."""

    instances: torch.Tensor
    written: int

    def select(self, indices: torch.Tensor) -> "_Rows":
        return self._replace(instances=self.instances[indices])

    def keep(self, instances: torch.Tensor) -> "_Rows":
        each = int((self.instances == self.instances[0]).sum())
        return self._replace(instances=self.instances.unflatten(0, (-1, each))[instances].flatten())


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("at_once", [1, 2**13, 2**18])
def test_hypotheses_are_those_of_one_product(rounded: bool, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For few and many of them, with and without threads, in one block and in several."""
    monkeypatch.setattr(cpu, "_AT_ONCE", at_once)
    weight, bias, hypotheses = torch.randn(4500, 24), torch.randn(4500), torch.randn(70, 24)
    exact = (hypotheses @ weight.t() + bias).double()
    for rows in (1, 5, 70):
        for threads in (1, 3):
            with ThreadPoolExecutor(threads) as pool:
                softmax = Softmax(weight, bias, round_rows(weight) if rounded else None, pool if threads > 1 else None)
                monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
                words, logits, totals = softmax.find(hypotheses[:rows], 9)
                monkeypatch.undo()
                monkeypatch.setattr(cpu, "_AT_ONCE", at_once)
            torch.testing.assert_close(logits, exact.float()[:rows].gather(1, words), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(logits.sort(descending=True).values[:, :9], exact.float()[:rows].topk(9).values)
            off = (totals - exact[:rows].logsumexp(1)).abs().max()
            assert off < (0.01 if rounded else 1e-5)


@pytest.mark.parametrize("copy", COPYING)
@pytest.mark.parametrize("variant", VARIANTS)
def test_likeliest_words_are_those_of_the_whole_distribution(variant: str, copy: str) -> None:
    copy, _, either_case = copy.partition(", ")
    options = {"copy": copy, "copy_case": bool(either_case), "exemplars_read": 2}
    model = spread_out(build_small_model(**VARIANTS[variant], **options).float())
    check_choices(model, quick_step(model, rounded=False), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("copy", COPYING)
def test_a_rounded_product_leaves_the_likeliest_words_nearly_exact(copy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding changes a logit by some hundredths; what is left of that in log p comes from unlikely words."""
    monkeypatch.setattr(rounding, "halves", lambda: False)
    copy, _, either_case = copy.partition(", ")
    model = build_small_model(**VARIANTS["adadec"], copy=copy, copy_case=bool(either_case)).float()
    batch = batch_for(spread_out(model).config, 30)
    with torch.no_grad():
        state = model.encode(batch).select(torch.arange(30).repeat_interleave(2))
        words, banned = torch.full((60,), 7), torch.full((60, 2), 9)
        banned[:, 0] = PAD
        choices = quick_step(model, rounded=True)(state, words)[0]
        assert isinstance(choices, QuickChoices)
        codes, scales = round_once(model).codes
        own_codes, own_scales = round_rows(choices.parts.attentional.flatten(0, 1))
        rough = (own_codes.float() @ codes.float().t()) * (own_scales[:, None] * scales) + choices.softmax.bias
        exact = model.decoder.step(state, words)[0].vocabulary.flatten(0, 1)
        assert 1e-3 < ((rough - rough.logsumexp(1, keepdim=True)) - exact).abs().max() < 0.2
        found, chosen = choices.best(6, banned)
        whole = model.step(state, words)[0].scatter(1, banned, -torch.inf)
        known = found > -5
        assert (found - whole.gather(1, chosen))[known].abs().max() < 2e-3
        asked = torch.randint(10, VOCABULARY, (60, 7))
        likely = whole.gather(1, asked) > -12
        assert likely.sum() > 60
        assert (choices.of_words(asked) - whole.gather(1, asked))[likely].abs().max() < 2e-3
        for mine, ids, log_probs in zip(found, chosen, whole, strict=True):
            assert set(log_probs.topk(4).indices.tolist()) <= set(ids[mine > -torch.inf].tolist())


@pytest.mark.parametrize(("bits", "count"), [(32, 1), (32, 40), (16, 40), (8, 40)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_are_those_of_the_ordinary_search(
    variant: str, bits: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores agree, too, but for rounding; with several threads, and with blocked and banned words."""
    monkeypatch.setattr(rounding, "halves", lambda: bits == 16)
    rounded = bits < 32
    model = spread_out(build_small_model(**VARIANTS[variant], **ALL_OPTIONS).float())
    config, batch = SearchConfig(beam_size=4, max_length=9, min_length=2, block_ngram=2), batch_for(model.config, count)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected, found = (
            beam_search(step, read(model, batch), count, config, NEVER_WRITTEN, CPU, n_best=2, advance_freely=advance)
            for step, read, advance in (
                (model.choose, Seq2seq.encode, None),
                (quick_step(model, rounded), read_rounded if rounded else Seq2seq.encode, cpu.advance),
            )
        )
    finally:
        torch.set_num_threads(threads)
    same = [mine[0].ids == theirs[0].ids for mine, theirs in zip(found, expected, strict=True)]
    assert np.mean(same) >= {32: 1.0, 16: 0.8, 8: 0.95}[bits]
    off = [abs(mine[0].score - theirs[0].score) for mine, theirs in zip(found, expected, strict=True)]
    assert max(itertools.compress(off, same)) < {32: 1e-4, 16: 0.05, 8: 0.01}[bits]
    assert math.isfinite(max(off))
