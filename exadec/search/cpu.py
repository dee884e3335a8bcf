"""A search step on a CPU without log p of all words.

In: a model in float32. Out: the step of its search, and `advance`, which compute what `Seq2seq.choose` and
`beam.advance` do in less time. They may round products of matrices: to 8 bits with the vocabulary, which takes most of
the time, and to 16 bits elsewhere. The likeliest words are computed once more, so that only the sum over the others
suffers from 8 bits.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import EOS
from exadec.model.attention import Memory
from exadec.model.backends.reference import REFERENCE
from exadec.model.copying import Copies, among, copy_weights
from exadec.model.decoder import DecoderState, Parts
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Beams, Step, find_banned, length_penalty
from exadec.search.rounding import HalvedBackend, round_once, round_rows

_SPARE = 8
"""Rounding may have cost a word its place among the likeliest, so more of them are looked at."""
_AT_ONCE = 2**18
"""Products that are made at once: few enough to be in the cache when they are read."""
_ROWS = 16
"""Hypotheses that a thread should have at least."""


class Likeliest(NamedTuple):
    """What a search has to know of all words, for N hypotheses."""

    words: torch.Tensor
    """(N, C): the likeliest ones, best first, but for rounding."""
    logits: torch.Tensor
    """(N, C)"""
    totals: torch.Tensor
    """(N,): the log of the sum over all words."""


@dataclass(frozen=True)
class Softmax:
    """The last layer. It never has the logits of all words in memory at the same time."""

    weight: torch.Tensor
    """(V, E)"""
    bias: torch.Tensor
    """(V,)"""
    rounded: tuple[torch.Tensor, torch.Tensor] | None
    """int8 codes of the weights (V, E), and what to multiply those of each word by (V,); None for exact products."""
    pool: ThreadPoolExecutor | None
    """For the compiled loops; None for a single thread."""

    def find(self, attentional: torch.Tensor, count: int) -> Likeliest:
        """Of hypotheses (N, E). Logits are exact; with rounding, what unlikely words add to the sum is not."""
        # numba takes a second to load
        from exadec.search.cpu_kernels import BLOCK, LOWEST, make_exact, read_products

        rows, size = len(attentional), len(self.weight)
        count = min(count if self.rounded is None else count + _SPARE, size)
        codes, scales = (self.weight, torch.ones(size)) if self.rounded is None else self.rounded
        vectors, own_scales = (attentional, torch.ones(rows)) if self.rounded is None else round_rows(attentional)
        words, logits = torch.zeros(rows, count, dtype=torch.long), torch.full((rows, count), -torch.inf)
        references, sums = torch.full((rows,), float(LOWEST)), torch.zeros(rows)
        filled = [one.numpy() for one in (references, sums, words, logits)]
        shared = scales.numpy(), self.bias.numpy()
        width = max(1, _AT_ONCE // (BLOCK * rows)) * BLOCK
        room = torch.empty(rows * min(width, size), dtype=torch.int32)  # again and again: new memory takes time
        for number, block in enumerate(codes.t().split(width, 1)):
            products = _multiply(vectors, block, room)
            self.loop(read_products, [products.numpy(), own_scales.numpy()], (*shared, number * width), filled)
        totals = references + sums.log()
        if self.rounded is not None:
            each = [attentional.numpy(), words.numpy()]
            self.loop(make_exact, each, self.arrays(), [logits.numpy(), totals.numpy()])
        return Likeliest(words, logits, totals)

    def logits_of(self, attentional: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Exact ones of some words of each hypothesis: (N, E), (N, C) -> (N, C)."""
        from exadec.search.cpu_kernels import multiply_chosen

        logits = torch.empty(words.shape)
        self.loop(multiply_chosen, [attentional.numpy(), words.numpy()], self.arrays(), [logits.numpy()])
        return logits

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (V, E) and biases (V,)."""
        return self.weight.numpy(), self.bias.numpy()

    def loop(
        self,
        loop: Callable[..., None],
        each: Sequence[np.ndarray],
        shared: Sequence[Any],
        filled: Sequence[np.ndarray],
    ) -> None:
        """Call a compiled loop on arrays that have a row for each hypothesis, and on others, with several threads."""
        rows = len(each[0])
        threads = 1 if self.pool is None else max(1, min(torch.get_num_threads(), rows // _ROWS))
        if self.pool is None or threads == 1:
            loop(*each, *shared, *filled)
            return
        borders = [rows * number // threads for number in range(threads + 1)]

        def work(number: int) -> None:
            mine = slice(borders[number], borders[number + 1])
            loop(*(array[mine] for array in each), *shared, *(array[mine] for array in filled))

        list(self.pool.map(work, range(threads)))


def _multiply(vectors: torch.Tensor, words: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """(N, E), (E, W) -> (N, W), in 8 bits or in float32. `room` is for the products of 8 bits."""
    shape = len(vectors), words.shape[1]
    if words.dtype == torch.int8:
        return torch._int_mm(vectors, words, out=room[: math.prod(shape)].view(shape))
    if torch.backends.mkldnn.is_available():  # on AMD processors, oneDNN is faster than `@`, which calls MKL
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(vectors, words.t(), None, "none", [], "")
        return product
    return vectors @ words


@dataclass
class QuickChoices:
    """`Choices` without a distribution over the vocabulary."""

    softmax: Softmax
    parts: Parts
    memory: Memory
    found: Likeliest | None = None
    """What is known of all words."""
    banned: torch.Tensor | None = None
    """(N, W): the words that may not be written, since `best` was called."""

    def take(self, instances: slice) -> "QuickChoices":
        """The same for all hypotheses of some of the instances, without a copy."""
        parts, memory = self.parts.map(lambda part: part[instances]), self.memory.map(lambda part: part[instances])
        return QuickChoices(self.softmax, parts, memory)

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from exadec.search.cpu_kernels import choose

        self.banned = banned
        attentional, (instances, each) = self._attentional(), self.parts.attentional.shape[:2]
        self.found = found = self.softmax.find(attentional, count + banned.shape[1])
        owners = torch.arange(instances).repeat_interleave(each, output_size=len(attentional))
        gates, weights, changes, places = self._copying()
        scores = torch.empty(len(owners), found.words.shape[1] + places[0].shape[1])
        chosen = torch.empty(scores.shape, dtype=torch.long)
        rows = (attentional, *found, gates, weights, changes, owners, banned)
        shared = (*self.softmax.arrays(), *(part.numpy() for part in places))
        self.softmax.loop(choose, [part.numpy() for part in rows], [shared], [scores.numpy(), chosen.numpy()])
        return scores, chosen

    def of(self, word: int) -> torch.Tensor:
        logits = self._attentional() @ self.softmax.weight[word] + self.softmax.bias[word]
        generated, gate = logits - self._totals(), self.parts.gate
        return generated if gate is None else generated + functional.logsigmoid(gate).flatten()

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        size = len(self.softmax.weight)
        generated = self._generated(words.clamp_max(size - 1)).masked_fill(words >= size, -torch.inf)
        copies = self._copies()
        if copies is not None:
            shape = self.parts.attentional.shape[:2]
            generated = copies.mix(generated.unflatten(0, shape), words.unflatten(0, shape)).flatten(0, 1)
        if self.banned is None:
            return generated
        return generated.masked_fill(among(words[:, None], self.banned[:, None])[:, 0] & (words < size), -torch.inf)

    def _attentional(self) -> torch.Tensor:
        """(N, E)"""
        return self.parts.attentional.flatten(0, 1)

    def _totals(self) -> torch.Tensor:
        if self.found is None:  # guidance asks for words that are likely given something else
            self.found = self.softmax.find(self._attentional(), 1)
        return self.found.totals

    def _generated(self, words: torch.Tensor) -> torch.Tensor:
        """log p of words of the vocabulary, if they are generated: (N, C) -> (N, C)."""
        return self.softmax.logits_of(self._attentional(), words) - self._totals()[:, None]

    def _copying(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        """For `choose`: gates (N,), attention (N, M), changes of case (N,), and parts of the `Places` (B, P)."""
        gate, weights, case = self.parts.gate, self.parts.weights, self.parts.case
        if gate is None or weights is None:
            instances, each = self.parts.attentional.shape[:2]
            nothing = torch.empty(instances, 0, dtype=torch.long)
            gates = torch.empty(instances * each)
            return gates, gates[:, None][:, :0], gates, (nothing, nothing.int(), nothing)
        places = self.memory.places
        assert places is not None, "a search starts with `Seq2seq.encode`"
        gates = gate.flatten()
        changes = gates if case is None else case.flatten()
        return gates, weights.flatten(0, 1), changes, (places.ids, places.counts, places.slots)

    def _copies(self) -> Copies | None:
        gate, weights, case = self.parts.gate, self.parts.weights, self.parts.case
        if gate is None or weights is None:
            return None
        places = self.memory.places
        assert places is not None, "a search starts with `Seq2seq.encode`"
        merged = places.merge(copy_weights(weights, None if case is None else torch.sigmoid(case)))
        return Copies(functional.logsigmoid(gate), functional.logsigmoid(-gate), merged, places)


def quick_step(model: Seq2seq, rounded: bool) -> Step[DecoderState]:
    """The step of a search, with products that are exact or `rounded`."""
    weight, bias = (part.detach() for part in model.decoder.softmax())
    once = round_once(model) if rounded else None
    halved = None if once is None else once.halved
    decoder, backend = (model.decoder, REFERENCE) if halved is None else (halved.decoder, HalvedBackend())
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads) if threads > 1 else None  # its threads end with the search
    softmax = Softmax(weight, bias, None if once is None else once.codes, pool)

    def step(state: DecoderState, words: torch.Tensor) -> tuple[QuickChoices, DecoderState]:
        with torch.autocast("cpu", torch.bfloat16, enabled=halved is not None):
            parts, state = decoder.parts(state, words, backend)
        parts, state = parts.map(torch.Tensor.float), state.map(torch.Tensor.float)
        return QuickChoices(softmax, parts, state.memory), state

    return step


def advance(step: Step[Any], beams: Beams[Any], config: SearchConfig, never: torch.Tensor, n_best: int) -> Beams[Any]:
    """`beam.advance` without rules, compiled."""
    from exadec.search.cpu_kernels import settle

    beam, (instances, each, wide) = config.beam_size, beams.words.shape
    last = beams.words.gather(2, beams.lengths[:, None, None].expand(-1, each, 1)).flatten()  # (N,)
    next_words, state = step(beams.state, last)
    lengths = beams.lengths.repeat_interleave(each, output_size=len(last))
    scores, choices = next_words.best(2 * beam, find_banned(beams.words.flatten(0, 1), lengths, config, never))
    parents = torch.empty(instances * beam, dtype=torch.long)
    words, log_p = beams.words.new_empty(instances, beam, wide), beams.log_p.new_empty(instances, beam)
    rest = beams.lengths, beams.scores, beams.texts, beams.done
    after = Beams(state, words, log_p, *map(torch.empty_like, rest))
    longest = length_penalty(float(config.max_length), config.length_penalty)
    settle(
        *(part.numpy() for part in (scores, choices, next_words.of(EOS))),
        *(tuple(part.numpy() for part in one.tensors()) for one in (beams, after)),
        parents.numpy(),
        config.length_penalty,
        0.0 if config.stopping == "first" else longest,
        n_best,
        config.stopping == "full" or beam == 1,
    )
    return replace(after, state=state.select(parents))
