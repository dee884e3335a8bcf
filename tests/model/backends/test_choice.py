"""Which backend is chosen, and why another one is refused."""

import re

import pytest
import torch

from exadec.config import ModelConfig
from exadec.errors import InputError
from exadec.model.backends import choice
from exadec.model.backends.reference import REFERENCE, Backend


def choose(wanted: str, device: str = "cuda", precision: torch.dtype = torch.bfloat16, **sizes: object) -> Backend:
    return choice.choose_backend(wanted, torch.device(device), precision, ModelConfig(**sizes)).backend


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that there is one."""
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
