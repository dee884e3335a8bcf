"""The page on real text: its rows are those of the plans, and its numbers those of the result files."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # programs, not a package

import tables_page

from exadec.experiment.plan import make_trial
from exadec.experiment.results import write_result
from exadec.experiment.tables import Filled
from exadec.views.plots import DrawnDifference
from exadec.views.swap_tables import study_to_json
from support.plans import made_up_result
from support.swaps import make_study


@pytest.fixture(scope="module")
def committed() -> tables_page.Tables:
    return tables_page.Tables()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: tables_page.Tables) -> Path:
    """Made-up results of Seq2seq and the preset on news, same outlet, for two of three seeds."""
    plan = committed.plans["news"]
    for one in committed.rows("news", "outlet"):
        ours = one.row.preset == "exadec"
        if not ours and one.row.variant != "seq2seq":
            continue
        for seed in (1, 2):
            trial = make_trial(plan, one.row, seed)
            result = made_up_result(trial, [40.0 + seed + 2 * ours, 50.0, 60.0 + 4 * ours])
            write_result(tmp_path / plan.results, trial.file_name, result)
    monkeypatch.setattr(tables_page, "ROOT", tmp_path)
    plans = tmp_path / "configs" / "plans"
    plans.mkdir(parents=True)
    for path in (Path(__file__).parents[2] / "configs" / "plans").glob("*.yaml"):
        (plans / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_comparisons_come_from_result_files(results: Path) -> None:
    rows = list(tables_page.compare(tables_page.Tables()))
    assert [row[0] for row in rows[::2]] == [against.what for against in tables_page.COMPARISONS]
    assert [row[2] for row in rows] == ["no", "yes"] * len(tables_page.COMPARISONS)
    for row in rows[:2]:
        assert row[1] == "ROUGE-L"
        assert row[4].startswith("+2.00 (")
        assert row[6] == "2 of 3"
    assert rows[2][4] == "not yet"


def test_texts_that_were_explored_can_be_left_out(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_page, "EXPLORED", 2)
    first, *_, last = tables_page.compare_unexplored(tables_page.Tables())
    assert [cell.split()[0] for cell in first[2:]] == ["+2.00", "+4.00"]  # of three texts, and of the third alone
    assert last[2:] == ["not yet"] * 2


def test_figure_has_a_row_for_each_form_and_search(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[DrawnDifference] = []
    monkeypatch.setattr(tables_page, "plot_differences", lambda rows, measure: drawn.extend(rows))
    tables_page.draw(tables_page.Tables())
    ends = ("", ", agreed in words", ", agreed in words and form")
    assert [one.label for one in drawn] == [
        f"news, same outlet{copies}{end}" for copies in ("", ", copying") for end in ends
    ]
    assert all(round(one.value, 6) == 2.0 and one.low <= 2.0 <= one.high for one in drawn)


def test_development_set_chooses_among_rows_with_all_seeds(committed: tables_page.Tables) -> None:
    def row(*scores: float, wanted: int = 2) -> Filled:
        one = committed.rows("news", "outlet")[0]
        return replace(one, results=[replace(one.results[0], best_score=score) for score in scores], wanted=wanted)

    worse, better, unfinished = row(40.0, 42.0), row(41.0, 42.0), row(50.0)
    assert tables_page.choose([worse, better, unfinished]) is better
    assert tables_page.choose([unfinished]) is None


def test_swaps_come_from_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_page, "STUDIES", tmp_path)
    study = study_to_json(make_study())
    for seed in (1, 2):
        for one in study["strengths"]:
            one["kept"] = {"value": 95.0 + seed, "low": 90.0, "high": 99.0}
        (tmp_path / f"other_outlets-seed{seed}.json").write_text(json.dumps(study), "utf-8")
    ((name, studies),) = tables_page.read_studies().items()
    assert name == "other_outlets"
    rows = list(tables_page.swap(studies))
    assert [row[0] for row in rows] == [f"{one['guidance']:g}" for one in study["strengths"]]
    assert all(len(row) == 9 and row[-1].endswith("%") and row[-2] == "96.5% (96.0\u201397.0)" for row in rows)
    assert all(row[-2] == "96.0% (90.0\u201399.0)" for row in tables_page.swap(studies[:1]))


def test_page_is_made_of_the_results_that_are_committed(committed: tables_page.Tables) -> None:
    page = Path(__file__).parents[2] / "docs" / "results" / "tables.md"
    assert page.read_text("utf-8") == tables_page.write_page(committed)
