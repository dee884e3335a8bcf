"""Which backend is chosen, and why another one is refused."""

import re
from contextlib import nullcontext

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
        ({"exemplar_hidden": 330}, "`model.exemplar_hidden` to be at most 320, and it is 330"),
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


def test_device_is_the_one_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choice.pick_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choice.pick_device() == choice.pick_device("cuda") == torch.device("cuda")
    assert choice.pick_device("cpu") == torch.device("cpu")
    assert choice.pick_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(InputError, match="cuda:2 was asked for, but the last GPU here is cuda:1"):
        choice.pick_device("cuda:2")


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choice.pick_device() == torch.device("cpu")
    with pytest.raises(InputError, match=f"{wanted} was asked for, but torch finds no CUDA GPU here; use cpu"):
        choice.pick_device(wanted)


@pytest.mark.parametrize("wanted", ["gpu", "cuda:", "cuda:x", "cpu:0", "", "cuda:-1", "CUDA"])
def test_no_other_device_is_known(wanted: str) -> None:
    with pytest.raises(InputError, match="the devices are cpu, cuda, and cuda:N"):
        choice.pick_device(wanted)


def test_a_gpu_with_a_number_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: entered.append(device) or nullcontext())
    with choice.on_device(torch.device("cpu")), choice.on_device(torch.device("cuda")):
        assert entered == []
    with choice.on_device(torch.device("cuda", 1)):
        assert entered == [torch.device("cuda", 1)]
