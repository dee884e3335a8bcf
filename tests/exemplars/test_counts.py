"""Counts of terms, kept on disk: those of the texts, counted once."""

import json
from pathlib import Path

import numpy as np
import pytest

import exadec.exemplars.counts as counting
from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.exemplars.bow import BagOfWords, Rows, Weighting, terms
from exadec.exemplars.counts import Features, open_counts
from exadec.exemplars.retrieve import exemplar_folder, retrieve
from support.toys import config_for, write_splits


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
