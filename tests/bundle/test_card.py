"""The model card says what the model is, how well it scored and what it is not for."""

import re
import shutil
import zipfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from exadec.bundle.card import Contents, write_card
from exadec.textmetrics import confidence_interval
from exadec.training.checkpoint import Run, open_run
from exadec.training.evaluation import outputs_path, read_outputs, score_outputs
from exadec.training.trainer import train
from support.toys import toy_config, write_splits

PLAIN = Contents("news", "float32", 1, None, {"weights.safetensors": 1000, "config.yaml": 70})
SIZES = {**PLAIN.sizes, "groups.json": 300, "index/manifest.json": 2000}


def test_card_has_the_facts_of_the_run(run: Run) -> None:
    card = write_card(run, Contents("news", "float32", 12345, 60, SIZES, ("brief", "long")), date(2031, 5, 17))
    for text in (
        "# news: adadec",
        "| data set | news (format records) |",
        "| trained on | 60 records |",
        "| model | adadec: lstm, hidden 8, embedding 8 |",
        "| weights | 12,345 numbers, float32 |",
        "| exemplars inside | 60 training targets, with an index of their sources |",
        "| house styles inside | brief, long |",
        "| size | weights 1,000 bytes, exemplars and index 2,300, the rest 70 |",
        "| written | 2031-05-17, with exadec ",
        "| training.seed | 1 |",
        "best rougeL on the development set",
        "What is beyond 200 pieces is not read.",
        "Without an exemplar it retrieves one",
        "It can be told one of these groups: g0, g1, g2.",
        "can read the training targets",
        "can read the exemplars of its house styles",
    ):
        assert text in card


def test_scores_have_intervals_and_signatures(run: Run) -> None:
    card = write_card(run, PLAIN, date(2031, 5, 17))
    (score,) = score_outputs(["rougeL"], read_outputs(outputs_path(run.folder, "test")))
    low, high = confidence_interval(score)
    signature = score.signature.replace("|", "\\|")
    assert f"| ROUGE-L | {score.value:.2f} [{low:.2f}, {high:.2f}], `{signature}` |" in card
    assert "60 of 60 texts of the test set, with 95% bootstrap intervals over instances:" in card
    assert "It needs an exemplar: no training targets are inside" in card
    assert "of float32 weights" not in card
    assert "| house styles inside | none |" in card
    assert "| size | weights 1,000 bytes, the rest 70 |" in card
    rounded = write_card(run, replace(PLAIN, precision="bfloat16"), date.today())
    assert "They are of float32 weights; this file has bfloat16." in rounded


def test_a_model_that_was_trained_on_tables_says_so(tmp_path: Path) -> None:
    write_splits(tmp_path, [{"table": [["name", f"n{n}"]], "target": f"n{n} is here"} for n in range(12)])
    trained = train(toy_config(tmp_path, epochs=1), tmp_path / "run")
    card = write_card(trained, PLAIN, date(2031, 5, 17))
    assert "| trained on | 12 records, all of them with tables |" in card
    assert "A source is a table, a list of attributes with values." in card


def test_a_run_without_outputs_has_no_scores(run: Run, tmp_path: Path) -> None:
    copied = shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("*.outputs.jsonl", "metrics*"))
    card = write_card(open_run(copied), PLAIN, date(2031, 5, 17))
    assert "None: the run had no decoded outputs" in card
    assert "best rougeL" not in card
    assert "| trained on | not known: the corpus was not there |" in card


@pytest.mark.parametrize("name", ["README.md"])
def test_every_table_has_as_many_cells_as_its_header(bundle: Path, name: str) -> None:
    card = zipfile.ZipFile(bundle).read(name).decode()
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
