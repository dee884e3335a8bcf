"""Compare batches made on a device with batches made on the host."""

from dataclasses import fields

import numpy as np
import torch

from exadec.corpus.vocabulary import PAD
from exadec.loading.batch import Batch
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader


def assert_same_batch(found: Batch, exact: Batch) -> None:
    """Equal, but for padding: shapes of a resident batch are rounded up."""
    for item in fields(Batch):
        ours, theirs = getattr(found, item.name).cpu(), getattr(exact, item.name)
        if theirs.dim() == 1:
            assert torch.equal(ours[: len(theirs)], theirs), item.name
            continue
        rows, width = theirs.shape
        padding = 0 if item.name == "unknown" else PAD
        assert torch.equal(ours[:rows, :width], theirs), item.name
        assert (ours[:rows, width:] == padding).all(), item.name


def check_batches(loader: Loader, device: str) -> None:
    """Two batches with rows to spare, one of them with longer texts than the first instance has."""
    resident = ResidentLoader(loader, torch.device(device))
    for begin in (0, 40):
        indices = np.arange(begin, begin + 11)
        shape = resident.shape(indices, 13)
        found = resident.gather(torch.from_numpy(resident.address(indices, 13)).to(device), shape)
        assert_same_batch(found, loader.batch(indices))
        assert (found.target_output[11:] == PAD).all()
        for item in fields(Batch):
            each = resident.exemplars_drawn if item.name.startswith("exemplar") else 1
            assert len(getattr(found, item.name)) == 13 * each
