"""The decoder: recurrent cell, attention, copying, softmax.

In: a `Memory`, an initial state, coefficients λ. Out: next-word distributions, for all steps at once or step by step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from exadec.config import ModelConfig
from exadec.corpus.vocabulary import UNK
from exadec.model.adaptive import Extension, RecurrentCell
from exadec.model.attention import AttentionLayer, Memory, Positions
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.cells import State
from exadec.model.copying import AttentionCopy, Mixture, SeparateCopy
from exadec.model.embedding import Embedding


@dataclass(frozen=True)
class DecoderState:
    """The decoder's state for N = B·K hypotheses, K for each of the memory's B instances."""

    recurrent: State
    """(N, D) each: h, then the cell's other vectors."""
    attentional: torch.Tensor
    """(N, E): the previous attentional vector, for input feeding."""
    coefficients: torch.Tensor | None
    """(N, 1 or G, R): λ, one for all gates or one for each; None for a decoder that does not adapt."""
    memory: Memory

    def select(self, indices: torch.Tensor) -> "DecoderState":
        """Select hypotheses by row number: K for the first instance, then K for the second, and so on.

        A hypothesis stays with its instance. So the K hypotheses share the memory, which is never copied, and λ.
        """
        assert len(indices) % self.memory.instances == 0
        if len(indices) != len(self.attentional):
            return self.map(lambda part: part.index_select(0, indices))
        selected = replace(self, coefficients=None).map(lambda part: part.index_select(0, indices))
        return replace(selected, coefficients=self.coefficients)

    def select_into(self, indices: torch.Tensor, other: "DecoderState") -> None:
        """`select` as many hypotheses of the same instances as another state has, and write them over that one's."""
        pairs = zip((*self.recurrent, self.attentional), (*other.recurrent, other.attentional), strict=True)
        for mine, theirs in pairs:
            torch.index_select(mine, 0, indices, out=theirs)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "DecoderState":
        """The same with every tensor of the hypotheses changed; the memory stays."""
        return DecoderState(
            tuple(map(change, self.recurrent)),
            change(self.attentional),
            None if self.coefficients is None else change(self.coefficients),
            self.memory,
        )

    def keep(self, instances: torch.Tensor) -> "DecoderState":
        """All hypotheses of some of the instances."""
        each = len(self.attentional) // self.memory.instances
        rows = (each * instances[:, None] + torch.arange(each, device=instances.device)).flatten()
        return replace(self, memory=self.memory.keep(instances)).map(lambda part: part[rows])


class Decoder(nn.Module):
    """One recurrent layer, adaptive or not. Attention, copying, output and dropout are the same for both.

    With `residual` weights the cell and the attentional layer are ordinary ones, and their inputs bring λ along. The
    copy gate reads the cell's input, so it depends on λ, too.
    """

    def __init__(self, config: ModelConfig, embedding: Embedding, values: int):
        super().__init__()
        size = len(embedding.weight)
        self.input_feeding = config.input_feeding
        attentional, inputs = config.attentional_size, config.decoder_inputs
        linear, rank = config.weights if config.adaptive else "fixed", None
        self.extension: Extension | None = None
        if linear == "residual":
            linear, rank = "fixed", config.coefficient_rank
            self.extension = Extension(inputs, rank)
        self.cell = RecurrentCell(
            config.cell, inputs, config.hidden, linear, config.coefficient_rank, extension=self.extension
        )
        inputs += 2 * (rank or 0)
        own = 2 * config.exemplar_hidden if config.has_exemplar_context else 0
        self.attention = AttentionLayer(config.hidden, values, attentional, config.linear_attention_layer, rank, own)
        self.copy: AttentionCopy | SeparateCopy | None = None
        if config.copy == "attention":
            self.copy = AttentionCopy(values, config.hidden, inputs)
        elif config.copy == "separate":
            self.copy = SeparateCopy(values, config.hidden, attentional)
        self.case_gate: nn.Linear | None = None
        if config.copy_case and self.copy is not None:
            self.case_gate = nn.Linear(attentional, 1)
            nn.init.constant_(self.case_gate.bias, -2.0)  # most copied words keep their case
        self.embedding = embedding
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.output_dropout = nn.Dropout(config.output_dropout)
        self.softmax_weight = None if config.tied else nn.Parameter(torch.empty(size, attentional))
        if self.softmax_weight is not None:
            nn.init.xavier_uniform_(self.softmax_weight)
        self.softmax_bias = nn.Parameter(torch.zeros(size))

    def remember(
        self,
        values: torch.Tensor,
        mask: torch.Tensor,
        ids: torch.Tensor,
        extended: int,
        other_case: torch.Tensor | None = None,
        exemplars: Positions | None = None,
    ) -> Memory:
        """Project the encoded positions once, for all time steps."""
        copy_keys = self.copy.key(values) if isinstance(self.copy, SeparateCopy) else None
        return Memory(values, self.attention.key(values), copy_keys, mask, ids, extended, other_case, exemplars)

    def start(self, memory: Memory, recurrent: State, lam: torch.Tensor | None) -> DecoderState:
        """The state before the first word; the initial attentional vector is zero."""
        attentional = recurrent[0].new_zeros(recurrent[0].shape[0], self.attention.outputs)
        return DecoderState(recurrent, attentional, lam, memory)

    def unroll(
        self, embedded: torch.Tensor, lam: torch.Tensor | None, backend: Backend = REFERENCE
    ) -> "Callable[[DecoderState], Steps]":
        """Prepare all steps over known words (B, T, E).

        Whatever does not depend on the source is computed here; the returned function does the rest.
        """
        if self.input_feeding:
            return lambda state: self._unroll_fed(state, embedded)
        inputs = self._extend(embedded, lam)
        recurrence = backend.unroll(self.cell, inputs, self._of_cell(lam))

        def attend(state: DecoderState) -> Steps:
            hidden = recurrence(state.recurrent)  # (B, T, D)
            return self._steps(self.attention(hidden, state.memory, lam, backend), hidden, inputs)

        return attend

    def score(
        self, steps: "Steps", targets: torch.Tensor, memory: Memory, backend: Backend = REFERENCE
    ) -> torch.Tensor:
        """log p of known targets, (B, T) -> (B, T), without building a distribution over the vocabulary."""
        weight, bias = self.softmax()
        known = torch.where(targets < len(weight), targets, UNK)
        generated = backend.log_probability(steps.attentional, weight, bias, known)
        if self.copy is None:
            return generated
        gate, weights = self._gate(steps, memory)
        other_case = None
        if self.case_gate is not None and memory.other_case is not None:
            other_case = memory.other_case, self.case_gate(steps.attentional).squeeze(2)
        return backend.mix_targets(generated, gate, weights, targets, memory.ids, len(weight), other_case)

    def explain(self, state: DecoderState, words: torch.Tensor) -> Mixture:
        """All steps of known targets: (B, T) -> distributions (B, T, ·)."""
        embedded = self.embedding_dropout(self.embedding(words))  # (B, T, E)
        return self._mix(self.unroll(embedded, state.coefficients)(state), state.memory)

    def step(self, state: DecoderState, words: torch.Tensor) -> tuple[Mixture, DecoderState]:
        """One step of N hypotheses: (N,) -> distributions (B, K, ·), and the state after it."""
        steps, state = self._one_step(state, words)
        return self._mix(steps, state.memory), state

    def parts(
        self, state: DecoderState, words: torch.Tensor, backend: Backend = REFERENCE
    ) -> tuple["Parts", DecoderState]:
        """As `step`, but what the distributions are made of, for a search that mixes by itself."""
        steps, state = self._one_step(state, words, backend)
        if self.copy is None:
            return Parts(steps.attentional, None, None, None), state
        gate, weights = self._gate(steps, state.memory)
        case = None if self.case_gate is None else self.case_gate(steps.attentional).squeeze(2)
        return Parts(steps.attentional, gate, weights, case), state

    def _one_step(
        self, state: DecoderState, words: torch.Tensor, backend: Backend = REFERENCE
    ) -> tuple["Steps", DecoderState]:
        embedded = self.embedding_dropout(self.embedding(words))  # (N, E)
        inputs, hidden, attended, state = self._advance(state, embedded, backend)
        instances = state.memory.instances
        return self._steps(attended, hidden.unflatten(0, (instances, -1)), inputs.unflatten(0, (instances, -1))), state

    def _unroll_fed(self, state: DecoderState, embedded: torch.Tensor) -> "Steps":
        """Step by step: with input feeding, each step needs the attention of the previous one."""
        rows: list[tuple[torch.Tensor, ...]] = []
        for vector in embedded.unbind(1):
            inputs, hidden, attended, state = self._advance(state, vector)
            rows.append((*(part.squeeze(1) for part in attended), hidden, inputs))
        attentional, context, weights, hidden, inputs = (torch.stack(part, 1) for part in zip(*rows, strict=True))
        return self._steps((attentional, context, weights), hidden, inputs)

    def _advance(
        self, state: DecoderState, embedded: torch.Tensor, backend: Backend = REFERENCE
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...], DecoderState]:
        """(N, E) -> cell inputs (N, ·), h (N, D), attention over each instance's memory (B, K, ·), next state."""
        inputs = torch.cat([embedded, state.attentional], dim=1) if self.input_feeding else embedded
        # The hypotheses of an instance share λ, so what depends on λ alone is computed once for all of them.
        lam = self._of_instances(state)
        inputs = self._extend(inputs.unflatten(0, (state.memory.instances, -1)), lam)  # (B, K, ·)
        projected = self.cell.project(inputs, self._of_cell(lam)).flatten(0, 1)  # (N, G, D)
        recurrent = backend.step(self.cell, projected, state.recurrent, self._of_cell(state.coefficients))
        hidden = recurrent[0].unflatten(0, (state.memory.instances, -1))  # (B, K, D)
        attended = self.attention(hidden, state.memory, lam, backend)
        state = replace(state, recurrent=recurrent, attentional=attended[0].flatten(0, 1))
        return inputs.flatten(0, 1), recurrent[0], attended, state

    def _extend(self, x: torch.Tensor, lam: torch.Tensor | None) -> torch.Tensor:
        """What the cell reads, (N, T, inputs): with `residual` weights, λ is part of it."""
        if self.extension is None:
            return x
        assert lam is not None
        extended: torch.Tensor = self.extension(x, lam)
        return extended

    def _of_cell(self, lam: torch.Tensor | None) -> torch.Tensor | None:
        """λ for the cell's own weights: none if its input brings λ along."""
        return lam if self.extension is None else None

    def _of_instances(self, state: DecoderState) -> torch.Tensor | None:
        """λ once for each instance: (B, 1 or G, R)."""
        lam = state.coefficients
        return None if lam is None else lam.unflatten(0, (state.memory.instances, -1))[:, 0]

    def _steps(
        self,
        attended: tuple[torch.Tensor, ...],
        hidden: torch.Tensor,
        inputs: torch.Tensor,
    ) -> "Steps":
        attentional, context, weights = attended
        return Steps(self.output_dropout(attentional), context, weights, hidden, inputs)

    def softmax(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Its weights (V, E) and biases (V,)."""
        weight = self.embedding.table() if self.softmax_weight is None else self.softmax_weight
        return weight, self.softmax_bias

    def _gate(self, steps: "Steps", memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """The logit of generating rather than copying (B, T), and the copy weights (B, T, M)."""
        if isinstance(self.copy, SeparateCopy):
            gate, weights = self.copy(steps.attentional, steps.hidden, memory)
            return gate, weights
        assert self.copy is not None
        return self.copy(steps.context, steps.hidden, steps.inputs), steps.weights

    def _mix(self, steps: "Steps", memory: Memory) -> Mixture:
        vocabulary = torch.log_softmax(functional.linear(steps.attentional, *self.softmax()), dim=2)  # (B, T, V)
        if self.copy is None:
            return Mixture(vocabulary, None, None, None)
        gate, weights = self._gate(steps, memory)
        generate, copy = functional.logsigmoid(gate), functional.logsigmoid(-gate)
        return Mixture(vocabulary, generate, copy, weights, self._changes_case(steps))

    def _changes_case(self, steps: "Steps") -> torch.Tensor | None:
        """(B, T): probability that a copied word changes its case."""
        return None if self.case_gate is None else torch.sigmoid(self.case_gate(steps.attentional)).squeeze(2)


@dataclass(frozen=True)
class Parts:
    """What next-word distributions are made of; (B, K, ·)."""

    attentional: torch.Tensor
    """(B, K, E): times the softmax's weights, and with its biases, it gives the logits of all words."""
    gate: torch.Tensor | None
    """(B, K): the logit of generating rather than copying; None without copying."""
    weights: torch.Tensor | None
    """(B, K, M): probability of each position, given that a word is copied."""
    case: torch.Tensor | None
    """(B, K): the logit of changing a copied word's case; None if it cannot."""

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Parts":
        """The same with every tensor changed."""
        gate, weights, case = (None if part is None else change(part) for part in (self.gate, self.weights, self.case))
        return Parts(change(self.attentional), gate, weights, case)


@dataclass(frozen=True)
class Steps:
    """The inputs to each next-word distribution; (B, T, ·), or (B, K, ·) while searching."""

    attentional: torch.Tensor
    """After dropout."""
    context: torch.Tensor
    weights: torch.Tensor
    """Attention, (B, T, M)."""
    hidden: torch.Tensor
    inputs: torch.Tensor
