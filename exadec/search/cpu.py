"""A search step on a CPU without log p of all words.

In: a model in float32. Out: the step of its search, which computes what `Seq2seq.choose` does in less time. It may
round products of matrices: to 8 bits with the vocabulary, which takes most of the time, and to 16 bits elsewhere. The
likeliest words are computed once more, so that only the sum over the others suffers from 8 bits.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from exadec.loading.batch import Batch
from exadec.model.attention import Memory
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.cells import State
from exadec.model.copying import Copies, among, copy_weights
from exadec.model.decoder import DecoderState, Parts
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Step

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
        from exadec.search.cpu_kernels import BLOCK, LOWEST, read_products  # numba, which takes a second to load

        rows, size = len(attentional), len(self.weight)
        count = min(count if self.rounded is None else count + _SPARE, size)
        codes, scales = (self.weight, torch.ones(size)) if self.rounded is None else self.rounded
        vectors, own_scales = (attentional, torch.ones(rows)) if self.rounded is None else _round(attentional)
        words, logits = torch.zeros(rows, count, dtype=torch.long), torch.full((rows, count), -torch.inf)
        highest, sums = torch.full((rows,), float(LOWEST)), torch.zeros(rows)
        filled = [one.numpy() for one in (highest, sums, words, logits)]
        shared = scales.numpy(), self.bias.numpy()
        width = max(1, _AT_ONCE // (BLOCK * rows)) * BLOCK
        for number, block in enumerate(codes.t().split(width, 1)):
            products = _multiply(vectors, block)
            self._loop(read_products, [products.numpy(), own_scales.numpy()], (*shared, number * width), filled)
        totals = highest + sums.log()
        if self.rounded is not None:
            exact = self.logits_of(attentional, words)
            # They have most of the sum over all words, so it changes, too.
            before, after = ((some - totals[:, None]).exp() for some in (logits, exact))
            logits, totals = exact, totals + torch.log1p((after - before).sum(1))
        return Likeliest(words, logits, totals)

    def logits_of(self, attentional: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Exact ones of some words of each hypothesis: (N, E), (N, C) -> (N, C)."""
        from exadec.search.cpu_kernels import multiply_chosen

        logits = torch.empty(words.shape)
        shared = self.weight.numpy(), self.bias.numpy()
        self._loop(multiply_chosen, [attentional.numpy(), words.numpy()], shared, [logits.numpy()])
        return logits

    def _loop(
        self,
        loop: Callable[..., None],
        each: Sequence[np.ndarray],
        shared: Sequence[np.ndarray | int],
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


def _multiply(vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """(N, E), (E, W) -> (N, W), in 8 bits or in float32."""
    if words.dtype == torch.int8:
        return torch._int_mm(vectors, words)
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
        self.banned = banned
        self.found = words, logits, totals = self.softmax.find(self._attentional(), count + banned.shape[1])
        shape, size = self.parts.attentional.shape[:2], len(self.softmax.weight)
        generated = (logits - totals[:, None]).unflatten(0, shape)  # (B, K, C)
        words, banned = words.unflatten(0, shape), banned.unflatten(0, shape)
        generated = generated.masked_fill(among(words, banned), -torch.inf)
        copies = self._copies()
        if copies is not None:
            known = copies.places.ids.clamp_max(size - 1)  # (B, P)
            own = self._generated(known[:, None].expand(-1, shape[1], -1).flatten(0, 1)).unflatten(0, shape)
            generated, words = copies.offer(generated, words, own, size, banned)
        return generated.flatten(0, 1), words.flatten(0, 1)

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

    def _copies(self) -> Copies | None:
        gate, weights, case = self.parts.gate, self.parts.weights, self.parts.case
        if gate is None or weights is None:
            return None
        places = self.memory.places
        assert places is not None, "a search starts with `Seq2seq.encode`"
        merged = places.merge(copy_weights(weights, None if case is None else torch.sigmoid(case)))
        return Copies(functional.logsigmoid(gate), functional.logsigmoid(-gate), merged, places)


def halves() -> bool:
    """Whether this processor multiplies in bfloat16. If it cannot, to imitate it would take longer than float32."""
    return torch.cpu._is_avx512_bf16_supported()


class _Halved(Backend):
    name = "bfloat16"

    def lstms(
        self, inputs: Sequence[torch.Tensor], first: Sequence[State], weights: Sequence[Sequence[torch.Tensor]]
    ) -> Sequence[torch.Tensor]:
        states = super().lstms(inputs, first, [[weight.bfloat16() for weight in some] for some in weights])
        return [one.float() for one in states]  # torch adds numbers of two precisions slowly


def read_rounded(model: Seq2seq, batch: Batch, coefficients: torch.Tensor | None = None) -> DecoderState:
    """As `Seq2seq.encode`. What is attended to stays in bfloat16, because all steps read it."""
    halved = halves()
    with torch.autocast("cpu", torch.bfloat16, enabled=halved):
        state = model.encode(batch, coefficients, _Halved() if halved else REFERENCE)
    if halved:
        state = replace(state, memory=replace(state.memory, values=state.memory.values.bfloat16()))
    return state.map(torch.Tensor.float)


def quick_step(model: Seq2seq, rounded: bool) -> Step[DecoderState]:
    """The step of a search, with products that are exact or `rounded`."""
    weight, bias = (part.detach() for part in model.decoder.softmax())
    halved = rounded and halves()
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads) if threads > 1 else None  # its threads end with the search
    softmax = Softmax(weight, bias, _round_once(model, weight) if rounded else None, pool)

    def step(state: DecoderState, words: torch.Tensor) -> tuple[QuickChoices, DecoderState]:
        with torch.autocast("cpu", torch.bfloat16, enabled=halved):
            parts, state = model.decoder.parts(state, words)
        parts, state = parts.map(torch.Tensor.float), state.map(torch.Tensor.float)
        return QuickChoices(softmax, parts, state.memory), state

    return step


_ROUNDED: "WeakKeyDictionary[nn.Module, tuple[object, tuple[torch.Tensor, torch.Tensor]]]" = WeakKeyDictionary()


def _round_once(model: Seq2seq, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (V, E) and scales (V,) of the softmax's weights. They are kept until the weights change."""
    # The sum is part of the key because a fused optimizer changes weights without a new version.
    key = weight.data_ptr(), weight._version, weight.sum().item()
    if model not in _ROUNDED or _ROUNDED[model][0] != key:
        _ROUNDED[model] = key, _round(weight.detach())
    return _ROUNDED[model][1]


def _round(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 codes of each row, and what to multiply them by: (N, E) -> (N, E), (N,)."""
    scales = rows.abs().amax(1).clamp_min(1e-30) / 127
    return (rows / scales[:, None]).round().to(torch.int8), scales
