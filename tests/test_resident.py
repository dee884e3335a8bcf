"""Batches made on the device against batches made on the host."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import interpret_kernels
from toys import config_for

from exadec.config import VARIANTS
from exadec.corpus.prepare import prepare
from exadec.corpus.vocabulary import PAD
from exadec.exemplars.retrieve import retrieve
from exadec.loading.loader import Loader
from exadec.loading.resident import ResidentLoader
from exadec.model.seq2seq import Seq2seq


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Loader]:
    """A corpus of which many words are unknown, and some instances have no exemplar; with and without AttExp."""
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
    exemplars = retrieve(corpus)
    assert (exemplars.indices("train") < 0).any()
    return {copies: Loader(corpus, exemplars, "train", copies) for copies in (False, True)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_and_gradients_are_those_of_the_host(loaders: dict[bool, Loader], variant: str) -> None:
    from conftest import small_model_config

    torch.manual_seed(0)
    model = Seq2seq(small_model_config(**VARIANTS[variant]), loaders[False].vocabulary_size).double()
    loader = loaders[VARIANTS[variant]["attend_exemplar"]]
    resident = ResidentLoader(loader, torch.device("cpu"))
    for begin in (0, 40):
        indices = np.arange(begin, begin + 37)
        padded = np.append(indices, [-1] * 3)
        found = []
        shape = resident.shape(indices, 40)
        for batch in (loader.batch(indices), resident.gather(torch.from_numpy(padded), shape)):
            model.zero_grad()
            words = batch.target_output != PAD
            log_probs = model(batch).masked_fill(~words, 0.0)
            (-log_probs.sum() / words.sum()).backward()
            gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
            found.append((words.sum().item(), log_probs.sum().item(), gradients))
        assert found[0][0] == found[1][0]
        assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)
        for ours, theirs in zip(found[0][2], found[1][2], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_shapes_are_few_and_large_enough(loaders: dict[bool, Loader]) -> None:
    resident = ResidentLoader(loaders[False], torch.device("cpu"))
    indices = np.array([3, 5, 8])
    shape = resident.shape(indices, 4)
    batch = resident.gather(torch.tensor([3, 5, 8, -1]), shape)
    assert batch.source.shape == (4, shape.source)
    assert batch.target_output.shape == (4, shape.target)
    assert all(size % 8 == 0 for size in shape[1:])
    assert (batch.target_output[3] == PAD).all()
    assert (batch.target_output[:3] != PAD).sum(1).tolist() == (resident.target_lengths[indices] + 1).tolist()


def test_row_without_instance_fits_into_any_shape(loaders: dict[bool, Loader]) -> None:
    """The first instance stands in for it, which may be longer than all of the batch."""
    resident = ResidentLoader(loaders[True], torch.device("cpu"))
    short = 1 + np.flatnonzero(resident.source_lengths[1:] < 5)[:3]
    resident.source_lengths[0] = 40  # as if it were long: of what follows it in memory
    resident._lengths[0][0] = 40
    shape = resident.shape(short, 5)
    assert shape.source <= 8 < 40
    batch = resident.gather(torch.from_numpy(np.append(short, [-1, -1])), shape)
    assert (batch.source_lengths <= shape.source).all()
    assert (batch.target_output[3:] == PAD).all()


GATHERED = """
import pickle, sys, torch
loaders = pickle.load(open({path!r}, "rb"))
for loader in loaders:
    for begin in (0, 40):
        indices = torch.arange(begin, begin + 11)
        shape = loader.shape(indices.numpy(), 13)
        indices = torch.cat([indices, torch.tensor([-1, -1])])
        shape = shape._replace(source=min(shape.source, 8))  # too short for some
        found, exact = loader.gather_at_once(indices, shape), loader.gather(indices, shape)
        for name in ("source", "source_lengths", "exemplar", "exemplar_lengths", "target_input", "target_output"):
            assert torch.equal(getattr(found, name), getattr(exact, name)), name
print("equal")
"""


def test_batches_are_right_when_triton_interprets_the_kernel(loaders: dict[bool, Loader], tmp_path: Path) -> None:
    path = tmp_path / "loaders.pickle"
    path.write_bytes(pickle.dumps([ResidentLoader(loader, torch.device("cpu")) for loader in loaders.values()]))
    assert interpret_kernels(GATHERED.format(path=str(path))) == "equal"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("copies", [False, True])
def test_batches_of_a_gpu_are_those_of_the_cpu(loaders: dict[bool, Loader], copies: bool) -> None:
    on_cpu, on_gpu = (ResidentLoader(loaders[copies], torch.device(kind)) for kind in ("cpu", "cuda"))
    indices = np.arange(37)
    shape = on_cpu.shape(indices, 40)
    padded = torch.from_numpy(np.append(indices, [-1] * 3))
    found, exact = on_gpu.gather(padded.cuda(), shape), on_cpu.gather(padded, shape)
    for name in ("source", "source_lengths", "exemplar", "exemplar_lengths", "target_input", "target_output"):
        assert torch.equal(getattr(found, name).cpu(), getattr(exact, name)), name
