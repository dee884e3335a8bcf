"""A search step on a CPU without log p of all words.

In: a model in float32. Out: the step of its search, which computes what `Seq2seq.choose` does in less time. It may
round products of matrices: to 8 bits with the vocabulary, which takes most of the time, and to 16 bits elsewhere. The
likeliest words are computed once more, so that only the sum over the others suffers from 8 bits.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional

from exadec.loading.batch import Batch
from exadec.model.attention import Memory
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.cells import State
from exadec.model.copying import Copies, among, copy_weights
from exadec.model.decoder import DecoderState, Parts
from exadec.model.places import Places
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Step

_SPARE = 8
"""Rounding may have cost a word its place among the likeliest, so more of them are looked at."""
_FEW = 10
"""So few hypotheses are multiplied with the vocabulary's side first: BLAS takes up to half the time that way."""
_ROWS = 16
"""Hypotheses that a thread should have at least."""


class Softmax(NamedTuple):
    """The weights of the softmax."""

    weight: torch.Tensor
    """(V, E)"""
    bias: torch.Tensor
    """(V,)"""
    codes: torch.Tensor | None
    """(E, V) int8: the weights, each word's divided by its scale and rounded; None if nothing is rounded."""
    scales: torch.Tensor
    """(V,)"""

    def multiply(self, attentional: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(N, E) -> products (N, V), and what to multiply those of each row by (N,)."""
        if self.codes is None:
            ones = torch.ones(len(attentional))
            if len(attentional) <= _FEW:
                return (self.weight @ attentional.t()).t().contiguous(), ones
            return attentional @ self.weight.t(), ones
        codes, scales = _round(attentional)
        return torch._int_mm(codes, self.codes), scales


@dataclass
class QuickChoices:
    """`Choices` without a distribution over the vocabulary."""

    softmax: Softmax
    products: torch.Tensor
    """(N, V); see `Softmax.multiply`."""
    scales: torch.Tensor
    """(N,)"""
    parts: Parts
    memory: Memory
    largest: torch.Tensor
    """(N, G): the largest logit of each group of words."""
    totals: torch.Tensor
    """(N,): the log of the sum over all words."""
    copied: torch.Tensor | None
    """(B, P, E): the weights of the words that can be copied, if products are rounded."""
    banned: torch.Tensor | None = None
    """(N, W): the words that may not be written, since `best` was called."""

    @classmethod
    def of_parts(cls, parts: Parts, memory: Memory, softmax: Softmax, copied: torch.Tensor | None) -> "QuickChoices":
        from exadec.search.cpu_kernels import GROUP, summarize  # numba, which takes a second to load

        products, scales = softmax.multiply(parts.attentional.flatten(0, 1))
        largest = torch.empty(len(products), -(-products.shape[1] // GROUP))
        totals = torch.empty(len(products))
        _over_rows(summarize, (products, scales), (softmax.scales, softmax.bias), (largest, totals))
        return cls(softmax, products, scales, parts, memory, largest, totals, copied)

    def take(self, instances: slice) -> "QuickChoices":
        """The same for all hypotheses of some of the instances, without a copy."""
        each = self.parts.attentional.shape[1]
        rows = slice(*(None if end is None else each * end for end in (instances.start, instances.stop)))
        return QuickChoices(
            self.softmax,
            self.products[rows],
            self.scales[rows],
            self.parts.map(lambda part: part[instances]),
            self.memory.map(lambda part: part[instances]),
            self.largest[rows],
            self.totals[rows],
            None if self.copied is None else self.copied[instances],
        )

    def best(self, count: int, banned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from exadec.search.cpu_kernels import pick

        self.banned, size = banned, self.products.shape[1]
        spare = 0 if self.softmax.codes is None else _SPARE
        words = torch.empty(len(banned), min(count + banned.shape[1] + spare, size), dtype=torch.long)
        logits = torch.empty(words.shape)
        each = self.products, self.scales
        _over_rows(pick, each, (self.softmax.scales, self.softmax.bias), (self.largest, words, logits))
        if self.softmax.codes is not None:
            logits = self._refine(logits, words)
        shape = self.parts.attentional.shape[:2]
        generated = (logits - self.totals[:, None]).unflatten(0, shape)  # (B, K, C)
        words, banned = words.unflatten(0, shape), banned.unflatten(0, shape)
        generated = generated.masked_fill(among(words, banned), -torch.inf)
        copies = self._copies()
        if copies is not None:
            own = self._logits_of(_known(copies.places, size)) - self.totals.unflatten(0, shape)[:, :, None]
            generated, words = copies.offer(generated, words, own, size, banned)
        return generated.flatten(0, 1), words.flatten(0, 1)

    def of(self, word: int) -> torch.Tensor:
        logits = self.parts.attentional.flatten(0, 1) @ self.softmax.weight[word] + self.softmax.bias[word]
        generated, gate = logits - self.totals, self.parts.gate
        return generated if gate is None else generated + functional.logsigmoid(gate).flatten()

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        assert self.softmax.codes is None, "the product is rounded only for a search that needs no other words"
        size = self.products.shape[1]
        known = words.clamp_max(size - 1)
        logits = self.products.gather(1, known) + self.softmax.bias[known]
        generated = (logits - self.totals[:, None]).masked_fill(words >= size, -torch.inf)
        copies = self._copies()
        if copies is not None:
            shape = self.parts.attentional.shape[:2]
            generated = copies.mix(generated.unflatten(0, shape), words.unflatten(0, shape)).flatten(0, 1)
        if self.banned is None:
            return generated
        return generated.masked_fill(among(words[:, None], self.banned[:, None])[:, 0] & (words < size), -torch.inf)

    def _refine(self, rough: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Exact logits of the likeliest words, (N, C). They have most of the sum over all words, so it changes, too."""
        from exadec.search.cpu_kernels import multiply_chosen

        attentional, exact = self.parts.attentional.flatten(0, 1), torch.empty(words.shape)
        _over_rows(multiply_chosen, (attentional,), (self.softmax.weight, self.softmax.bias), (words, exact))
        before, after = ((logits - self.totals[:, None]).exp() for logits in (rough, exact))
        self.totals = self.totals + torch.log1p((after - before).sum(1))
        return exact

    def _logits_of(self, words: torch.Tensor) -> torch.Tensor:
        """Logits of the words that can be copied, for all hypotheses of an instance: (B, P) -> (B, K, P)."""
        attentional = self.parts.attentional
        if self.copied is None:
            index = words[:, None].expand(-1, attentional.shape[1], -1)
            products = self.products.unflatten(0, attentional.shape[:2]).gather(2, index)
        else:
            products = torch.bmm(attentional, self.copied.transpose(1, 2))
        return products + self.softmax.bias[words][:, None]

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
        return super().lstms(inputs, first, [[weight.bfloat16() for weight in some] for some in weights])


def read_rounded(model: Seq2seq, batch: Batch, coefficients: torch.Tensor | None = None) -> DecoderState:
    """As `Seq2seq.encode`. What is attended to stays in bfloat16, because all steps read it."""
    halved = halves()
    with torch.autocast("cpu", torch.bfloat16, enabled=halved):
        state = model.encode(batch, coefficients, _Halved() if halved else REFERENCE)
    return state.map(torch.Tensor.float)


def quick_step(model: Seq2seq, rounded: bool) -> Step[DecoderState]:
    """The step of a search. If products are `rounded`, the search must not ask for other words than the likeliest."""
    weight, bias = model.decoder.softmax()
    halved = rounded and halves()
    codes, scales = _round_once(model, weight) if rounded else (None, torch.ones(len(weight)))
    softmax = Softmax(weight, bias, codes, scales)
    held: tuple[Places | None, torch.Tensor | None] = None, None

    def step(state: DecoderState, words: torch.Tensor) -> tuple[QuickChoices, DecoderState]:
        nonlocal held
        with torch.autocast("cpu", torch.bfloat16, enabled=halved):
            parts, state = model.decoder.parts(state, words)
        parts, state = parts.map(torch.Tensor.float), state.map(torch.Tensor.float)
        places = state.memory.places
        if rounded and places is not None and held[0] is not places:  # the same for all steps, until instances end
            held = places, weight[_known(places, len(weight))]
        return QuickChoices.of_parts(parts, state.memory, softmax, held[1]), state

    return step


def _known(places: Places, size: int) -> torch.Tensor:
    """The words that can be copied, with the last of the vocabulary for those that it lacks: (B, P)."""
    return places.ids.clamp_max(size - 1)


_ROUNDED: "WeakKeyDictionary[nn.Module, tuple[object, tuple[torch.Tensor, torch.Tensor]]]" = WeakKeyDictionary()


def _round_once(model: Seq2seq, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (E, V) and scales (V,) of the softmax's weights. They are kept until the weights change."""
    # The sum is part of the key because a fused optimizer changes weights without a new version.
    key = weight.data_ptr(), weight._version, weight.sum().item()
    if model not in _ROUNDED or _ROUNDED[model][0] != key:
        codes, scales = _round(weight.detach())
        _ROUNDED[model] = key, (codes.t().contiguous(), scales)
    return _ROUNDED[model][1]


def _round(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 codes of each row, and what to multiply them by: (N, E) -> (N, E), (N,)."""
    scales = rows.abs().amax(1).clamp_min(1e-30) / 127
    return (rows / scales[:, None]).round().to(torch.int8), scales


def _over_rows(
    loop: Callable[..., None],
    each: tuple[torch.Tensor, ...],
    shared: tuple[torch.Tensor, ...],
    filled: tuple[torch.Tensor, ...],
) -> None:
    """Call a compiled loop on tensors that have a row for each hypothesis, and on others, with torch's threads."""
    rows = len(each[0])
    threads = max(1, min(torch.get_num_threads(), rows // _ROWS))
    arrays: list[Any] = [[tensor.detach().numpy() for tensor in part] for part in (each, shared, filled)]
    borders = [rows * number // threads for number in range(threads + 1)]

    def work(number: int) -> None:
        mine = slice(borders[number], borders[number + 1])
        loop(*(array[mine] for array in arrays[0]), *arrays[1], *(array[mine] for array in arrays[2]))

    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
