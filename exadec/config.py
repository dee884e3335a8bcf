"""All settings of an experiment, as frozen dataclasses.

In: a strict YAML file and `section.key=value` overrides. Out: a checked `Config`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from exadec.errors import ConfigError
from exadec.presets import PRESETS, VARIANTS
from exadec.search_config import SearchConfig
from exadec.strict_yaml import (
    LARGEST_SEED,
    Overrides,
    apply_override,
    build,
    list_overrides,
    parse_yaml,
    read_yaml,
    require,
    require_between,
    require_choice,
    require_section,
)

__all__ = [
    "LARGEST_SEED",
    "PRESETS",
    "RECORD_FIELDS",
    "VARIANTS",
    "Config",
    "ConfigError",
    "CorpusConfig",
    "ExemplarConfig",
    "ModelConfig",
    "SearchConfig",
    "TrainingConfig",
]

RECORD_FIELDS = ("uid", "source", "table", "target", "references", "group")
"""What a file of records may say about each."""


@dataclass(frozen=True)
class CorpusConfig:
    """Which data, and how text becomes pieces."""

    format: str = "records"
    """`records`: the JSONL, TSV or CSV files named below; `wire`: the generated news wire; otherwise a published data
    set. All formats are in `exadec.corpus.readers.FORMATS`."""
    source_folder: str | None = None
    """Folder of a published data set, in its publisher's layout."""
    train: str | None = None
    """Training records."""
    valid: str | None = None
    """Development records: early stopping watches their score."""
    test: str | None = None
    """Test records."""
    columns: dict[str, str] = field(default_factory=dict, hash=False)  # a dict has no hash; it counts in `==`
    """What your files call the fields of a record: `{source: article, target: headline}` are columns of CSV and TSV
    files, or keys of JSONL. Fields that are not here have their own names."""
    segmentation: Literal["words", "bpe", "bpe_either_case"] = "bpe"
    """`words` keeps whole words (unknown ones can be copied); `bpe` learns byte-pair encoding on the training data;
    `bpe_either_case` also splits a word in the same places whether or not it begins with a capital, so that a copied
    word can change its case (`model.copy_case`)."""
    pretokenized: bool = False
    """The text is already tokenised; `words` then splits at spaces only."""
    lower_case: bool = False
    """Lower-case sources, targets and exemplars."""
    vocabulary_size: int = 25_000
    """BPE types, or the most frequent words, special symbols included."""
    max_source: int = 200
    """Longer sources are cut to this many pieces (counted and reported)."""
    max_target: int = 100
    """Longer training targets and exemplars are cut to this many pieces (counted and reported)."""
    group_in_source: bool = False
    """Tell the model whose voice to write in: the source that it reads begins with the record's group and `|`. A record
    without a group has neither. Retrieval and scores still use the plain source."""
    wire_seed: int = 1
    """Seed of the generated wire."""
    wire_train: int = 40_000
    """Generated training records."""
    wire_heldout: int = 1_000
    """Generated development records, and as many test records."""
    wire_outlets: int = 4_000
    """Outlets of the generated wire, each with one house style."""

    def __post_init__(self) -> None:
        require_between(self, "corpus", ("vocabulary_size", "max_source", "max_target"), 1, 10_000_000)
        require_between(self, "corpus", ("wire_train", "wire_heldout", "wire_outlets"), 1, 1_000_000_000)
        require_between(self, "corpus", ("wire_seed",), 0, LARGEST_SEED)
        for name in self.columns:
            if name not in RECORD_FIELDS:
                raise ConfigError(f"unknown key `corpus.columns.{name}`; its keys are {', '.join(RECORD_FIELDS)}.")
        if self.columns and self.format != "records":
            raise ConfigError(f"`corpus.columns` is for `corpus.format: records`, but the format is {self.format}.")


@dataclass(frozen=True)
class ExemplarConfig:
    """Which training target serves as the exemplar (section 3.2)."""

    policy: str = "nearest"
    """`nearest` source; `sample`: one of the nearest; `random` target; `shuffled`: another instance's nearest;
    `oracle`: nearest by the target itself, and `form`: a target of the same form with other words, both for analysis
    only; `given`: named in the file `given`; `none`: no exemplar at all, a control. All policies are in
    `exadec.exemplars.policies.POLICIES`."""
    neighbours: int = 1
    """k: how many of the nearest are kept; `sample` draws one of them."""
    weighting: Literal["raw", "binary", "tfidf"] = "raw"
    """How words are weighted: `raw` counts, `binary` (once, however often a word occurs), or `tfidf`."""
    features: Literal["words", "pieces"] = "words"
    """What is counted: lower-cased words, or the pieces that the model reads."""
    exclude_same_source: bool = False
    """Never show the target of an identical source."""
    exclude_same_target: bool = False
    """Never show a text identical to the target."""
    group: Literal["any", "only", "prefer"] = "any"
    """`only`: from the instance's own group, for a house style; `prefer`: from there if anything in it is similar."""
    calibrated: bool = False
    """Show training instances exemplars that are about as similar as those of the development set. Without this, a
    corpus with near duplicates, such as several texts for one source, teaches a model to trust exemplars more than new
    text will bear out. For the policies `nearest` and `oracle`."""
    form_share: float = 0.0
    """This share of the training instances, drawn at random, gets an exemplar by form instead: a target of the same
    form with other words. Such exemplars are marked, and so are exemplars that someone gives: the model learns to
    follow a marked one, and to take a retrieved one as a hint."""
    given: str | None = None
    """JSONL file of `split`, `uid` and `exemplar`, the uid of a training record."""
    seed: int = 1
    """Seed of the policies `sample`, `random` and `shuffled`."""

    def __post_init__(self) -> None:
        require_between(self, "exemplars", ("neighbours",), 1, 10_000)
        require_between(self, "exemplars", ("seed",), 0, LARGEST_SEED)
        require(0.0 <= self.form_share <= 1.0, "exemplars.form_share", "from 0 to 1", self.form_share)
        if (self.policy == "given") != (self.given is not None):
            raise ConfigError("`exemplars.given` names the file of the policy `given`: set both or neither.")

    @property
    def marks_given(self) -> bool:
        """Whether an exemplar that someone gives is marked, so that the model tells it from a retrieved one."""
        return self.form_share > 0


RANKING = ("nearest", "oracle")
"""The policies whose exemplar is the first of the neighbours that they keep; the others choose one exemplar."""


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of sections 3 and 4.1 and the appendix."""

    adaptive: bool = True
    """Build the decoder's weights from the exemplar (AdaDec)."""
    attend_exemplar: bool = False
    """Also attend over the encoded exemplar and copy from it (AttExp)."""
    cell: str = "lstm"
    """The decoder's recurrent cell: `lstm`, as in the paper's experiments, `gru` or `elman`. All cells are in
    `exadec.model.cells.CELLS`."""
    hidden: int = 256
    """D: size of the decoder's state and of each direction of the encoder."""
    embedding: int = 256
    """E: size of word embeddings. With E = D, every encoder layer has a residual connection."""
    encoder_layers: int = 3
    """Layers of the source BiLSTM."""
    exemplar_hidden: int = 32
    """Size of each direction of the one-layer exemplar BiLSTM; A is twice this."""
    rank: int | None = None
    """r, the number of coefficients; empty means r = D, as in the paper."""
    weights: Literal["factored", "residual", "unconstrained"] = "factored"
    """`factored`: P = U diag(λ) Vᵀ, as in the paper, and Q likewise; `residual`: the cell's input map and the
    attentional layer are W + U diag(λ) Vᵀ, P is an ordinary map, and λ starts at zero, so that training starts from a
    plain decoder; `unconstrained`: P = Σ λᵢPᵢ (equation 5), for tests and ablation only."""
    per_gate_coefficients: bool = False
    """Give each gate its own λ instead of one for the whole cell."""
    coefficient_norm: float | None = None
    """‖λ‖; empty means √D, as in the appendix, and 0 no fixed norm. With `residual` weights λ never has one."""
    exemplars_read: int = 1
    """k: how many of the nearest exemplars the model reads; their λ are averaged. `exemplars.neighbours` must be at
    least k. An exemplar that is given, or that a policy other than `nearest` and `oracle` chooses, is read k times."""
    exemplars_drawn: int | None = None
    """How many of these k a training step reads, drawn anew at each step, to save time; empty means all. With
    `attend_exemplar` it is always all, because they must not change which words can be copied."""
    exemplar_context: bool = False
    """Let an adaptive decoder also attend over the exemplars, with an attention of their own. Unlike AttExp it cannot
    copy from them, and they do not compete with the source."""
    copy_case: bool = False
    """Let the model change the case of a copied word's first letter, so that copying can follow a house style. It works
    best with `corpus.segmentation: bpe_either_case`; an unknown word keeps its case."""
    exemplar_skipping: float = 0.0
    """How often training shows `<none>` instead of an instance's exemplars, so that the model can also write without
    them; guidance at search time needs it."""
    exemplar_layer: bool = False
    """A tanh layer between the exemplar's state and C, as in the released code."""
    input_feeding: bool = False
    """Feed the previous attentional vector to the decoder, along with the embedding."""
    linear_attention_layer: bool = False
    """Leave out the tanh of Luong's attentional layer, as in the released code."""
    copy: Literal["none", "attention", "separate"] = "attention"
    """`attention`: See et al., gate from context, state and input; `separate`: the released gate and copy attention."""
    tied: bool = True
    """Use the word embeddings as softmax weights (the attentional vector then has size E)."""
    glove: str | None = None
    """Text file of pretrained word vectors for the embeddings."""
    freeze_embeddings: bool = False
    """Keep the vectors read from `glove` fixed; words without one stay trainable."""
    embedding_dropout: float = 0.15
    """On source, exemplar and target embeddings."""
    encoder_dropout: float = 0.15
    """Variational: one mask per sequence on the input of each encoder layer."""
    output_dropout: float = 0.15
    """Before the softmax."""
    bridge_dropout: float = 0.15
    """On the encoder's final state, before the layer that computes the decoder's initial state."""
    exemplar_dropout: float = 0.15
    """On the exemplar encoder's final state."""

    def __post_init__(self) -> None:
        require(self.rank is None or self.rank >= 1, "model.rank", "empty or at least 1", self.rank)
        require_between(self, "model", ("hidden", "embedding", "exemplar_hidden", "rank"), 1, 1_000_000)
        require_between(self, "model", ("encoder_layers", "exemplars_read"), 1, 1_000)
        for item in fields(self):
            if item.name.endswith(("_dropout", "_skipping")):
                rate = getattr(self, item.name)
                require(0.0 <= rate < 1.0, f"model.{item.name}", "at least 0 and below 1", rate)
        require(
            self.coefficient_norm is None or self.coefficient_norm >= 0,
            "model.coefficient_norm",
            "empty or at least 0",
            self.coefficient_norm,
        )
        if self.freeze_embeddings and self.glove is None:
            raise ConfigError("`model.freeze_embeddings` needs vectors to freeze, but `model.glove` is empty.")
        if self.copy_case and self.copy == "none":
            raise ConfigError(
                "`model.copy_case` changes copied words, but `model.copy` is none: set model.copy_case=false."
            )
        if self.weights == "residual" and self.coefficient_norm is not None:
            raise ConfigError(
                "`model.coefficient_norm` must be empty with `model.weights: residual`, where λ has no fixed norm."
            )
        if self.weights == "residual" and self.per_gate_coefficients:
            raise ConfigError(
                "`model.per_gate_coefficients` must be false with `model.weights: residual`: there λ is shared."
            )
        drawn = self.exemplars_drawn
        require(drawn is None or drawn >= 1, "model.exemplars_drawn", "empty or at least 1", drawn)

    @property
    def reads_exemplars(self) -> bool:
        """Whether the model uses the exemplar at all; Seq2seq does not."""
        return self.adaptive or self.attend_exemplar

    @property
    def reads_several(self) -> bool:
        """Whether it reads more than one exemplar for each instance."""
        return self.reads_exemplars and self.exemplars_read > 1

    @property
    def guidable(self) -> bool:
        """Whether training showed it `<none>`: guidance compares what it writes with an exemplar and without one."""
        return self.reads_exemplars and self.exemplar_skipping > 0

    @property
    def exemplars_in_training(self) -> int:
        """How many of an instance's exemplars a training step reads."""
        drawn = self.exemplars_drawn
        return self.exemplars_read if drawn is None or self.attend_exemplar else min(drawn, self.exemplars_read)

    @property
    def has_exemplar_context(self) -> bool:
        """Whether the exemplars have an attention of their own."""
        return self.adaptive and self.exemplar_context

    @property
    def coefficient_rank(self) -> int:
        """r, the number of coefficients λ."""
        return self.rank or self.hidden

    @property
    def attentional_size(self) -> int:
        """Size of the attentional vector: what the softmax reads, and what input feeding feeds."""
        return self.embedding if self.tied else self.hidden

    @property
    def decoder_inputs(self) -> int:
        """Input size of the decoder's cell: a word embedding and, with input feeding, the attentional vector."""
        return self.embedding + (self.attentional_size if self.input_feeding else 0)

    @property
    def variant(self) -> str:
        """The paper's name for this combination of switches."""
        switches = {"adaptive": self.adaptive, "attend_exemplar": self.attend_exemplar}
        return next(name for name, values in VARIANTS.items() if values == switches)


@dataclass(frozen=True)
class TrainingConfig:
    """One loop for all variants (appendix A.1)."""

    seed: int = 1
    """Seed of the initial weights, the order of batches and dropout."""
    batch_size: int = 64
    """Instances per step, over all processes together."""
    epochs: int = 20
    """At most this many passes over the training data."""
    start_from: str | None = None
    """A run whose best weights training starts from, instead of random ones. It needs the same model and vocabulary."""
    learning_rate: float = 0.001
    """AdamW's step size; β₁ = 0.9, β₂ = 0.999, ε = 1e-8 are the defaults of the paper's TensorFlow."""
    annealing_rate: float = 0.2
    """The learning rate is multiplied by this factor every `annealing_epochs` epochs."""
    annealing_epochs: float = 4
    """Epochs between two reductions of the learning rate."""
    weight_decay: float = 0.01
    """Decoupled: each step subtracts η·0.01 times each parameter."""
    clip_norm: float = 1.0
    """Gradients are clipped to this Euclidean norm."""
    metric: str = "rougeL"
    """The score of the decoded development set: `rouge1`, `rougeL`, `bleu`... All metrics are in
    `exadec.textmetrics.metrics.METRICS`."""
    watch: Literal["metric", "surprise"] = "metric"
    """What early stopping watches, and which weights are the best ones: those with the highest `metric`, or those with
    the lowest -log p of the development set's targets."""
    evaluations_per_epoch: int = 1
    """How often per epoch the development set is decoded."""
    evaluation_size: int = 2_000
    """How many development instances are decoded for early stopping: a random sample, the same for all runs on a
    corpus; or all of them if there are no more."""
    patience: int = 5
    """Stop after this many evaluations without a better score."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU that supports it, float32 elsewhere."""
    backend: Literal["auto", "reference", "triton", "hopper"] = "auto"
    """Which implementation computes the model: `reference` is plain PyTorch and runs anywhere; `triton` needs a CUDA
    GPU; `hopper` needs an H100 or H200 and bfloat16. `auto` picks the fastest that works."""
    deterministic: bool = False
    """Let torch use only operations that repeat bit for bit on the same GPU, and refuse all others."""

    def __post_init__(self) -> None:
        require_between(self, "training", ("batch_size", "epochs", "evaluations_per_epoch"), 1, 1_000_000)
        require_between(self, "training", ("evaluation_size", "patience"), 1, 1_000_000_000)
        require_between(self, "training", ("seed",), 0, LARGEST_SEED)
        for key in ("learning_rate", "annealing_rate", "annealing_epochs", "clip_norm"):
            require(getattr(self, key) > 0, f"training.{key}", "above 0", getattr(self, key))
        require(self.weight_decay >= 0, "training.weight_decay", "at least 0", self.weight_decay)


def refuse_search(search: SearchConfig, model: ModelConfig) -> None:
    """Refuse to guide a model that does not know what it would write without an exemplar, and to ask for what
    exemplars agree on if there is one."""
    if search.choice == "consensus" and not model.reads_several:
        why = "one exemplar" if model.reads_exemplars else "no exemplar"
        raise ConfigError(
            f"`search.choice` is consensus, but this model ({model.variant}) reads {why}: set it to likeliest, or use "
            "a model that reads several (model.exemplars_read), as that of the preset `exadec` does."
        )
    followed = search.manner == "followed"
    if (search.guidance > 0 or followed) and not model.guidable:
        why, remedy = f"this model ({model.variant}) does not read exemplars", "use a model that does"
        if model.reads_exemplars:
            why = f"this model ({model.variant}) was not trained to write without an exemplar"
            remedy = "train one with model.exemplar_skipping=0.1, as the preset `exadec` does"
        asked, free = f"`search.guidance` is {search.guidance:g}", "0"
        if followed:
            asked, free = "`search.manner` is followed", "free"
        raise ConfigError(f"{asked}, but {why}: set it to {free}, or {remedy}.")


@dataclass(frozen=True)
class Config:
    """One experiment. `Config.load` reads it from YAML."""

    folder: str
    """Where prepared data and runs go."""
    preset: Literal["paper", "released", "exadec"] = "paper"
    """Which defaults to use: the paper's, those of the authors' released code where it differs, or ours, which go
    beyond the paper to make the exemplar pay on real text."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    exemplars: ExemplarConfig = field(default_factory=ExemplarConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        read, kept = self.model.exemplars_read, self.exemplars.neighbours
        if self.model.reads_exemplars and self.exemplars.policy in RANKING and read > kept:
            raise ConfigError(
                f"`model.exemplars_read` is {read}, but `exemplars.neighbours` keeps only {kept} for each instance: "
                f"set exemplars.neighbours={read}."
            )
        refuse_search(self.search, self.model)

    @staticmethod
    def load(path: Path | str, overrides: Overrides = (), variant: str | None = None) -> "Config":
        """Read YAML, then apply the `section.key=value` overrides, then the variant's two switches.

        A key of the file wins over the file's own preset. A preset among the overrides wins over the file, but not
        over other overrides.
        """
        return Config._settle(read_yaml(Path(path)), overrides, variant)

    @staticmethod
    def parse(text: str, where: str, overrides: Overrides = ()) -> "Config":
        """`load` for the text of a YAML file. `where` names it in errors."""
        return Config._settle(parse_yaml(text, where), overrides)

    @staticmethod
    def _settle(values: dict[str, Any], overrides: Overrides, variant: str | None = None) -> "Config":
        presets = [override for override in list_overrides(overrides) if override.startswith("preset=")]
        for preset in presets[-1:]:  # the last one wins alone
            apply_override(values, preset)
            _apply_preset(values)
        for override in list_overrides(overrides):
            if override not in presets:
                apply_override(values, override)
        if variant is not None:
            if variant not in VARIANTS:
                raise ConfigError(f"unknown variant {variant!r}; the variants are {', '.join(VARIANTS)}.")
            values["model"] = require_section(values.get("model"), "model") | VARIANTS[variant]
        return Config.from_dict(values)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Config":
        merged: dict[str, Any] = dict(values)
        for section, defaults in _preset_of(values).items():
            merged[section] = defaults | require_section(merged.get(section), section)
        return build(Config, merged)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def flat(self) -> dict[str, Any]:
        """Every setting by its name, such as `training.epochs`."""
        values = self.to_dict()
        return {
            f"{key}.{name}" if isinstance(value, dict) else key: one
            for key, value in values.items()
            for name, one in (value.items() if isinstance(value, dict) else [("", value)])
        }

    def replace(self, section: str, **values: Any) -> "Config":
        """A copy with some values of one section changed."""
        return dataclasses.replace(self, **{section: dataclasses.replace(getattr(self, section), **values)})


def _preset_of(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    preset = values.get("preset", "paper")
    require_choice(preset, PRESETS, "preset")
    return PRESETS[preset]


def _apply_preset(values: dict[str, Any]) -> None:
    """Put the values of the preset in place of what the sections say."""
    for section, chosen in _preset_of(values).items():
        values[section] = require_section(values.get(section), section) | chosen
