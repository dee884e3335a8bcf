"""Kernels that keep an LSTM's recurrent weights on the chip: layout, compilation, launch.

In: the sizes of an LSTM. Out: machine code for these sizes, and functions that launch it.

NVRTC, the compiler that comes with torch, compiles the .cu files for one set of sizes on first use. This takes about a
second and needs no CUDA toolkit.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

THREADS = 256
_WARPS = 8
_WIDEST = 40
"""Maximum hidden units per block; with more, its weights would not fit."""
LARGEST = 8 * _WIDEST
"""Maximum hidden units, and maximum rank: a cluster has at most 8 blocks."""
UNITS = 4
"""Units are read and written four at a time, so their number must be a multiple of this."""
_REGISTERS = 128
"""Maximum registers per thread for weights; if they need more, half of them go to shared memory."""


@dataclass(frozen=True)
class Layout:
    """How rows and units are divided among blocks. Kernels are compiled for each layout separately."""

    hidden: int
    rank: int
    """0 for the plain recurrence."""
    cluster: int
    rows: int

    @property
    def units(self) -> int:
        return _round_up(self.hidden, 8 * self.cluster if self.cluster > 1 else 16) // self.cluster

    @property
    def narrow(self) -> int:
        parts = self.cluster // 4
        return _round_up(self.rank, 16 * parts) // parts if self.rank else 0

    @property
    def shared_weights(self) -> bool:
        padded = self.cluster * self.units
        columns, outputs = (-(-width // (8 * _WARPS)) for width in (self.narrow, padded))
        return columns * padded // 8 + outputs * self.narrow // 8 > _REGISTERS

    def macros(self) -> dict[str, int]:
        sizes = {"HIDDEN": self.hidden, "CLUSTER": self.cluster, "UNITS": self.units, "ROWS": self.rows}
        if self.rank:
            sizes |= {"RANK": self.rank, "NARROW": self.narrow, "SHARED_WEIGHTS": int(self.shared_weights)}
        return sizes

    def shared_bytes(self, kernel: str) -> int:
        """Shared memory of a block; the terms come in the order of the kernel's buffers."""
        wide, narrow, own = self.cluster * self.units + 8, self.narrow + 8, 4 * self.units + 8
        partials = self.cluster * self.rows * (self.units + 8) * 4
        if kernel == "plain_forward":
            return 2 * self.rows * wide * 2 + self.rows * own * 4 + (own - 8) * 4
        if kernel == "plain_backward":
            return 2 * partials + self.rows * own * 2
        if not kernel.startswith("adaptive"):
            return 0
        forward = kernel == "adaptive_forward"
        coefficients = self.rows * narrow * 4 * (1 if forward else 2)
        bias = self.rows * (own - 8) * 2 if forward else 0
        weights = self.narrow * wide * 2 if self.shared_weights else 0
        return partials + coefficients + self.rows * (wide + 2 * narrow) * 2 + bias + weights


def lay_out(hidden: int, rank: int, batch: int, directions: int, device: torch.device) -> Layout:
    """The layout with the fastest step: few rows per cluster, but all clusters run at the same time."""
    smallest = 4 if rank else 1
    cluster = next(size for size in (1, 2, 4, 8) if size >= smallest and max(hidden, rank) <= size * _WIDEST)
    properties: Any = torch.cuda.get_device_properties(device)
    # A cluster must fit into one GPC, a group of up to 18 multiprocessors.
    at_once = properties.multi_processor_count // 18 * (18 // cluster)
    layouts = [Layout(hidden, rank, cluster, rows) for rows in ((16, 32, 48) if rank else (16, 32, 48, 64, 80, 96))]
    kernel = "adaptive_backward" if rank else "plain_backward"
    fitting = [one for one in layouts if one.shared_bytes(kernel) <= properties.shared_memory_per_block_optin - 1024]
    # Measured: a step of 32 rows takes about 1.6 times as long as one of 16.
    return min(fitting, key=lambda one: -(-(-(-batch // one.rows) * directions) // at_once) * (one.rows + 12))


def grid_of(layout: Layout, batch: int, directions: int = 1) -> tuple[int, int, int]:
    return layout.cluster * -(-batch // layout.rows), directions, 1


def launch(kernel: str, layout: Layout, grid: tuple[int, int, int], arguments: list[Any]) -> None:
    function = _load(kernel, layout, torch.cuda.current_device())
    function(grid, (THREADS, 1, 1), arguments, shared_mem=layout.shared_bytes(kernel))


@cache
def _load(kernel: str, layout: Layout, device: int) -> Any:
    from torch.cuda._utils import _cuda_load_module

    functions = _cuda_load_module(compile_kernels(layout), [kernel])
    assert isinstance(functions, dict)
    functions[kernel].set_shared_memory_config(layout.shared_bytes(kernel))
    return functions[kernel]


@cache
def compile_kernels(layout: Layout) -> bytes:
    """Compile the kernels of a layout with NVRTC, and return the machine code."""
    library = find_compiler()
    assert library is not None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    names = ("shared_parts.cu", "adaptive_lstm.cu" if layout.rank else "plain_lstm.cu")
    source = b"".join(Path(__file__).with_name(name).read_bytes() for name in names)
    options = [b"--gpu-architecture=sm_90", b"--std=c++17", b"--diag-suppress=177"]
    options += [f"-D{name}={value}".encode() for name, value in layout.macros().items()]
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"lstm.cu", 0, None, None)
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    wanted = "ProgramLog" if failed else "CUBIN"
    getattr(library, f"nvrtcGet{wanted}Size")(program, ctypes.byref(size))
    result = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{wanted}")(program, result)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(f"the kernels do not compile:\n{result.value.decode()}")
    return result.raw


@cache
def find_compiler() -> ctypes.CDLL | None:
    """NVRTC, which comes with CUDA builds of torch; None if it cannot be loaded."""
    version = (torch.version.cuda or "13").split(".")[0]
    for name in (f"libnvrtc.so.{version}", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
