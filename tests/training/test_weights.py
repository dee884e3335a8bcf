"""Weights in a file: what is written can be read by the library, and only what fits a model becomes one."""

import io
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

from exadec.config import VARIANTS, ModelConfig
from exadec.model.cells import CELLS
from exadec.model.seq2seq import Seq2seq
from exadec.training.checkpoint import write_checkpoint
from exadec.training.weights import fewest_weights, hash_tensors, write_tensors

TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    tensors = {f"{dtype}": (torch.arange(15).reshape(3, 5) % 7).to(dtype) for dtype in TYPES}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "turned": torch.arange(6.0).reshape(2, 3).T}
    with (tmp_path / "a.safetensors").open("wb") as file:
        write_tensors(file, tensors, {"notes": "ü"})
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == {"notes": "ü"}
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    assert hash_tensors(found) == hash_tensors(tensors)


def test_nothing_is_written_for_no_tensors() -> None:
    file = io.BytesIO()
    write_tensors(file, {}, {})
    assert load(file.getvalue()) == {}


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_others_may_read_a_checkpoint_if_the_umask_says_so(tmp_path: Path, umask: int, mode: int) -> None:
    model = Seq2seq(ModelConfig(hidden=4, embedding=4, encoder_layers=1), 10)
    before = os.umask(umask)
    try:
        write_checkpoint(tmp_path / "best.safetensors", model, {}, {})
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weights", ["factored", "residual", "unconstrained"])
@pytest.mark.parametrize("cell", CELLS)
def test_no_model_has_fewer_weights_than_the_fewest(variant: str, weights: str, cell: str) -> None:
    sizes = {"hidden": 12, "embedding": 10, "encoder_layers": 2, "exemplar_hidden": 5, "rank": 7}
    config = ModelConfig(**sizes, **VARIANTS[variant], weights=weights, cell=cell)
    model = Seq2seq(config, 30)
    assert fewest_weights(config, 30) <= sum(tensor.numel() for tensor in model.state_dict().values())
