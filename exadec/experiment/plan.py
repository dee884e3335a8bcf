"""A plan: which models are trained on which data, and which tables show them.

In: a strict YAML file. Out: a `Plan`, and for each cell of its tables the `Trial` that fills it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from exadec.config import PRESETS, VARIANTS, Config, SearchConfig
from exadec.corpus.stage import hash_value
from exadec.errors import ConfigError
from exadec.settings import find_config, load_config
from exadec.strict_yaml import build, read_yaml, require_choice
from exadec.textmetrics.metrics import METRICS

DEFAULT = "default"
"""Name of the policy, the setting and the search that change nothing."""
_NAME = re.compile(r"[\w+.-]+")
_DECIDED = {
    "preset": "`presets` of a table",
    "training.seed": "`seeds` of a table",
    "folder": "`folder` of the plan",
    **{f"model.{key}": "`variants` of a table" for values in VARIANTS.values() for key in values},
}
"""Settings that no override may change, because the plan has a place of its own for them."""


@dataclass(frozen=True)
class CorpusPlan:
    """A data set of the plan."""

    config: str
    """A YAML file, or the name of one that ships with exadec, such as `wire`."""
    set: tuple[str, ...] = ()
    """Overrides, `section.key=value`."""


@dataclass(frozen=True)
class Baseline:
    """What a row is compared with: the row that has these values, and is otherwise the same."""

    corpus: str | None = None
    preset: str | None = None
    variant: str | None = None
    policy: str | None = None
    setting: str | None = None
    search: str | None = None


@dataclass(frozen=True)
class Combinations:
    """Every combination of these values, a row each."""

    corpora: tuple[str, ...]
    """Names of `Plan.corpora`."""
    presets: tuple[str, ...] = ("paper",)
    variants: tuple[str, ...] = tuple(VARIANTS)
    policies: tuple[str, ...] = (DEFAULT,)
    """Names of `Plan.policies`. A model that reads no exemplars is trained once, whatever the policy."""
    settings: tuple[str, ...] = (DEFAULT,)
    """Names of `Plan.settings`."""
    searches: tuple[str, ...] = (DEFAULT,)
    """Names of `Plan.searches`."""


@dataclass(frozen=True)
class TablePlan(Combinations):
    """One table: its rows, further rows that are no combination of the same values, and seeds, which are summarised."""

    more: tuple[Combinations, ...] = ()
    """Further rows."""
    seeds: tuple[int, ...] = (1,)
    baseline: Baseline = field(default_factory=Baseline)
    """Empty for a table without comparison."""
    bands: bool = False
    """Also compare with the baseline in bands of the exemplars' similarity."""


@dataclass(frozen=True)
class Plan:
    """A whole experiment. `load_plan` reads it from YAML."""

    folder: str
    """Where corpora, exemplars and runs go."""
    results: str
    """Where result files, tables and figures go. They are small, and enough to make the tables again."""
    corpora: dict[str, CorpusPlan]
    tables: dict[str, TablePlan]
    policies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Overrides of `exemplars.*`. `default`, without overrides, always exists."""
    settings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Overrides of anything, for ablations. `default` always exists."""
    searches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Overrides of `search.*`, to decode a trained model in several ways. `default` always exists."""
    set: tuple[str, ...] = ()
    """Overrides for every run."""
    metrics: tuple[str, ...] = ("rouge1", "rouge2", "rougeL")
    """Scores to compute, see `exadec score --help`."""
    main: str = "rougeL"
    """The score that rows are compared by."""

    def __post_init__(self) -> None:
        for key in ("policies", "settings", "searches"):
            if getattr(self, key).get(DEFAULT):
                raise ConfigError(f"`{key}.{DEFAULT}` changes nothing; choose another name for these overrides.")
            object.__setattr__(self, key, {DEFAULT: (), **getattr(self, key)})
        for key in ("corpora", "tables", "policies", "settings", "searches"):
            for name in getattr(self, key):
                if not _NAME.fullmatch(name):
                    raise ConfigError(f"`{key}.{name}`: a name has letters, digits and _ + . - only.")
        named = Counter(name for group in (self.policies, self.settings, PRESETS) for name in group if name != DEFAULT)
        for name in (name for name, count in named.items() if count > 1):  # names of runs would not tell them apart
            raise ConfigError(f"{name!r} names two things: a policy, a setting or a preset; rename one of them.")
        for key, section in (("policies", "exemplars."), ("searches", "search.")):
            for name, overrides in getattr(self, key).items():
                for override in overrides:
                    if not override.startswith(section):
                        raise ConfigError(f"`{key}.{name}` may change {section}* only, but has {override!r}.")
        free = {
            "set": self.set,
            **{f"corpora.{name}.set": corpus.set for name, corpus in self.corpora.items()},
            **{f"settings.{name}": overrides for name, overrides in self.settings.items()},
        }
        for where, overrides in free.items():
            for override in overrides:
                place = _DECIDED.get(override.partition("=")[0].strip())
                if place is not None:
                    raise ConfigError(f"`{where}` has {override!r}, but {place} says that; write it there.")
        for metric in (*self.metrics, self.main):
            require_choice(metric, METRICS, "main" if metric == self.main else "metrics")
        for name, table in self.tables.items():
            self._check_table(f"tables.{name}", table)

    def _check_table(self, where: str, table: TablePlan) -> None:
        known: dict[str, Mapping[str, object]] = {
            "corpora": self.corpora,
            "presets": PRESETS,
            "variants": VARIANTS,
            "policies": self.policies,
            "settings": self.settings,
            "searches": self.searches,
        }
        for part in (table, *table.more):
            for key, names in known.items():
                for name in getattr(part, key):
                    require_choice(name, names, f"{where}.{key}")
                if not getattr(part, key):
                    raise ConfigError(f"`{where}.{key}` is empty.")
        if not table.seeds:
            raise ConfigError(f"`{where}.seeds` is empty.")
        if table.bands and all(getattr(table.baseline, axis) is None for axis in _AXES):
            raise ConfigError(f"`{where}.bands` compares with a baseline; name one with `{where}.baseline`.")
        for axis, key in _AXES.items():
            value = getattr(table.baseline, axis)
            if value is not None:
                listed = [name for part in (table, *table.more) for name in getattr(part, key)]
                require_choice(value, listed, f"{where}.baseline.{axis}")

    @property
    def scores(self) -> tuple[str, ...]:
        """All metrics to compute, the main one included."""
        return tuple(dict.fromkeys((*self.metrics, self.main)))

    @property
    def needs_instances(self) -> bool:
        """Whether a table compares the main score of single instances."""
        return any(table.bands for table in self.tables.values())


_AXES = {
    "corpus": "corpora",
    "preset": "presets",
    "variant": "variants",
    "policy": "policies",
    "setting": "settings",
    "search": "searches",
}
"""What a row has -> what a table lists."""


@dataclass(frozen=True)
class Row:
    """A row of a table: one value for each axis except the seed."""

    corpus: str
    preset: str
    variant: str
    policy: str
    setting: str
    search: str

    def name(self, seed: int) -> str:
        """Of its run with a seed, without what is as usual: `news-adadec-outlet-seed1`."""
        usual = (DEFAULT, "paper")
        parts = [self.corpus, self.variant, self.policy, self.preset, self.setting]
        return "-".join([*(part for part in parts if part not in usual), f"seed{seed}"])


@dataclass(frozen=True)
class Trial:
    """A run, and a way to decode it: what fills one cell."""

    name: str
    """For people; the settings identify it."""
    search_name: str
    config: Config
    search: SearchConfig
    """For the test set; `config.search` decodes the development set in training."""

    @cached_property
    def settings(self) -> dict[str, Any]:
        return describe_settings(self.config)

    @cached_property
    def key(self) -> str:
        """Identifies settings and search. Two trials with the same key have the same result on the same data."""
        return hash_value({"settings": self.settings, "search": _differences(self.search, SearchConfig(), "search")})

    @property
    def file_name(self) -> str:
        """Of its result."""
        search = "" if self.search_name == DEFAULT else f"-{self.search_name}"
        return f"{self.name}{search}-{self.key[:8]}.json"


def load_plan(path: Path) -> Plan:
    """Read a plan; unknown keys and names are errors that say what is known."""
    plan = build(Plan, read_yaml(path))
    for table in plan.tables.values():  # resolve all trials, so that a misspelt override shows before any work
        for row in list_rows(plan, table):
            for seed in table.seeds:
                make_trial(plan, row, seed)
    return plan


def list_rows(plan: Plan, table: TablePlan) -> list[Row]:
    """The rows of a table, in its order. A model that reads no exemplars has one row for all policies."""
    rows = []
    for part in (table, *table.more):
        axes = [getattr(part, key) for key in _AXES.values()]
        rows += [_without_policy(Row(*values)) for values in product(*axes)]
    return list(dict.fromkeys(rows))


def baseline_of(row: Row, table: TablePlan) -> Row | None:
    """The row to compare with; None if the table has no baseline."""
    values = {axis: value for axis, value in asdict(table.baseline).items() if value is not None}
    return _without_policy(replace(row, **values)) if values else None


def _without_policy(row: Row) -> Row:
    return replace(row, policy=DEFAULT) if not any(VARIANTS[row.variant].values()) else row


def make_trial(plan: Plan, row: Row, seed: int) -> Trial:
    """Resolve the settings of a cell. Its corpus folder follows from the corpus settings, so that runs share it."""
    corpus = plan.corpora[row.corpus]
    path = find_config(corpus.config)
    shared = [*corpus.set, *plan.set, f"preset={row.preset}", f"training.seed={seed}", f"folder={plan.folder}"]
    overrides = [*shared, *plan.policies[row.policy], *plan.settings[row.setting]]
    config = load_config(path, overrides, row.variant)
    if not config.model.reads_exemplars:  # so that the policy and an ablation of it do not matter
        config = replace(config, exemplars=load_config(path, shared, row.variant).exemplars)
    search = load_config(path, [*overrides, *plan.searches[row.search]], row.variant).search
    described = _differences(config.corpus, type(config.corpus)(), "corpus")
    folder = Path(plan.folder) / "corpora" / f"{config.corpus.format}-{hash_value(described)[:8]}"
    return Trial(row.name(seed), row.search, replace(config, folder=str(folder)), search)


def list_trials(plan: Plan) -> list[Trial]:
    """The trials of all tables, each once."""
    trials: dict[str, Trial] = {}
    for table in plan.tables.values():
        for row in list_rows(plan, table):
            for seed in table.seeds:
                trial = make_trial(plan, row, seed)
                trials.setdefault(trial.key, trial)
    return list(trials.values())


def describe_settings(config: Config) -> dict[str, Any]:
    """What differs from the defaults, as `section.key`; the folder is left out.

    The differences identify a run, rather than all values: a setting that a later version adds changes nothing.
    """
    described: dict[str, Any] = {} if config.preset == "paper" else {"preset": config.preset}
    for section in ("corpus", "exemplars", "model", "training", "search"):
        values = getattr(config, section)
        described |= _differences(values, type(values)(), section)
    return described


def _differences(values: Any, usual: Any, section: str) -> Mapping[str, Any]:
    return {
        f"{section}.{item.name}": getattr(values, item.name)
        for item in fields(values)
        if getattr(values, item.name) != getattr(usual, item.name)
    }


def describe_row(row: Row, rows: Sequence[Row]) -> dict[str, str]:
    """The axes in which the rows of a table differ, with this row's values, for its label."""
    varying = [axis for axis in _AXES if len({getattr(other, axis) for other in rows}) > 1]
    values = {axis: getattr(row, axis) for axis in varying or ["variant"]}
    if "policy" in values and not any(VARIANTS[row.variant].values()):
        values["policy"] = "none"
    return values
