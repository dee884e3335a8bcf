"""The command line as a whole: every verb once, and help."""

from pathlib import Path

import pytest

from exadec.textmetrics.metrics import METRICS
from support.command import exadec


@pytest.mark.slow
def test_prepare_retrieve_train_generate_report(folder: Path) -> None:
    done = exadec("prepare", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "200 train, 200 valid, 200 test records" in done.stderr
    done = exadec("retrieve", folder / "toy.yaml")
    assert done.returncode == 0, done.stderr
    assert "mean similarity" in done.stderr
    for variant in ("seq2seq", "adadec"):
        done = exadec("train", folder / "toy.yaml", "--variant", variant, "--set", "training.epochs=1")
        assert done.returncode == 0, done.stderr
        assert "decoder P and Q" in done.stderr
        formula = "4 gates × 4d², bias d² a gate" if variant == "adadec" else "4 gates × 2d², bias d a gate"
        assert formula in done.stderr
        assert done.stdout == ""
        done = exadec("generate", folder / "work" / variant, "--split", "test")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 200
    report = folder / "report.html"
    done = exadec("report", folder / "work" / "seq2seq", folder / "work" / "adadec", "--out", report)
    assert done.returncode == 0, done.stderr
    assert "AdaDec" in done.stdout
    assert report.is_file()


def test_help_lists_verbs_and_metrics() -> None:
    done = exadec("--help")
    assert done.returncode == 0
    for verb in ("demo", "prepare", "retrieve", "train", "generate", "score", "report", "swap"):
        assert verb in done.stdout
        assert exadec(verb, "--help").returncode == 0
    listed = exadec("score", "--help").stdout
    assert all(name in listed for name in METRICS)
