"""Names in a configuration are looked up before any work is done."""

from pathlib import Path

import pytest

from exadec.config import VARIANTS, Config, ConfigError
from exadec.errors import InputError
from exadec.settings import find_config, load_config, shipped_configs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text("folder: x\n", "utf-8")
    return tmp_path / "c.yaml"


@pytest.mark.parametrize("variant", [None, *VARIANTS])
def test_good_names_change_nothing(path: Path, variant: str | None) -> None:
    overrides = ["training.metric=bleu", "exemplars.policy=random"]
    assert load_config(path, overrides, variant) == Config.load(path, overrides, variant)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("corpus.format=duc", "`corpus.format` must be one of records, wire, gigaword"),
        ("exemplars.policy=x", "`exemplars.policy` must be one of nearest, sample"),
        ("training.metric=parent", "`training.metric` must be one of rouge1, rouge2, rouge4, rougeL, bleu"),
    ],
)
def test_names_that_no_list_has_are_refused(path: Path, override: str, message: str) -> None:
    Config.load(path, [override])  # which cannot know
    with pytest.raises((ConfigError, InputError), match=message):
        load_config(path, [override])


def test_a_file_wins_over_a_name_that_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wire").mkdir()  # such as a folder of runs
    assert load_config("wire") == Config.load(shipped_configs()["wire"])
    (tmp_path / "wire").rmdir()
    (tmp_path / "wire").write_text("folder: mine\n", "utf-8")
    assert load_config("wire").folder == "mine"


def test_plans_ship_too() -> None:
    assert find_config("plans/wire").name == "wire.yaml"
    assert find_config("plans/wire") != find_config("wire")
