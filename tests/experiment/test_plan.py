"""Plans: what is misspelt is refused by name, and cells that mean the same run are one trial."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from exadec.config import Config
from exadec.errors import ConfigError
from exadec.experiment.plan import (
    Baseline,
    Plan,
    Row,
    TablePlan,
    baseline_of,
    describe_row,
    describe_settings,
    list_rows,
    list_trials,
    load_plan,
    make_trial,
)
from support.plans import write_plan, write_task

PLANS = sorted((Path(__file__).parents[2] / "configs" / "plans").glob("*.yaml"))
WIRE = next(path for path in PLANS if path.stem == "wire")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    write_task(tmp_path)
    return tmp_path


def plan_of(folder: Path, **changes: Any) -> Plan:
    return load_plan(write_plan(folder, **changes))


def models(**changes: object) -> dict[str, object]:
    return {"models": {"corpora": ["toy"], **changes}}


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plans_that_come_with_exadec_load(path: Path) -> None:
    plan = load_plan(path)
    rows = [(table, row) for table in plan.tables.values() for row in list_rows(plan, table)]
    assert all(baseline_of(row, table) in list_rows(plan, table) for table, row in rows)
    assert path != WIRE or len(list_trials(plan)) == 12


def test_more_rows_follow_the_combinations(task: Path) -> None:
    more = [{"corpora": ["toy"], "variants": ["adadec"], "presets": ["exadec"]}]
    plan = plan_of(task, tables=models(variants=["seq2seq", "adadec"], more=more, baseline={"preset": "paper"}))
    table = plan.tables["models"]
    rows = list_rows(plan, table)
    assert [(row.variant, row.preset) for row in rows] == [
        ("seq2seq", "paper"),
        ("adadec", "paper"),
        ("adadec", "exadec"),
    ]
    assert baseline_of(rows[2], table) == rows[1]
    assert make_trial(plan, rows[2], 1).config.model.weights == "residual"
    with pytest.raises(ConfigError, match=r"`tables\.models\.presets` must be one of paper"):
        plan_of(task, tables=models(more=[{"corpora": ["toy"], "presets": ["ours"]}]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tabels": {}}, "unknown key `tabels`; did you mean `tables`?"),
        ({"corpora": {"toy": {"confg": "x.yaml"}}}, "unknown key `corpora.toy.confg`; did you mean `config`?"),
        ({"corpora": {"toy": "x.yaml"}}, "`corpora.toy` must be a section with keys below it"),
        ({"corpora": {"toy": {}}}, "`corpora.toy.config` is missing."),
        ({"corpora": ["toy"]}, "`corpora` must be a section of names"),
        ({"policies": {"random": "exemplars.policy=random"}}, "`policies.random` must be a list"),
        ({"policies": {"big": ["model.hidden=3"]}}, "`policies.big` may change exemplars.* only"),
        ({"searches": {"big": ["model.hidden=3"]}}, "`searches.big` may change search.* only"),
        ({"settings": {"a/b": []}}, "`settings.a/b`: a name has letters"),
        ({"settings": {"random": []}}, "'random' names two things"),
        ({"settings": {"exadec": []}}, "'exadec' names two things"),
        ({"metrics": ["rougeX"]}, "`metrics` must be one of rouge1"),
        ({"main": "rougeX"}, "`main` must be one of rouge1"),
        ({"tables": models(corpora=["news"])}, "`tables.models.corpora` must be one of toy, but is 'news'"),
        ({"tables": models(variants=["adadex"])}, "`tables.models.variants` must be one of seq2seq"),
        ({"tables": models(policies=["none"])}, "`tables.models.policies` must be one of default, random"),
        ({"tables": models(seeds=["one"])}, "`tables.models.seeds` must be a whole number, but is 'one'"),
        ({"tables": models(seeds=[])}, "`tables.models.seeds` is empty."),
        ({"tables": models(baseline={"setting": "small"})}, "`tables.models.baseline.setting` must be one of default"),
        ({"tables": models(baseline={"varant": "x"})}, "unknown key `tables.models.baseline.varant`"),
        ({"set": ["model.hiden=3"]}, "unknown key `model.hiden`; did you mean `model.hidden`?"),
        ({"set": ["exemplars.policy=closest"]}, "closest"),
        ({"tables": models(baseline={}, bands=True)}, "`tables.models.bands` compares with a baseline; name one with"),
        ({"set": ["preset=exadec"]}, "`set` has 'preset=exadec', but `presets` of a table says that; write it there."),
        (
            {"settings": {"plain": ["model.adaptive=false"]}},
            "`settings.plain` has 'model.adaptive=false', but `variants`",
        ),
        (
            {"settings": {"seven": ["training.seed=7"]}},
            "`settings.seven` has 'training.seed=7', but `seeds` of a table",
        ),
        ({"settings": {"there": ["folder=x"]}}, "`settings.there` has 'folder=x', but `folder` of the plan"),
        ({"searches": {"default": ["search.beam_size=1"]}}, "`searches.default` changes nothing; choose another name"),
    ],
)
def test_mistakes_are_named(task: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan_of(task, **changes)


def test_cells_of_several_tables_that_mean_the_same_run_are_one_trial(task: Path) -> None:
    table = {"corpora": ["toy"], "variants": ["seq2seq", "adadec"], "seeds": [1, 2]}
    plan = plan_of(
        task,
        corpora={name: {"config": str(task / "toy.yaml")} for name in ("toy", "again")},
        settings={"same": ["model.hidden=16"], "small": ["model.hidden=12"]},  # 16 is what toy.yaml has
        tables={
            "one": table,
            "two": {**table, "corpora": ["again"], "settings": ["default", "same"], "policies": ["default", "random"]},
        },
    )
    names = [trial.name for trial in list_trials(plan)]
    assert names == [
        "toy-seq2seq-seed1",
        "toy-seq2seq-seed2",
        "toy-adadec-seed1",
        "toy-adadec-seed2",
        "again-adadec-random-seed1",
        "again-adadec-random-seed2",
    ]


def test_a_model_without_exemplars_has_one_row_for_all_policies(task: Path) -> None:
    policies = {"random": ["exemplars.policy=random"], "two": ["exemplars.neighbours=2"]}
    tables = models(variants=["seq2seq", "adadec"], policies=["random", "two"], baseline={"variant": "seq2seq"})
    plan = plan_of(task, policies=policies, tables=tables)
    rows = list_rows(plan, plan.tables["models"])
    assert [(row.variant, row.policy) for row in rows] == [
        ("seq2seq", "default"),
        ("adadec", "random"),
        ("adadec", "two"),
    ]
    assert baseline_of(rows[1], plan.tables["models"]) == baseline_of(rows[2], plan.tables["models"]) == rows[0]
    assert describe_row(rows[0], rows) == {"variant": "seq2seq", "policy": "none"}
    assert make_trial(plan, rows[0], 1).config.exemplars.policy == "nearest"


def test_runs_share_a_corpus_folder_unless_a_setting_changes_the_corpus(task: Path) -> None:
    settings = {"small": ["model.hidden=12"], "tiny": ["corpus.vocabulary_size=20"]}
    plan = plan_of(task, settings=settings, tables=models(settings=["default", "small", "tiny"], variants=["adadec"]))
    default, small, tiny = (trial.config for trial in list_trials(plan))
    assert default.folder == small.folder != tiny.folder
    assert (small.model.hidden, tiny.corpus.vocabulary_size) == (12, 20)


def test_presets_and_searches_change_what_they_name(task: Path) -> None:
    plan = plan_of(
        task, tables=models(variants=["adadec"], presets=["paper", "released"], searches=["default", "greedy"])
    )
    trials = list_trials(plan)
    assert [trial.config.model.input_feeding for trial in trials] == [False, False, True, True]
    assert [trial.search.beam_size for trial in trials] == [2, 1, 2, 1]
    assert [trial.config.search.beam_size for trial in trials] == [2] * 4  # the development set is always decoded alike
    assert len({json.dumps(trial.settings, sort_keys=True) for trial in trials}) == 2


def test_settings_that_differ_from_defaults_identify_a_run() -> None:
    assert describe_settings(Config(folder="anywhere")) == {}
    config = Config(folder="x").replace("model", rank=3, hidden=256)
    assert describe_settings(config) == {"model.rank": 3}


def test_baseline_has_the_named_values_and_is_otherwise_the_same(task: Path) -> None:
    tables = models(settings=["default", "small"], baseline={"setting": "default", "variant": "seq2seq"})
    table = plan_of(task, tables=tables).tables["models"]
    row = Row("toy", "paper", "attexp", "default", "small", "greedy")
    assert baseline_of(row, table) == Row("toy", "paper", "seq2seq", "default", "default", "greedy")
    assert baseline_of(row, plan_of(task, tables=models()).tables["models"]) is None


def test_page_shows_the_plan_that_comes_with_exadec() -> None:
    page = (PLANS[0].parents[2] / "docs" / "experiments.md").read_text("utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    lines = WIRE.read_text("utf-8").splitlines(keepends=True)
    assert shown == "".join(line for line in lines if not line.startswith("#"))


def test_page_explains_every_key_of_a_plan() -> None:
    page = (PLANS[0].parents[2] / "docs" / "experiments.md").read_text("utf-8")
    for item in (*fields(Plan), *fields(TablePlan), *fields(Baseline)):
        assert f"`{item.name}`" in page, item.name
