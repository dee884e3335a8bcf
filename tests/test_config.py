"""Configurations: every file that comes with exadec loads, and what is misspelt is refused by name."""

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from exadec.config import VARIANTS, Config, ConfigError, ModelConfig
from exadec.errors import InputError
from exadec.strict_yaml import apply_override, list_overrides, parse_yaml

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))


PAPER = [path for path in CONFIGS if path.stem in ("gigaword", "nyt", "wikibio")]


def test_eleven_configurations_come_with_exadec() -> None:
    expected = ["debian", "e2e", "elife", "gigaword", "movies", "news", "nyt", "reuters", "webnlg", "wikibio", "wire"]
    assert [path.stem for path in CONFIGS] == expected


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("variant", VARIANTS)
def test_shipped_configuration_loads(path: Path, variant: str) -> None:
    config = Config.load(path, variant=variant)
    assert config.model.variant == variant
    assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_value_says_where_it_comes_from(path: Path) -> None:
    lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
    values = [(number, line) for number, line in lines if re.match(r"\s*\w+: \S", line)]
    assert len(values) >= 5
    for number, line in values:
        assert re.search(r"# (paper [A34]|ours)", line), f"{path.name}:{number}: {line}"


def test_columns_name_fields_of_records_alone() -> None:
    values = {"folder": "x", "corpus": {"columns": {"source": "article"}}}
    assert Config.from_dict(values).corpus.columns == {"source": "article"}
    assert Config.from_dict(Config.from_dict(values).to_dict()) == Config.from_dict(values)
    assert hash(Config.from_dict(values).corpus)
    assert Config.from_dict(values).corpus != Config.from_dict({"folder": "x"}).corpus
    with pytest.raises(ConfigError, match=r"unknown key `corpus\.columns\.article`; its keys are uid, source, table,"):
        Config.from_dict({"folder": "x", "corpus": {"columns": {"article": "source"}}})
    with pytest.raises(ConfigError, match=r"`corpus\.columns\.source` must be text, but is 3"):
        Config.from_dict({"folder": "x", "corpus": {"columns": {"source": 3}}})
    with pytest.raises(ConfigError, match=r"`corpus\.columns` is for `corpus\.format: records`, but the format is e2e"):
        Config.from_dict({"folder": "x", "corpus": {"format": "e2e", "columns": {"source": "mr"}}})


def test_appendix_in_numbers() -> None:
    """Appendix A, read from the paper: the same numbers stand in the files."""
    gigaword, nyt, wikibio = (Config.load(path) for path in PAPER)
    for config in (gigaword, nyt, wikibio):
        training, search = config.training, config.search
        assert (training.batch_size, training.epochs, training.learning_rate) == (64, 20, 0.001)
        assert (training.annealing_rate, training.annealing_epochs, training.clip_norm) == (0.2, 4, 1.0)
        assert (training.weight_decay, search.beam_size, search.length_penalty) == (0.01, 5, 1.0)
        assert config.model.rank is None
        assert config.model.coefficient_norm is None
        assert config.model.cell == "lstm"
        assert config.model.copy == "attention"
    sizes = [
        (c.model.hidden, c.model.embedding, c.model.encoder_layers, c.model.exemplar_hidden)
        for c in (gigaword, nyt, wikibio)
    ]
    assert sizes == [(256, 256, 3, 32), (300, 300, 2, 50), (300, 300, 3, 50)]
    assert [c.corpus.vocabulary_size for c in (gigaword, nyt, wikibio)] == [25_000, 10_000, 50_000]
    assert [c.search.max_length for c in (gigaword, nyt, wikibio)] == [50, 300, 40]
    assert [c.corpus.segmentation for c in (gigaword, nyt, wikibio)] == ["bpe", "bpe", "words"]
    assert [c.training.metric for c in (gigaword, nyt, wikibio)] == ["rougeL", "rougeL", "rouge4"]
    assert [c.model.tied for c in (gigaword, nyt, wikibio)] == [True, True, False]
    assert nyt.corpus.max_source == 1000
    assert wikibio.model.freeze_embeddings
    assert {c.model.embedding_dropout for c in (gigaword, nyt, wikibio)} <= {0.15, 0.25, 0.35}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.hiden=3", r"unknown key `model.hiden`; did you mean `model.hidden`\?"),
        ("search.foo=3", r"unknown key `search.foo`; did you mean `search\.[a-z_]+`\?"),
        ("modle.hidden=3", r"unknown key `modle`; did you mean `model"),
        (
            "exemplars.weights=tfidf",
            r"unknown key `exemplars.weights`; did you mean `exemplars.weighting` or `model.weights`\?",
        ),
        ("epochs=3", r"unknown key `epochs`; did you mean `training.epochs`\?"),
        ("epoch=3", r"unknown key `epoch`; did you mean `training.epochs`\?"),
        ("seed=3", r"unknown key `seed`; did you mean `exemplars.seed` or `training.seed` or `search.seed`\?"),
        ("training.beam_size=3", r"unknown key `training.beam_size`; did you mean `search.beam_size`\?"),
        ("model.beam_size=3", r"unknown key `model.beam_size`; did you mean `search.beam_size`\?"),
        ("model.hidden=three", "`model.hidden` must be a whole number, but is 'three' instead"),
        ("model.hidden=0", "`model.hidden` must be at least 1, but is 0 instead"),
        ("model.output_dropout=1", "`model.output_dropout` must be at least 0 and below 1, but is 1.0 instead"),
        ("model.tied=maybe", "`model.tied` must be true or false, but is 'maybe' instead"),
        ("model=3", "`model` must be a section with keys below it, but is 3 instead"),
        ("preset=authors", "`preset` must be one of paper, released, exadec, but is 'authors' instead"),
        ("preset=[paper]", r"`preset` must be one of paper, released, exadec, but is \['paper'\] instead"),
        ("training.backend=cudnn", "`training.backend` must be one of auto, reference, triton, hopper, but is 'cudnn'"),
        ("folder.name=3", "unknown key `folder.name`; `folder` has no keys below it"),
        ("model.hidden", "a setting is changed by section.key=value, but got 'model.hidden'"),
        ("model.freeze_embeddings=true", "needs vectors to freeze"),
        ("model.exemplars_read=0", "`model.exemplars_read` must be at least 1, but is 0 instead"),
        ("model.exemplars_drawn=0", "`model.exemplars_drawn` must be empty or at least 1, but is 0 instead"),
        ("model.exemplars_read=4", "`exemplars.neighbours` keeps only 1 for each instance: set exemplars.neighbours=4"),
        ("model.exemplar_skipping=1", "`model.exemplar_skipping` must be at least 0 and below 1, but is 1.0 instead"),
        (
            "search.guidance=1",
            "not trained to write without an exemplar: .* train one with model.exemplar_skipping=0.1",
        ),
    ],
)
def test_bad_value_is_refused_by_name(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Config.load(PAPER[0], [override])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["model.copy_case=true", "model.copy=none"],
            "changes copied words, but `model.copy` is none: set model.copy_",
        ),
        (["model.weights=residual", "model.coefficient_norm=1"], "must be empty with `model.weights: residual`"),
        (
            ["model.weights=residual", "model.per_gate_coefficients=true"],
            "must be false with `model.weights: residual`",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: list[str], message: str) -> None:
    for one in overrides:
        Config.load(PAPER[0], [one])
    with pytest.raises(ConfigError, match=message):
        Config.load(PAPER[0], overrides)


def test_too_few_neighbours_matter_only_to_models_that_read_them() -> None:
    read = "model.exemplars_read=4"
    assert Config.load(PAPER[0], [read, "exemplars.neighbours=4"]).model.exemplars_read == 4
    assert Config.load(PAPER[0], [read], variant="seq2seq").model.exemplars_read == 4
    assert Config.load(PAPER[0], [read, "exemplars.policy=random"]).model.exemplars_read == 4
    for policy in ("nearest", "oracle"):
        with pytest.raises(ConfigError, match="keeps only 3"):
            Config.load(PAPER[0], [read, "exemplars.neighbours=3", f"exemplars.policy={policy}"])


def test_of_several_presets_the_last_wins_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("folder: x\n", "utf-8")
    assert Config.load(path, ["preset=exadec", "preset=paper"]) == Config.load(path)
    assert Config.load(path, ["preset=released", "preset=exadec"]) == Config.load(path, ["preset=exadec"])


def test_overrides_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("folder: x\npreset: released\nmodel: {copy: none}\n", "utf-8")
    config = Config.load(path, ["training.learning_rate=1e-3", "model.rank=7"])
    assert config.model.copy == "none"
    assert config.model.input_feeding
    assert config.model.exemplar_layer
    assert config.search.block_ngram == 3
    assert config.training.learning_rate == 0.001
    assert config.model.rank == 7


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_preset_among_the_overrides_wins_over_the_file_but_not_over_other_overrides(path: Path) -> None:
    config = Config.load(path, ["model.rank=8", "preset=exadec", "exemplars.neighbours=9"])
    assert config.preset == "exadec"
    assert (config.model.weights, config.model.exemplar_hidden) == ("residual", 64)
    assert (config.model.rank, config.exemplars.neighbours) == (8, 9)


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_released_preset_takes_effect_on_the_papers_data_sets(path: Path) -> None:
    released = Config.load(path, ["preset=released"])
    assert released.model.input_feeding
    assert released.model.exemplar_layer
    assert released.model.linear_attention_layer
    assert released.model.copy == "separate"
    assert released.search.block_ngram == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected sections"),
        ("a: [", "not YAML"),
        ("model: {}", "`folder` is missing"),
        ("- 1", "expected sections"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=message):
        Config.load(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="no such file"):
        Config.load(tmp_path / "absent.yaml")


def test_defaults_are_the_papers_gigaword_values() -> None:
    shipped = yaml.safe_load(PAPER[0].read_text("utf-8"))
    for key, value in shipped["model"].items():
        assert getattr(ModelConfig(), key) == value, key


def test_every_key_has_a_docstring() -> None:
    for section in fields(Config):
        if not is_dataclass(section.type):
            continue
        source = inspect.getsource(section.type)
        for item in fields(section.type):
            documented = re.search(rf'^    {item.name}: [^\n]*\n    """\S', source, re.MULTILINE)
            assert documented, f"{section.name}.{item.name}"


def test_widths_of_the_decoder_follow_from_the_switches() -> None:
    """Worked out by hand from section 4.1: tying makes the attentional vector as wide as an embedding."""
    tied = ModelConfig(hidden=6, embedding=4, input_feeding=True)
    assert (tied.attentional_size, tied.decoder_inputs, tied.coefficient_rank) == (4, 8, 6)
    untied = ModelConfig(hidden=6, embedding=4, input_feeding=True, tied=False, rank=3)
    assert (untied.attentional_size, untied.decoder_inputs, untied.coefficient_rank) == (6, 10, 3)
    assert ModelConfig(hidden=6, embedding=4, tied=False).decoder_inputs == 4


def test_only_seq2seq_reads_no_exemplars() -> None:
    assert [name for name in VARIANTS if not ModelConfig(**VARIANTS[name]).reads_exemplars] == ["seq2seq"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.lists(TEXTS)


@given(VALUES)
def test_a_mapping_of_overrides_keeps_every_value(value: object) -> None:
    values: dict[str, Any] = {"corpus": {"format": "wire"}}
    (override,) = list_overrides({"corpus.train": value})
    apply_override(values, override)
    assert values == {"corpus": {"format": "wire", "train": value}}


def test_spaces_around_a_key_change_nothing() -> None:
    for spaced in ("preset = exadec", " preset=exadec", {"preset ": "exadec"}):
        assert Config.load(PAPER[0], spaced) == Config.load(PAPER[0], "preset=exadec")


def test_overrides_may_be_paths_or_a_single_text() -> None:
    assert list_overrides({"folder": Path("a") / "b", "training.epochs": 2}) == ["folder=a/b", "training.epochs=2"]
    assert list_overrides("training.epochs=2") == list_overrides(["training.epochs=2"]) == ["training.epochs=2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folder: x\ntraining: {seed: -1}", "`training.seed` must be at least 0, but is -1"),
        ("folder: x\nexemplars: {seed: -1}", "`exemplars.seed` must be at least 0"),
        ("folder: x\ncorpus: {wire_seed: -1}", "`corpus.wire_seed` must be at least 0"),
        (f"folder: x\ntraining: {{seed: {1 << 70}}}", "`training.seed` must be at most"),
        ("folder: x\nsearch: {length_penalty: .inf}", "`search.length_penalty` must be a finite number, but is inf"),
        ("folder: x\nsearch: {length_penalty: 1e5}", "`search.length_penalty` must be at most 10"),
        ("folder: x\nsearch: {guidance: .nan}", "`search.guidance` must be a finite number, but is nan"),
        (f"folder: x\ntraining: {{learning_rate: {'9' * 400}}}", "`training.learning_rate` must be a number"),
        (
            "folder: x\ncorpus: {columns: {foo: a}}",
            "unknown key `corpus.columns.foo`; its keys are uid, source, table,",
        ),
        ("folder: x\nmodel: {hidden: 1000001}", "`model.hidden` must be at most 1000000"),
        ("folder: x\npreset: [a]", r"`preset` must be one of paper, released, exadec, but is \['a'\]"),
        ("folder: x\npreset: released\nmodel: 5", "`model` must be a section with keys below it, but is 5"),
        ("folder: x\nmodel: 5", "`model` must be a section"),
        ("folder: [x]", r"`folder` must be text, but is \['x'\]"),
        ('folder: "a\\0b"', "half a character or a NUL"),
        ('folder: "a\\ud800"', "half a character or a NUL"),
        (f"folder: {'9' * 5000}", "not YAML"),
        ("folder: !!python/object/apply:os.system [ls]", "a tag, .*, where plain values are expected"),
        ("folder: !!int x", "a tag"),
        ("folder: &a [*a]", "nested more than 16 deep"),
        (f"folder: {'[' * 100}", "nested more than 16 deep"),
        (f"folder: {'{a: ' * 5000}", "nested more than 16 deep"),
        (f"a: &a 1\nfolder: [{', '.join(['*a'] * 17)}]", "more than 16 aliases"),
        (f"folder: x\n{'k' * 1000}: 1", "unknown key `k{80}`"),
        (f"folder: x\n#{' ' * (1 << 18)}", "larger than 262,144 bytes"),
    ],
)
def test_no_text_of_settings_is_fatal(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        Config.load(path, variant="adadec")
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_aliases_do_not_multiply(tmp_path: Path) -> None:
    """360 bytes that stand for gigabytes, also through `<<`."""
    path = tmp_path / "bomb.yaml"
    for template, last in (("[{}]", "model: *a9"), ("{{<<: [{}]}}", "model: {<<: *a9}")):
        levels = [f"a{n}: &a{n} " + template.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 10)]
        path.write_text("\n".join(["a0: &a0 {x: 1}", *levels, last]), "utf-8")
        with pytest.raises(ConfigError, match=r"bomb.yaml: not YAML \(more than 16 aliases\)"):
            Config.load(path)


def test_a_few_aliases_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("folder: &a x\ncorpus: {train: *a, valid: *a}\n", "utf-8")
    assert Config.load(path).corpus.valid == "x"


@pytest.mark.parametrize("folder", ["2024-13-01", "2024-12-01", "2024-12-01 10:00:00", "!!x", "[", "*a"])
def test_an_override_that_looks_like_something_else_is_text(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("folder: x\n", "utf-8")
    assert Config.load(path, [f"folder={folder}"]).folder == folder
    with pytest.raises(InputError, match="a setting is not valid UTF-8"):
        Config.load(path, ["folder=\udce9"])


def test_off_is_a_word_where_it_is_a_choice(tmp_path: Path) -> None:
    """YAML reads it as false."""
    path = tmp_path / "c.yaml"
    path.write_text("folder: f\nsearch:\n  facts: off\n", "utf-8")
    assert Config.load(path).search.facts == "off"
    assert Config.load(path, ["search.facts=strict"]).search.facts == "strict"
    assert Config.load(path, ["search.facts=strict", "search.facts=off"]).search.facts == "off"
    with pytest.raises(ConfigError, match="one of off, mark, strict"):
        Config.load(path, ["search.facts=on"])
    with pytest.raises(ConfigError, match="one of full, certain, first"):
        Config.load(path, ["search.stopping=off"])


def test_a_key_that_is_there_twice_is_refused() -> None:
    for text, key in (("training: {seed: 1}\nmodel: {}\ntraining: {epochs: 2}", "training"), ("a: {b: 1, b: 2}", "b")):
        with pytest.raises(ConfigError, match=f"the key '{key}' is there twice"):
            parse_yaml(text, "a.yaml")
