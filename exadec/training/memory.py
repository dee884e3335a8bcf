"""Whether models and batches fit into memory, before any of it is taken.

In: the settings of models that are trained at the same time; lengths of texts. Out: an error with an estimate, if they
are too large.

The system hands out more memory than there is, and later swaps, or kills whichever process it likes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from exadec.config import ModelConfig
from exadec.errors import InputError
from exadec.model.cells import CELLS, LSTM
from exadec.model.seq2seq import Seq2seq

Lengths = tuple[np.ndarray, np.ndarray]
_FLOAT = 4
"""Bytes of a number of a model."""
_NUMBERS = 4
"""What training keeps of each parameter: its value, its gradient, and Adam's two moments."""
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_SMALLEST_VOCABULARY = 8


def require_memory(models: Sequence[ModelConfig], device: torch.device, vocabulary: int = _SMALLEST_VOCABULARY) -> None:
    """Refuse models that need more memory than there is. Without `vocabulary`, that of their embeddings is left out.

    What a batch needs comes on top; it depends on the data (`require_batch_memory`).
    """
    known = {model: _count(model, vocabulary) for model in set(models)}
    count = sum(known[model] for model in models)
    if device.type == "cuda":
        _compare(count, _NUMBERS, torch.cuda.mem_get_info(device)[0], " on the GPU")
    # Weights are made on the CPU, wherever they are used.
    _compare(count, 1 if device.type == "cuda" else _NUMBERS, available_memory(), "")


def _compare(count: int, numbers: int, available: int | None, where: str) -> None:
    needed = count * numbers * _FLOAT
    if available is None or needed <= available:
        return
    kept = "weights" if numbers == 1 else "weights, gradients and Adam's two moments"
    raise InputError(
        f"{count:,} parameters take {_in_gigabytes(needed)} for their {kept}, but only {_in_gigabytes(available)} are "
        f"free{where}; choose a smaller model.hidden or corpus.vocabulary_size, or train fewer runs at a time."
    )


def require_batch_memory(model: ModelConfig, lengths: Lengths, rows: int, number: int, device: torch.device) -> None:
    """Refuse a batch of so many rows that would need more memory than there is, even by an estimate that is too low.

    `lengths` are those of the sources and targets to train on, and `number` is the bytes of a number. Only the cells of
    encoder and decoder are counted, for texts of average length: no padding, no exemplars, no attention, no gradients.
    """
    each = [float(np.mean(pieces)) * width for pieces, width in zip(lengths, _widths(model), strict=True)]
    rows = min(rows, len(lengths[0]))
    needed = int(rows * sum(each) * number)
    on_gpu = device.type == "cuda"
    available = torch.cuda.mem_get_info(device)[0] if on_gpu else available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"a batch of {rows:,} instances takes more than {_in_gigabytes(needed)}, but only "
            f"{_in_gigabytes(available)} are free{' on the GPU' * on_gpu}; choose a smaller training.batch_size."
        )


def _widths(model: ModelConfig) -> tuple[int, int]:
    """Numbers that every backend keeps for each piece of a source and of a target: its embedding, and the gates and
    states of each cell that reads it."""
    encoder, decoder = (cell.gates + len(cell.states) for cell in (LSTM, CELLS[model.cell]))
    layers = 2 * model.encoder_layers  # in both directions
    return model.embedding + layers * encoder * model.hidden, model.embedding + decoder * model.hidden


def _in_gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


def _count(config: ModelConfig, vocabulary: int) -> int:
    """The parameters of a model, without making any: on the meta device they have shapes only."""
    try:
        with torch.device("meta"):
            model = Seq2seq(config, vocabulary)
    except RuntimeError:  # the bytes of a single matrix are more than 63 bits can count
        return 1 << 61
    return sum(parameter.numel() for parameter in model.parameters())


def available_memory() -> int | None:
    """Bytes that can be taken without swapping: of the machine, or of the container if it has less. None if unknown."""
    found = [free for group in _own_groups() if (free := _free_in(group)) is not None]
    for line in _read(_PROC / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(1024 * int(line.split()[1]))
    return min(found, default=None)


def _own_groups() -> list[Path]:
    """The control groups that this process is in, and those around them: a limit of any of them holds."""
    groups: dict[Path, None] = {}
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):  # the second version of control groups, or the first
            root = _GROUPS / controllers
            # In a container the path may be the host's: then the nearest group that shows is its own.
            place = root.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
            groups |= dict.fromkeys([place, *place.parents][: len(place.parts) - len(root.parts) + 1])
    return list(groups)


def _free_in(group: Path) -> int | None:
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, used = (_read(group / name).strip() for name in (limit_name, used_name))
        if limit.isdigit() and used.isdigit():  # otherwise there is none: it says "max", or the file is not there
            cached = 0
            for line in _read(group / "memory.stat").splitlines():
                name, _, value = line.partition(" ")
                if name in ("inactive_file", "total_inactive_file"):
                    cached = int(value)  # the total comes last, and includes the groups below
            return max(0, int(limit) - int(used) + cached)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
