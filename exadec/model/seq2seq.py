"""The four models of the paper as two switches of one class.

In: a `Batch`. Out: log-probabilities of its targets, or a `DecoderState` to search from.
"""

import math

import torch
from torch import nn

from exadec.config import ModelConfig
from exadec.loading.batch import Batch
from exadec.model.adaptive import GATES, Coefficients
from exadec.model.attention import Memory
from exadec.model.copying import Mixture
from exadec.model.decoder import Decoder, DecoderState
from exadec.model.embedding import Embedding
from exadec.model.encoder import BiLstmEncoder
from exadec.model.streams import aside, join


class Seq2seq(nn.Module):
    """Encoder-decoder with attention and copying; `adaptive` and `attend_exemplar` say what the exemplar does.

    | model         | adaptive | attend_exemplar |
    |---------------|----------|-----------------|
    | Seq2seq       | no       | no              |
    | AttExp        | no       | yes             |
    | AdaDec        | yes      | no              |
    | AdaDec+AttExp | yes      | yes             |
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, pretrained: torch.Tensor | None = None):
        super().__init__()
        self.config = config
        hidden, dimension, encoding = config.hidden, config.embedding, 2 * config.exemplar_hidden
        embedding = Embedding(vocabulary_size, dimension, pretrained, config.freeze_embeddings)
        self.decoder = Decoder(config, embedding, values=2 * hidden)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.encoder = BiLstmEncoder(dimension, hidden, config.encoder_layers, config.encoder_dropout)
        self.bridge_dropout = nn.Dropout(config.bridge_dropout)
        self.bridge_h = nn.Linear(2 * hidden, hidden)
        self.bridge_c = nn.Linear(2 * hidden, hidden) if config.cell == "lstm" else None
        self.exemplar_encoder: BiLstmEncoder | None = None
        self.coefficients: Coefficients | None = None
        self.exemplar_layer: nn.Linear | None = None
        self.exemplar_values: nn.Linear | None = None
        if config.adaptive or config.attend_exemplar:
            self.exemplar_encoder = BiLstmEncoder(dimension, config.exemplar_hidden, 1, config.encoder_dropout)
        if config.adaptive:
            self.exemplar_dropout = nn.Dropout(config.exemplar_dropout)
            if config.exemplar_layer:
                self.exemplar_layer = nn.Linear(encoding, encoding)
            groups = GATES[config.cell] if config.per_gate_coefficients else 1
            norm = config.coefficient_norm or math.sqrt(hidden)
            self.coefficients = Coefficients(encoding, config.rank or hidden, groups, norm)
        if config.attend_exemplar:
            self.exemplar_values = nn.Linear(encoding, 2 * hidden)

    @property
    def embedding(self) -> Embedding:
        """The one table of source, exemplar and target; the decoder holds it, because it may be its softmax, too."""
        return self.decoder.embedding

    def forward(self, batch: Batch) -> torch.Tensor:
        """log p(target | source, exemplar), word by word: (B, T); padding is to be masked by the caller."""
        source, exemplar, target = self._embed(batch.source, self._read_of(batch), batch.target_input)
        with aside(source.device):
            lam, exemplar_positions = self._read_exemplar(exemplar, batch.exemplar_lengths)
            prepared = self.decoder.prepare(target, lam)
        state = self._encode(batch, source, lam, exemplar_positions)
        return self.decoder.score(state, target, prepared, batch.target_output)

    def encode(self, batch: Batch) -> DecoderState:
        """Read source and exemplar: the state before the first word (Algorithm 1)."""
        source, exemplar = self._embed(batch.source, self._read_of(batch))
        with aside(source.device):
            lam, exemplar_positions = self._read_exemplar(exemplar, batch.exemplar_lengths)
        return self._encode(batch, source, lam, exemplar_positions)

    def _embed(self, *texts: torch.Tensor) -> list[torch.Tensor]:
        """(B, S) -> (B, S, E) of each text. One lookup for all, so that the table's gradient is built once."""
        vectors = self.embedding_dropout(self.embedding(torch.cat([text.flatten() for text in texts])))
        parts = vectors.split([text.numel() for text in texts])
        return [part.unflatten(0, text.shape) for part, text in zip(parts, texts, strict=True)]

    def _read_of(self, batch: Batch) -> torch.Tensor:
        """The exemplar's words, (B, Z); none for a model that does not look at it."""
        return batch.exemplar if self.exemplar_encoder is not None else batch.exemplar[:, :0]

    def _encode(
        self, batch: Batch, source: torch.Tensor, lam: torch.Tensor | None, exemplar_positions: torch.Tensor | None
    ) -> DecoderState:
        """Read the source, while what is done aside goes on."""
        positions, last = self.encoder(source, batch.source_lengths)
        join(source.device, lam, exemplar_positions)
        memory = self._remember(batch, positions, exemplar_positions)
        last = self.bridge_dropout(last)
        h = torch.tanh(self.bridge_h(last))  # (B, D)
        c = torch.zeros_like(h) if self.bridge_c is None else torch.tanh(self.bridge_c(last))
        return self.decoder.start(memory, h, c, lam)

    def step(self, state: DecoderState, words: torch.Tensor) -> tuple[torch.Tensor, DecoderState]:
        """log p of each next word, (N,) -> (N, X), and the state after `words`."""
        mixture, state = self.decoder.step(state, words)
        return mixture.of_all(state.memory).flatten(0, 1), state

    def explain(self, state: DecoderState, words: torch.Tensor) -> Mixture:
        """How each next word came about, after an encoded state and words (B, T): attention and copy gate."""
        return self.decoder.unroll(state, words)

    def exemplar_coefficients(self, batch: Batch) -> torch.Tensor | None:
        """λ of each exemplar: (B, 1 or G, R); None for a model that does not adapt."""
        (exemplar,) = self._embed(self._read_of(batch))
        return self._read_exemplar(exemplar, batch.exemplar_lengths)[0]

    def _read_exemplar(
        self, embedded: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if self.exemplar_encoder is None:
            return None, None
        positions, a = self.exemplar_encoder(embedded, lengths)  # (B, Z, A), (B, A)
        if self.coefficients is None:
            return None, positions
        a = self.exemplar_dropout(a)
        if self.exemplar_layer is not None:
            a = self.exemplar_dropout(torch.tanh(self.exemplar_layer(a)))
        return self.coefficients(a), positions

    def _remember(self, batch: Batch, positions: torch.Tensor, exemplar_positions: torch.Tensor | None) -> Memory:
        """The source, and with AttExp the exemplar behind it, in one memory under one softmax."""
        extended = len(self.embedding.weight) + batch.unknown.shape[1]
        mask = _mask(batch.source_lengths, batch.source.shape[1])
        if self.exemplar_values is None:
            return self.decoder.remember(positions, mask, batch.source, extended)
        assert exemplar_positions is not None
        values = torch.cat([positions, self.exemplar_values(exemplar_positions)], dim=1)  # (B, S + Z, 2D)
        mask = torch.cat([mask, _mask(batch.exemplar_lengths, batch.exemplar.shape[1])], dim=1)
        return self.decoder.remember(values, mask, torch.cat([batch.source, batch.exemplar], dim=1), extended)


def pick_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _mask(lengths: torch.Tensor, size: int) -> torch.Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]  # (B, size)


def count_parameters(model: Seq2seq) -> dict[str, int]:
    """How many numbers each part learns. `P and Q` and `bias` are the recurrent cell of the decoder (section 3.1)."""
    decoder = model.decoder
    parts: dict[str, list[nn.Parameter]] = {
        "embeddings": list(model.embedding.parameters()),
        "source encoder": list(model.encoder.parameters()),
        "exemplar encoder": [] if model.exemplar_encoder is None else list(model.exemplar_encoder.parameters()),
        "coefficients C": [] if model.coefficients is None else list(model.coefficients.parameters()),
        "decoder P and Q": [*decoder.cell.P.parameters(), *decoder.cell.Q.parameters()],
        "decoder bias": [decoder.cell.B],
    }
    counts = {name: sum(p.numel() for p in parameters) for name, parameters in parts.items()}
    total = sum(p.numel() for p in model.parameters())
    counts["bridge, attention, copying, softmax"] = total - sum(counts.values())
    return {**counts, "all": total}


def explain_cell(config: ModelConfig) -> str:
    """The size of P and Q in the paper's terms: 4d² for an adaptive Elman cell at r = d, 2d² for an ordinary one."""
    d, gates = config.hidden, GATES[config.cell]
    inputs = config.embedding + (config.embedding if config.tied else d) * config.input_feeding
    r = config.rank or d
    if not config.adaptive:
        formula, ordinary = ("2d²", "bias d") if inputs == d else ("d(d + inputs)", "bias d")
    elif config.weights == "unconstrained":
        formula, ordinary = "r·d(d + inputs)", "bias d·r"
    else:
        formula, ordinary = ("4d²", "bias d²") if inputs == r == d else ("r(3d + inputs)", "bias d·r")
    return f"{gates} gate{'s' * (gates > 1)} × {formula}, {ordinary} a gate; d = {d}, r = {r}, inputs = {inputs}"
