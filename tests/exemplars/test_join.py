"""The join against brute force in rational numbers: any k, any rules."""

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exadec.exemplars.candidates as arranging
import exadec.exemplars.join as joining
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.candidates import Candidates
from exadec.exemplars.join import (
    Allowed,
    Ledger,
    Neighbours,
    choose_device,
    join,
    screening_type,
)
from support.join_cases import hard_rules, hard_texts, numbered, rules_for, zipf_rows

words = st.sampled_from(["a", "b", "c", "d", "e"])


sentences = st.lists(words, max_size=6).map(" ".join)


weightings = st.sampled_from(["raw", "binary", "tfidf"])


def weigh(text: str, bag: BagOfWords) -> dict[str, int]:
    """A text's weighted counts, the plain way."""
    found = terms(text)
    counts = {word: 1 if bag.weighting == "binary" else found.count(word) for word in found}
    weights = {word: int(bag.weights[column]) for word, column in bag.columns.items()}
    return {word: count * weights.get(word, bag.unseen_weight) for word, count in counts.items()}


def brute_force(
    queries: list[str], candidates: list[str], bag: BagOfWords, allowed: Allowed, k: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Exact squared cosines; the lowest number wins ties."""
    ids, cosines = [], []
    for i, query in enumerate(queries):
        q = weigh(query, bag)
        begin, end = allowed.query_ranges[i]
        scored = []
        for j in range(begin, end):
            c = weigh(candidates[j], bag)
            dot = sum(value * c.get(word, 0) for word, value in q.items())
            clash = (allowed.query_keys[:, i] == allowed.candidate_keys[:, j]).any()
            too_similar = dot and dot * dot / sum(v * v for v in c.values()) > allowed.ceilings[i]
            if dot and allowed.alive[j] and not clash and not too_similar:
                norms = sum(v * v for v in q.values()) * sum(v * v for v in c.values())
                scored.append((-Fraction(dot**2, norms), j))
        best = sorted(scored)[:k]
        ids.append([j for _, j in best] + [-1] * (k - len(best)))
        cosines.append([float(-score) ** 0.5 for score, _ in best] + [0.0] * (k - len(best)))
    return ids, cosines


@settings(deadline=None)
@given(
    candidates=st.lists(sentences, min_size=1, max_size=12),
    queries=st.lists(sentences, max_size=5),
    weighting=weightings,
    head=st.sampled_from([0, 2, 32]),
    k=st.sampled_from([1, 3]),
    seed=st.integers(0, 9),
)
def test_search_equals_brute_force(
    candidates: list[str], queries: list[str], weighting: Weighting, head: int, k: int, seed: int
) -> None:
    queries = [*queries, *candidates, "z a", "z", ""]
    bag = BagOfWords(weighting)
    rows = bag.fit(candidates)
    counted = bag.count(queries)
    allowed = rules_for(len(queries), len(candidates), seed)
    found = numbered(counted, allowed, Candidates.arrange(rows, bag.weights, head=head), k)
    ids, cosines = brute_force(queries, candidates, bag, allowed, k)
    assert found.ids.tolist() == ids
    np.testing.assert_allclose(found.similarities(counted.squares), cosines, atol=1e-6)


def dense_scores(queries: Rows, rows: Rows, weights: np.ndarray) -> np.ndarray:
    """(Q, N) float64: dot² / ‖candidate‖² by a dense product of whole numbers."""
    dense = []
    for some in (queries, rows):
        matrix = np.zeros((len(some), len(weights)))
        matrix[np.repeat(np.arange(len(some)), np.diff(some.offsets)), some.terms] = some.counts * weights[some.terms]
        dense.append(matrix)
    return (dense[0] @ dense[1].T) ** 2 / np.maximum(rows.squares, 1)


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("k", [1, 10])
def test_search_over_several_blocks_equals_dense_products(
    weighting: Weighting, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arranging, "BLOCK", 512)
    rows, bag = zipf_rows(1500, 3, weighting)
    own = np.arange(len(rows))[None]
    allowed = replace(Allowed.all(len(rows), len(rows)), query_keys=own, candidate_keys=own)
    found = numbered(rows, allowed, Candidates.arrange(rows, bag.weights), k)
    scores = dense_scores(rows, rows, bag.weights)
    np.fill_diagonal(scores, 0.0)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, 1)
    assert (found.scores == best).all()
    assert (found.ids == np.where(best > 0, order, -1)).all()


def test_counts_beyond_a_byte_and_texts_beyond_the_head_are_exact() -> None:
    texts = ["the " * 300 + "cat", "the " * 299 + "dog", "the cat", "cat " * 1000, ""]
    bag = BagOfWords()
    rows = bag.fit(texts)
    allowed = Allowed.all(len(texts), len(texts))
    found = numbered(rows, allowed, Candidates.arrange(rows, bag.weights), 5)
    ids, cosines = brute_force(texts, texts, bag, allowed, 5)
    assert found.ids.tolist() == ids
    np.testing.assert_allclose(found.similarities(rows.squares), cosines, atol=1e-6)


def test_equal_candidates_come_in_the_order_of_their_ids() -> None:
    bag = BagOfWords()
    rows = bag.fit(["x y", "a b", "b a", "a a b b"])
    shuffled = np.array([3, 1, 0, 2])
    candidates = Candidates.arrange(rows.take(shuffled), bag.weights, shuffled)
    assert numbered(bag.count(["a b"]), Allowed.all(1, 4), candidates, 3).ids.tolist() == [[1, 2, 3]]


def test_sums_that_do_not_fit_into_16_bits_are_exact() -> None:
    random = np.random.default_rng(1)
    texts = [" ".join(f"w{t} " * int(n) for t, n in enumerate(random.integers(0, 200, 6))) for _ in range(40)]
    bag = BagOfWords()
    rows = bag.fit(texts)
    candidates = Candidates.arrange(rows, bag.weights, head=3)
    assert screening_type(rows, candidates) is np.float32
    assert screening_type(bag.count(["w1 w2"]), candidates) is np.int16
    found = numbered(rows, Allowed.all(40, 40), candidates, 5)
    order = np.argsort(-dense_scores(rows, rows, bag.weights), axis=1, kind="stable")[:, :5]
    assert (found.ids == order).all()


def test_merging_parts_is_the_same_as_searching_all() -> None:
    rows, bag = zipf_rows(500, 5)
    whole = numbered(rows, Allowed.all(500, 500), Candidates.arrange(rows, bag.weights), 4)
    parts = []
    for begin, end in ((300, 500), (0, 120), (120, 300)):
        ids = np.arange(begin, end)
        part = Candidates.arrange(rows.slice(begin, end), bag.weights, ids)
        parts.append(numbered(rows, Allowed.all(500, len(ids)), part, 4))
    merged = Neighbours.merge([Neighbours.merge(parts[:2]), parts[2]])
    assert (merged.ids == whole.ids).all()
    assert (merged.scores == whole.scores).all()


def test_a_ledger_remembers_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "CHUNK", 64)
    rows, bag = zipf_rows(300, 7)
    candidates, allowed = Candidates.arrange(rows, bag.weights), rules_for(300, 300, 1)
    whole = join(rows, candidates, 2, allowed, "cpu")

    class StoppedError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        assert total == 300
        if done >= 128:
            raise StoppedError

    with pytest.raises(StoppedError):
        join(rows, candidates, 2, allowed, "cpu", Ledger(tmp_path, "key", 300, 2), stop)
    ledger = Ledger(tmp_path, "key", 300, 2)
    assert ledger.done.tolist() == [True, True, False, False, False]
    searched = []
    find = joining.search
    monkeypatch.setattr(joining, "search", lambda *a, **b: searched.append(len(a[0])) or find(*a, **b))
    again = join(rows, candidates, 2, allowed, "cpu", ledger)
    assert searched == [64, 64, 44]
    assert (again.ids == whole.ids).all()
    assert (again.scores == whole.scores).all()
    assert not Ledger(tmp_path, "another", 300, 2).done.any()


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # tests/
import exadec.exemplars.candidates as arranging
import exadec.exemplars.join as joining
from support.join_cases import zipf_rows
joining.CHUNK = 256
rows, bag = zipf_rows(6000, 11)
allowed = joining.Allowed.all(6000, 6000)
def tell(done, total):
    print(done, flush=True)
ledger = joining.Ledger(Path(sys.argv[2]), "k", 6000, 1)
joining.join(rows, arranging.Candidates.arrange(rows, bag.weights), 1, allowed, "cpu", ledger, tell)
"""


def test_a_join_that_is_killed_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 1024:
            time.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
    monkeypatch.setattr(joining, "CHUNK", 256)
    rows, bag = zipf_rows(6000, 11)
    ledger = Ledger(tmp_path, "k", 6000, 1)
    done = int(ledger.done.sum())
    assert 4 <= done < len(ledger.done)
    resumed = join(rows, Candidates.arrange(rows, bag.weights), 1, Allowed.all(6000, 6000), "cpu", ledger)
    whole = join(rows, Candidates.arrange(rows, bag.weights), 1, Allowed.all(6000, 6000), "cpu")
    assert (resumed.ids == whole.ids).all()


def test_devices_are_checked() -> None:
    assert choose_device("cpu") == "cpu"
    with pytest.raises(InputError, match="unknown device 'tpu'"):
        choose_device("tpu")


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("k", [1, 4])
def test_join_equals_brute_force_among_ties_and_huge_counts(weighting: Weighting, k: int) -> None:
    """Thousands of one word: sums in float32 lose so much that only the exact products tell candidates apart."""
    bag = BagOfWords(weighting)
    rows, allowed = bag.fit(hard_texts(1_200, 3)), hard_rules(1_200, 4)
    values = rows.counts * bag.weights[rows.terms]
    dense = np.zeros((len(rows), len(bag.weights)), np.int64)
    dense[np.repeat(np.arange(len(rows)), np.diff(rows.offsets)), rows.terms] = values
    products = dense.astype(np.float64) @ dense.T.astype(np.float64)  # exact: whole numbers below 2 ** 53
    assert products.max() < 2**53
    scores = products**2 / np.maximum(rows.squares, 1)
    numbers = np.arange(len(rows))
    barred = (allowed.query_keys[:, :, None] == allowed.candidate_keys[:, None, :]).any(axis=0) | ~allowed.alive
    barred |= (numbers < allowed.query_ranges[:, :1]) | (numbers >= allowed.query_ranges[:, 1:])
    barred |= scores > allowed.ceilings[:, None]
    scores[barred] = 0
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, 1)
    found = join(rows, Candidates.arrange(rows, bag.weights), k, allowed, "cpu")
    assert (found.ids == np.where(best > 0, order, -1)).all()
    assert (found.scores == best).all()


def test_full_disk_is_an_error_before_any_result_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match=r"No space left on device: '.*ids.npy'"):
        Ledger(tmp_path / "ledger", "key", 100, 3)
    monkeypatch.undo()
    assert (Ledger(tmp_path / "ledger", "key", 100, 3).found.ids == -1).all()
