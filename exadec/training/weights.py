"""Weights as tensors in a file, and whether they fit a model.

In: tensors by name, a model. Out: a safetensors file; or a `ValueError` that says why weights are not the model's.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import BinaryIO

import torch

from exadec.config import ModelConfig
from exadec.model.seq2seq import Seq2seq

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""What safetensors calls a type."""


def write_tensors(file: BinaryIO, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors of the CPU as safetensors: the length of a header, the header, the values without gaps.

    The library writes a file of another name beside the one it is asked for, without permissions for others, and leaves
    it there if it is killed. It also needs the memory for all tensors twice.
    """
    # The largest numbers first, so that each tensor begins at a multiple of its numbers' size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        tensor, begin = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    described = json.dumps(header).encode()
    described += b" " * (-len(described) % 8)
    file.write(len(described).to_bytes(8, "little") + described)
    for name in names:
        file.write(_bytes_of(tensors[name]))


def hash_tensors(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of all names and values."""
    hashed = hashlib.sha256()
    for name in sorted(tensors):
        hashed.update(f"{name}\n".encode())
        hashed.update(_bytes_of(tensors[name]))
    return hashed.hexdigest()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    content: memoryview = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return content


def fewest_weights(config: ModelConfig, vocabulary: int) -> int:
    """No model with these settings has fewer weights: only large square matrices are counted."""
    count = vocabulary * config.embedding + 8 * config.encoder_layers * config.hidden**2
    if config.reads_exemplars:
        count += 8 * config.exemplar_hidden**2
    return count + (config.coefficient_rank * config.hidden if config.adaptive else 0)


def restore_model(config: ModelConfig, vocabulary: int, tensors: Mapping[str, torch.Tensor]) -> Seq2seq:
    """A model with these weights. Frozen word vectors are among them, so their file is not needed."""
    # The settings of a damaged run may ask for any size. Do not fill the memory to find out.
    if fewest_weights(config, vocabulary) > sum(tensor.numel() for tensor in tensors.values()):
        raise ValueError("it has fewer weights than the model")
    placeholder = torch.zeros(vocabulary, config.embedding) if config.freeze_embeddings else None
    model = Seq2seq(config, vocabulary, pretrained=placeholder)
    require_weights_of(model, tensors)
    model.load_state_dict({key[6:]: value for key, value in tensors.items() if key.startswith("model.")})
    return model


def require_weights_of(model: Seq2seq, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that have other names, shapes or types than the model's."""
    expected = {f"model.{key}": value for key, value in model.state_dict().items()}
    weights = {name for name in tensors if name.startswith("model.")}
    if weights != expected.keys():
        raise ValueError(f"the weights {min(weights ^ expected.keys())!r} are missing, or belong to another model")
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape:
            raise ValueError(f"{name!r} has another shape than the model's")
        if tensors[name].dtype != tensor.dtype:
            raise ValueError(f"{name!r} has another dtype than the model's")


def require_finite(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that are infinite or NaN."""
    if not all(bool(tensor.isfinite().all()) for name, tensor in tensors.items() if name.startswith("model.")):
        raise ValueError("some weights are not finite")
