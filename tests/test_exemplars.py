"""Retrieval against dense brute force."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import config_for, write_splits

import exadec.exemplars.join as join
from exadec.corpus.prepare import prepare
from exadec.errors import InputError
from exadec.exemplars.bow import BagOfWords, terms
from exadec.exemplars.retrieve import Retriever, open_exemplars, retrieve

words = st.sampled_from(["a", "b", "c", "d", "e"])
sentences = st.lists(words, max_size=6).map(" ".join)


def brute_force(queries: list[str], candidates: list[str], exclude_own: bool) -> tuple[list[int], list[float]]:
    """Exact squared cosines in rational numbers; the lowest index wins ties."""
    best, similarities = [], []
    for i, query in enumerate(queries):
        scores = []
        for j, candidate in enumerate(candidates):
            q, c = terms(query), terms(candidate)
            dot = sum(q.count(word) * c.count(word) for word in set(q))
            norms = sum(q.count(w) ** 2 for w in set(q)) * sum(c.count(w) ** 2 for w in set(c))
            own = exclude_own and i == j
            scores.append(Fraction(-1) if own else Fraction(dot**2, norms) if norms else Fraction(0))
        top = max(scores, default=Fraction(0))
        best.append(scores.index(top) if top > 0 else -1)
        similarities.append(float(max(top, Fraction(0))) ** 0.5)
    return best, similarities


@pytest.mark.parametrize("exclude_own", [True, False])
@pytest.mark.parametrize("head", [0, 2, 256])
@given(candidates=st.lists(sentences, min_size=1, max_size=12), queries=st.lists(sentences, min_size=1, max_size=5))
def test_join_equals_brute_force(head: int, exclude_own: bool, candidates: list[str], queries: list[str]) -> None:
    queries = candidates if exclude_own else [*queries, "z a", "z"]
    bag = BagOfWords()
    rows = bag.fit(candidates)
    counted, squares = bag.count(queries)
    saved = join._HEAD, join._BLOCK_BYTES
    try:
        join._HEAD, join._BLOCK_BYTES = head, 100  # blocks of one row or a few
        found, similarities = join.nearest(counted, squares, rows, exclude_own)
    finally:
        join._HEAD, join._BLOCK_BYTES = saved
    expected, cosines = brute_force(queries, candidates, exclude_own)
    assert found.tolist() == expected
    np.testing.assert_allclose(similarities, cosines, atol=1e-6)


def test_terms_are_lower_cased_words_without_punctuation() -> None:
    assert terms('The U.S. "aid", Norway\'s: 4.86 million!') == ["the", "u.s", "aid", "norway's", "4.86", "million"]


def test_equal_candidates_give_the_lowest_index() -> None:
    bag = BagOfWords()
    rows = bag.fit(["x y", "a b", "b a", "a a b b"])
    counted, squares = bag.count(["a b"])
    assert join.nearest(counted, squares, rows, exclude_own=False)[0].tolist() == [1]


def test_training_instances_never_find_themselves(tmp_path: Path) -> None:
    records = [{"source": f"story {i % 3} about thing {i}", "target": f"t {i}"} for i in range(9)]
    write_splits(tmp_path, records)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    exemplars = retrieve(corpus)
    assert (exemplars.indices("train") != np.arange(9)).all()
    assert (exemplars.indices("test") == np.arange(9)).all()  # the same texts, but another split
    assert exemplars.similarities("test").tolist() == pytest.approx([1.0] * 9)
    made = (exemplars.folder / "manifest.json").stat().st_mtime_ns
    assert retrieve(corpus).hash == exemplars.hash
    assert (exemplars.folder / "manifest.json").stat().st_mtime_ns == made


def test_corpus_of_one_has_no_exemplar_to_train_with(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "only one", "target": "t"}])
    exemplars = retrieve(prepare(config_for(tmp_path, segmentation="words")))
    assert exemplars.indices("train").tolist() == [-1]
    assert exemplars.manifest["train"]["without_exemplar"] == 1


def test_retriever_finds_what_the_map_holds(tmp_path: Path) -> None:
    records = [{"source": f"word{i} word{i + 1} same", "target": f"t {i}"} for i in range(5)]
    write_splits(tmp_path, records)
    retriever = Retriever(prepare(config_for(tmp_path, segmentation="words")))
    found = retriever.find(["same word3", "nothing known"])
    assert found[0][0] == "t 2"
    assert found[1] == (None, 0.0)


def test_map_of_another_corpus_is_refused(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "a b", "target": "c"}] * 2)
    exemplars = retrieve(prepare(config_for(tmp_path, segmentation="words")))
    other = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    with pytest.raises(InputError, match="retrieved from another corpus"):
        open_exemplars(other, exemplars.folder)
