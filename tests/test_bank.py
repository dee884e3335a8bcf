"""The λ bank against λ of each exemplar, computed one at a time; and the map."""

from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.bank import LITTLE, Projection, encode_targets, frame, open_bank, spread
from exadec.corpus.prepare import Sequences
from exadec.errors import InputError
from exadec.loading.batch import Instance, collate, mark
from support.small_models import VOCABULARY, build_small_model


def make_targets(count: int) -> Sequences:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 9, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Sequences(random.integers(6, VOCABULARY + 3, offsets[-1]), offsets)  # some words are unknown


@pytest.mark.parametrize(("weights", "per_gate"), [("factored", False), ("factored", True), ("residual", False)])
def test_the_bank_has_the_coefficients_of_every_target(tmp_path: Path, weights: str, per_gate: bool) -> None:
    model = build_small_model(adaptive=True, weights=weights, per_gate_coefficients=per_gate, exemplars_read=2).float()
    with torch.no_grad():
        model.coefficients.C.normal_()
    targets = make_targets(600)
    bank = open_bank(tmp_path / "bank", model, targets, mark)
    for number in (0, 1, 17, 599):
        given = mark(np.asarray(targets[number]))
        batch = collate([Instance(np.array([7]), (given, given), np.array([], np.int64))], VOCABULARY, False)
        with torch.no_grad():
            expected = model.exemplar_coefficients(batch)[0].numpy()
        np.testing.assert_allclose(bank[number], expected, rtol=2e-3, atol=1e-3)
    assert isinstance(bank.base, np.memmap) or isinstance(bank, np.memmap)


def test_the_bank_is_made_once_for_the_same_weights(tmp_path: Path) -> None:
    model, targets = build_small_model(adaptive=True).float(), make_targets(40)
    told: list[int] = []
    for change, made in ((0.0, True), (0.0, False), (1.0, True)):
        told.clear()
        with torch.no_grad():
            model.coefficients.C.add_(change)
        open_bank(tmp_path / "bank", model, targets, mark, lambda _, done, total: told.append(done))
        assert bool(told) == made
    whole = (tmp_path / "bank" / "coefficients.npy").read_bytes()
    (tmp_path / "bank" / "coefficients.npy").write_bytes(whole[:-2] + b"xx")
    told.clear()
    open_bank(tmp_path / "bank", model, targets, mark, lambda _, done, total: told.append(done))
    assert told  # damage is found, and the bank is made again
    assert (tmp_path / "bank" / "coefficients.npy").read_bytes() == whole


def test_a_model_that_does_not_adapt_has_no_bank(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not adapt"):
        open_bank(tmp_path / "bank", build_small_model(adaptive=False).float(), make_targets(4), mark)


def test_all_targets_are_read_once() -> None:
    model = build_small_model(adaptive=True).float()
    numbers = np.concatenate([numbers for numbers, _ in encode_targets(model, make_targets(1300), mark)])
    assert sorted(numbers.tolist()) == list(range(1300))


def test_the_map_keeps_the_largest_differences_and_straight_lines() -> None:
    random = np.random.default_rng(3)
    plane = random.normal(size=(2, 12))
    rows = random.normal(size=(500, 2)) * [9.0, 4.0] @ plane + 0.01 * random.normal(size=(500, 12))
    bank = rows.reshape(500, 2, 6)
    projection = Projection(bank)
    points = projection(bank)
    lost = np.linalg.norm(rows - rows.mean(0), axis=1) ** 2 - (points**2).sum(1)
    assert lost.max() < 0.1
    between = projection(0.3 * bank[:1] + 0.7 * bank[1:2])
    np.testing.assert_allclose(between[0], 0.3 * points[0] + 0.7 * points[1], atol=1e-9)
    np.testing.assert_array_equal(Projection(bank)(bank), points)


def test_a_few_far_points_lie_outside_the_frame_and_many_do_not() -> None:
    random = np.random.default_rng(4)
    points = random.uniform(-1, 1, size=(2000, 2))
    np.testing.assert_array_equal(frame(points), [points.min(0), points.max(0)])
    with_far = np.concatenate([points, [[300.0, 0.0], [-40.0, 2.5]]])
    np.testing.assert_array_equal(frame(with_far)[:, 0], frame(points)[:, 0])
    assert frame(with_far)[1, 1] == 2.5  # it is near enough on that axis
    with_group = np.concatenate([points, points[:300] + np.array([50.0, 0.0])])
    np.testing.assert_array_equal(frame(with_group), [with_group.min(0), with_group.max(0)])
    flat = np.concatenate([np.zeros((2000, 2)), [[1.0, 0.0]]])
    np.testing.assert_array_equal(frame(flat), [[0, 0], [1, 0]])


def test_the_spread_says_whether_coefficients_differ() -> None:
    random = np.random.default_rng(5)
    mean = 10 * random.normal(size=(2, 6))
    for deviation, differs in ((0.01, False), (5.0, True)):
        bank = mean + deviation * random.normal(size=(500, 2, 6))
        far = deviation * np.sqrt(12)
        expected = far / np.hypot(np.linalg.norm(mean), far)
        assert spread(bank) == pytest.approx(expected, rel=0.1)
        bank[0] += 1000  # one far exemplar changes nothing
        assert (spread(bank) > LITTLE) == differs
