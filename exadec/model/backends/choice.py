"""Choosing the backend that trains a model.

In: `training.backend`, the device, the precision, the model's sizes. Out: a `Backend`, or the reason it cannot run.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import NamedTuple

import torch

from exadec.config import ModelConfig
from exadec.errors import InputError
from exadec.model.backends.reference import REFERENCE, Backend


def pick_device(wanted: str | None = None) -> torch.device:
    """The device that is wanted, if it is there. Without a wish, the GPU if there is one, otherwise the CPU."""
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = re.fullmatch(r"(cpu)|cuda(?::(\d+))?", wanted)
    if parts is None:
        raise InputError(f"unknown device {wanted!r}; the devices are cpu, cuda, and cuda:N for the GPU of number N.")
    if parts[1] is None and not torch.cuda.is_available():
        raise InputError(f"the device {wanted} was asked for, but torch finds no CUDA GPU here; use cpu.")
    if parts[2] is None:
        return torch.device(wanted)
    number, last = int(parts[2]), torch.cuda.device_count() - 1  # counts the GPUs without waking them
    if number > last:
        raise InputError(f"the device {wanted} was asked for, but the last GPU here is cuda:{last}.")
    return torch.device("cuda", number)


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Inside the block, `cuda` and the kernels of the backends mean this GPU, if it has a number."""
    return nullcontext() if device.index is None else torch.cuda.device(device)


class Chosen(NamedTuple):
    """A backend, and a log message that explains the choice."""

    backend: Backend
    message: str


def choose_backend(wanted: str, device: torch.device, precision: torch.dtype, config: ModelConfig) -> Chosen:
    """The backend named `wanted`, or an `InputError` that says why it cannot run. `auto` is the fastest that can."""
    obstacles = _obstacles(device, precision, config)
    if not obstacles["hopper"]:
        obstacles["hopper"] = _obstacle_of_card(device)
    name = wanted
    if wanted == "auto":
        name = next(name for name, obstacle in obstacles.items() if not obstacle)
    _refuse(wanted, obstacles)
    message = f"backend {name} on {device}"
    if device.type == "cuda" and wanted == "auto" and obstacles["hopper"]:
        message += f"; hopper would be faster, but {obstacles['hopper']}"
    return Chosen(_build(name, device), f"{message}.")


def refuse_backend(wanted: str, device: torch.device, precision: torch.dtype, config: ModelConfig) -> None:
    """Refuse what can be seen to be impossible without waking the GPU, which is left to the process that trains."""
    _refuse(wanted, _obstacles(device, precision, config))


def _refuse(wanted: str, obstacles: Mapping[str, str]) -> None:
    if obstacles.get(wanted):
        raise InputError(f"`training.backend` is {wanted}, but {obstacles[wanted]}. Leave it at auto.")


def _obstacles(device: torch.device, precision: torch.dtype, config: ModelConfig) -> dict[str, str]:
    """Backend, the fastest first -> why the settings and this machine's software rule it out, or nothing."""
    without_triton = _obstacle_to_triton(device)
    return {
        "hopper": without_triton or _obstacle_to_hopper(precision, config),
        "triton": without_triton,
        "reference": "",
    }


def _build(name: str, device: torch.device) -> Backend:
    # Import late: only CUDA builds of torch come with Triton.
    if name == "hopper":
        from exadec.model.backends.hopper import HopperBackend

        return HopperBackend(device)
    if name == "triton":
        from exadec.model.backends.triton import TritonBackend

        return TritonBackend(device)
    return REFERENCE


def _obstacle_to_triton(device: torch.device) -> str:
    """Why the Triton backend cannot run; empty if it can."""
    if device.type != "cuda":
        return "there is no CUDA GPU here"
    if find_spec("triton") is None:
        return "Triton is not installed (it comes with CUDA builds of torch)"
    return ""


def _obstacle_to_hopper(precision: torch.dtype, config: ModelConfig) -> str:
    """Why the Hopper backend cannot train this model; empty if it can."""
    from exadec.model.backends.hopper.launch import LARGEST, UNITS, find_compiler

    if precision != torch.bfloat16:
        return "its kernels compute in bfloat16, and `training.precision` asks for float32"
    sizes = {"`model.hidden`": config.hidden}
    if config.adaptive:
        sizes["`model.rank`"] = config.coefficient_rank
    for name, size in sizes.items():
        if size > LARGEST or size % UNITS:
            return f"its kernels need {name} to be a multiple of {UNITS} and at most {LARGEST}, and it is {size}"
    if config.embedding % UNITS:
        return f"its kernels need `model.embedding` to be a multiple of {UNITS}, and it is {config.embedding}"
    if config.reads_exemplars and config.exemplar_hidden > LARGEST:
        return f"its kernels need `model.exemplar_hidden` to be at most {LARGEST}, and it is {config.exemplar_hidden}"
    if find_compiler() is None:
        return "NVRTC, the compiler that comes with CUDA builds of torch, was not found"
    return ""


def _obstacle_of_card(device: torch.device) -> str:
    """Why the Hopper backend cannot run on a GPU; empty if it can."""
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) != (9, 0):
        return f"the GPU has compute capability {major}.{minor}, and its kernels need 9.0 (H100, H200)"
    return ""
