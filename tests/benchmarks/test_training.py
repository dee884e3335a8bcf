"""The programs that measure training: what they count, and that each part of them runs, in small and on a CPU."""

import copy
import json
import lzma
import shutil
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from support.small_models import build_small_model, random_batch, small_model_config

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # programs, not a package

import retrieval_page
import training
import training_analysis_page
import training_growth
import training_page
import training_profile
import training_roofline

from exadec.config import VARIANTS, ModelConfig
from exadec.corpus.vocabulary import PAD, SPECIALS
from exadec.loading.resident import Shape
from exadec.model.seq2seq import Seq2seq


@pytest.mark.parametrize("variant", ["seq2seq", "adadec"])
def test_operations_are_those_that_torch_counts(variant: str) -> None:
    shape = [3, 5, 4, 2]
    found = training_roofline.compare_counts(variant, 50, shape)
    config = ModelConfig(**VARIANTS[variant])
    # The encoders' first states are zero, so nothing is differentiated towards them: 2 directions, 4 gates.
    squares = config.encoder_layers * config.hidden**2 + config.adaptive * config.exemplar_hidden**2
    assert found["operations"] - found["by_torch"] == 2 * 4 * squares * 2 * shape[0]


@pytest.mark.parametrize("changes", [{}, {"rank": 5}, {"hidden": 8, "encoder_layers": 2}], ids=str)
@pytest.mark.parametrize("variant", ["seq2seq", "adadec"])
def test_weights_are_those_of_the_model(variant: str, changes: dict[str, Any]) -> None:
    config = ModelConfig(**VARIANTS[variant], **changes)
    counted = sum(part.weights for part in training_roofline.count(config, 50, Shape(3, 5, 4, 2)))
    assert counted == sum(parameter.numel() for parameter in Seq2seq(config, 50).parameters())


def test_materialised_weights_give_the_same_losses_and_gradients() -> None:
    model = build_small_model(rank=4)
    released = copy.deepcopy(model)
    training.materialise(released)
    assert isinstance(released.decoder.cell, training.MaterialisedCell)
    batch = random_batch(5)
    found = []
    for each in (model, released):
        log_probs = each(batch).masked_fill(batch.target_output == PAD, 0.0)
        log_probs.sum().backward()
        found.append([log_probs, *(parameter.grad for parameter in each.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_kernels_that_overlap_count_once() -> None:
    names = ["nvjet_hsh_128x128", "adaptive_forward", "Memcpy HtoD", "void at::native::foreign"]
    times = [(0, 4_000), (1_000, 2_000), (3_000, 7_000), (8_000, 9_000)]
    kernels = [training_profile.Kernel(name, *span) for name, span in zip(names, times, strict=True)]
    assert training_profile.merge(kernels) == (8_000, [1_000])
    summary = training_profile.summarize(kernels, steps=2)
    assert summary["window_milliseconds"] == pytest.approx(0.0045)
    assert summary["busy_milliseconds"] == pytest.approx(0.004)
    assert summary["sum_milliseconds"] == pytest.approx(0.005)
    assert [gap["count"] for gap in summary["gaps"]] == [0.5, 0, 0]
    assert set(summary["kinds"]) == {
        "matrix products",
        "our recurrences",
        "copies, gathers, sorting",
        "other",
    }


@pytest.mark.parametrize(("power", "symbol"), [(1, "S"), (2, "d")])
def test_growth_is_fitted(power: int, symbol: str) -> None:
    points = [(x, 3.0 * x**power) for x in (2, 4, 16)]
    assert training_analysis_page.fit_power(points) == pytest.approx((3.0, power, 0.0), abs=1e-9)
    assert training_analysis_page.fit_line(points, power) == pytest.approx((0.0, 3.0, 0.0), abs=1e-9)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty pairs as `pack` leaves them."""
    random = np.random.default_rng(0)
    parts: dict[str, Any] = {"vocabulary": np.array(30), "exemplars": random.permutation(40)}
    for name in ("source", "target"):
        lengths = random.integers(1, 8, 40)
        ids = random.integers(len(SPECIALS), 30, lengths.sum())
        parts |= {f"{name}_low": ids.astype(np.uint8), f"{name}_high": np.zeros(len(ids), np.uint8)}
        parts[f"{name}_lengths"] = lengths.astype(np.uint16)
    path = tmp_path_factory.mktemp("packed") / "ids.npz"
    with lzma.open(path, "wb", preset=0) as file:
        np.savez(file, **parts)
    return path


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="in small, on a CPU; on a GPU the parts themselves are run")
def test_every_part_runs_and_comes_onto_the_page(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "REPEATS", 1)
    monkeypatch.setattr(training, "measure_recurrence", partial(training.measure_recurrence, short=2, long=4))
    for module in (training, training_roofline, training_analysis_page):
        monkeypatch.setattr(module, "ModelConfig", small_model_config)
    base = {"target": 2, "source": 3, "hidden": 4, "rank": 4, "batch": 2}
    sweeps = {name: (value, 2 * value) for name, value in base.items()}
    parts: dict[str, Any] = {
        "cell": training.cell(steps=2, sizes=[6], batches=[2]),
        "step": training.step(packed, batches=[3]),
        "materialised": training.materialised(packed, batches=[3]),
        "profile": training.profile(packed, batches=[3], count=3, traced=2),
        "ceilings": training.ceilings(packed, batches=[3], size=16),
        "growth": training_growth.growth(base, sweeps, vocabulary=30),
    }
    for row in parts["growth"]["rows"]:
        row["gigabytes"] = 1.0 + row["batch"]  # a CPU keeps no account
    folder = tmp_path / "docs" / "results" / "training"
    folder.mkdir(parents=True)
    (tmp_path / "docs" / "images").mkdir()
    for name, results in parts.items():
        text = json.dumps({"device": "CPU", "torch": torch.__version__, "results": results})
        (folder / f"{name}.json").write_text(text, "utf-8")
    training_page.write_page(folder)
    page = (folder.parent / "training_speed.md").read_text("utf-8")
    assert all(f"training.py {name}" in page for name in parts)
    assert "training.py epoch" not in page  # there is none
    assert (tmp_path / "docs" / "images" / "training_growth.svg").exists()
    tables = [block for block in page.split("\n\n") if block.startswith("|")]
    assert len(tables) > 5
    assert all(len({line.count("|") for line in block.splitlines()}) == 1 for block in tables)


@pytest.mark.parametrize(("program", "page"), [(training_page, "training_speed"), (retrieval_page, "retrieval")])
def test_committed_page_is_what_its_program_writes(program: ModuleType, page: str, tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    folder = tmp_path / "docs" / "results" / ("training" if program is training_page else "retrieval")
    shutil.copytree(results / folder.name, folder)
    (tmp_path / "docs" / "images").mkdir()
    program.write_page(folder)
    assert (folder.parent / f"{page}.md").read_text("utf-8") == (results / f"{page}.md").read_text("utf-8")
