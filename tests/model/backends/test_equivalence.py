"""Three backends, one model: all compute the same."""

import pytest
import torch

from exadec.config import VARIANTS, ModelConfig
from exadec.model.backends import choice
from exadec.model.backends.reference import REFERENCE, Backend
from support import kernel_stand_ins
from support.backend_runs import largest_error, whole_model
from support.interpreter import interpret_kernels

CUDA = torch.cuda.is_available()


HOPPER = CUDA and torch.cuda.get_device_capability() == (9, 0)


INTERPRETED = """
import torch
from exadec.config import VARIANTS
from support.backend_runs import largest_error, whole_model
from exadec.model.backends.reference import REFERENCE
from exadec.model.backends.triton import TritonBackend
backend = TritonBackend(torch.device("cpu"))
shapes = [{}, {"copy": "separate"}, {"cell": "gru"}]
pairs = [(variant, shape) for variant in VARIANTS for shape in shapes]
print(max(largest_error(whole_model(backend, v, "cpu", **s), whole_model(REFERENCE, v, "cpu", **s)) for v, s in pairs))
"""


@pytest.mark.slow
def test_triton_interpreted_equals_the_reference() -> None:
    assert float(interpret_kernels(INTERPRETED)) < 1e-4


@pytest.mark.parametrize("variant", VARIANTS)
def test_hopper_around_stand_ins_equals_the_reference(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels' stand-ins on a CPU; Triton's part is left to the reference."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from exadec.model.backends.hopper import HopperBackend

    kernel_stand_ins.use(monkeypatch)

    class Part(Backend):
        name = "hopper"
        bilstm_layer, unroll = HopperBackend.bilstm_layer, HopperBackend.unroll

    assert largest_error(whole_model(Part(), variant, "cpu"), whole_model(REFERENCE, variant, "cpu")) < 0.03


@pytest.mark.cuda
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("shape", [{}, {"copy": "separate", "input_feeding": True}, {"cell": "gru"}, {"copy": "none"}])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["reference", "triton", "hopper"])
def test_every_backend_equals_the_reference_on_a_gpu(name: str, variant: str, shape: dict[str, object]) -> None:
    if name == "hopper" and not HOPPER:
        pytest.skip("needs a Hopper GPU")
    precision = torch.bfloat16 if name == "hopper" else torch.float32
    config = ModelConfig(hidden=16, exemplar_hidden=8)
    backend = choice.choose_backend(name, torch.device("cuda"), precision, config).backend
    found = whole_model(backend, variant, "cuda", **shape)
    # cuDNN and matrix products may round float32 to 10 bits (TF32).
    assert largest_error(found, whole_model(REFERENCE, variant, "cpu", **shape)) < (0.05 if name == "hopper" else 3e-3)
