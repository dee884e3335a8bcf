"""The four models of the paper as two switches of one class.

In: a `Batch`. Out: log-probabilities of its targets, or a `DecoderState` to search from.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from exadec.config import ModelConfig
from exadec.corpus.vocabulary import NONE, PAD, UNK
from exadec.loading.batch import Batch
from exadec.model.adaptive import Centring, Coefficients
from exadec.model.attention import Memory, Positions
from exadec.model.backends.reference import REFERENCE, Backend
from exadec.model.cells import CELLS
from exadec.model.copying import Choices, Mixture
from exadec.model.decoder import Decoder, DecoderState
from exadec.model.embedding import Embedding
from exadec.model.encoder import BiLstmEncoder
from exadec.model.places import Places


class Seq2seq(nn.Module):
    """Encoder-decoder with attention and copying; `adaptive` and `attend_exemplar` set how the exemplar is used.

    | model         | adaptive | attend_exemplar |
    |---------------|----------|-----------------|
    | Seq2seq       | no       | no              |
    | AttExp        | no       | yes             |
    | AdaDec        | yes      | no              |
    | AdaDec+AttExp | yes      | yes             |
    """

    def __init__(
        self,
        config: ModelConfig,
        vocabulary_size: int,
        pretrained: torch.Tensor | None = None,
        backend: Backend = REFERENCE,
        other_case: torch.Tensor | None = None,
    ):
        """`other_case` (V,) is each word's id with the case of its first letter changed, for `copy_case`."""
        super().__init__()
        self.config, self.backend = config, backend
        hidden, dimension, encoding = config.hidden, config.embedding, 2 * config.exemplar_hidden
        embedding = Embedding(vocabulary_size, dimension, pretrained, config.freeze_embeddings)
        self.decoder = Decoder(config, embedding, values=2 * hidden)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.encoder = BiLstmEncoder(dimension, hidden, config.encoder_layers, config.encoder_dropout)
        self.register_buffer("other_case", None)
        if config.copy_case:
            self.other_case = torch.arange(vocabulary_size) if other_case is None else other_case
        self.bridge_dropout = nn.Dropout(config.bridge_dropout)
        self.bridges = [f"bridge_{name}" for name in CELLS[config.cell].states]
        """Layers that make the cell's first state, one for each of its vectors."""
        for name in self.bridges:
            self.add_module(name, nn.Linear(2 * hidden, hidden))
        self.exemplar_encoder: BiLstmEncoder | None = None
        self.centring: Centring | None = None
        self.coefficients: Coefficients | None = None
        self.exemplar_layer: nn.Linear | None = None
        self.exemplar_values: nn.Linear | None = None
        if config.reads_exemplars:
            self.exemplar_encoder = BiLstmEncoder(dimension, config.exemplar_hidden, 1, config.encoder_dropout)
        if config.adaptive:
            self.exemplar_dropout = nn.Dropout(config.exemplar_dropout)
            if config.exemplar_layer:
                self.exemplar_layer = nn.Linear(encoding, encoding)
            groups = CELLS[config.cell].gates if config.per_gate_coefficients else 1
            residual, norm = config.weights == "residual", config.coefficient_norm
            if norm is None:
                norm = math.sqrt(hidden)
            if residual:
                self.centring = Centring(encoding)
            self.coefficients = Coefficients(
                encoding, config.coefficient_rank, groups, None if residual else norm or None, start_at_zero=residual
            )
        if config.attend_exemplar:
            self.exemplar_values = nn.Linear(encoding, 2 * hidden)

    @property
    def embedding(self) -> Embedding:
        """The table for source, exemplar and target. The decoder owns it: it may also be the softmax weights."""
        return self.decoder.embedding

    def forward(self, batch: Batch) -> torch.Tensor:
        """log p(target | source, exemplar), word by word: (B, T); the caller masks padding.

        For training. Reading the exemplar and the target does not depend on the source, so the backend may overlap
        it with reading the source.
        """
        batch = self._skip_exemplars(batch)
        texts = (batch.source, self._exemplar_ids(batch), batch.target_input)
        source, exemplar, target = self._embed(texts, self.backend)

        def read_exemplar() -> tuple[Any, ...]:
            lam, *read = self._read_exemplar(exemplar, batch, self.backend)
            return self.decoder.unroll(target, lam, self.backend), lam, *read

        (unrolled, *read), encoded = self.backend.overlap(
            read_exemplar, lambda: self.encoder(source, batch.source_lengths, self.backend)
        )
        state = self._start(batch, encoded, *read)
        return self.decoder.score(unrolled(state), batch.target_output, state.memory, self.backend)

    def encode(
        self,
        batch: Batch,
        coefficients: torch.Tensor | None = None,
        backend: Backend = REFERENCE,
        sources_once: bool = True,
    ) -> DecoderState:
        """As `read`, for a search that is going to `choose`: it also needs to know where each word is."""
        state = self.read(batch, coefficients, backend, sources_once)
        if self.decoder.copy is None:
            return state
        return replace(state, memory=replace(state.memory, places=Places.of(state.memory.copied_words())))

    def read(
        self,
        batch: Batch,
        coefficients: torch.Tensor | None = None,
        backend: Backend = REFERENCE,
        sources_once: bool = True,
    ) -> DecoderState:
        """Read source and exemplar: the state before the first word (Algorithm 1).

        A source that several instances have is read once, unless shapes must not depend on values. `coefficients`
        (B, 1 or G, R) take the place of λ, except where they are NaN.
        """
        sources, lengths, numbers = batch.source, batch.source_lengths, None
        if sources_once:
            unique, inverse = batch.source.unique(dim=0, return_inverse=True)  # (U, S), (B,)
            if len(unique) < len(sources):
                sources, lengths, numbers = unique, (unique != PAD).sum(1), inverse
        source, exemplar = self._embed((sources, self._exemplar_ids(batch)), backend)
        lam, *read = self._read_exemplar(exemplar, batch, backend)
        if lam is not None and coefficients is not None:
            lam = torch.where(coefficients.isnan(), lam, coefficients)
        positions, last = self.encoder(source, lengths, backend)
        if numbers is not None:
            positions, last = positions.index_select(0, numbers), last.index_select(0, numbers)
        return self._start(batch, (positions, last), lam, *read)

    def step(self, state: DecoderState, words: torch.Tensor) -> tuple[torch.Tensor, DecoderState]:
        """log p of each next word, (N,) -> (N, X), and the state after `words`."""
        mixture, state = self.decoder.step(state, words)
        return mixture.of_all(state.memory).flatten(0, 1), state

    def choose(self, state: DecoderState, words: torch.Tensor) -> tuple[Choices, DecoderState]:
        """As `step`, for a search that needs only the likeliest words."""
        mixture, state = self.decoder.step(state, words)
        return Choices(mixture, state.memory), state

    def explain(self, state: DecoderState, words: torch.Tensor) -> Mixture:
        """The parts of each next-word distribution (attention, copy gate) after `words` (B, T), begin symbol first."""
        return self.decoder.explain(state, words)

    def exemplar_coefficients(self, batch: Batch) -> torch.Tensor | None:
        """λ of each instance's exemplars: (B, 1 or G, R); None for a model that does not adapt."""
        (exemplar,) = self._embed((self._exemplar_ids(batch),), REFERENCE)
        return self._read_exemplar(exemplar, batch, REFERENCE)[0]

    def _embed(self, texts: Sequence[torch.Tensor], backend: Backend) -> list[torch.Tensor]:
        """(B, S) -> (B, S, E) for each text, with a single lookup, so that the table's gradient is built once."""
        ids = torch.cat([text.flatten() for text in texts])
        vectors = self.embedding_dropout(self.embedding(ids, backend))
        parts = vectors.split([text.numel() for text in texts])
        return [part.unflatten(0, text.shape) for part, text in zip(parts, texts, strict=True)]

    def _exemplar_ids(self, batch: Batch) -> torch.Tensor:
        """(B·k, Z); (B·k, 0) for a model that does not read exemplars."""
        return batch.exemplar if self.exemplar_encoder is not None else batch.exemplar[:, :0]

    def _skip_exemplars(self, batch: Batch) -> Batch:
        """In training, replace all exemplars of some instances by `<none>`."""
        if not self.training or self.config.exemplar_skipping == 0 or self.exemplar_encoder is None:
            return batch
        drawn = torch.rand(batch.size, device=batch.source.device)
        return self.hide_exemplars(batch, shown=drawn >= self.config.exemplar_skipping)

    def hide_exemplars(self, batch: Batch, shown: torch.Tensor) -> Batch:
        """Replace all exemplars of those instances that are not shown theirs, (B,) bool, by `<none>`."""
        target = batch.target_output
        if self.config.attend_exemplar:
            # An unknown word that only the skipped exemplars have cannot be copied: it is as unknown as any other.
            in_source = (target[:, :, None] == batch.source[:, None]).any(2)  # (B, T)
            can_be_written = shown[:, None] | in_source | (target < len(self.embedding.weight))
            target = torch.where(can_be_written, target, UNK)
        ids, lengths = (part.unflatten(0, (batch.size, -1)) for part in (batch.exemplar, batch.exemplar_lengths))
        first = torch.where(shown[:, None, None], ids[:, :, :1], NONE)
        exemplar = torch.cat([first, ids[:, :, 1:]], dim=2)  # words beyond its length are never read
        lengths = torch.where(shown[:, None], lengths, 1)
        return replace(batch, exemplar=exemplar.flatten(0, 1), exemplar_lengths=lengths.flatten(), target_output=target)

    def _start(
        self,
        batch: Batch,
        encoded: tuple[torch.Tensor, torch.Tensor],
        lam: torch.Tensor | None,
        exemplar_positions: torch.Tensor | None,
        exemplar_keys: torch.Tensor | None,
    ) -> DecoderState:
        """The decoder's initial state: tanh layers over the encoder's final states (B, 2D), and the memory."""
        positions, last = encoded
        memory = self._remember(batch, positions, exemplar_positions, exemplar_keys)
        last = self.bridge_dropout(last)
        recurrent = tuple(torch.tanh(self.get_submodule(name)(last)) for name in self.bridges)  # (B, D) each
        return self.decoder.start(memory, recurrent, lam)

    def _read_exemplar(
        self, embedded: torch.Tensor, batch: Batch, backend: Backend
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """λ (B, groups, R) if the model adapts; the exemplars' positions (B, k·Z, A) if it reads exemplars, and their
        keys (B, k·Z, D) if they have an attention of their own."""
        if self.exemplar_encoder is None:
            return None, None, None
        positions, a = self.exemplar_encoder(embedded, batch.exemplar_lengths, backend)  # (B·k, Z, A), (B·k, A)
        side_by_side = positions.flatten(0, 1).unflatten(0, (batch.size, -1))  # (B, k·Z, A)
        if self.coefficients is None:
            return None, side_by_side, None
        a = self.exemplar_dropout(a)
        if self.exemplar_layer is not None:
            a = self.exemplar_dropout(torch.tanh(self.exemplar_layer(a)))
        if self.centring is not None:
            shown = batch.exemplar[:, 0] != NONE  # (B·k,)
            if self.training:
                real = batch.target_output[:, 0] != PAD  # (B,): False for rows that fill up a batch
                self.centring.update(a, shown & real[:, None].expand(-1, len(a) // batch.size).flatten())
            # Without an exemplar λ is zero: W alone is the plain decoder. A learnt λ would lag behind C.
            a = self.centring(a).masked_fill(~shown[:, None], 0.0)
        lam = self.coefficients(a)  # (B·k, groups, R)
        key = self.decoder.attention.exemplar_key
        keys = None if key is None else key(side_by_side)
        return lam.unflatten(0, (batch.size, -1)).mean(1), side_by_side, keys

    def _remember(
        self,
        batch: Batch,
        positions: torch.Tensor,
        exemplar_positions: torch.Tensor | None,
        exemplar_keys: torch.Tensor | None,
    ) -> Memory:
        """One memory, under one softmax: the source, followed by the exemplar with AttExp."""
        extended = len(self.embedding.weight) + batch.unknown.shape[1]
        values, mask, ids = positions, _mask(batch.source_lengths, batch.source.shape[1]), batch.source
        exemplars = None
        if exemplar_positions is not None:
            shown = _mask(batch.exemplar_lengths, batch.exemplar.shape[1]).view(batch.size, -1)  # (B, k·Z)
            if self.exemplar_values is not None:
                values = torch.cat([values, self.exemplar_values(exemplar_positions)], dim=1)  # (B, S + k·Z, 2D)
                mask = torch.cat([mask, shown], dim=1)
                ids = torch.cat([ids, batch.exemplar.view(batch.size, -1)], dim=1)
            if exemplar_keys is not None:
                exemplars = Positions(exemplar_positions, exemplar_keys, shown)
        return self.decoder.remember(values, mask, ids, extended, self._change_case(ids), exemplars)

    def _change_case(self, ids: torch.Tensor) -> torch.Tensor | None:
        """The same words with the case of their first letter changed, where the vocabulary has them so."""
        if self.other_case is None:
            return None
        size = len(self.other_case)
        return torch.where(ids < size, self.other_case[ids.clamp_max(size - 1)], ids)


def _mask(lengths: torch.Tensor, size: int) -> torch.Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]  # (B, size)


def count_parameters(model: Seq2seq) -> dict[str, int]:
    """Trainable parameters of each part. `P and Q` and `bias` belong to the decoder's recurrent cell (section 3.1).

    Word vectors that are frozen are left out: the table has a row for them, which no text reads.
    """
    decoder = model.decoder
    extensions = [one for one in (decoder.extension, decoder.attention.extension) if one is not None]
    layers = [one for one in (model.exemplar_layer, model.exemplar_values) if one is not None]
    parts: dict[str, list[nn.Parameter]] = {
        "embeddings": list(model.embedding.parameters()),
        "source encoder": list(model.encoder.parameters()),
        "exemplar encoder": [] if model.exemplar_encoder is None else list(model.exemplar_encoder.parameters()),
        "coefficients C": [] if model.coefficients is None else list(model.coefficients.parameters()),
        "decoder P and Q": [*decoder.cell.P.parameters(), *decoder.cell.Q.parameters()],
        "decoder bias": [decoder.cell.B],
        "exemplar layers": [parameter for layer in layers for parameter in layer.parameters()],
        "extensions by λ": [extension.V for extension in extensions],
    }
    frozen = 0 if model.embedding.is_fixed is None else int(model.embedding.is_fixed.sum()) * model.config.embedding
    counts = {name: sum(p.numel() for p in parameters) for name, parameters in parts.items()}
    counts["embeddings"] -= frozen
    total = sum(p.numel() for p in model.parameters()) - frozen
    counts["bridge, attention, copying, softmax"] = total - sum(counts.values())
    return {**counts, "all": total}


def explain_cell(config: ModelConfig) -> str:
    """The size of P and Q in the paper's terms: 4d² for an adaptive Elman cell at r = d, 2d² for an ordinary one."""
    d, gates = config.hidden, CELLS[config.cell].gates
    inputs, r = config.decoder_inputs, config.coefficient_rank
    if not config.adaptive:
        formula, bias = ("2d²" if inputs == d else "d(d + inputs)"), "d"
    elif config.weights == "unconstrained":
        formula, bias = "r·d(d + inputs)", "d·r"
    elif config.weights == "residual":
        formula, bias = "d(d + inputs + 2r)", "d"
    else:
        formula, bias = ("4d²", "d²") if inputs == r == d else ("r(3d + inputs)", "d·r")
    return f"{gates} gate{'s' * (gates > 1)} × {formula}, bias {bias} a gate; d = {d}, r = {r}, inputs = {inputs}"
