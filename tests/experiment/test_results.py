"""Result files: what is packed comes back, and files that are no results are refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.errors import InputError
from exadec.experiment.plan import list_trials, load_plan
from exadec.experiment.results import find_versions, pack, read_results, unpack, write_result
from support.plans import made_up_result, write_plan, write_task


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=50))
def test_packed_scores_come_back_to_the_hundredth(hundredths: list[int]) -> None:
    values = np.array(hundredths) / 100
    np.testing.assert_array_equal(unpack(pack(values)), values)


@pytest.mark.parametrize("value", [-0.01, 656.0, float("nan")])
def test_scores_that_do_not_fit_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="must be from 0 to"):
        pack([1.0, value])


def test_packed_scores_are_small() -> None:
    assert len(pack(np.random.default_rng(0).uniform(0, 100, 2000))) < 6000


def test_a_result_replaces_the_one_with_its_key_whatever_the_name(tmp_path: Path) -> None:
    write_task(tmp_path)
    trial, other = list_trials(load_plan(write_plan(tmp_path)))
    folder = tmp_path / "results"
    result = made_up_result(trial, [10.0, 20.0])
    write_result(folder, f"earlier-name-{trial.key[:8]}.json", result)
    write_result(folder, other.file_name, made_up_result(other, [1.0, 2.0]))
    write_result(folder, trial.file_name, replace(result, device="another"))
    assert sorted(path.name for path in folder.iterdir()) == sorted([trial.file_name, other.file_name])
    found = read_results(folder)
    assert found[trial.key] == replace(result, device="another")
    np.testing.assert_array_equal(unpack(found[trial.key].per_instance["texts"]), [10.0, 20.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a result"),
        ("[]", "not a result"),
        ('{"format": 1}', "not a result"),
        ('{"format": 99}', "another version"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "other.json").write_text(text, "utf-8")
    with pytest.raises(InputError, match=f"other.json: .*{message}"):
        read_results(tmp_path)


def test_versions_are_text() -> None:
    assert {"exadec", "torch"} <= find_versions().keys()
    json.dumps(find_versions())
