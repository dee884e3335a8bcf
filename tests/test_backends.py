"""One interface, three backends: who is chosen, and that all compute the same."""

import copy
import re
from pathlib import Path

import kernel_stand_ins
import pytest
import torch
from conftest import build_small_model, interpret_kernels, random_batch

import exadec.model
from exadec.config import VARIANTS, ModelConfig
from exadec.corpus.vocabulary import PAD
from exadec.errors import InputError
from exadec.model.backends import choice
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.encoder import BiLstmEncoder
from exadec.model.seq2seq import Seq2seq

MODEL = Path(next(iter(exadec.model.__path__)))
CUDA = torch.cuda.is_available()
HOPPER = CUDA and torch.cuda.get_device_capability() == (9, 0)


@pytest.mark.parametrize("path", sorted(MODEL.glob("*.py")), ids=lambda path: path.stem)
def test_files_of_the_paper_ask_for_no_device(path: Path) -> None:
    code = path.read_text("utf-8")
    assert not re.search(r"is_cuda|cuda|device\.type|autocast|capability|triton|hopper", code.lower())


def test_cells_ask_for_no_device_either() -> None:
    paths = sorted((MODEL / "cells").glob("*.py"))
    assert len(paths) == 5
    assert not any(re.search(r"cuda|device|autocast", path.read_text("utf-8")) for path in paths)


# The choice -----------------------------------------------------------------------------------------------------------


def choose(wanted: str, device: str = "cuda", precision: torch.dtype = torch.bfloat16, **sizes: object) -> Backend:
    return choice.choose_backend(wanted, torch.device(device), precision, ModelConfig(**sizes)).backend


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were one."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr("exadec.model.backends.hopper.launch.find_compiler", lambda: object())


def test_cpu_gets_the_reference_and_says_so() -> None:
    chosen = choice.choose_backend("auto", torch.device("cpu"), torch.float32, ModelConfig())
    assert chosen == (REFERENCE, "backend reference on cpu.")


@pytest.mark.parametrize("wanted", ["triton", "hopper"])
def test_backend_without_a_gpu_is_refused_with_the_reason(wanted: str) -> None:
    with pytest.raises(InputError, match=f"`training.backend` is {wanted}, but there is no CUDA GPU here"):
        choose(wanted, "cpu", torch.float32)


@pytest.mark.usefixtures("h200")
def test_hopper_is_chosen_where_it_can_run() -> None:
    assert choose("auto").name == choose("hopper").name == "hopper"
    assert choose("triton").name == "triton"
    assert choose("reference") is REFERENCE


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"precision": torch.float32}, "`training.precision` asks for float32"),
        ({"hidden": 512, "embedding": 512}, "`model.hidden` to be a multiple of 4 and at most 320, and it is 512"),
        ({"hidden": 250}, "`model.hidden` to be a multiple of 4 and at most 320, and it is 250"),
        ({"exemplar_hidden": 30}, "`model.exemplar_hidden` to be a multiple of 4"),
        ({"rank": 321}, "`model.rank` to be a multiple of 4 and at most 320, and it is 321"),
        ({"embedding": 30}, "`model.embedding` to be a multiple of 4, and it is 30"),
    ],
    ids=str,
)
def test_what_hopper_cannot_do_is_done_by_triton_or_refused(changes: dict[str, object], reason: str) -> None:
    precision = changes.get("precision", torch.bfloat16)
    sizes = {key: size for key, size in changes.items() if key != "precision"}
    chosen = choice.choose_backend("auto", torch.device("cuda"), precision, ModelConfig(**sizes))
    assert chosen.backend.name == "triton"
    assert "hopper would be faster, but its kernels" in chosen.message
    assert reason in chosen.message
    with pytest.raises(InputError, match=re.escape(reason)):
        choose("hopper", **changes)


@pytest.mark.usefixtures("h200")
def test_other_gpus_and_missing_compilers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    with pytest.raises(InputError, match=r"compute capability 8\.6"):
        choose("hopper")
    monkeypatch.setattr("exadec.model.backends.hopper.launch.find_compiler", lambda: None)
    with pytest.raises(InputError, match="NVRTC"):
        choose("hopper")
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert choose("auto") is REFERENCE


# All compute the same -------------------------------------------------------------------------------------------------


def whole_model(backend: Backend, variant: str, device: str, **shape: object) -> list[torch.Tensor]:
    """log p of all targets and all gradients of a small model, in what precision the backend has."""
    switches = VARIANTS[variant]
    sizes = {"hidden": 16, "embedding": 16, "exemplar_hidden": 8}
    model = build_small_model(**{**sizes, **switches, **shape}).train()
    if backend is not REFERENCE or device != "cpu":
        model = copy.deepcopy(model).to(device, torch.float32)
    model.backend = backend
    batch = random_batch(9, copy_exemplar=switches["attend_exemplar"]).to(torch.device(device))
    words = batch.target_output != PAD
    with torch.autocast(device, torch.bfloat16, enabled=backend.name == "hopper"):
        log_probs = model(batch)[words]
    log_probs.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [tensor.detach().cpu().double() for tensor in (log_probs, *gradients)]


def worst(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    assert all(tensor.isfinite().all() for tensor in found)
    return max(float((a - b).norm() / b.norm().clamp_min(1e-9)) for a, b in zip(found, exact, strict=True))


INTERPRETED = """
import torch
from test_backends import VARIANTS, whole_model, worst
from exadec.model.backends.reference import REFERENCE
from exadec.model.backends.triton import TritonBackend
backend = TritonBackend(torch.device("cpu"))
shapes = [{}, {"copy": "separate"}, {"cell": "gru"}]
pairs = [(variant, shape) for variant in VARIANTS for shape in shapes]
print(max(worst(whole_model(backend, v, "cpu", **s), whole_model(REFERENCE, v, "cpu", **s)) for v, s in pairs))
"""


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

    assert worst(whole_model(Part(), variant, "cpu"), whole_model(REFERENCE, variant, "cpu")) < 0.03


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
    assert worst(found, whole_model(REFERENCE, variant, "cpu", **shape)) < (0.05 if name == "hopper" else 3e-3)


# Precision ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]),
    ],
)
def test_lstms_of_torch_stay_in_float32_under_autocast(device: str) -> None:
    """Autocast would run cuDNN's LSTM in float16, although it was asked for bfloat16: large values become infinite."""
    torch.manual_seed(0)
    encoder, lengths = BiLstmEncoder(8, 8, 2, 0.0).to(device), torch.tensor([5, 3]).to(device)
    x = torch.randn(2, 5, 8, device=device) * 1e6  # float16 ends at 65,504
    with torch.autocast(device, torch.bfloat16):
        positions, last = encoder(x, lengths)
        plain = torch.nn.LSTM(8, 8, batch_first=True).to(device)(x)[0]
    assert positions.dtype == last.dtype == torch.float32
    assert positions.isfinite().all()
    if device == "cuda":
        assert plain.dtype == torch.float16, "autocast has changed its mind: the reference may not need its detour"


def test_search_uses_the_reference_whatever_the_backend() -> None:
    class Refusing(Backend):
        def lookup(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            raise AssertionError("the backend was asked")

    model, batch = build_small_model(), random_batch(3)
    model.backend = Refusing()
    assert isinstance(model, Seq2seq)
    state = model.encode(batch)
    model.step(state, batch.target_input[:, 0])
    model.explain(state, batch.target_input)
    with pytest.raises(AssertionError, match="the backend was asked"):
        model(batch)
