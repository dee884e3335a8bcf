"""Guidance: following the exemplar more strictly than the model would by itself.

In: a batch, and the step function of a model that reads exemplars. Out: the batch twice, with its exemplars and
without them, and a step function that combines the two distributions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from exadec.config import ModelConfig, SearchConfig
from exadec.corpus.vocabulary import NONE, PAD
from exadec.errors import InputError
from exadec.loading.batch import Batch
from exadec.search.beam import Known, Step

FLOOR = 0.1
"""A word is plausible if its p given the exemplar is at least this fraction of the best word's. The exemplar can raise
p by the inverse of it at most: then a word at the floor just reaches the best one at a weight of 1."""
IMPLAUSIBLE = 1000.0
"""Nats that every other word loses. Such a word is written only where nothing else may be, for example the end symbol
of a text that has become too long."""


def refuse_guidance(search: SearchConfig, model: ModelConfig) -> None:
    """Refuse guidance for a model without exemplars."""
    if search.guidance > 0 and not model.reads_exemplars:
        raise InputError(
            f"`search.guidance` is {search.guidance:g}, but this model ({model.variant}) does not read exemplars: "
            "set it to 0, or use a model that does."
        )


def with_and_without(batch: Batch) -> Batch:
    """2B instances: the batch, then the same sources with the exemplar `<none>`. Unknown words keep their ids."""
    absent = torch.full_like(batch.exemplar[:, :1], NONE)
    absent = functional.pad(absent, (0, batch.exemplar.shape[1] - 1), value=PAD)  # (B, Z)
    without = replace(batch, exemplar=absent, exemplar_lengths=torch.ones_like(batch.exemplar_lengths))
    return Batch(*(torch.cat(pair) for pair in zip(vars(batch).values(), vars(without).values(), strict=True)))


@dataclass(frozen=True)
class GuidedState:
    """N hypotheses that see the exemplar, followed by the same N without it, as one state."""

    both: Any
    """The model's state of 2N hypotheses."""
    rows: int
    """N."""

    instances: int
    """B."""

    def select(self, indices: torch.Tensor) -> "GuidedState":
        return replace(self, both=self.both.select(torch.cat([indices, self.rows + indices])), rows=len(indices))

    def keep(self, instances: torch.Tensor) -> "GuidedState":
        both = self.both.keep(torch.cat([instances, self.instances + instances]))
        return GuidedState(both, self.rows // self.instances * len(instances), len(instances))


def guide(
    step: Callable[[Any, torch.Tensor], tuple[torch.Tensor, Any]], weight: float, forbidden: Sequence[int]
) -> Step[GuidedState]:
    """A step for both halves at once; its distribution is that of `combine`. Words in `forbidden` are never written."""

    def guided(state: GuidedState, words: torch.Tensor) -> tuple[Known, GuidedState]:
        log_probs, both = step(state.both, words.repeat(2))  # (2N, X)
        # An unwritable word must not decide which others are plausible.
        never = torch.tensor(forbidden, device=words.device)
        seen, unseen = log_probs.index_fill(1, never, -torch.inf).chunk(2)
        return Known(combine(seen, unseen, weight)), replace(state, both=both)

    return guided


def combine(seen: torch.Tensor, unseen: torch.Tensor, weight: float) -> torch.Tensor:
    """log p of each next word, guided: (N, X) each.

    `seen` is log p(y|x,z), given the exemplar z, and `unseen` is log p(y|x). A plausible word scores
    log p(y|x,z) + w·(log p(y|x,z) - log p(y|x)), and the softmax over the plausible words makes these log p again.
    """
    plausible = seen >= seen.amax(1, keepdim=True) + math.log(FLOOR)
    # A word that only the exemplar has can never be copied without it: p(y|x) is 0 there, and the gain is infinite.
    gain = (seen - unseen).clamp_max(-math.log(FLOOR))
    guided = torch.log_softmax((seen + weight * gain).masked_fill(~plausible, -torch.inf), dim=1)
    return torch.where(plausible, guided, seen - IMPLAUSIBLE)
