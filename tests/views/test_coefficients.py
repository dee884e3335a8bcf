"""The map of λ: principal components, and colours by style or group."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from exadec.config import CorpusConfig
from exadec.corpus.wire import STYLES
from exadec.training.evaluation import evaluate
from exadec.training.trainer import train
from exadec.views.coefficients import choose_adaptive, map_coefficients, project
from exadec.views.plots import plot_coefficients
from exadec.views.report import _describe_map, write_report
from exadec.views.results import Results, compare_runs
from support.tiny_runs import tiny_config


def test_principal_components_recover_a_plane() -> None:
    random = np.random.default_rng(0)
    plane = random.normal(size=(50, 2)) * (3.0, 1.0)
    basis = np.linalg.qr(random.normal(size=(7, 2)))[0]
    points, explained = project(plane @ basis.T + 5.0)
    assert sum(explained) == pytest.approx(1.0)
    assert explained[0] > explained[1]
    centred = plane - plane.mean(axis=0)
    assert points @ points.T == pytest.approx(centred @ centred.T)  # the same up to rotation


def test_the_report_says_what_the_map_cannot_show(results: Results) -> None:
    system = choose_adaptive(results.systems)
    assert system is not None
    mapped = map_coefficients(system, "test")
    far = np.random.default_rng(1).uniform(size=(100, 2))
    far[0] = (1e4, 0)
    shown = _describe_map(dataclasses.replace(mapped, points=far, spread=0.01))
    assert "Hollow points at the border lie farther out: 1. " in shown
    assert "places on the map mean little" in shown
    assert "Hollow" not in _describe_map(dataclasses.replace(mapped, points=far[1:], spread=0.5))


def test_map_has_a_point_per_distinct_exemplar_coloured_by_style(results: Results) -> None:
    system = choose_adaptive(results.systems)
    assert system is not None
    mapped = map_coefficients(system, "test")
    exemplars = {output.exemplar for output in system.outputs}
    assert mapped.points.shape == (len(exemplars), 2)
    assert len(mapped.labels) == len(exemplars)
    assert set(mapped.labels) <= set(STYLES)
    svg = plot_coefficients(mapped)
    assert all(style.replace("_", " ") in svg for style in mapped.labels)
    assert plot_coefficients(mapped) == svg  # the same data, the same bytes


def test_other_corpora_are_coloured_by_group_or_not_at_all(tmp_path: Path) -> None:
    for grouped in (True, False):
        folder = tmp_path / str(grouped)
        folder.mkdir()
        records = folder / "records.jsonl"
        rows = [
            {"source": f"word{i} thing {i % 7}", "target": f"this is word{i}"}
            | ({"group": f"g{i % 12}"} if grouped else {})
            for i in range(40)
        ]
        records.write_text("".join(json.dumps(row) + "\n" for row in rows))
        name = str(records)
        corpus = CorpusConfig(train=name, valid=name, test=name, segmentation="words", vocabulary_size=60)
        run = train(tiny_config(folder / "prepared", "adadec", corpus), folder / "run")
        evaluate(run.folder)
        results = compare_runs([run.folder])
        assert results.majority is None
        assert "style" not in results.baseline.measures
        mapped = map_coefficients(results.baseline, "test")
        assert len(set(mapped.labels)) == (9 if grouped else 0)
        assert ("other" in mapped.labels) == grouped
        assert "<svg" in plot_coefficients(mapped)
        page = write_report(compare_runs([run.folder]), folder / "report.html").read_text(encoding="utf-8")
        assert "house style" not in page
