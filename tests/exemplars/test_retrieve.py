"""Exemplar maps: kept, resumed, refused when damaged or of another corpus."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import exadec.exemplars.join as joining
from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.stage import hash_value
from exadec.errors import InputError
from exadec.exemplars.audit import audit
from exadec.exemplars.retrieve import (
    ExemplarMap,
    exemplar_folder,
    open_exemplars,
    open_index,
    open_trained_exemplars,
    retrieve,
)
from support.stories import records_of
from support.toys import config_for, toy_config, toy_records, write_splits


def test_each_policy_has_a_folder_of_its_own(corpus: Corpus) -> None:
    default, other = retrieve(corpus), retrieve(corpus, ExemplarConfig(weighting="tfidf"))
    assert default.folder != other.folder
    assert default.hash != other.hash
    assert open_exemplars(corpus, default.folder).hash == default.hash


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


def test_training_instances_never_find_themselves(corpus: Corpus) -> None:
    exemplars = retrieve(corpus)
    assert (exemplars.indices("train") >= 0).all()
    assert (exemplars.indices("train") != np.arange(60)).all()
    assert exemplars.similarities("test").tolist() == pytest.approx([1.0] * 60)  # the same texts, but another split
    made = (exemplars.folder / "manifest.json").stat().st_mtime_ns
    assert retrieve(corpus).hash == exemplars.hash
    assert (exemplars.folder / "manifest.json").stat().st_mtime_ns == made


def test_a_killed_retrieval_keeps_what_it_has_done(
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
    assert list(corpus.folder.parent.glob(".exemplars*"))
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
    with pytest.raises(InputError, match=r"train\.index\.npy: the file is damaged"):
        ExemplarMap(exemplars.folder, exemplars.corpus).indices("train")
    retrieve(corpus)
    assert path.read_bytes() == whole


def test_groups_are_kept_apart_on_every_split(corpus: Corpus) -> None:
    only = retrieve(corpus, replace(ExemplarConfig(), group="only"))
    prefer = retrieve(corpus, replace(ExemplarConfig(), group="prefer"))
    grouped = np.array([group is not None for _, _, group in records_of(corpus)])
    assert (only.indices("test")[~grouped] == -1).all()
    assert (prefer.indices("test")[grouped] == only.indices("test")[grouped]).all()
    assert (prefer.indices("test")[~grouped] == retrieve(corpus).indices("test")[~grouped]).all()


def _earlier_settings(config: ExemplarConfig) -> dict[str, object]:
    """What the hashes of earlier versions were made of."""
    return {key: value for key, value in asdict(config).items() if key not in ("form_share", "calibrated")}


def test_runs_find_the_map_they_were_trained_with_also_one_of_an_earlier_version(tmp_path: Path) -> None:
    """Earlier versions excluded equal texts, not equal ids, and had another folder where the two rules may differ."""
    write_splits(tmp_path, [{"source": f"one two w{i}", "target": f"The Answer {i}"} for i in range(4)])
    config = ExemplarConfig(exclude_same_target=True)
    corpus = prepare(config_for(tmp_path, lower_case=True))
    now = retrieve(corpus, config)
    earlier = now.folder.with_name(f"exemplars-{hash_value(_earlier_settings(config))[:8]}")
    assert earlier != now.folder
    shutil.copytree(now.folder, earlier)
    manifest = json.loads((earlier / "manifest.json").read_text("utf-8"))
    (earlier / "manifest.json").write_text(json.dumps({**manifest, "key": "earlier"}), "utf-8")
    assert open_trained_exemplars(corpus, config, now.hash).folder == now.folder
    assert open_trained_exemplars(corpus, config, "earlier").folder == earlier
    with pytest.raises(InputError, match="the exemplars have changed since the run was trained"):
        open_trained_exemplars(corpus, config, "another")


def test_maps_keep_their_folder_where_equal_texts_are_equal_ids(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"source": f"one two w{i}", "target": f"The Answer {i}"} for i in range(4)])
    config = ExemplarConfig(exclude_same_target=True)
    folder = exemplar_folder(prepare(config_for(tmp_path)), config)
    assert folder.name == f"exemplars-{hash_value(_earlier_settings(config))[:8]}"


def test_several_exemplars_are_the_nearest_or_the_chosen_one_repeated(corpus: Corpus) -> None:
    """A control must not see what is near: shuffled exemplars stay shuffled, however many the model reads."""
    for policy in ("nearest", "oracle", "sample", "random", "shuffled"):
        exemplars = retrieve(corpus, ExemplarConfig(policy=policy, neighbours=3))
        for split in ("train", "test"):
            chosen, several = exemplars.indices(split), exemplars.nearest(split, 3)
            np.testing.assert_array_equal(exemplars.nearest(split, 1), chosen[:, None])
            np.testing.assert_array_equal(several[:, 0], chosen)
            if policy in ("nearest", "oracle"):
                np.testing.assert_array_equal(several, exemplars.neighbours(split)[0])
                assert all(len(set(row)) == 3 for row in several.tolist())
            else:
                np.testing.assert_array_equal(several, np.stack([chosen] * 3, axis=1))
    with pytest.raises(InputError, match=r"reads 4 exemplars, but only 1 neighbours .* exemplars.neighbours=4"):
        retrieve(corpus).nearest("train", 4)


def test_too_few_exemplars_are_repeated(tmp_path: Path) -> None:
    records = [{"source": text, "target": text} for text in ("a b", "a b c", "a", "x y", "x y z")]
    write_splits(tmp_path, [*records, {"source": "alone", "target": "alone"}])
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    found = retrieve(corpus, ExemplarConfig(neighbours=3)).nearest("train", 3)
    assert found.tolist() == [[1, 2, 1], [0, 2, 0], [0, 1, 0], [4, 4, 4], [3, 3, 3], [-1, -1, -1]]


@pytest.mark.slow
def test_two_processes_do_not_spoil_each_others_exemplars(tmp_path: Path) -> None:
    """One makes them; the other is refused with its number, or comes late and finds them."""
    write_splits(tmp_path, toy_records(300, 1))
    config = toy_config(tmp_path)
    (tmp_path / "toy.yaml").write_text(json.dumps(config.to_dict()), "utf-8")
    corpus = prepare(config)
    for _ in range(3):
        shutil.rmtree(exemplar_folder(corpus), ignore_errors=True)
        command = [sys.executable, "-m", "exadec", "retrieve", str(tmp_path / "toy.yaml")]
        both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        shown = [process.communicate()[1] for process in both]
        assert min(process.returncode for process in both) == 0, shown
        for process, other, text in zip(both, reversed(both), shown, strict=True):
            assert process.returncode == 0 or f"process {other.pid} on " in " ".join(text.split()), text
        found = retrieve(corpus)
        assert all((found.indices(split) >= 0).all() for split in ("train", "valid", "test"))
    assert not [path.name for path in corpus.folder.parent.iterdir() if path.name.startswith(".")]
