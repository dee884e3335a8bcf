"""Exemplar maps: every policy, every rule, groups, resumption, and what may go wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import config_for, write_splits

import exadec.exemplars.counts as counting
import exadec.exemplars.join as joining
from exadec.config import ConfigError, ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.errors import InputError
from exadec.exemplars import policies
from exadec.exemplars.audit import audit
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.counts import Features, open_counts
from exadec.exemplars.policies import POLICIES, find_policy
from exadec.exemplars.retrieve import ExemplarMap, exemplar_folder, open_exemplars, open_index, retrieve
from exadec.exemplars.retriever import Found, Retriever

GROUPS = ("times", "post", None)


def test_terms_are_lower_cased_words_without_punctuation() -> None:
    assert terms('The U.S. "aid", Norway\'s: 4.86 million!') == ["the", "u.s", "aid", "norway's", "4.86", "million"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Sixty stories: sources twice each, targets three times each, groups in turn."""
    folder = tmp_path_factory.mktemp("exemplars")
    random = np.random.default_rng(1)
    sources = [" ".join(f"w{n}" for n in random.integers(0, 30, 8)) for _ in range(30)] * 2
    records: list[dict[str, object]] = []
    for i, source in enumerate(sources):
        record: dict[str, object] = {"source": source, "target": f"said {i % 20} w{i % 7}"}
        if GROUPS[i % 3] is not None:
            record["group"] = GROUPS[i % 3]
        records.append(record)
    write_splits(folder, records)
    return prepare(config_for(folder, segmentation="words"))


def records_of(corpus: Corpus) -> list[tuple[str, str, str | None]]:
    return [(record.source, record.target, record.group) for record in corpus.records("train")]


@pytest.mark.parametrize("policy", ["nearest", "sample", "random", "shuffled", "oracle"])
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
        ("{", r"given.jsonl:1: expected an object"),
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


def test_each_policy_has_a_folder_of_its_own(corpus: Corpus) -> None:
    default, other = retrieve(corpus), retrieve(corpus, ExemplarConfig(weighting="tfidf"))
    assert default.folder != other.folder
    assert default.hash != other.hash
    assert open_exemplars(corpus, default.folder).hash == default.hash


@given(st.text(max_size=60))
def test_terms_of_a_text_are_those_of_its_words(text: str) -> None:
    assert [term for word in text.split() for term in terms(word)] == terms(text)


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("features", ["words", "pieces"])
@pytest.mark.parametrize("segmentation", [{"segmentation": "words", "vocabulary_size": 20}, {"vocabulary_size": 300}])
def test_kept_counts_are_those_of_the_texts(
    tmp_path: Path, weighting: Weighting, features: Features, segmentation: dict[str, object]
) -> None:
    random = np.random.default_rng(2)
    for split, types in (("train", 30), ("valid", 40), ("test", 35)):  # held-out texts have words of their own
        texts = [" ".join(f"w{n}" for n in random.integers(0, types, 9)) for _ in range(50)]
        lines = [json.dumps({"source": text, "target": text[::-1]}) for text in [*texts, "...", "w1-w2, W1!"]]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    corpus = prepare(config_for(tmp_path, max_source=4, **segmentation))
    split_text = terms if features == "words" else corpus.segmenter.segment
    for side in ("source", "target"):
        counted, kept = BagOfWords(weighting, split_text), BagOfWords(weighting, split_text)
        counts = open_counts(corpus, features, side)  # type: ignore[arg-type]
        for split in ("train", "valid", "test"):
            texts = [getattr(record, side) for record in corpus.records(split)]
            ours = kept.fit_counted(counts.names(), counts.counted(split)) if split == "train" else None
            ours = ours or kept.take_counted(counts.counted(split))
            theirs = counted.fit(texts) if split == "train" else counted.count(texts)
            assert ours.squares.tolist() == theirs.squares.tolist()
            assert (np.diff(ours.terms)[np.diff(np.repeat(np.arange(len(ours)), np.diff(ours.offsets))) == 0] > 0).all()
            assert [named(ours, kept, i) for i in range(52)] == [named(theirs, counted, i) for i in range(52)]


def named(rows: Rows, bag: BagOfWords, number: int) -> dict[str, tuple[int, int]]:
    """A row by the names of its terms: counts and weights."""
    entries, names = slice(*rows.offsets[number : number + 2]), list(bag.columns)
    return {
        names[term]: (int(count), int(bag.weights[term]))
        for term, count in zip(rows.terms[entries], rows.counts[entries], strict=True)
    }


def test_another_policy_counts_and_parses_nothing(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieve(corpus)
    retrieve(corpus, ExemplarConfig(policy="oracle"))

    def refuse(*arguments: object) -> None:
        raise AssertionError("counted or parsed again")

    monkeypatch.setattr(counting, "_count_corpus", refuse)
    monkeypatch.setattr(BagOfWords, "_count", refuse)
    monkeypatch.setattr(Corpus, "records", refuse)
    for settings in (
        {"weighting": "tfidf"}, {"weighting": "binary", "group": "prefer"}, {"policy": "random"},
        {"policy": "shuffled"}, {"policy": "oracle", "exclude_same_target": True},
        {"policy": "sample", "neighbours": 2, "seed": 5},
    ):  # fmt: skip
        config = ExemplarConfig(**{"seed": 91, **settings})  # type: ignore[arg-type]
        assert not exemplar_folder(corpus, config).exists()
        retrieve(corpus, config)
    with pytest.raises(AssertionError, match="counted or parsed again"):
        retrieve(corpus, ExemplarConfig(seed=92, features="pieces", policy="oracle"))


def test_damaged_counts_are_made_again(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": f"a b w{i}", "target": "c"} for i in range(9)])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    path = open_counts(corpus, "words").folder / "train.counts.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    open_counts(corpus, "words")
    assert path.read_bytes() == whole
    path.unlink()
    retrieve(corpus)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("segmentation", [{"segmentation": "words"}, {"vocabulary_size": 300}])
@pytest.mark.parametrize("lower_case", [False, True])
def test_exclusions_compare_what_the_model_reads(
    tmp_path: Path, segmentation: dict[str, object], lower_case: bool
) -> None:
    write_splits(
        tmp_path,
        [
            {"source": "one two three", "target": "The Answer"},
            {"source": "one two THREE", "target": "the answer"},  # the same but for capitals
            {"source": "one two", "target": "another"},
        ],
    )
    corpus = prepare(config_for(tmp_path, lower_case=lower_case, **segmentation))
    for rule in ("exclude_same_target", "exclude_same_source"):
        exemplars = retrieve(corpus, ExemplarConfig(**{rule: True}))  # type: ignore[arg-type]
        assert exemplars.indices("train").tolist() == ([2, 2, 0] if lower_case else [1, 0, 0])
        assert exemplars.indices("test")[:2].tolist() == ([2, 2] if lower_case else [1, 0])
        audited = audit(corpus, exemplars).splits["train"]
        assert (audited.same_target, audited.same_source) == (0, 0)
    audited = audit(corpus, retrieve(corpus)).splits["train"]
    assert (audited.same_target, audited.same_source) == ((2, 2) if lower_case else (0, 0))


@pytest.mark.parametrize("weighting", ["raw", "binary", "tfidf"])
@pytest.mark.parametrize("features", ["words", "pieces"])
def test_retriever_finds_what_the_map_holds(corpus: Corpus, weighting: str, features: str) -> None:
    config = ExemplarConfig(weighting=weighting, features=features)  # type: ignore[arg-type]
    exemplars, records = retrieve(corpus, config), records_of(corpus)
    found = Retriever(corpus, config).find([source for source, _, _ in records])
    assert [number for number, _ in found] == exemplars.indices("test").tolist()
    np.testing.assert_array_equal([similarity for _, similarity in found], exemplars.similarities("test"))


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
        Retriever(corpus, ExemplarConfig(policy="farthest"))
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["corpus"]


def test_retriever_looks_into_one_group(corpus: Corpus) -> None:
    retriever, records = Retriever(corpus), records_of(corpus)
    for source, _, _ in records[:10]:
        (number, similarity), (anywhere, most) = retriever.find([source], "post")[0], retriever.find([source])[0]
        assert number is not None
        assert records[number][2] == "post"
        assert similarity <= most
        assert anywhere is not None
    with pytest.raises(InputError, match="no training record has the group 'sun'"):
        retriever.find(["w1"], "sun")
    assert retriever.find(["unheard of"]) == [(None, 0.0)]


def cosine(left: str, right: str) -> float:
    """Of raw counts of words, the plain way."""
    a, b = terms(left), terms(right)
    dot = sum(a.count(word) * b.count(word) for word in set(a))
    squares = [sum(text.count(word) ** 2 for word in set(text)) for text in (a, b)]
    return float(dot / (squares[0] * squares[1]) ** 0.5)


NEW = [f"w{i} w{(7 * i) % 30} w{(11 * i + 3) % 30} w4" for i in range(40)]
"""New texts, each of which shares words with training sources."""


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
@pytest.mark.parametrize("group", [None, "post"])
def test_new_text_follows_the_policy(corpus: Corpus, policy: str, group: str | None) -> None:
    records = records_of(corpus)
    everyone = [j for j in range(60) if group is None or records[j][2] == group]
    found = Retriever(corpus, ExemplarConfig(policy=policy, neighbours=3)).find(NEW, group)
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
    together = Retriever(corpus, config).find(sources, "times")
    retriever = Retriever(corpus, config)
    assert together == [retriever.find([source], "times")[0] for source in reversed(sources)][::-1]
    if policy != "nearest":
        assert together != Retriever(corpus, replace(config, seed=2)).find(sources, "times")


@pytest.mark.parametrize("policy", ["nearest", "sample", "random"])
def test_new_text_never_gets_the_target_of_the_same_source(tmp_path: Path, policy: str) -> None:
    sources = ["A b c", "a B c", "a b  c", "a b d", "c b a"]
    write_splits(tmp_path, [{"source": source, "target": f"t{i}"} for i, source in enumerate(sources)])
    corpus = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    for exclude, allowed in ((True, {3, 4}), (False, {0, 1, 2, 3, 4})):
        config = ExemplarConfig(policy=policy, neighbours=5, exclude_same_source=exclude)
        found = Retriever(corpus, config).find(["a b c", " A B C"])
        assert {number for number, _ in found} <= allowed
        assert exclude or policy != "nearest" or found[0] == Found(0, 1.0)
    alone = Retriever(corpus, ExemplarConfig(policy=policy, exclude_same_source=True))
    assert alone.find(["A B D"])[0].number != 3


def test_new_text_finds_none_where_all_are_excluded(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "a b", "target": "t", "group": "times"}] * 3)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    for policy in ("nearest", "sample", "random"):
        config = ExemplarConfig(policy=policy, exclude_same_source=True)
        assert Retriever(corpus, config).find(["a b"]) == [Found(None, 0.0)]


def test_prefer_searches_all_groups_where_its_own_has_nothing(tmp_path: Path) -> None:
    rows = [("a b", "times"), ("c d", "post"), ("c e", "post")]
    write_splits(tmp_path, [{"source": source, "target": "t", "group": group} for source, group in rows])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    sources = ["a", "c d"]
    prefer, only = (Retriever(corpus, ExemplarConfig(group=group)) for group in ("prefer", "only"))
    assert [number for number, _ in prefer.find(sources, "times")] == [0, 1]
    assert [number for number, _ in only.find(sources, "times")] == [0, None]


@pytest.mark.parametrize("policy", ["shuffled", "oracle", "given"])
def test_policies_that_need_the_corpus_give_new_text_the_nearest_and_say_so_once(
    corpus: Corpus, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = "x.jsonl" if policy == "given" else None
    retriever = Retriever(corpus, ExemplarConfig(policy=policy, given=given))
    assert [retriever.find(NEW), retriever.find(NEW)] == [Retriever(corpus).find(NEW)] * 2
    [message] = [record.getMessage() for record in caplog.records]
    assert f"cannot follow the run's policy `{policy}`" in message


def test_only_without_a_group_searches_all_and_says_so_once(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    retriever = Retriever(corpus, ExemplarConfig(group="only"))
    retriever.find(NEW, "post")
    assert not caplog.records
    assert retriever.find(NEW) == Retriever(corpus).find(NEW)
    retriever.find(NEW)
    [message] = [record.getMessage() for record in caplog.records]
    assert "`group: only`" in message


def test_training_instances_never_find_themselves(corpus: Corpus) -> None:
    exemplars = retrieve(corpus)
    assert (exemplars.indices("train") != np.arange(60)).all()
    assert exemplars.similarities("test").tolist() == pytest.approx([1.0] * 60)  # the same texts, but another split
    made = (exemplars.folder / "manifest.json").stat().st_mtime_ns
    assert retrieve(corpus).hash == exemplars.hash
    assert (exemplars.folder / "manifest.json").stat().st_mtime_ns == made


def test_what_is_done_of_a_killed_retrieval_is_kept(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "CHUNK", 16)
    config, searched, find = ExemplarConfig(seed=77), [], joining.search
    whole = retrieve(corpus)

    def fail_in_the_end(*arguments: object, **more: object) -> object:
        searched.append(1)
        if len(searched) == 6:
            raise KeyboardInterrupt
        return find(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(joining, "search", fail_in_the_end)
    with pytest.raises(KeyboardInterrupt):
        retrieve(corpus, config)
    exemplars = retrieve(corpus, config)
    assert len(searched) == 13  # 12 chunks, one of them twice
    for split in ("train", "valid", "test"):
        assert (exemplars.indices(split) == whole.indices(split)).all()
    assert not list(corpus.folder.parent.glob(".exemplars*"))


def test_corpus_of_one_has_no_exemplar_to_train_with(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "only one", "target": "t"}])
    for policy in ("nearest", "random", "shuffled", "oracle"):
        config = ExemplarConfig(policy=policy)  # type: ignore[arg-type]
        exemplars = retrieve(prepare(config_for(tmp_path, segmentation="words")), config)
        assert exemplars.indices("train").tolist() == [-1]
        assert exemplars.manifest["train"]["without_exemplar"] == 1


def test_rows_without_a_known_word_are_counted(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": source, "target": "t"} for source in ("a b", "a c", "...", "— !", "zz")])
    exemplars = retrieve(prepare(config_for(tmp_path, segmentation="words")))
    assert exemplars.indices("train").tolist() == [1, 0, -1, -1, -1]
    assert exemplars.manifest["train"]["without_exemplar"] == 3
    assert exemplars.similarities("train").tolist()[2:] == [0.0] * 3


def test_map_of_another_corpus_is_refused(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": "a b", "target": "c"}] * 2)
    exemplars = retrieve(prepare(config_for(tmp_path, segmentation="words")))
    other = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    with pytest.raises(InputError, match="retrieved from another corpus"):
        open_exemplars(other, exemplars.folder)
    assert open_index(other).corpus == other.hash  # an index is built anew, as any stage is


def test_a_truncated_map_is_made_again_and_never_read(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": f"a b w{i}", "target": "c"} for i in range(9)])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    exemplars = retrieve(corpus)
    path = exemplars.folder / "train.index.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"train\.index\.npy: missing or damaged"):
        ExemplarMap(exemplars.folder).indices("train")
    retrieve(corpus)
    assert path.read_bytes() == whole


def test_groups_are_kept_apart_on_every_split(corpus: Corpus) -> None:
    only = retrieve(corpus, replace(ExemplarConfig(), group="only"))
    prefer = retrieve(corpus, replace(ExemplarConfig(), group="prefer"))
    grouped = np.array([group is not None for _, _, group in records_of(corpus)])
    assert (only.indices("test")[~grouped] == -1).all()
    assert (prefer.indices("test")[grouped] == only.indices("test")[grouped]).all()
    assert (prefer.indices("test")[~grouped] == retrieve(corpus).indices("test")[~grouped]).all()
