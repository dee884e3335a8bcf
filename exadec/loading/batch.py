"""Padded tensors.

In: id sequences of some instances. Out: a `Batch`, in which unknown words are numbered for each instance separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch.nn import functional

from exadec.corpus.prepare import Sequences
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.loading.unknown import LocalWords


@dataclass(frozen=True)
class Batch:
    """What the model reads. Ids at or above the vocabulary's size V are unknown words that can be copied."""

    source: torch.Tensor
    """(B, S) int64, padded with PAD."""
    source_lengths: torch.Tensor
    """(B,)"""
    exemplar: torch.Tensor
    """(B·k, Z): k exemplars for the first instance, then k for the second, and so on."""
    exemplar_lengths: torch.Tensor
    """(B·k,)"""
    target_input: torch.Tensor
    """(B, T): the begin symbol, then the target."""
    target_output: torch.Tensor
    """(B, T): the target, then the end symbol; a word that can be neither generated nor copied is UNK."""
    unknown: torch.Tensor
    """(B, X - V) int64: the corpus's id of each instance's n-th unknown word; 0 where there is none."""

    @property
    def size(self) -> int:
        return self.source.shape[0]  # `len` is a constant where the model is traced

    def take(self, instances: Sequence[int]) -> "Batch":
        """The same for some of the instances, as wide as it was."""
        rows = torch.tensor(instances, device=self.source.device)
        each = self.exemplar.shape[0] // self.size
        exemplars = (each * rows[:, None] + torch.arange(each, device=rows.device)).flatten()
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        return Batch(**{name: part[exemplars if "exemplar" in name else rows] for name, part in parts.items()})

    def show_alone(self, number: int) -> "Batch":
        """The same with only one of each instance's k exemplars, k times over."""
        each = self.exemplar.shape[0] // self.size
        rows = torch.arange(number, len(self.exemplar), each, device=self.source.device).repeat_interleave(each)
        return replace(self, exemplar=self.exemplar[rows], exemplar_lengths=self.exemplar_lengths[rows])

    def find_divided(self) -> list[int]:
        """The instances whose exemplars are not all the same."""
        exemplars = self.exemplar.view(self.size, -1, self.exemplar.shape[1])  # (B, k, Z)
        return (exemplars != exemplars[:, :1]).flatten(1).any(1).nonzero()[:, 0].tolist()

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(getattr(self, item.name).to(device, non_blocking=True) for item in fields(self)))


@dataclass(frozen=True)
class Instance:
    """One instance as id sequences; ids at or above V are unknown words, numbered over the whole corpus."""

    source: np.ndarray
    exemplars: tuple[np.ndarray, ...]
    """As many for each instance of a batch."""
    target: np.ndarray


def mark(exemplar: np.ndarray) -> np.ndarray:
    """An exemplar to follow: it begins with the begin symbol."""
    return np.concatenate([[BOS], exemplar])


def collate(instances: Sequence[Instance], vocabulary_size: int, copy_exemplar: bool) -> Batch:
    """Pad instances into a batch. With `copy_exemplar`, the exemplar's words can be copied as well as the source's."""
    sources, targets = (_flatten([getattr(one, side) for one in instances]) for side in ("source", "target"))
    exemplars = _flatten([exemplar for one in instances for exemplar in one.exemplars])
    # All exemplars of an instance as one text: they share its numbers for unknown words.
    together = Sequences(exemplars.ids, exemplars.offsets[:: len(instances[0].exemplars)])
    local = LocalWords.find([sources, together] if copy_exemplar else [sources], vocabulary_size)
    source, target = (_pad(local.relabel(text)) for text in (sources, targets))
    exemplar = _pad(Sequences(local.relabel(together).ids, exemplars.offsets))
    ends, rows = torch.from_numpy(targets.lengths), torch.arange(len(instances))
    target_input = functional.pad(target, (1, 0), value=BOS)
    target_output = functional.pad(target, (0, 1), value=PAD)
    target_output[rows, ends] = EOS
    return Batch(
        source=source,
        source_lengths=torch.from_numpy(sources.lengths),
        exemplar=exemplar,
        exemplar_lengths=torch.from_numpy(exemplars.lengths),
        target_input=target_input,
        target_output=target_output,
        unknown=_pad(local.words, padding=0),
    )


def _flatten(rows: Sequence[np.ndarray]) -> Sequences:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return Sequences(np.concatenate(rows).astype(np.int64, copy=False), offsets)


def _pad(texts: Sequences, padding: int = PAD) -> torch.Tensor:
    """(B, longest) int64"""
    padded = np.full((len(texts), texts.lengths.max(initial=0)), padding, np.int64)
    padded[np.arange(padded.shape[1]) < texts.lengths[:, None]] = texts.ids
    return torch.from_numpy(padded)
