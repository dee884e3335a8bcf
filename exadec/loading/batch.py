"""Padded tensors.

In: id sequences of some instances. Out: a `Batch`, in which each instance's unknown words have ids of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from exadec.corpus.vocabulary import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Batch:
    """What the model reads. Ids at or above the vocabulary's size V are unknown words that can be copied."""

    source: torch.Tensor
    """(B, S) int64, padded with PAD."""
    source_lengths: torch.Tensor
    """(B,)"""
    exemplar: torch.Tensor
    """(B, Z)"""
    exemplar_lengths: torch.Tensor
    """(B,)"""
    target_input: torch.Tensor
    """(B, T): the begin symbol, then the target."""
    target_output: torch.Tensor
    """(B, T): the target, then the end symbol; a word that can be neither generated nor copied is UNK."""
    unknown: np.ndarray
    """(B, X - V): the corpus's id of each instance's n-th unknown word; 0 where there is none."""

    @property
    def size(self) -> int:
        return len(self.source)

    def to(self, device: torch.device) -> "Batch":
        tensors = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "unknown"}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class Instance:
    """One instance as id sequences; ids at or above V are unknown words, numbered over the whole corpus."""

    source: np.ndarray
    exemplar: np.ndarray
    target: np.ndarray


def collate(instances: Sequence[Instance], vocabulary_size: int, copy_exemplar: bool) -> Batch:
    """Pad instances into a batch. `copy_exemplar`: the exemplar's words can be copied as well as the source's."""
    sources, exemplars, inputs, outputs, unknown = [], [], [], [], []
    for instance in instances:
        copyable = [instance.source, instance.exemplar] if copy_exemplar else [instance.source]
        ids = np.concatenate(copyable)
        local = {
            number: i + vocabulary_size for i, number in enumerate(dict.fromkeys(ids[ids >= vocabulary_size].tolist()))
        }
        unknown.append(np.array(list(local), np.int64))
        sources.append(_relabel(instance.source, local, vocabulary_size))
        exemplars.append(_relabel(instance.exemplar, local, vocabulary_size))
        target = _relabel(instance.target, local, vocabulary_size)
        inputs.append(np.concatenate([[BOS], target]))
        outputs.append(np.concatenate([target, [EOS]]))
    source, source_lengths = _pad(sources)
    exemplar, exemplar_lengths = _pad(exemplars)
    return Batch(
        source=source,
        source_lengths=source_lengths,
        exemplar=exemplar,
        exemplar_lengths=exemplar_lengths,
        target_input=_pad(inputs)[0],
        target_output=_pad(outputs)[0],
        unknown=_pad(unknown)[0].numpy(),
    )


def _relabel(ids: np.ndarray, local: dict[int, int], vocabulary_size: int) -> np.ndarray:
    """Corpus-wide ids of unknown words -> ids of this instance."""
    ids = np.asarray(ids, np.int64)
    if not (ids >= vocabulary_size).any():
        return ids
    return np.array([n if n < vocabulary_size else local.get(n, UNK) for n in ids.tolist()], np.int64)


def _pad(rows: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.full((len(rows), lengths.max(initial=0)), PAD, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded), torch.from_numpy(lengths)
