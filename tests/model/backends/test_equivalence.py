"""Three backends, one model: all compute the same."""

import pytest
import torch

from exadec.config import VARIANTS, ModelConfig
from exadec.model.backends import choice
from exadec.model.backends.reference import REFERENCE, Backend
from support import kernel_stand_ins
from support.backend_runs import largest_error, whole_model
from support.interpreter import interpret_kernels
from support.small_models import ALL_OPTIONS, OPTIONS

CUDA = torch.cuda.is_available()


HOPPER = CUDA and torch.cuda.get_device_capability() == (9, 0)


class Rounded(Backend):
    """The reference in bfloat16. Small gradients that are left of large ones lose much to rounding by themselves."""

    name = "hopper"


INTERPRETED = """
import torch
from exadec.config import VARIANTS
from support.backend_runs import largest_error, whole_model
from support.small_models import ALL_OPTIONS
from exadec.model.backends.reference import REFERENCE
from exadec.model.backends.triton import TritonBackend
backend = TritonBackend(torch.device("cpu"))
shapes = [{}, {"copy": "separate"}, {"cell": "gru"}, {"weights": "residual"}, ALL_OPTIONS]
pairs = [(variant, shape) for variant in VARIANTS for shape in shapes]
print(max(largest_error(whole_model(backend, v, "cpu", **s), whole_model(REFERENCE, v, "cpu", **s)) for v, s in pairs))
"""


@pytest.mark.slow
def test_triton_interpreted_equals_the_reference() -> None:
    assert float(interpret_kernels(INTERPRETED)) < 1e-4


@pytest.mark.parametrize(
    "option",
    [{}, {"weights": "residual", "rank": 12}, {"exemplar_hidden": 6}, ALL_OPTIONS],
    ids=["paper", "residual", "odd", "all"],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_hopper_around_stand_ins_equals_the_reference(
    variant: str, option: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels' stand-ins on a CPU; Triton's part is left to the reference."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from exadec.model.backends.hopper import HopperBackend

    kernel_stand_ins.use(monkeypatch)

    class Part(Backend):
        name = "hopper"
        bilstm_layer, unroll = HopperBackend.bilstm_layer, HopperBackend.unroll

    exact = whole_model(REFERENCE, variant, "cpu", **option)
    rounded = largest_error(whole_model(Rounded(), variant, "cpu", **option), exact)
    assert largest_error(whole_model(Part(), variant, "cpu", **option), exact) < max(0.03, 3 * rounded)


@pytest.mark.cuda
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"copy": "separate", "input_feeding": True},
        {"cell": "gru"},
        {"copy": "none"},
        {"exemplar_hidden": 6},
        *OPTIONS,
        ALL_OPTIONS,
        {**ALL_OPTIONS, "copy": "separate", "input_feeding": True},
    ],
    ids=lambda shape: "-".join(shape),
)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["reference", "triton", "hopper"])
def test_every_backend_equals_the_reference_on_a_gpu(name: str, variant: str, shape: dict[str, object]) -> None:
    if name == "hopper" and not HOPPER:
        pytest.skip("needs a Hopper GPU")
    precision = torch.bfloat16 if name == "hopper" else torch.float32
    config = ModelConfig(hidden=16, exemplar_hidden=8)
    backend = choice.choose_backend(name, torch.device("cuda"), precision, config).backend
    found = whole_model(backend, variant, "cuda", **shape)
    exact = whole_model(REFERENCE, variant, "cpu", **shape)
    # cuDNN and matrix products may round float32 to 10 bits (TF32).
    allowed = 3e-3
    if name == "hopper":
        allowed = max(0.05, 3 * largest_error(whole_model(Rounded(), variant, "cuda", **shape), exact))
    assert largest_error(found, exact) < allowed
