"""The parts of a batch that a recording is given."""

import numpy as np
import pytest
import torch

from exadec.loading.batch import collate
from exadec.search.feeding import POSITIONS, Feed
from support.small_models import VOCABULARY, random_instances

CPU = torch.device("cpu")
INSTANCES = random_instances(11, seed=1)
BATCH = collate(INSTANCES, VOCABULARY, copy_exemplar=True)


@pytest.mark.parametrize(("places", "refilled"), [(4, 1), (4, 2), (8, 8), (16, 16)])
def test_parts_hold_each_instance_once_in_their_order(places: int, refilled: int) -> None:
    feed, seen = Feed(BATCH, None, CPU), list[int]()
    for number, part in enumerate(feed.cut(places, refilled)):
        assert part.rows == (refilled if number else places)
        seen += range(part.first, part.first + part.count)
    assert seen == list(range(11))


@pytest.mark.parametrize(("first", "rows"), [(0, 4), (4, 4), (8, 4), (0, 16)])
def test_a_part_is_read_as_the_batch_that_it_was(first: int, rows: int) -> None:
    """Padded to more positions, and with the last instance in rows that are left."""
    feed = Feed(BATCH, None, CPU)
    part = feed.take(first, rows)
    given = np.random.default_rng(0).permutation(16)[:rows]
    batch, places, count = feed.view(part.lay_out(given), rows)
    numbers = [min(first + row, 10) for row in range(rows)]
    expected = BATCH.take(numbers)
    for name in ("source", "exemplar"):
        found, wanted = getattr(batch, name), getattr(expected, name)
        assert found.shape[1] % POSITIONS == 0
        assert torch.equal(found[:, : wanted.shape[1]], wanted)
        assert not found[:, wanted.shape[1] :].any()
        assert torch.equal(getattr(batch, f"{name}_lengths"), getattr(expected, f"{name}_lengths"))
    assert places.tolist() == given.tolist()
    assert count.tolist() == [min(rows, 11 - first)]


def test_coefficients_go_with_their_instances() -> None:
    given = torch.randn(11, 1, 3)
    part = Feed(BATCH, given, CPU).take(8, 4)
    assert part.coefficients is not None
    assert torch.equal(part.coefficients, given[[8, 9, 10, 10]])


def test_what_a_recording_depends_on_does_not_include_the_number_of_instances() -> None:
    assert Feed(BATCH, None, CPU).shapes == Feed(BATCH.take([0, 3]), None, CPU).shapes
    assert Feed(BATCH, None, CPU).shapes != Feed(BATCH, torch.zeros(11, 1, 3), CPU).shapes
