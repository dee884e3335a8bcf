"""Exemplars for new text: the run's policy is followed, and where it cannot be, the log says so."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.stage import MANIFEST
from exadec.errors import InputError
from exadec.exemplars.index_files import LOCK
from exadec.exemplars.retrieve import retrieve
from exadec.exemplars.retriever import Found, Retriever
from exadec.files import locked_for_writing
from support.stories import NEW, cosine, prepare_stories, records_of
from support.toys import config_for, write_splits


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("features", ["words", "pieces"])
def test_retriever_finds_what_the_map_holds(corpus: Corpus, weighting: str, features: str) -> None:
    config = ExemplarConfig(weighting=weighting, features=features)  # type: ignore[arg-type]
    exemplars, records = retrieve(corpus, config), records_of(corpus)
    found = Retriever.open(corpus, config).find([source for source, _, _ in records])
    assert [number for number, _ in found] == exemplars.indices("test").tolist()
    np.testing.assert_array_equal([similarity for _, similarity in found], exemplars.similarities("test"))


def test_retriever_looks_into_one_group(corpus: Corpus) -> None:
    retriever, records = Retriever.open(corpus), records_of(corpus)
    for source, _, _ in records[:10]:
        (number, similarity), (anywhere, most) = retriever.find([source], "post")[0], retriever.find([source])[0]
        assert number is not None
        assert records[number][2] == "post"
        assert similarity <= most
        assert anywhere is not None
    with pytest.raises(InputError, match="no exemplar has the group 'sun'"):
        retriever.find(["w1"], "sun")
    assert retriever.find(["unheard of"]) == [(None, 0.0)]


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
@pytest.mark.parametrize("group", [None, "post"])
def test_new_text_follows_the_policy(corpus: Corpus, policy: str, group: str | None) -> None:
    records = records_of(corpus)
    everyone = [j for j in range(60) if group is None or records[j][2] == group]
    found = Retriever.open(corpus, ExemplarConfig(policy=policy, neighbours=3)).find(NEW, group)
    places = []
    for source, (number, similarity) in zip(NEW, found, strict=True):
        assert number in everyone
        assert similarity == pytest.approx(cosine(source, records[number][0]), abs=1e-6)
        ranked = sorted(everyone, key=lambda j, source=source: (-cosine(source, records[j][0]), j))
        places.append(ranked.index(number))
    limit = {"nearest": 1, "sample": 3, "random": len(everyone)}[policy]
    assert max(places) < limit
    if policy != "nearest":  # every place is drawn sooner or later, not the first alone
        assert len(set(places)) > limit // 4
        assert max(places) > limit // 2


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
def test_new_text_gets_the_same_exemplar_alone_and_in_company(corpus: Corpus, policy: str) -> None:
    config = ExemplarConfig(policy=policy, neighbours=4, exclude_same_source=True, group="prefer")
    sources = [*NEW, records_of(corpus)[0][0], "unheard of"]
    together = Retriever.open(corpus, config).find(sources, "times")
    retriever = Retriever.open(corpus, config)
    assert together == [retriever.find([source], "times")[0] for source in reversed(sources)][::-1]
    if policy != "nearest":
        assert together != Retriever.open(corpus, replace(config, seed=2)).find(sources, "times")


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
def test_new_text_never_gets_the_target_of_the_same_source(tmp_path: Path, policy: str) -> None:
    sources = ["A b c", "a B c", "a b  c", "a b d", "c b a"]
    write_splits(tmp_path, [{"source": source, "target": f"t{i}"} for i, source in enumerate(sources)])
    corpus = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    for exclude, allowed in ((True, {3, 4}), (False, {0, 1, 2, 3, 4})):
        config = ExemplarConfig(policy=policy, neighbours=5, exclude_same_source=exclude)
        found = Retriever.open(corpus, config).find(["a b c", " A B C"])
        assert {number for number, _ in found} <= allowed
        assert exclude or policy != "nearest" or found[0] == Found(0, 1.0)
    alone = Retriever.open(corpus, ExemplarConfig(policy=policy, exclude_same_source=True))
    assert alone.find(["A B D"])[0].number in {0, 1, 2, 4}


def test_new_text_finds_none_where_all_are_excluded(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "a b", "target": "t", "group": "times"}] * 3)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    for policy in ("nearest", "sample", "random"):
        config = ExemplarConfig(policy=policy, exclude_same_source=True)
        assert Retriever.open(corpus, config).find(["a b"]) == [Found(None, 0.0)]


def test_prefer_searches_all_groups_where_its_own_has_nothing(tmp_path: Path) -> None:
    rows = [("a b", "times"), ("c d", "post"), ("c e", "post")]
    write_splits(tmp_path, [{"source": source, "target": "t", "group": group} for source, group in rows])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    sources = ["a", "c d"]
    prefer, only = (Retriever.open(corpus, ExemplarConfig(group=group)) for group in ("prefer", "only"))
    assert [number for number, _ in prefer.find(sources, "times")] == [0, 1]
    assert [number for number, _ in only.find(sources, "times")] == [0, None]


@pytest.mark.parametrize("policy", ["shuffled", "oracle", "given"])
def test_policies_that_need_the_corpus_give_new_text_the_nearest_and_say_so_once(
    corpus: Corpus, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = "x.jsonl" if policy == "given" else None
    retriever = Retriever.open(corpus, ExemplarConfig(policy=policy, given=given))
    assert [retriever.find(NEW), retriever.find(NEW)] == [Retriever.open(corpus).find(NEW)] * 2
    [message] = [record.getMessage() for record in caplog.records]
    assert f"cannot follow the run's policy `{policy}`" in message


def test_only_without_a_group_searches_all_and_says_so_once(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    retriever = Retriever.open(corpus, ExemplarConfig(group="only"))
    retriever.find(NEW, "post")
    assert not caplog.records
    assert retriever.find(NEW) == Retriever.open(corpus).find(NEW)
    retriever.find(NEW)
    [message] = [record.getMessage() for record in caplog.records]
    assert "`group: only`" in message


@pytest.mark.parametrize("policy", ["nearest", "sample", "random", "shuffled"])
def test_several_exemplars_are_those_of_the_map(corpus: Corpus, policy: str) -> None:
    config = ExemplarConfig(policy=policy, neighbours=3)
    retriever, sources = Retriever.open(corpus, config), [source for source, _, _ in records_of(corpus)]
    found = retriever.find_several(sources, None, 3)
    assert [row[0] for row in found] == retriever.find(sources)
    if policy == "nearest":
        ids, similarities = retrieve(corpus, config).neighbours("test")
        assert [[number for number, _ in row] for row in found] == ids.tolist()
        np.testing.assert_array_equal([[similarity for _, similarity in row] for row in found], similarities)
    elif policy == "shuffled":  # new text gets the nearest instead
        assert found == Retriever.open(corpus, replace(config, policy="nearest")).find_several(sources, None, 3)
    else:
        assert all(row == [row[0]] * 3 for row in found)


def test_several_exemplars_of_a_group_or_of_none(corpus: Corpus) -> None:
    records = records_of(corpus)
    retriever = Retriever.open(corpus, ExemplarConfig(group="prefer"))
    (row,) = retriever.find_several([records[0][0]], "post", 4)
    assert [records[number][2] for number, _ in row] == ["post"] * 4
    assert len({number for number, _ in row}) == 4
    assert retriever.find_several(["unheard of"], "post", 2) == [[(None, 0.0), (None, 0.0)]]


def test_an_index_that_was_never_finished_is_built_again(corpus: Corpus) -> None:
    """As after a kill while it was first written."""
    found = Retriever.open(corpus).find(NEW)
    folder = corpus.folder.parent / "index-words-raw"
    complete = {path.name for path in folder.iterdir()}
    for name in (MANIFEST, "000001.0.words.npy"):
        (folder / name).unlink()
    (folder / ".lock").write_text("half a li", "utf-8")
    assert Retriever.open(corpus).find(NEW) == found
    assert {path.name for path in folder.iterdir()} == complete


def test_an_index_that_another_process_writes_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two commands may be the first ones at the same time."""
    corpus = prepare_stories(tmp_path)
    folder = corpus.folder.parent / "index-words-raw"
    with locked_for_writing(folder, folder / LOCK):
        found = Retriever.open(corpus).find(NEW)
    assert f"{folder}: process {os.getpid()} on " in caplog.text
    assert "the index for new text is in memory only" in caplog.text
    assert Retriever.open(corpus).find(NEW) == found
