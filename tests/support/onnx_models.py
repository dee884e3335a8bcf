"""A model that onnxruntime runs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import onnxruntime
import torch

from exadec.bundle.graphs import Graph
from exadec.config import ModelConfig
from exadec.corpus.vocabulary import BOS
from exadec.loading.batch import Batch
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Known

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class OnnxState:
    """K hypotheses for each of B instances, by the names of the graphs."""

    tensors: Tensors
    unknown: int
    """Words outside the vocabulary that some instance can copy."""
    changing: frozenset[str]
    """The tensors with an axis of hypotheses: (B, K, ·)."""

    @property
    def coefficients(self) -> torch.Tensor | None:
        lam = self.tensors.get("coefficients")
        return None if lam is None else torch.from_numpy(lam)

    def select(self, indices: torch.Tensor) -> "OnnxState":
        """Hypotheses of the same instances, as many for each."""
        instances = len(self.tensors["h"])
        chosen = {name: self.tensors[name].reshape(-1, *self.tensors[name].shape[2:]) for name in self.changing}
        chosen = {name: one[indices].reshape(instances, -1, *one.shape[1:]) for name, one in chosen.items()}
        return replace(self, tensors=self.tensors | chosen)

    def keep(self, instances: torch.Tensor) -> "OnnxState":
        return replace(self, tensors={name: one[instances.numpy()] for name, one in self.tensors.items()})


class OnnxModel:
    """Has what a search asks of a `Seq2seq`; a `Writer` does not see the difference."""

    def __init__(self, encoder: bytes, step: bytes, config: ModelConfig, size: int):
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]) for content in (encoder, step)
        )
        self.config, self.embedding = config, SimpleNamespace(weight=range(size))
        self.steps = 0
        """How often onnxruntime took a step."""

    @staticmethod
    def of(graphs: tuple[Graph, Graph], config: ModelConfig, size: int) -> "OnnxModel":
        return OnnxModel(graphs[0].content, graphs[1].content, config, size)

    def parameters(self) -> Iterator[torch.Tensor]:
        yield torch.empty(0)  # on a CPU

    def encode(self, batch: Batch, coefficients: None = None) -> OnnxState:
        exemplars, lengths = (part.unflatten(0, (batch.size, -1)) for part in (batch.exemplar, batch.exemplar_lengths))
        texts = {"source": batch.source, "source_lengths": batch.source_lengths}
        if self.config.reads_exemplars:
            texts |= {"exemplars": exemplars, "exemplar_lengths": lengths}
        tensors = _run(self.encoder, {name: one.numpy() for name, one in texts.items()})
        names = {one.name for one in self.decoder.get_outputs()}
        changing = frozenset(name for name in tensors if f"next_{name}" in names)
        return OnnxState(tensors, batch.unknown.shape[1], changing)

    def step(self, state: OnnxState, words: torch.Tensor) -> tuple[torch.Tensor, OnnxState]:
        self.steps += 1
        instances = len(state.tensors["h"])
        inputs = {"words": words.reshape(instances, -1).numpy(), "unknown_words": np.array(state.unknown)}
        found = _run(self.decoder, inputs | state.tensors)
        log_p = torch.from_numpy(found.pop("log_p")).flatten(0, 1)  # (N, X)
        following = {name.removeprefix("next_"): one for name, one in found.items()}
        return log_p, replace(state, tensors=state.tensors | following)

    def choose(self, state: OnnxState, words: torch.Tensor) -> tuple[Known, OnnxState]:
        log_p, state = self.step(state, words)
        return Known(log_p), state


def _run(session: onnxruntime.InferenceSession, inputs: Tensors) -> Tensors:
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))


@torch.no_grad()
def assert_same_steps(model: Seq2seq, theirs: OnnxModel, batch: Batch, steps: int = 4) -> None:
    """log p of all next words agrees to 1e-4 for as many steps, the first with one hypothesis, the others with three.

    An impossible word is so in both.
    """
    state, other = model.encode(batch), theirs.encode(batch)
    words = torch.full((batch.size,), BOS)
    for number in range(steps):
        (log_p, state), (found, other) = model.step(state, words), theirs.step(other, words)
        assert log_p.shape == (len(words), len(model.embedding.weight) + batch.unknown.shape[1])
        torch.testing.assert_close(found, log_p, atol=1e-4, rtol=0)
        words = log_p.topk(3, dim=1).indices[:, number % 3]
        if number == 0:  # go on with the three likeliest words of each instance
            rows = torch.arange(batch.size).repeat_interleave(3)
            state, other, words = state.select(rows), other.select(rows), log_p.topk(3, dim=1).indices.flatten()
