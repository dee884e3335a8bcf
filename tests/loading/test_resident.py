"""Batches made on the device against batches made on the host."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import prepare
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader
from support.interpreter import interpret_kernels
from support.resident_batches import check_batches
from support.toys import config_for

Loaders = dict[tuple[bool, int, int], Loader]
"""By whether the exemplars can be copied from, how many each instance has, and how many of them a batch shows."""
KINDS = [(False, 1, 1), (False, 3, 3), (False, 3, 2), (True, 1, 1), (True, 3, 3)]


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> Loaders:
    """A corpus of which many words are unknown, and some instances have no exemplar; with and without AttExp, and with
    one exemplar or several. Some instances with several have marked ones."""
    folder = tmp_path_factory.mktemp("resident")
    random = np.random.default_rng(0)
    for split in ("train", "valid", "test"):
        with (folder / f"{split}.jsonl").open("w") as file:
            for i in range(90):
                words = [f"w{int(n)}" for n in random.zipf(1.3, random.integers(1, 19)) % 400]
                source = " ".join(words) if i % 9 else f"alone{i}"
                target = " ".join(random.permutation([*words[:4], f"new{i}", "said"]))
                file.write(json.dumps({"uid": str(i), "source": source, "target": target}) + "\n")
    corpus = prepare(config_for(folder, segmentation="words", vocabulary_size=60))
    maps = {1: retrieve(corpus), 3: retrieve(corpus, ExemplarConfig(neighbours=3, form_share=0.4))}
    assert all((exemplars.indices("train") < 0).any() for exemplars in maps.values())
    assert maps[3].marked("train")[:50].any()
    return {
        (copies, each, drawn): Loader(corpus, maps[each], "train", copies, each, drawn) for copies, each, drawn in KINDS
    }


INTERPRETED = """
import pickle
from support.resident_batches import check_batches
for loader in pickle.load(open({path!r}, "rb")):
    check_batches(loader, "cpu")
print("equal")
"""


def test_batches_are_those_of_the_host_when_triton_interprets_the_kernel(loaders: Loaders, tmp_path: Path) -> None:
    path = tmp_path / "loaders.pickle"
    path.write_bytes(pickle.dumps(list(loaders.values())))
    assert interpret_kernels(INTERPRETED.format(path=str(path))) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_a_gpu_are_those_of_the_host(loaders: Loaders, kind: tuple[bool, int, int]) -> None:
    check_batches(loaders[kind], "cuda")


STEPPED = """
import pickle, numpy as np, torch
from support.small_models import small_model_config
from exadec.loading.resident import ResidentLoader
from exadec.model.seq2seq import Seq2seq
for loader in pickle.load(open({path!r}, "rb")):
    resident = ResidentLoader(loader, torch.device("cpu"))
    indices = np.arange(9)
    batch = resident.gather(torch.from_numpy(resident.address(indices, 9)), resident.shape(indices, 9))
    assert batch.unknown.shape[1] > 0
    config = small_model_config(attend_exemplar=loader.copy_exemplar, exemplar_context=True)
    model = Seq2seq(config, loader.vocabulary_size).eval()
    log_probs, _ = model.step(model.encode(batch), batch.target_input[:, 0])
    assert torch.allclose(log_probs.exp().sum(1), torch.ones(9), atol=1e-4)
print("sums to one")
"""


def test_model_can_step_on_a_resident_batch(loaders: Loaders, tmp_path: Path) -> None:
    """Its unknown words have ids of the batch, for which the model has room."""
    path = tmp_path / "loaders.pickle"
    path.write_bytes(pickle.dumps(list(loaders.values())))
    assert interpret_kernels(STEPPED.format(path=str(path))) == "sums to one"


def test_shapes_are_few_and_large_enough(loaders: Loaders) -> None:
    resident = ResidentLoader(loaders[False, 3, 3], torch.device("cpu"))
    indices = np.array([3, 5, 8])
    shape = resident.shape(indices, 4)
    assert shape.batch == 4
    assert all(size % 8 == 0 for size in shape[1:])
    lengths = (resident.source_lengths, resident.exemplar_lengths, resident.target_lengths + 1)
    assert all(
        part[indices].max() <= size < part[indices].max() + 8 for part, size in zip(lengths, shape[1:], strict=True)
    )


CUT = """
import pickle, numpy as np, torch
from exadec.corpus.vocabulary import PAD
from exadec.loading.resident import ResidentLoader
(loader,) = pickle.load(open({path!r}, "rb"))
resident = ResidentLoader(loader, torch.device("cpu"))
short = 1 + np.flatnonzero(resident.source_lengths[1:] < 5)[:3]
resident._sources.lengths[0] = 40  # as if it were long: of what follows it in memory
shape = resident.shape(short, 5)
assert shape.source <= 8 < 40
batch = resident.gather(torch.from_numpy(resident.address(short, 5)), shape)
assert (batch.source_lengths <= shape.source).all()
assert (batch.target_output[3:] == PAD).all()
print("fits")
"""


def test_row_without_instance_fits_into_any_shape(loaders: Loaders, tmp_path: Path) -> None:
    """The first instance stands in for it, which may be longer than all of the batch."""
    path = tmp_path / "loaders.pickle"
    path.write_bytes(pickle.dumps([loaders[True, 3, 3]]))
    assert interpret_kernels(CUT.format(path=str(path))) == "fits"
