"""Training exemplars that are only as similar as those of the development set."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import Corpus, prepare
from exadec.exemplars.calibrated import _descend, match_quantiles
from exadec.exemplars.retrieve import retrieve
from support.stories import cosine
from support.toys import config_for

similarities = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60).map(np.array)


@given(values=similarities, wanted=similarities, seed=st.integers(0, 9))
def test_matched_values_keep_their_order_and_have_the_wanted_distribution(
    values: np.ndarray, wanted: np.ndarray, seed: int
) -> None:
    matched = match_quantiles(values, wanted, np.random.default_rng(seed))
    assert set(matched) <= set(wanted)
    order = np.lexsort((matched, values))
    assert (np.diff(matched[order]) >= 0).all()
    if len(values) == len(wanted):
        np.testing.assert_array_equal(np.sort(matched), np.sort(wanted))


def test_equal_distributions_change_nothing() -> None:
    values = np.random.default_rng(0).random(50)
    np.testing.assert_array_equal(match_quantiles(values, values, np.random.default_rng(1)), values)


@pytest.fixture(scope="module")
def duplicates(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Each training source comes three times, with other targets; no source of the other splits is seen in training."""
    folder = tmp_path_factory.mktemp("duplicates")
    random = np.random.default_rng(0)

    def source() -> str:
        return " ".join(f"w{n}" for n in random.choice(40, 8, replace=False))

    sources = {"train": [source() for _ in range(60)] * 3, "valid": [source() for _ in range(50)], "test": [source()]}
    for split, texts in sources.items():
        lines = [json.dumps({"source": text, "target": f"target {i} of {text}"}) for i, text in enumerate(texts)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return prepare(config_for(folder, segmentation="words"))


def test_training_exemplars_are_as_similar_as_those_of_the_development_set(duplicates: Corpus) -> None:
    plain = retrieve(duplicates, ExemplarConfig(neighbours=2))
    assert (plain.similarities("train") > 0.999).all()
    calibrated = retrieve(duplicates, ExemplarConfig(neighbours=2, calibrated=True))
    wanted, found = plain.similarities("valid"), calibrated.similarities("train")
    assert wanted.max() < 0.95
    assert abs(found.mean() - wanted.mean()) < 0.05
    for split in ("valid", "test"):
        np.testing.assert_array_equal(calibrated.indices(split), plain.indices(split))


def test_calibrated_exemplars_are_neighbours_in_order(duplicates: Corpus) -> None:
    calibrated = retrieve(duplicates, ExemplarConfig(neighbours=2, calibrated=True))
    texts = [json.loads(line)["source"] for line in Path(duplicates.config.train).read_text("utf-8").splitlines()]
    ids, found = calibrated.neighbours("train")
    for i in range(0, 180, 7):
        first, second = found[i]
        assert first >= second
        assert cosine(texts[i], texts[ids[i, 0]]) == pytest.approx(first, abs=1e-5)
        # Nothing lies between the two neighbours: what was left out is more similar than the first.
        between = [cosine(texts[i], text) for j, text in enumerate(texts) if j not in (i, *ids[i])]
        assert not any(second + 1e-5 < similarity < first - 1e-5 for similarity in between)


def test_corpus_without_a_mismatch_keeps_its_exemplars(corpus: Corpus) -> None:
    """Training instances that are as similar to one another as the others are to them."""
    plain = retrieve(corpus, ExemplarConfig(neighbours=2))
    calibrated = retrieve(corpus, ExemplarConfig(neighbours=2, calibrated=True))
    assert (plain.indices("train") == calibrated.indices("train")).mean() > 0.8
    assert (calibrated.similarities("train") <= plain.similarities("train")).all()


def test_closest_of_two_lists_comes_first_and_lower_ones_follow() -> None:
    ids, similarities = np.array([[1, 2], [1, 2], [1, -1]]), np.array([[0.9, 0.7], [0.9, 0.7], [0.9, 0.0]], np.float32)
    lower, below = np.array([[3, 4], [3, -1], [-1, -1]]), np.array([[0.5, 0.4], [0.2, 0.0], [0.0, 0.0]], np.float32)
    found, values = _descend(ids, similarities, lower, below, np.array([0.55, 0.6, 0.3]))
    assert found.tolist() == [[3, 4], [2, 3], [1, -1]]
    np.testing.assert_allclose(values, [[0.5, 0.4], [0.7, 0.2], [0.9, 0.0]])


def test_calibration_says_where_it_changes_nothing(duplicates: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "exadec"):
        retrieve(duplicates, ExemplarConfig(policy="random", calibrated=True))
    assert "`exemplars.calibrated` changes nothing with the policy random; it is for nearest and oracle." in caplog.text
