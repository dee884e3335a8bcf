"""Policies: which exemplar each one chooses, and that none breaks a rule."""

import json
from pathlib import Path

import numpy as np
import pytest

from exadec.config import ConfigError, ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.errors import InputError
from exadec.exemplars import policies
from exadec.exemplars.policies import POLICIES, find_policy
from exadec.exemplars.retrieve import exemplar_folder, retrieve
from exadec.exemplars.retriever import Retriever
from support.stories import cosine, records_of
from support.toys import config_for, write_splits


@pytest.mark.parametrize("policy", ["nearest", "sample", "random", "shuffled", "oracle", "form"])
@pytest.mark.parametrize("group", ["any", "only", "prefer"])
def test_no_policy_breaks_a_rule(corpus: Corpus, policy: str, group: str) -> None:
    config = ExemplarConfig(
        policy=policy, group=group, neighbours=3, exclude_same_source=True, exclude_same_target=True
    )  # type: ignore[arg-type]
    exemplars, records = retrieve(corpus, config), records_of(corpus)
    for split in ("train", "test"):
        chosen = exemplars.indices(split)
        assert (chosen >= 0).sum() >= (40 if group == "only" else 60)  # who has no group has none to choose from
        for i, j in enumerate(chosen):
            if j < 0:
                continue
            assert split == "test" or i != j
            assert records[i][0] != records[j][0]
            assert records[i][1] != records[j][1]
            if group == "only":
                assert records[i][2] is not None
            if group != "any" and records[i][2] is not None:
                assert records[i][2] == records[j][2]


def test_nearest_is_the_first_of_the_neighbours_and_sample_one_of_them(corpus: Corpus) -> None:
    nearest = retrieve(corpus, ExemplarConfig(neighbours=4))
    sample = retrieve(corpus, ExemplarConfig(policy="sample", neighbours=4))
    again = retrieve(corpus, ExemplarConfig(policy="sample", neighbours=4, seed=2))
    neighbours, similarities = sample.neighbours("test")
    assert neighbours.shape == (60, 4)
    assert (np.diff(similarities, axis=1) <= 0).all()
    assert (neighbours == nearest.neighbours("test")[0]).all()
    assert (nearest.indices("test") == neighbours[:, 0]).all()
    chosen = sample.indices("test")
    assert all(chosen[i] in neighbours[i] for i in range(60))
    assert (chosen != neighbours[:, 0]).any()
    assert (chosen != again.indices("test")).any()
    row = np.argmax(neighbours == chosen[:, None], axis=1)
    assert (sample.similarities("test") == similarities[np.arange(60), row]).all()


def test_shuffled_exemplars_are_the_nearest_ones_of_others(corpus: Corpus) -> None:
    nearest, shuffled = retrieve(corpus), retrieve(corpus, ExemplarConfig(policy="shuffled"))
    assert sorted(nearest.indices("train")) == sorted(shuffled.indices("train"))
    assert (nearest.indices("train") != shuffled.indices("train")).any()
    assert shuffled.similarities("train").mean() < nearest.similarities("train").mean()


def test_similarities_of_drawn_exemplars_are_cosines(corpus: Corpus) -> None:
    drawn, records = retrieve(corpus, ExemplarConfig(policy="random")), records_of(corpus)
    for i, (j, similarity) in enumerate(zip(drawn.indices("test"), drawn.similarities("test"), strict=True)):
        assert similarity == pytest.approx(cosine(records[i][0], records[j][0]), abs=1e-6)


def test_the_oracle_goes_by_the_target(corpus: Corpus) -> None:
    oracle, records = retrieve(corpus, ExemplarConfig(policy="oracle")), records_of(corpus)
    assert all(records[i][1] == records[j][1] for i, j in enumerate(oracle.indices("test")))


def test_given_exemplars_are_taken_as_they_are(corpus: Corpus, tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    rows = [
        {"split": "test", "uid": "test-3", "exemplar": "train-5"},
        {"split": "train", "uid": "train-0", "exemplar": "train-1"},
    ]
    given.write_text("\n".join(json.dumps(row) for row in rows) + "\n", "utf-8")
    exemplars = retrieve(corpus, ExemplarConfig(policy="given", given=str(given)))
    assert exemplars.indices("test")[3] == 5
    assert exemplars.indices("train").tolist() == [1] + [-1] * 59
    assert exemplars.manifest["test"]["without_exemplar"] == 59


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"given.jsonl:1: not JSON"),
        ("{}", r"given.jsonl:1: expected an object"),
        ('{"split": "dev", "uid": "a", "exemplar": "b"}', "unknown split 'dev'"),
        ('{"split": "test", "uid": "a", "exemplar": "train-1"}', "no test record with the uid 'a'"),
        ('{"split": "test", "uid": "test-1", "exemplar": "x"}', "no training record with the uid 'x'"),
        ('{"split": "train", "uid": "train-1", "exemplar": "train-1"}', "its own exemplar"),
    ],
)
def test_bad_given_files_are_refused(corpus: Corpus, tmp_path: Path, line: str, message: str) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text(line + "\n", "utf-8")
    config = ExemplarConfig(policy="given", given=str(given))
    with pytest.raises(InputError, match=message):
        retrieve(corpus, config)
    assert not exemplar_folder(corpus, config).exists()


def test_given_needs_a_file_and_the_file_needs_given() -> None:
    with pytest.raises(ConfigError, match=r"exemplars\.given"):
        ExemplarConfig(policy="given")
    with pytest.raises(ConfigError, match=r"exemplars\.given"):
        ExemplarConfig(given="x.jsonl")


def test_every_policy_has_a_file_of_its_own_and_a_line_in_the_list() -> None:
    files = {path.stem for path in Path(policies.__path__[0]).glob("*.py")} - {
        "__init__",
        "policy",
        "pool",
        "new_texts",
    }
    assert files == set(POLICIES)
    assert {policy.__module__.rpartition(".")[2] for policy in POLICIES.values()} == files
    with pytest.raises(
        ConfigError, match=r"`exemplars\.policy` must be one of nearest, sample, .*, but is 'farthest' instead"
    ):
        find_policy(ExemplarConfig(policy="farthest"))


def test_an_unknown_policy_is_refused_before_any_work(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "a", "target": "t"}])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    with pytest.raises(ConfigError, match=r"exemplars\.policy"):
        retrieve(corpus, ExemplarConfig(policy="farthest"))
    with pytest.raises(ConfigError, match=r"exemplars\.policy"):
        Retriever.open(corpus, ExemplarConfig(policy="farthest"))
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["corpus"]


def test_exemplars_by_form_have_the_form_and_other_words(tmp_path: Path) -> None:
    """Every target has a twin in form; the rules and the words do not matter otherwise."""
    titles = [f"Minister Opens Bridge Number w{i}" for i in range(6)]
    questions = [f"Why did the minister open bridge w{i}?" for i in range(6)]
    rows = [{"source": f"s{i}", "target": target, "group": "a"} for i, target in enumerate([*titles, *questions])]
    write_splits(tmp_path, rows)
    corpus = prepare(config_for(tmp_path))
    exemplars, targets = retrieve(corpus, ExemplarConfig(policy="form")), [row["target"] for row in rows]
    for split in ("train", "test"):
        records = list(corpus.records(split))
        for i, j in enumerate(exemplars.indices(split).tolist()):
            assert records[i].target.endswith("?") == targets[j].endswith("?")
            assert split == "test" or i != j


def test_a_share_of_the_training_instances_gets_marked_exemplars_by_form(corpus: Corpus) -> None:
    plain = retrieve(corpus, ExemplarConfig(neighbours=3))
    shared = retrieve(corpus, ExemplarConfig(neighbours=3, form_share=0.5))
    marked = shared.marked("train")
    assert 15 < marked.sum() < 45
    assert not plain.marked("train").any()
    assert not shared.marked("test").any()
    assert (shared.nearest("test", 3) == plain.nearest("test", 3)).all()
    assert (shared.nearest("train", 3)[~marked] == plain.nearest("train", 3)[~marked]).all()
    followed = shared.nearest("train", 3)[marked]
    assert (followed == followed[:, :1]).all()
    assert (followed[:, 0] == shared.indices("train")[marked]).all()
    assert (followed[:, 0] != np.flatnonzero(marked)).all()


def test_none_gives_no_exemplar_to_anyone(corpus: Corpus) -> None:
    config = ExemplarConfig(policy="none")
    exemplars = retrieve(corpus, config)
    for split in ("train", "valid", "test"):
        assert (exemplars.nearest(split, 2) == -1).all()
        assert not exemplars.similarities(split).any()
    assert Retriever.open(corpus, config).find_several(["w1 w2"], None, 2) == [[(None, 0.0)] * 2]
