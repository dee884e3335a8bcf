"""Names, days and paths of a report: sensible, stored, and none of the machine's."""

import dataclasses
from pathlib import Path

from exadec.config import CorpusConfig
from exadec.training.checkpoint import Run, open_run
from exadec.views.provenance import describe_days, hide_paths, name_data_sets, show_settings


def test_runs_of_the_wire_have_one_name(runs: list[Path]) -> None:
    assert name_data_sets([open_run(run) for run in runs]) == "generated news wire"


def created(run: Run, when: str | None) -> Run:
    facts = {key: value for key, value in run.facts.items() if key != "created"}
    return dataclasses.replace(run, facts=facts | ({} if when is None else {"created": when}))


def test_days_are_those_of_the_runs(runs: list[Path]) -> None:
    run = open_run(runs[0])
    first, later, unknown = (created(run, when) for when in ("2026-01-02T23:00:00+00:00", "2026-02-03T00:00:00Z", None))
    assert describe_days([first, first]) == "training began on 2026-01-02 (UTC)"
    assert describe_days([later, first]) == "training began between 2026-01-02 and 2026-02-03 (UTC)"
    assert describe_days([later, unknown]) == "training began on 2026-02-03 (UTC; not recorded for 1 of 2 runs)"
    assert describe_days([unknown]) == "date of training not recorded"


def test_paths_keep_their_last_name_only(runs: list[Path]) -> None:
    run = open_run(runs[0])
    spaced = dataclasses.replace(run, facts=run.facts | {"corpus_folder": "/home/Ada L/my work/corpus"})
    message = (
        "/home/Ada L/my work/corpus: gone; see /home/Ada L/my work/exemplars-1/ids.npy or /srv/a/b.json, and/or c/d."
    )
    assert hide_paths(message, spaced) == "corpus: gone; see my work/exemplars-1/ids.npy or b.json, and/or c/d."
    assert hide_paths(f"{run.folder}: damaged", run) == f"{run.folder.name}: damaged"


def test_settings_are_shown_without_absolute_paths(runs: list[Path]) -> None:
    run = open_run(runs[0])
    config = dataclasses.replace(run.config, corpus=CorpusConfig(train="/home/Ada L/train.jsonl", valid="data/v.jsonl"))
    shown = show_settings(dataclasses.replace(run, config=config))
    assert f"folder: {Path(run.config.folder).name}\n" in shown
    assert "train: train.jsonl\n" in shown
    assert "valid: data/v.jsonl\n" in shown
    assert "/home" not in shown
