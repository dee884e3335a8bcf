"""What a search does on a GPU, for `RecordedSearch`.

In: a model and settings of a search. Out: its `Work`, with as few launches as this machine's software allows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec

import torch

from exadec.config import SearchConfig
from exadec.loading.batch import Batch
from exadec.model.backends.choice import choose_backend
from exadec.model.backends.reference import REFERENCE
from exadec.model.decoder import DecoderState
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import NextWords
from exadec.search.captured import Work

WIDEST = 16
"""The widest beam whose continuations a single program of a kernel can hold, with room to spare."""


def work_on_gpu(model: Seq2seq, config: SearchConfig) -> Work:
    """With `rounded`, texts are read as in training, and all other products of matrices are rounded to TF32."""
    weight, rounded = next(model.parameters()), config.precision == "rounded"
    backend = REFERENCE
    if rounded:
        backend = choose_backend("auto", weight.device, torch.bfloat16, model.config).backend

    def read(batch: Batch, given: torch.Tensor | None) -> DecoderState:
        with _products(rounded), torch.autocast("cuda", torch.bfloat16, enabled=rounded):
            state = model.encode(batch, given, backend, sources_once=False)
        return _convert(state, lambda part: part.to(weight.dtype) if part.is_floating_point() else part)

    # Triton comes with CUDA builds of torch for Linux only.
    if config.beam_size > WIDEST or find_spec("triton") is None:
        return Work(read, model.choose)
    from exadec.model.backends.triton import TritonBackend
    from exadec.search import fused

    single = weight.dtype == torch.float32
    choose = fused.fused_step(model, TritonBackend(weight.device) if single else REFERENCE)

    def step(state: DecoderState, words: torch.Tensor) -> tuple[NextWords, DecoderState]:
        with _products(rounded):
            return choose(state, words)

    return Work(read, step, fused.advance)


def _convert(state: DecoderState, change: Callable[[torch.Tensor], torch.Tensor]) -> DecoderState:
    return replace(state.map(change), memory=state.memory.map(change))


@contextmanager
def _products(rounded: bool) -> Iterator[None]:
    """Inside, products of float32 matrices are rounded to TF32, or are not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if rounded else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
