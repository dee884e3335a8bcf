"""A search step on a GPU in few launches.

In: a model. Out: the step of its search, and `advance`, which compute what `Seq2seq.choose` and `beam.advance` do.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import EOS
from exadec.model.attention import Memory
from exadec.model.backends.reference import SMALLEST, Backend
from exadec.model.decoder import DecoderState, Parts
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Beams, Step, find_banned, length_penalty
from exadec.search.gpu_kernels import Copying, choose, merge, settle, summarize

FEW = 512
"""Up to this many continuations of each hypothesis, the kernel that settles a step finds the best ones by itself."""


@dataclass(frozen=True)
class FusedChoices:
    """`Choices` without a distribution over the vocabulary: only logits, and the log of their sum."""

    logits: torch.Tensor
    """(N, V)"""
    parts: Parts
    memory: Memory
    largest: torch.Tensor
    """(N, G): the largest logit of each group of words."""
    totals: torch.Tensor
    """(N,): the log of the sum over all words."""

    def take(self, instances: slice) -> "FusedChoices":
        """The same for all hypotheses of some of the instances, without a copy."""
        each = self.parts.attentional.shape[1]
        rows = slice(*(None if end is None else each * end for end in (instances.start, instances.stop)))
        parts, memory = self.parts.map(lambda part: part[instances]), self.memory.map(lambda part: part[instances])
        return FusedChoices(self.logits[rows], parts, memory, self.largest[rows], self.totals[rows])

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return choose(self.logits, self.largest, self.totals, self._copying(), banned, count)

    def of(self, word: int) -> torch.Tensor:
        generated, gate = self.logits[:, word] - self.totals, self.parts.gate
        return generated if gate is None else generated + functional.logsigmoid(gate).flatten()

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        """log p of some words of each hypothesis, banned or not: (N, W) -> (N, W)."""
        size = self.logits.shape[1]
        known = self.logits.gather(1, words.clamp_max(size - 1)) - self.totals[:, None]
        known = known.masked_fill(words >= size, -torch.inf)
        copying = self._copying()
        if copying is None:
            return known
        grouped = words.unflatten(0, self.parts.attentional.shape[:2])  # (B, K, W)
        where, is_there = copying.places.find(grouped)
        merged = merge(copying).unflatten(0, grouped.shape[:2])  # (B, K, P)
        copied = (merged.gather(2, where) * is_there).clamp_min(SMALLEST).log().flatten(0, 1)
        gate = copying.gates[:, None]
        return torch.logaddexp(functional.logsigmoid(gate) + known, functional.logsigmoid(-gate) + copied)

    def _copying(self) -> Copying | None:
        gate, weights, case = self.parts.gate, self.parts.weights, self.parts.case
        if gate is None or weights is None:
            return None
        places = self.memory.places
        assert places is not None, "a search starts with `Seq2seq.encode`"
        flat = weights.flatten(0, 1).contiguous()
        return Copying(gate.flatten(), flat, None if case is None else case.flatten(), places)


def fused_step(model: Seq2seq, backend: Backend) -> Step[DecoderState]:
    """The step of a search, with a backend for the cell and the attention."""

    def step(state: DecoderState, words: torch.Tensor) -> tuple[FusedChoices, DecoderState]:
        parts, state = model.decoder.parts(state, words, backend)
        logits = functional.linear(parts.attentional, *model.decoder.softmax()).flatten(0, 1)
        return FusedChoices(logits, parts, state.memory, *summarize(logits)), state

    return step


def advance(step: Step[Any], beams: Beams[Any], config: SearchConfig, never: torch.Tensor, n_best: int) -> Beams[Any]:
    """`beam.advance` without rules, for K hypotheses of each instance. The tensors of `beams` change in place."""
    beam = config.beam_size
    places = beams.lengths[:, None, None].expand(-1, beam, 1)
    next_words, state = step(beams.state, beams.words.gather(2, places).flatten())
    written, lengths = beams.words.flatten(0, 1), beams.lengths
    if config.min_length or config.block_ngram:
        lengths = lengths.repeat_interleave(beam, output_size=len(written))
    scores, words = next_words.best(2 * beam, find_banned(written, lengths, config, never))
    if scores.shape[1] > FEW:
        scores, best = scores.topk(2 * beam, dim=1)  # the best of an instance are among the best of its hypotheses
        words = words.gather(1, best)
    longest = length_penalty(float(config.max_length), config.length_penalty)
    parents = settle(
        scores.float(),
        words,
        next_words.of(EOS),
        (beams.words, beams.log_p, beams.lengths, beams.scores, beams.texts, beams.done),
        config.length_penalty,
        0.0 if config.stopping == "first" else longest,
        n_best,
        config.stopping == "full" or beam == 1,
    )
    state.select_into(parents, beams.state)
    return beams
