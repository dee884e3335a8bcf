"""Models for tests of the search: p of the next word is random, and depends on everything before it."""

from dataclasses import dataclass

import torch

from exadec.corpus.vocabulary import EOS
from exadec.search.beam import Known


@dataclass
class Prefix:
    """A state that remembers everything written so far."""

    words: torch.Tensor  # (instances * beam, length)

    instances: int

    def select(self, indices: torch.Tensor) -> "Prefix":
        return Prefix(self.words[indices], self.instances)

    def keep(self, instances: torch.Tensor) -> "Prefix":
        return Prefix(self.words.unflatten(0, (self.instances, -1))[instances].flatten(0, 1), len(instances))


def start(instances: int) -> Prefix:
    return Prefix(torch.arange(100, 100 + instances)[:, None], instances)  # the instance's number is part of its prefix


class RandomModel:
    """log p depends on the instance and on the whole prefix, through a hash: nothing a shortcut could exploit.

    The higher `eagerness`, the more likely is the end symbol.
    """

    def __init__(self, words: int, seed: int, eagerness: float = 0.0):
        self.words, self.seed, self.eagerness = words, seed, eagerness

    def distribution(self, prefix: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        logits = 2 * torch.randn(self.words, generator=generator)
        logits[EOS] += self.eagerness
        return torch.log_softmax(logits, dim=0)

    def step(self, state: Prefix, words: torch.Tensor) -> tuple[Known, Prefix]:
        longer = torch.cat([state.words, words[:, None]], dim=1)
        return Known(torch.stack([*map(self.distribution, longer.tolist())])), Prefix(longer, state.instances)
