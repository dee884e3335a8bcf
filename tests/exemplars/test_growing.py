"""Accepted texts are found as training targets are, and deleted ones never."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus
from exadec.errors import RequestError
from exadec.exemplars.growing import GrowingRetriever
from exadec.exemplars.journal import Accepted, Journal
from exadec.exemplars.retriever import Retriever
from support.stories import NEW, cosine, records_of

COUNT = 60


def grow(corpus: Corpus, folder: Path, config: ExemplarConfig = ExemplarConfig()) -> GrowingRetriever:  # noqa: B008
    return GrowingRetriever(Retriever.open(corpus, config), Journal(folder, "hash"))


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("features", ["words", "pieces"])
def test_similarity_is_computed_as_for_a_training_exemplar(
    corpus: Corpus, tmp_path: Path, weighting: str, features: str
) -> None:
    """A twin of each training record is exactly as similar to everything as the record itself."""
    config = ExemplarConfig(weighting=weighting, features=features)  # type: ignore[arg-type]
    growing, records = grow(corpus, tmp_path, config), records_of(corpus)
    queries = [*NEW, *(source for source, _, _ in records[:10]), "unheard w1"]
    trained = Retriever.open(corpus, config).find(queries)
    assert growing.find(queries) == trained
    names = [growing.accept(Accepted(source, "twin")) for source, _, _ in records]
    assert names == [f"own-{number}" for number in range(COUNT)]
    assert growing.find(queries) == trained  # the first of two equals is found
    for number in range(COUNT):
        assert growing.delete(f"train-{number}")
    twins = growing.find(queries)
    np.testing.assert_array_equal([one.similarity for one in twins], [one.similarity for one in trained])
    assert [one.number for one in twins] == [None if one.number is None else one.number + COUNT for one in trained]


def test_the_nearest_of_both_wins(corpus: Corpus, tmp_path: Path) -> None:
    growing, records = grow(corpus, tmp_path), records_of(corpus)
    own = ["w1 w2 zork", "w5 w5 w5 w6", "zork alone"]
    for source in own:
        growing.accept(Accepted(source, source.upper()))
    sources = [*(source for source, _, _ in records), *own]
    for query in [*NEW, "zork w1", "w5 w6"]:
        (found,) = growing.find([query])
        best = max(cosine(query, source) for source in sources)
        assert found.similarity == pytest.approx(best, abs=1e-6)
        assert cosine(query, sources[found.number]) == pytest.approx(best, abs=1e-6)
    (found,) = growing.find(["zork alone"])
    assert growing.name(found.number) == "own-2"
    assert growing.accepted_text(found.number) == "ZORK ALONE"
    assert growing.accepted_text(3) is None


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
def test_what_is_deleted_is_never_found_by_any_policy_nor_after_opening_again(
    corpus: Corpus, tmp_path: Path, policy: str
) -> None:
    config = ExemplarConfig(policy=policy, neighbours=3, group="prefer")  # type: ignore[arg-type]
    growing = grow(corpus, tmp_path, config)
    growing.accept(Accepted(NEW[0], "accepted", "post"))
    deleted: set[str] = set()
    for _ in range(8):
        for group in (None, "post"):
            for found in growing.find(NEW, group):
                if found.number is not None:
                    name = growing.name(found.number)
                    assert name not in deleted
                    if growing.delete(name):
                        deleted.add(name)
                        assert growing.find_number(name) is None
                        assert not growing.delete(name)
                        break
    assert len(deleted) > 10
    assert len(growing) == COUNT + 1 - len(deleted)
    growing.journal.close()
    again = grow(corpus, tmp_path, config)
    assert len(again) == len(growing)
    for group in (None, "post"):
        names = {again.name(one.number) for one in again.find(NEW, group) if one.number is not None}
        assert names
        assert not names & deleted


def test_groups_may_be_new_and_end_with_their_last_exemplar(corpus: Corpus, tmp_path: Path) -> None:
    growing, records = grow(corpus, tmp_path), records_of(corpus)
    with pytest.raises(RequestError, match="no exemplar has the group 'sun'"):
        growing.find(["w1"], "sun")
    name = growing.accept(Accepted("w1 w2", "Sunny", "sun"))
    number = growing.find_number(name)
    assert growing.find(["w1 w3"], "sun")[0].number == number
    assert growing.group_of(number) == "sun"
    assert growing.group_of(0) == records[0][2]
    growing.delete(name)
    with pytest.raises(RequestError, match="no exemplar has the group 'sun'"):
        growing.find(["w1"], "sun")


def test_the_same_source_is_excluded_if_the_run_says_so(corpus: Corpus, tmp_path: Path) -> None:
    for exclude in (False, True):
        config = replace(ExemplarConfig(), exclude_same_source=exclude)
        growing = grow(corpus, tmp_path / str(exclude), config)
        name = growing.accept(Accepted("zork  w1 w2", "Own"))
        (same,), (other,) = growing.find(["zork w1 w2"]), growing.find(["zork w1 w2 w2"])
        assert (growing.name(same.number) == name) is not exclude
        assert growing.name(other.number) == name


def test_the_corpus_and_its_index_stay_as_they_are(corpus: Corpus, tmp_path: Path) -> None:
    trained = Retriever.open(corpus)
    before = trained.find(NEW)
    growing = GrowingRetriever(trained, Journal(tmp_path, "hash"))
    growing.accept(Accepted(NEW[0], "own"))
    growing.delete("train-0")
    assert trained.find(NEW) == before
    assert Retriever.open(corpus).find(NEW) == before


@pytest.mark.parametrize("name", ["", "train", "train-", "train-x", "train--1", "own-0", "other-3", f"train-{COUNT}"])
def test_what_is_no_id_is_not_found(corpus: Corpus, tmp_path: Path, name: str) -> None:
    growing = grow(corpus, tmp_path)
    assert growing.find_number(name) is None
    assert not growing.delete(name)
