"""A model as two ONNX graphs: one reads source and exemplars, the other takes one step of the decoder.

In: a `Seq2seq`. Out: two `Graph`s that any ONNX runtime can run, for any batch, lengths and beam.

They are traced from the model's own code. Two things have to be said in another way: ONNX has an LSTM of its own, and
torch's translation of `logaddexp` and `logsigmoid` underflows.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from exadec.corpus.vocabulary import BOS, UNK
from exadec.errors import InputError
from exadec.loading.batch import Batch
from exadec.model.attention import Memory, Positions
from exadec.model.backends.reference import Backend
from exadec.model.decoder import DecoderState
from exadec.model.seq2seq import Seq2seq

OPSET = 18
"""The version of ONNX's operators."""

_AXES: dict[str, tuple[str, ...]] = {
    "source": ("batch", "source_length"),
    "source_lengths": ("batch",),
    "exemplars": ("batch", "exemplars", "exemplar_length"),
    "exemplar_lengths": ("batch", "exemplars"),
    "words": ("batch", "beam"),
    "unknown_words": (),
    "h": ("batch", "beam"),
    "c": ("batch", "beam"),
    "attentional": ("batch", "beam"),
    "coefficients": ("batch",),
    "memory_values": ("batch", "memory_length"),
    "memory_keys": ("batch", "memory_length"),
    "memory_copy_keys": ("batch", "memory_length"),
    "memory_mask": ("batch", "memory_length"),
    "memory_ids": ("batch", "memory_length"),
    "memory_other_case": ("batch", "memory_length"),
    "exemplar_values": ("batch", "exemplar_positions"),
    "exemplar_keys": ("batch", "exemplar_positions"),
    "exemplar_mask": ("batch", "exemplar_positions"),
    "log_p": ("batch", "beam", "extended"),
}
"""The first axes of each tensor: those whose sizes may differ from call to call. The others are the model's."""


@dataclass(frozen=True)
class Port:
    """An input or output of a graph."""

    name: str
    type: str
    shape: list[str | int]
    """A name stands for a size that may differ from call to call."""


@dataclass(frozen=True)
class Graph:
    """An ONNX model: the bytes of its file, and what goes in and comes out."""

    content: bytes
    inputs: list[Port]
    outputs: list[Port]


def trace(model: Seq2seq) -> tuple[Graph, Graph]:
    """The encoder and the step of a model in evaluation mode on a CPU.

    What the encoder gives is the state before the first word: each output has the name of the step's input that takes
    it. The step replaces a part of the state; those outputs are called `next_` and the input's name.
    """
    # Any sizes do, if they differ from each other and from 0 and 1, which torch would take for constants.
    length, unknown, beam = 5, 2, 3
    texts = {
        "source": torch.full((2, length), UNK),
        "source_lengths": torch.tensor([length, length - 1]),
        "exemplars": torch.full((2, 4, 7), UNK),
        "exemplar_lengths": torch.full((2, 4), 7),
    }
    if not model.config.reads_exemplars:
        texts = {name: one for name, one in texts.items() if "exemplar" not in name}
    with torch.no_grad(), _quiet():
        state = take_apart(model.read(_batch_of(texts)), 1, model.config.input_feeding)
        encoder = _to_onnx(_Encoder(model), texts, state)
        known = {name: one.expand(-1, beam, -1) if "beam" in _AXES[name] else one for name, one in state.items()}
        inputs = {"words": torch.full((2, beam), BOS), "unknown_words": torch.tensor(unknown), **known}
        return encoder, _to_onnx(_Step(model), inputs, _Step(model)(inputs))


class _GraphBackend(Backend):
    """LSTMs as ONNX's own operator. For tracing only: otherwise its results have the right shapes, but no values."""

    name = "onnx"

    def bilstm_layer(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor,
        weights: Sequence[Sequence[torch.Tensor]],
        *,
        mask: torch.Tensor | None,
        residual: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert mask is None, "a graph has no dropout"
        own = x.expand(2, -1, -1, -1)  # (2, B, S, E)
        read = [
            _lstm(text, lengths, of_lstm, direction)
            for text, of_lstm, direction in zip(own, weights, ("forward", "reverse"), strict=True)
        ]
        states, last = (torch.stack(parts) for parts in zip(*read, strict=True))  # (2, B, S, D), (2, B, D)
        return states + own if residual else states, last


def _lstm(
    x: torch.Tensor, lengths: torch.Tensor, weights: Sequence[torch.Tensor], direction: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, S, E) -> states (B, S, D), and the state after the last word that is read (B, D).

    ONNX's operator knows the length of each text, and in reverse begins at its last word.
    """
    (batch, length, _), hidden = x.shape, weights[1].shape[1]
    inputs, recurrent, *biases = weights
    states, last, _ = torch.onnx.ops.symbolic_multi_out(
        "::LSTM",
        [x.transpose(0, 1), inputs[None], recurrent[None], torch.cat(biases)[None], lengths.to(torch.int32)],
        {"hidden_size": hidden, "direction": direction},
        dtypes=[x.dtype] * 3,
        shapes=[[length, 1, batch, hidden], [1, batch, hidden], [1, batch, hidden]],
        version=OPSET,
    )
    return states[:, 0].transpose(0, 1), last[0]


def _with_gates_of_onnx(model: Seq2seq) -> Seq2seq:
    """A copy whose encoders have their gates in ONNX's order, input, output, forget, candidate; torch has the output
    gate last."""
    model = deepcopy(model)
    for encoder in (model.encoder, model.exemplar_encoder):
        for weight in [] if encoder is None else encoder.parameters():
            enter, forget, candidate, leave = weight.detach().chunk(4)
            weight.data = torch.cat([enter, leave, forget, candidate])
    return model


def take_apart(state: DecoderState, beam: int, fed: bool) -> dict[str, torch.Tensor]:
    """The tensors of a state by name, for K = `beam` hypotheses of each of B instances.

    Only a model with input feeding (`fed`) has a use for the attentional vector.
    """
    memory, shown, lam = state.memory, state.memory.exemplars, state.coefficients
    shape = (memory.instances, beam)
    rows = dict(zip(("h", "c"), state.recurrent, strict=False))  # (N, D)
    if fed:
        rows["attentional"] = state.attentional
    tensors = {name: part.unflatten(0, shape) for name, part in rows.items()}
    tensors |= {
        "memory_values": memory.values,
        "memory_keys": memory.keys,
        "memory_mask": memory.mask,
        "memory_ids": memory.ids,
    }
    if lam is not None:
        tensors["coefficients"] = lam.unflatten(0, shape)[:, 0]  # the same for all hypotheses of an instance
    if memory.copy_keys is not None:
        tensors["memory_copy_keys"] = memory.copy_keys
    if memory.other_case is not None:
        tensors["memory_other_case"] = memory.other_case
    if shown is not None:
        tensors |= {"exemplar_values": shown.values, "exemplar_keys": shown.keys, "exemplar_mask": shown.mask}
    return tensors


def _put_together(tensors: dict[str, torch.Tensor], attentional: int, extended: int) -> DecoderState:
    """The inverse of `take_apart`; `attentional` is the size of that vector, and `extended` is X."""
    recurrent = tuple(tensors[name].flatten(0, 1) for name in ("h", "c") if name in tensors)  # (N, D) each
    fed, lam, shown = tensors.get("attentional"), tensors.get("coefficients"), None
    if "exemplar_values" in tensors:
        shown = Positions(tensors["exemplar_values"], tensors["exemplar_keys"], tensors["exemplar_mask"])
    memory = Memory(
        values=tensors["memory_values"],
        keys=tensors["memory_keys"],
        copy_keys=tensors.get("memory_copy_keys"),
        mask=tensors["memory_mask"],
        ids=tensors["memory_ids"],
        extended=extended,
        other_case=tensors.get("memory_other_case"),
        exemplars=shown,
    )
    return DecoderState(
        recurrent,
        recurrent[0].new_zeros(recurrent[0].shape[0], attentional) if fed is None else fed.flatten(0, 1),
        None if lam is None else lam[:, None].expand(-1, tensors["h"].shape[1], -1, -1).flatten(0, 1),
        memory,
    )


def _batch_of(texts: dict[str, torch.Tensor]) -> Batch:
    """What a model reads to write a text: a batch without targets, and without exemplars for a model that has none."""
    source, lengths = texts["source"], texts["source_lengths"]
    nothing = source[:, :0]
    if "exemplars" not in texts:
        return Batch(source, lengths, nothing, lengths, nothing, nothing, nothing)
    exemplars, of_exemplars = texts["exemplars"].flatten(0, 1), texts["exemplar_lengths"].flatten()
    return Batch(source, lengths, exemplars, of_exemplars, nothing, nothing, nothing)


class _Encoder(nn.Module):
    """Texts by name -> the state before the first word, by name."""

    def __init__(self, model: Seq2seq):
        super().__init__()
        self.model = _with_gates_of_onnx(model)

    def forward(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        state = self.model.read(_batch_of(tensors), backend=_GraphBackend(), sources_once=False)
        return take_apart(state, 1, self.model.config.input_feeding)


class _Step(nn.Module):
    """A state and the last words (B, K) by name -> log p of each next word, and what changes in the state."""

    def __init__(self, model: Seq2seq):
        super().__init__()
        self.model = model

    def forward(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        words = tensors["words"]
        unknown: Any = tensors["unknown_words"].item()  # a symbol while it is traced
        torch._check(unknown >= 0)
        extended = len(self.model.embedding.weight) + unknown
        state = _put_together(tensors, self.model.decoder.attention.outputs, extended)
        log_p, state = self.model.step(state, words.flatten())
        after = take_apart(state, words.shape[1], self.model.config.input_feeding)
        replaced = {f"next_{name}": one for name, one in after.items() if "beam" in _AXES[name]}
        return {"log_p": log_p.unflatten(0, words.shape), **replaced}


def _to_onnx(module: nn.Module, inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor]) -> Graph:
    """Trace a module; inputs and outputs are examples."""
    try:
        from onnx_ir import Shape
        from onnx_ir.serde import serialize_model

        translated = translations()
    except ImportError:
        raise InputError("ONNX is not installed; run `pip install 'exadec[onnx]'`.") from None
    axes = {name: dict(enumerate(_AXES[name])) for name in inputs}
    with _heeding_interrupts():
        program = torch.onnx.export(
            module.eval(),
            kwargs={"tensors": inputs},
            dynamic_shapes={"tensors": axes},
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=OPSET,
            dynamo=True,
            custom_translation_table=translated,
            verbose=False,
        )
    assert program is not None
    ports = [_port(name, one) for name, one in outputs.items()]
    for value, port in zip(program.model.graph.outputs, ports, strict=True):
        value.shape = Shape(port.shape)  # torch calls an axis `u0 + 25000`
    _remove_traces(program.model)
    return Graph(serialize_model(program.model).SerializeToString(), [_port(*one) for one in inputs.items()], ports)


def _port(name: str, example: torch.Tensor) -> Port:
    axes = _AXES[name.removeprefix("next_")]
    # Before the first word there is one hypothesis. No other example has a size of 1.
    variable = [axis if size > 1 else 1 for axis, size in zip(axes, example.shape, strict=False)]
    return Port(name, str(example.dtype).removeprefix("torch."), [*variable, *example.shape[len(axes) :]])


def _remove_traces(model: Any) -> None:
    """torch notes the file and line that each operator comes from, with folders of whoever exports."""
    for part in (model, model.graph, *model.graph, *(value for node in model.graph for value in node.outputs)):
        part.metadata_props.clear()
        part.doc_string = None


def translations() -> dict[Any, Any]:
    """Operators that torch translates so that they underflow: log(exp(a) + exp(b)), log(sigmoid(a))."""
    from onnxscript import opset18 as op

    def softplus_of_minus(distance: Any) -> Any:
        """log(1 + exp(-distance)), for a distance of at least 0, and for an infinite one"""
        return op.Log(op.Add(op.Exp(op.Neg(distance)), op.Constant(value_float=1.0)))

    def logaddexp(a: Any, b: Any) -> Any:
        return op.Add(op.Max(a, b), softplus_of_minus(op.Abs(op.Sub(a, b))))

    def log_sigmoid(a: Any) -> Any:
        return op.Sub(op.Min(a, op.Constant(value_float=0.0)), softplus_of_minus(op.Abs(a)))

    return {torch.ops.aten.logaddexp.default: logaddexp, torch.ops.aten.log_sigmoid.default: log_sigmoid}


@contextmanager
def _heeding_interrupts() -> Iterator[None]:
    """Ctrl-C stays `KeyboardInterrupt`. In the middle of torch's imports it becomes an error of its exporter."""
    try:
        yield
    except Exception as error:
        origin: BaseException | None = error
        while origin is not None and not isinstance(origin, KeyboardInterrupt):
            origin = origin.__cause__ or origin.__context__
        if origin is None:
            raise
        raise KeyboardInterrupt from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without remarks of the libraries that trace: none is about anything the user could change."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
