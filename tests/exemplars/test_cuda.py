"""The join on a GPU against the join on the CPU: on a GPU, and interpreted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exadec.exemplars.bow import BagOfWords, Weighting
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.join import join
from support.interpreter import interpret_kernels
from support.join_cases import hard_rules, hard_texts, numbered, rules_for, zipf_rows

INTERPRETED = """
import numpy as np
import torch
from dataclasses import replace
import exadec.exemplars.cuda as cuda
import exadec.exemplars.gpu_kernels as gpu_kernels
from exadec.exemplars.join import order_by_range
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.join import Allowed
from support.join_cases import hard_rules, hard_texts, numbered, rules_for, zipf_rows
cuda.TILE = gpu_kernels.TILE = 16  # many tiles, and so many rounds, of few candidates
cuda._FIRST_TILES, cuda._TOGETHER = 2, 70
def check(queries, rows, bag, allowed, k, block=None):
    order = order_by_range(allowed.query_ranges)
    queries, allowed = queries.take(order), allowed.take(order)
    candidates = Candidates.arrange(rows, bag.weights)
    expected = numbered(queries, allowed, candidates, k)
    gpu = cuda.GpuSearch(rows, bag.weights, candidates.ids, allowed, torch.device("cpu"), block)
    found = gpu.search(queries, allowed, k)
    assert (found.ids >= 0).any()
    assert (found.ids == expected.ids).all() and (found.scores == expected.scores).all()
weighting = WEIGHTING
rows, bag = zipf_rows(150, 17, weighting, types=400)
allowed = rules_for(150, 150, 3).take(range(100, 112))
allowed.query_ranges[:] = [20, 145]
for k, block in ((1, None), (3, 64)):
    check(rows.slice(100, 112), rows, bag, allowed, k, block)
bag = BagOfWords(weighting)
rows = bag.fit(hard_texts(180, 5))
some = np.r_[0:20, 90:102]
for k in (1, 30):
    check(rows.take(some), rows, bag, hard_rules(180, 7).take(some), k)
groups = np.sort(np.random.default_rng(1).integers(0, 20, 180))  # small ones: some searched together, some not
borders = np.searchsorted(groups, groups), np.searchsorted(groups, groups, side="right")
in_groups = replace(hard_rules(180, 7), query_ranges=np.stack(borders, axis=1))
assert 1 < len(cuda._runs(in_groups.query_ranges)) < 10
for k in (1, 4):
    check(rows.take(some), rows, bag, in_groups.take(some), k)
new = bag.count(["tie", "tie twice twice", "unheard of", "", "w0 w1 unheard", "w39 " * 9000])
keys, ranges = np.full((2, 6), -1), np.tile([0, 180], (6, 1))
check(new, rows, bag, replace(hard_rules(180, 7), query_keys=keys, query_ranges=ranges, query_ceilings=None), 5)
one = np.zeros(1, np.int64)
huge = Rows(np.array([0, 1]), one.astype(np.int32), np.array([2**30], np.int32), np.array([2**60]))
try:
    cuda.GpuSearch(huge, one + 1, one, Allowed.all(1, 1), torch.device("cpu"))
except InputError as error:
    assert "do not fit into 30 bits; join on the CPU" in str(error)
    print("equal")
"""


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
def test_gpu_kernels_are_right_when_triton_interprets_them(weighting: Weighting) -> None:
    assert interpret_kernels(INTERPRETED.replace("WEIGHTING", repr(weighting))) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize(("k", "block"), [(1, None), (5, None), (3, 6_400)])
def test_gpu_finds_what_the_cpu_finds(weighting: Weighting, k: int, block: int | None) -> None:
    from exadec.exemplars.cuda import GpuSearch  # Triton, which only a GPU brings along

    rows, bag = zipf_rows(20_000, 13, weighting)
    allowed = rules_for(20_000, 20_000, 2)
    # Few keys would forbid nearly everything.
    allowed = replace(allowed, query_keys=np.arange(20_000)[None], candidate_keys=np.arange(20_000)[None])
    allowed.query_ranges[:19_900] = [0, 20_000]
    candidates = Candidates.arrange(rows, bag.weights)
    on_cpu = numbered(rows, allowed, candidates, k)
    on_gpu = GpuSearch(rows, bag.weights, candidates.ids, allowed, block=block).search(rows, allowed, k)
    assert (on_gpu.ids == on_cpu.ids).all()
    assert (on_gpu.scores == on_cpu.scores).all()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("k", [1, 5, 300])
def test_gpu_finds_what_the_cpu_finds_among_ties_huge_counts_and_groups(weighting: Weighting, k: int) -> None:
    bag = BagOfWords(weighting)
    rows, allowed = bag.fit(hard_texts(4_000, 3)), hard_rules(4_000, 4)
    candidates = Candidates.arrange(rows, bag.weights)
    on_cpu, on_gpu = (join(rows, candidates, k, allowed, device) for device in ("cpu", "cuda"))
    assert (on_gpu.ids == on_cpu.ids).all()
    assert (on_gpu.scores == on_cpu.scores).all()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_finds_what_the_cpu_finds_in_thousands_of_groups() -> None:
    """Most of them are small, and searched together; the largest is searched by itself."""
    rows, bag = zipf_rows(30_000, 13, "tfidf")
    shares = 1 / np.arange(1, 4_001)
    groups = np.sort(np.random.default_rng(2).choice(4_000, 30_000, p=shares / shares.sum()))
    borders = np.searchsorted(groups, groups), np.searchsorted(groups, groups, side="right")
    allowed = replace(hard_rules(30_000, 4), query_ranges=np.stack(borders, axis=1))
    candidates = Candidates.arrange(rows, bag.weights)
    on_cpu, on_gpu = (join(rows, candidates, 4, allowed, device) for device in ("cpu", "cuda"))
    assert (on_gpu.ids == on_cpu.ids).all()
    assert (on_gpu.scores == on_cpu.scores).all()
