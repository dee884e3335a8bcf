"""Tables from results alone: the numbers, the baseline, bold, and the same bytes every time."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exadec.errors import InputError
from exadec.experiment.intervals import Sampled, compare_over_seeds
from exadec.experiment.plan import Plan, list_trials, load_plan
from exadec.experiment.results import read_results, unpack, write_result
from exadec.experiment.tables import fill_rows, find_difference, write_tables
from support.plans import made_up_result, write_plan, write_task

TABLE = {"corpora": ["toy"], "variants": ["seq2seq", "adadec"], "seeds": [1, 2], "baseline": {"variant": "seq2seq"}}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two seeds of each of two models; adadec is better by 5 on average."""
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path, tables={"models": TABLE}))
    for trial, shift in zip(list_trials(plan), (0.0, 2.0, 5.0, 7.0), strict=True):
        values = [20 + shift + 3 * (n % 7) for n in range(40)]
        write_result(Path(plan.results), trial.file_name, made_up_result(trial, values))
    return plan


def cells(page: Path, start: str) -> list[str]:
    (line,) = [line for line in page.read_text("utf-8").splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page_has_means_spreads_and_differences(plan: Plan) -> None:
    page = write_tables(plan, "Title", "the command")
    text = page.read_text("utf-8")
    assert text.startswith("# Title\n")
    assert "`the command`" in text
    assert "![models: differences from the baseline, with 95% intervals](models.svg)" in text
    mean = float(np.mean([20 + 3 * (n % 7) for n in range(40)]))
    head = cells(page, "Model")
    first, second = cells(page, "Seq2seq"), cells(page, "AdaDec")
    assert head[1:4] == ["ROUGE-1", "ROUGE-L", "ROUGE-L against baseline"]
    assert first[2] == f"{mean + 1:.2f} ± 1.41"
    assert second[2] == f"**{mean + 6:.2f} ± 1.41**"
    assert first[3] == "baseline"
    assert second[3].startswith("+5.00 (")
    assert "†" not in second[3]
    assert second[-3:] == ["1,234", "2", "1.0"]
    rows = fill_rows(plan, plan.tables["models"], read_results(Path(plan.results)))
    measures = [[result.scores["rougeL"] for result in row.results] for row in (rows[1], rows[0])]
    ours, theirs = (
        Sampled(np.array([one.value for one in several]), np.stack([unpack(one.resampled) for one in several]))
        for several in measures
    )
    expected = compare_over_seeds(ours, theirs)
    assert find_difference(rows[1], rows, plan.tables["models"], "rougeL") == expected
    assert second[3] == f"+5.00 ({expected.low:.2f} to {expected.high:.2f})".replace("-", "\u2212")


def test_bands_of_similarity_come_below_the_table(plan: Plan, tmp_path: Path) -> None:
    assert "by similarity" not in write_tables(plan, "Title", "command").read_text("utf-8")
    with_bands = load_plan(write_plan(tmp_path, tables={"models": {**TABLE, "bands": True}}))
    lines = write_tables(with_bands, "Title", "command").read_text("utf-8").splitlines()
    start = lines.index("### ROUGE-L by similarity of the exemplar")
    assert lines[start + 2] == "| Model | Similarity | Instances | Copied exemplar | Baseline | ROUGE-L | Difference |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 4 : start + 8]]
    assert [row[:3] for row in rows] == [
        ["AdaDec", f"{low:.2f} to {low + 0.225:.2f}", "10"] for low in (0.0, 0.25, 0.5, 0.75)
    ]
    assert all(row[6].startswith("+5.00 (5.00 to 5.00)") for row in rows)
    assert all(float(row[5]) - float(row[4]) == pytest.approx(5.0) for row in rows)


def test_same_results_give_the_same_bytes_without_corpus_or_runs(plan: Plan, tmp_path: Path) -> None:
    write_tables(plan, "Title", "command")
    folder = Path(plan.results)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in (folder / "tables.md", folder / "models.svg", *tmp_path.glob("*.jsonl")):
        path.unlink()
    assert not (tmp_path / "work").exists()
    write_tables(plan, "Title", "command")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_missing_results_and_other_test_sets_are_shown_as_such(plan: Plan) -> None:
    trials = list_trials(plan)
    folder = Path(plan.results)
    (folder / trials[1].file_name).unlink()
    page = write_tables(plan, "Title", "command")
    assert cells(page, "Seq2seq")[-2] == "1 of 2"
    assert cells(page, "AdaDec")[3].endswith("†")
    for trial in trials[2:]:
        write_result(folder, trial.file_name, made_up_result(trial, [1.0] * 40, references="other"))
    assert cells(write_tables(plan, "Title", "command"), "AdaDec")[3] == "not comparable"
    assert not (folder / "models.svg").exists()
    for trial in trials[2:]:
        (folder / trial.file_name).unlink()
    assert cells(write_tables(plan, "Title", "command"), "AdaDec")[1:4] == ["not yet"] * 3


@pytest.mark.parametrize("what", ["data", "recipe"])
def test_other_training_data_and_other_recipes_are_not_compared(plan: Plan, what: str) -> None:
    folder, results = Path(plan.results), read_results(Path(plan.results))
    for trial in list_trials(plan)[2:]:
        result = results[trial.key]
        recipe = {**result.scores, "rougeL": replace(result.scores["rougeL"], signature="another")}
        other = replace(result, inputs={"train": "1"}) if what == "data" else replace(result, scores=recipe)
        write_result(folder, trial.file_name, other)
    row = cells(write_tables(plan, "Title", "command"), "AdaDec")
    assert row[3] == "not comparable"
    assert row[2].endswith("± 1.41**")


def test_seeds_on_other_data_and_scores_that_some_seeds_lack_do_not_count(plan: Plan) -> None:
    folder, results = Path(plan.results), read_results(Path(plan.results))
    second = list_trials(plan)[1]
    write_result(folder, second.file_name, replace(results[second.key], references="other"))
    row = cells(write_tables(plan, "Title", "command"), "Seq2seq")
    assert (row[-2], "±" in row[2]) == ("1 of 2", False)
    scores = {name: score for name, score in results[second.key].scores.items() if name != "rouge1"}
    write_result(folder, second.file_name, replace(results[second.key], scores=scores))
    row = cells(write_tables(plan, "Title", "command"), "Seq2seq")
    assert (row[1], row[-2], "±" in row[2]) == ("not yet", "2", True)


def test_results_of_several_versions_are_compared(plan: Plan) -> None:
    folder, results = Path(plan.results), read_results(Path(plan.results))
    for number, trial in enumerate(list_trials(plan)):
        result = results[trial.key]
        score = replace(result.scores["rougeL"], signature=f"rouge-L|f1|v:0.{number}")
        write_result(folder, trial.file_name, replace(result, scores={**result.scores, "rougeL": score}))
    assert re.fullmatch(r"\S+ \(.* to .*\)", cells(write_tables(plan, "Title", "command"), "AdaDec")[3])


def test_a_score_of_another_definition_is_marked(plan: Plan) -> None:
    folder, trial = Path(plan.results), list_trials(plan)[3]
    result = read_results(folder)[trial.key]
    score = replace(result.scores["rouge1"], signature="rouge-1|definition:1")
    write_result(folder, trial.file_name, replace(result, scores={**result.scores, "rouge1": score}))
    page = write_tables(plan, "Title", "command")
    marked = {start: [cell.endswith(" ‡") for cell in cells(page, start)] for start in ("Seq2seq", "AdaDec")}
    assert not any(marked["Seq2seq"])
    assert marked["AdaDec"] == [False, True, *[False] * (len(marked["AdaDec"]) - 2)]


def test_the_lowest_leak_is_best(tmp_path: Path) -> None:
    write_task(tmp_path)
    plan = load_plan(write_plan(tmp_path, tables={"models": TABLE}, metrics=["leak"], main="leak"))
    for trial, value in zip(list_trials(plan), (9.0, 8.0, 3.0, 2.0), strict=True):
        result = made_up_result(trial, [value] * 40)
        write_result(
            Path(plan.results),
            trial.file_name,
            replace(result, scores={"leak": replace(result.scores["rougeL"], heading="Leak")}, main="leak"),
        )
    page = write_tables(plan, "Title", "command")
    assert cells(page, "Seq2seq")[1] == "8.50 ± 0.71"
    assert cells(page, "AdaDec")[1] == "**2.50 ± 0.71**"


def test_a_changed_setting_needs_other_results(plan: Plan, tmp_path: Path) -> None:
    changed = load_plan(write_plan(tmp_path, tables={"models": TABLE}, set=["training.learning_rate=0.5"]))
    assert cells(write_tables(changed, "Title", "command"), "AdaDec")[1] == "not yet"


def test_the_name_of_a_row_may_change(plan: Plan, tmp_path: Path) -> None:
    table = {**TABLE, "corpora": ["renamed"]}
    corpora = {"renamed": {"config": str(tmp_path / "toy.yaml")}}
    renamed = load_plan(write_plan(tmp_path, corpora=corpora, tables={"models": table}))
    assert cells(write_tables(renamed, "Title", "command"), "AdaDec")[3].startswith("+5.00")


def test_two_searches_of_the_same_runs_are_compared_run_by_run(tmp_path: Path) -> None:
    """The seeds differ by 20, but the difference between the searches is the same for both."""
    write_task(tmp_path)
    table = {"corpora": ["toy"], "variants": ["adadec"], "seeds": [1, 2], "searches": ["default", "greedy"]}
    plan = load_plan(write_plan(tmp_path, tables={"t": {**table, "baseline": {"search": "default"}}}))
    for trial in list_trials(plan):
        level = 30.0 + 20 * (trial.config.training.seed == 2) + 3 * (trial.search_name == "greedy")
        write_result(Path(plan.results), trial.file_name, made_up_result(trial, [level] * 40))
    assert cells(write_tables(plan, "Title", "command"), "greedy")[3] == "+3.00 (3.00 to 3.00)"
    # Of a run that lacks one of the two searches nothing is known.
    later = Path(plan.results) / trial.file_name
    kept = later.read_bytes()
    later.unlink()
    assert cells(write_tables(plan, "Title", "command"), "greedy")[3] == "+3.00 (3.00 to 3.00) †"
    later.write_bytes(kept)
    # A run that was trained again has other weights: it says less about this difference.
    again = made_up_result(trial, [level] * 40)
    write_result(Path(plan.results), trial.file_name, replace(again, surprise={"valid": 2.001, "test": 2.5}))
    assert cells(write_tables(plan, "Title", "command"), "greedy")[3].startswith("+3.00 (\u221257.")


def test_low_surprise_is_best(plan: Plan) -> None:
    trials = list_trials(plan)
    for trial in trials[:2]:
        result = made_up_result(trial, [1.0] * 40)
        write_result(Path(plan.results), trial.file_name, replace(result, surprise={"valid": 1.0, "test": 9.0}))
    page = write_tables(plan, "Title", "command")
    assert cells(page, "Seq2seq")[4:6] == ["**10.00 ± 0.00**", "72.00 ± 0.00"]  # 10 and 8 pieces a text
    assert cells(page, "AdaDec")[4:6] == ["20.00 ± 0.00", "**20.00 ± 0.00**"]


def test_no_results_are_an_error(plan: Plan) -> None:
    shutil.rmtree(plan.results)
    with pytest.raises(InputError, match="there are no results yet"):
        write_tables(plan, "Title", "command")


def test_results_are_json(plan: Plan) -> None:
    for path in Path(plan.results).glob("*.json"):
        assert json.loads(path.read_text("utf-8"))["format"] == 1
