"""Every choice of an experiment, as frozen dataclasses.

In: a strict YAML file and `section.key=value` overrides. Out: a checked `Config`.
"""

import dataclasses
import difflib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from exadec.errors import InputError

VARIANTS = {
    "seq2seq": {"adaptive": False, "attend_exemplar": False},
    "attexp": {"adaptive": False, "attend_exemplar": True},
    "adadec": {"adaptive": True, "attend_exemplar": False},
    "adadec+attexp": {"adaptive": True, "attend_exemplar": True},
}
"""The four models of the paper: two switches of one class (section 4.1)."""

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {},
    # What the authors' released code does where it differs from the paper's text.
    "released": {
        "model": {
            "input_feeding": True,
            "linear_attention_layer": True,
            "copy": "separate",
            "exemplar_layer": True,
        },
        "search": {"block_ngram": 3},
    },
}


class ConfigError(InputError):
    """A configuration that cannot be used; the message names the key."""


def _require(condition: bool, key: str, rule: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"`{key}` must be {rule}, but is {value!r} instead.")


@dataclass(frozen=True)
class CorpusConfig:
    """Which data, and how text becomes pieces."""

    format: Literal["records", "wire", "gigaword", "nyt", "wikibio", "e2e", "webnlg"] = "records"
    """`records`: JSONL, TSV or CSV files named below; `wire`: the generated news wire; else a data set as published."""
    source_folder: str | None = None
    """Where a published data set lies, as its publisher laid it out."""
    train: str | None = None
    """Training records."""
    valid: str | None = None
    """Development records, for early stopping."""
    test: str | None = None
    """Test records."""
    segmentation: Literal["words", "bpe"] = "bpe"
    """`words` keeps whole words (unknown ones can be copied); `bpe` learns byte-pair encoding on the training data."""
    pretokenized: bool = False
    """The text is tokenised already: for `words`, split at spaces and nowhere else."""
    lower_case: bool = False
    """Lower-case sources, targets and exemplars."""
    vocabulary_size: int = 25_000
    """BPE types, or the most frequent words, special symbols included."""
    max_source: int = 200
    """Longer sources are cut to this many pieces (counted and reported)."""
    max_target: int = 100
    """Longer training targets and exemplars are cut to this many pieces (counted and reported)."""
    wire_seed: int = 1
    """Seed of the generated wire."""
    wire_train: int = 40_000
    """Generated training records."""
    wire_heldout: int = 1_000
    """Generated development records, and as many test records."""
    wire_outlets: int = 4_000
    """Outlets of the generated wire, each with one house style."""

    def __post_init__(self) -> None:
        for key in ("vocabulary_size", "max_source", "max_target", "wire_train", "wire_heldout", "wire_outlets"):
            _require(getattr(self, key) >= 1, f"corpus.{key}", "at least 1", getattr(self, key))


@dataclass(frozen=True)
class ExemplarConfig:
    """Which training target shows how to say it (section 3.2)."""

    policy: str = "nearest"
    """`nearest` source; `sample`: one of the nearest; `random` target; `shuffled`: the nearest one of another instance;
    `oracle`: nearest by the target itself, for analysis only; `given`: named in the file `given`. The list is
    `exadec.exemplars.policies.POLICIES`, which refuses other names before any work is done."""
    neighbours: int = 1
    """k: how many of the nearest are found and kept; `sample` draws among them."""
    weighting: Literal["raw", "binary", "tfidf"] = "raw"
    """What a word counts: as often as it occurs, once, or by how rare it is."""
    features: Literal["words", "pieces"] = "words"
    """What is counted: lower-cased words, or the pieces that the model reads."""
    exclude_same_source: bool = False
    """Never show the target of an identical source."""
    exclude_same_target: bool = False
    """Never show the very text that is to be written."""
    group: Literal["any", "only", "prefer"] = "any"
    """`only`: from the instance's own group, for a house style; `prefer`: from there, if anything there is similar."""
    given: str | None = None
    """JSONL file of `split`, `uid` and `exemplar`, the uid of a training record."""
    seed: int = 1
    """Of `sample`, `random` and `shuffled`."""

    def __post_init__(self) -> None:
        _require(self.neighbours >= 1, "exemplars.neighbours", "at least 1", self.neighbours)
        if (self.policy == "given") != (self.given is not None):
            raise ConfigError("`exemplars.given` names the file of the policy `given`: set both or neither.")


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of sections 3 and 4.1 and the appendix."""

    adaptive: bool = True
    """Build the decoder's weights from the exemplar (AdaDec)."""
    attend_exemplar: bool = False
    """Attend over and copy from the encoded exemplar, too (AttExp)."""
    cell: Literal["lstm", "gru", "elman"] = "lstm"
    """The decoder's recurrent cell; the paper's experiments use the LSTM."""
    hidden: int = 256
    """D: size of the decoder's state and of each direction of the encoder."""
    embedding: int = 256
    """E: size of word embeddings; residual connections and tying want E = D."""
    encoder_layers: int = 3
    """Layers of the source BiLSTM."""
    exemplar_hidden: int = 32
    """Size of each direction of the one-layer exemplar BiLSTM; A is twice this."""
    rank: int | None = None
    """r, the number of coefficients; empty means r = D, as in the paper."""
    weights: Literal["factored", "unconstrained"] = "factored"
    """`factored`: P = U diag(λ) Vᵀ; `unconstrained`: P = Σ λᵢPᵢ (equation 5), for tests and ablation only."""
    per_gate_coefficients: bool = False
    """Give each gate its own λ instead of one for the whole cell."""
    coefficient_norm: float | None = None
    """‖λ‖; empty means √D, as in the appendix."""
    exemplar_layer: bool = False
    """A tanh layer between the exemplar's state and C, as in the released code."""
    input_feeding: bool = False
    """Feed the previous attentional vector to the decoder beside the embedding."""
    linear_attention_layer: bool = False
    """Leave out the tanh of Luong's attentional layer, as in the released code."""
    copy: Literal["none", "attention", "separate"] = "attention"
    """`attention`: See et al., gate from context, state and input; `separate`: the released gate and copy attention."""
    tied: bool = True
    """Use the word embeddings as softmax weights (and then E is the size of the attentional vector)."""
    glove: str | None = None
    """Text file of word vectors for the embeddings of known words."""
    freeze_embeddings: bool = False
    """Keep the vectors read from `glove` fixed; words without one stay trainable."""
    embedding_dropout: float = 0.15
    """On source, exemplar and target embeddings."""
    encoder_dropout: float = 0.15
    """Variational: one mask per sequence on the input of each encoder layer."""
    output_dropout: float = 0.15
    """Before the softmax."""
    bridge_dropout: float = 0.15
    """On the encoder's last state, before the layer that makes the decoder's first state."""
    exemplar_dropout: float = 0.15
    """On the exemplar's last state."""

    def __post_init__(self) -> None:
        for key in ("hidden", "embedding", "encoder_layers", "exemplar_hidden"):
            _require(getattr(self, key) >= 1, f"model.{key}", "at least 1", getattr(self, key))
        _require(self.rank is None or self.rank >= 1, "model.rank", "empty or at least 1", self.rank)
        for item in fields(self):
            if item.name.endswith("_dropout"):
                rate = getattr(self, item.name)
                _require(0.0 <= rate < 1.0, f"model.{item.name}", "at least 0 and below 1", rate)
        _require(
            self.coefficient_norm is None or self.coefficient_norm > 0,
            "model.coefficient_norm",
            "empty or above 0",
            self.coefficient_norm,
        )
        if self.freeze_embeddings and self.glove is None:
            raise ConfigError("`model.freeze_embeddings` needs vectors to freeze, but `model.glove` is empty.")

    @property
    def variant(self) -> str:
        """The paper's name of this combination of switches."""
        switches = {"adaptive": self.adaptive, "attend_exemplar": self.attend_exemplar}
        return next(name for name, values in VARIANTS.items() if values == switches)


@dataclass(frozen=True)
class TrainingConfig:
    """One loop for all variants (appendix A.1)."""

    seed: int = 1
    """Of initial weights, batch order and dropout."""
    batch_size: int = 64
    """Instances a step."""
    epochs: int = 20
    """At most this many passes over the training data."""
    learning_rate: float = 0.001
    """AdamW's step size; β₁ = 0.9, β₂ = 0.999, ε = 1e-8 are the defaults of the paper's TensorFlow."""
    annealing_rate: float = 0.2
    """The learning rate is multiplied by this..."""
    annealing_epochs: float = 4
    """...every so many epochs."""
    weight_decay: float = 0.01
    """Decoupled: η·0.01 times each parameter is taken off at each step."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this Euclidean norm."""
    metric: Literal["rouge1", "rouge2", "rouge4", "rougeL", "bleu"] = "rougeL"
    """Early stopping watches this score of the decoded development set."""
    evaluations_per_epoch: int = 1
    """How often the development set is decoded."""
    evaluation_size: int = 2_000
    """Development instances to decode for early stopping (the first ones)."""
    patience: int = 5
    """Stop after this many evaluations without a better score."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU that has it, float32 elsewhere."""

    def __post_init__(self) -> None:
        for key in ("batch_size", "epochs", "evaluations_per_epoch", "evaluation_size", "patience"):
            _require(getattr(self, key) >= 1, f"training.{key}", "at least 1", getattr(self, key))
        for key in ("learning_rate", "annealing_rate", "annealing_epochs", "clip_norm"):
            _require(getattr(self, key) > 0, f"training.{key}", "above 0", getattr(self, key))
        _require(self.weight_decay >= 0, "training.weight_decay", "at least 0", self.weight_decay)


@dataclass(frozen=True)
class SearchConfig:
    """How text is searched for."""

    beam_size: int = 5
    """Hypotheses kept; 1 is greedy search."""
    length_penalty: float = 1.0
    """α of Wu et al.: log p is divided by ((5 + length) / 6)^α."""
    max_length: int = 50
    """At most this many pieces, the end symbol included."""
    block_ngram: int = 0
    """Never write an n-gram of this size twice; 0 allows repetition."""
    batch_size: int = 64
    """Instances searched at once."""

    def __post_init__(self) -> None:
        for key in ("beam_size", "max_length", "batch_size"):
            _require(getattr(self, key) >= 1, f"search.{key}", "at least 1", getattr(self, key))
        for key in ("length_penalty", "block_ngram"):
            _require(getattr(self, key) >= 0, f"search.{key}", "at least 0", getattr(self, key))


@dataclass(frozen=True)
class Config:
    """One experiment. `Config.load` reads it from YAML."""

    folder: str
    """Where prepared data and runs go."""
    preset: Literal["paper", "released"] = "paper"
    """Whose word counts where the paper and the released code differ."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    exemplars: ExemplarConfig = field(default_factory=ExemplarConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    @staticmethod
    def load(path: Path | str, overrides: Sequence[str] = (), variant: str | None = None) -> "Config":
        """Read YAML, then apply `section.key=value` overrides and the variant's two switches, in this order."""
        values = _read_yaml(Path(path))
        for override in overrides:
            _apply_override(values, override)
        if variant is not None:
            if variant not in VARIANTS:
                raise ConfigError(f"unknown variant {variant!r}; the variants are {', '.join(VARIANTS)}.")
            values["model"] = {**(values.get("model") or {}), **VARIANTS[variant]}
        return Config.from_dict(values)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Config":
        preset = values.get("preset", "paper")
        if preset not in PRESETS:
            raise ConfigError(f"`preset` must be one of {', '.join(PRESETS)}, but is {preset!r} instead.")
        merged: dict[str, Any] = dict(values)
        for section, defaults in PRESETS[preset].items():
            merged[section] = {**defaults, **(merged.get(section) or {})}
        return _build(Config, merged, prefix="")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def replace(self, section: str, **values: Any) -> "Config":
        """A copy with some values of one section changed."""
        return dataclasses.replace(self, **{section: dataclasses.replace(getattr(self, section), **values)})


def _read_yaml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid UTF-8.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())}).") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected sections such as `model:`, but found none.")
    return values


def _apply_override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--set wants section.key=value, but got {override!r}.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    section, dot, name = key.strip().partition(".")
    if not dot:
        values[section] = value
        return
    if section in values and not isinstance(values[section] or {}, dict):
        raise ConfigError(f"unknown key `{key}`; `{section}` has no keys below it.")
    values[section] = {**(values.get(section) or {}), name: value}


def _build(kind: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """A dataclass from a mapping, refusing unknown keys by name and values of the wrong type."""
    hints = get_type_hints(kind)
    arguments = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise ConfigError(f"unknown key `{name}`{_suggestion(name)}")
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping | None):
                raise ConfigError(f"`{name}` must be a section with keys below it, but is {value!r} instead.")
            arguments[key] = _build(hints[key], value or {}, prefix=f"{name}.")
        else:
            arguments[key] = _convert(value, hints[key], name)
    missing = [f.name for f in fields(kind) if _is_required(f) and f.name not in arguments]
    if missing:
        raise ConfigError(f"`{prefix}{missing[0]}` is missing.")
    return kind(**arguments)


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def known_keys() -> list[str]:
    """Every key a configuration may have, as `section.key`."""
    keys = []
    for item in fields(Config):
        section = get_type_hints(Config)[item.name]
        keys += [f"{item.name}.{inner.name}" for inner in fields(section)] if is_dataclass(section) else [item.name]
    return keys


def _suggestion(name: str) -> str:
    """The nearest known key. A key in the wrong section is matched by its last part."""
    keys = known_keys() if "." in name else [item.name for item in fields(Config)]
    close = difflib.get_close_matches(name, keys, n=1, cutoff=0.75)
    if not close:
        by_last_part = {key.rpartition(".")[2]: key for key in keys}
        close = [by_last_part[match] for match in difflib.get_close_matches(name.rpartition(".")[2], by_last_part, n=1)]
    close = close or difflib.get_close_matches(name, keys, n=1, cutoff=0.3)
    return f"; did you mean `{close[0]}`?" if close else "."


def _convert(value: Any, hint: Any, name: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        (inner,) = [part for part in get_args(hint) if part is not type(None)]
        return _convert(value, inner, name)
    if origin is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise ConfigError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")
        return value
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 1e-3 as text
        except ValueError:
            pass
    if type(value) is not hint:
        kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise ConfigError(f"`{name}` must be {kinds[hint]}, but is {value!r} instead.")
    return value
