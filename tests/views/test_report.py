"""The report: one sound HTML file, with all data escaped."""

import dataclasses
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from exadec.api import Writer, load
from exadec.cli import app
from exadec.config import CorpusConfig
from exadec.errors import InputError
from exadec.model.seq2seq import Seq2seq
from exadec.training.checkpoint import Run, open_corpus, open_run
from exadec.training.evaluation import Output, evaluate, outputs_path, read_outputs, write_outputs
from exadec.training.trainer import train
from exadec.views.coefficients import map_coefficients
from exadec.views.report import write_report
from exadec.views.results import compare_runs
from exadec.views.swap import Swap, pick_swaps
from support.shown import generation
from support.tiny_runs import config_beyond_the_paper

VOID = {"meta", "br", "link", "img", "input", "hr"}


EVIL = '<script>alert("&")</script>'


class Balance(HTMLParser):
    """Notes every tag that is not closed as it should be, and everything a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name.rpartition(":")[2] in ("src", "href", "data")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")


def parse(path: Path) -> Balance:
    parser = Balance()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    return parser


def test_report_is_one_sound_file(runs: list[Path], writer: Writer, tmp_path: Path) -> None:
    swaps = [*pick_swaps(writer, count=1), Swap("source", [generation("alpha"), generation("beta")])]
    out = write_report(compare_runs(runs), tmp_path / "new" / "report.html", swaps)
    assert out == tmp_path / "new" / "report.html"
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    page, parsed = out.read_text(encoding="utf-8"), parse(out)
    assert (parsed.faults, parsed.open) == ([], [])
    assert parsed.tags.count("svg") == 12  # six figures, each for a wide and for a narrow screen
    assert "script" not in parsed.tags
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.links
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)
    assert not re.search(r"url\((?!#)|@import", page)
    for text in (
        "<h2>Manner</h2>",
        "Leak ↓",
        "dash or bar before a tail",
        "manner|mean of 11 traits",
        "40 of 40 instances have an exemplar",
        "The development set’s values are of 10 of 40 instances, drawn at random.",
        "Development score (ROUGE-L, 10 of 40)",
        "Exemplar swaps",
        "Sample of outputs",
        "<h2>Worst outputs of AdaDec</h2>",
        "left out: ",
        '<tr class="copied"><th scope="row">Copied exemplar</th>',
        "rouge-L|f1|",
        "wire_outlets: 30",
        "coefficients C",
        "<mark>beta",
    ):
        assert text in page
    for label in ("Training loss", "cosine similarity", "principal component", "have the trait, where the exemplar"):
        assert label in page


def test_report_of_a_run_with_every_option(tmp_path: Path) -> None:
    """Residual weights, three exemplars, λ for the output layer: swaps, map and table of parameters have room."""
    corpus = CorpusConfig(format="wire", vocabulary_size=400, wire_train=60, wire_outlets=30, wire_heldout=20)
    for variant in ("adadec", "adadec+attexp"):
        train(config_beyond_the_paper(tmp_path, variant, corpus), tmp_path / variant)
        outputs = evaluate(tmp_path / variant)
        assert read_outputs(outputs_path(tmp_path / variant, "test")) == outputs
        assert any(output.other_exemplars for output in outputs)
    results = compare_runs([tmp_path / "adadec", tmp_path / "adadec+attexp"])
    assert map_coefficients(results.systems[0], results.split).points.shape[1] == 2
    swaps = pick_swaps(load(tmp_path / "adadec+attexp"), count=1)
    page = write_report(results, tmp_path / "report.html", swaps).read_text(encoding="utf-8")
    for text in ("principal component", "Exemplar swaps", "weights: residual", "segmentation: bpe_either_case"):
        assert text in page
    for text in ("exemplars read besides: ", "A system that reads several exemplars is judged by the nearest"):
        assert text in page


def test_report_is_the_same_every_time(runs: list[Path], tmp_path: Path) -> None:
    first, second = (write_report(compare_runs(runs), tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert first == second


def test_a_report_loads_each_model_once(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swaps, the map of λ and the count of parameters share it."""
    loaded, load_model = [], Run.load_model

    def count(run: Run, device: str | None = None) -> Seq2seq:
        loaded.append(run.folder)
        return load_model(run, device=device)

    monkeypatch.setattr(Run, "load_model", count)
    with pytest.raises(SystemExit) as end:
        app(["report", *map(str, runs), "--out", str(tmp_path / "report.html")])
    assert not end.value.code
    page = (tmp_path / "report.html").read_text("utf-8")
    assert all(part in page for part in ("Exemplar swaps", "principal component", "coefficients C"))
    assert sorted(loaded) == sorted(runs)


def test_report_escapes_data(copies: list[Path], tmp_path: Path) -> None:
    for folder in copies:
        outputs = [
            Output(o.uid, EVIL + o.source, EVIL + (o.exemplar or ""), o.similarity, (EVIL,), EVIL, o.score)
            for o in read_outputs(folder / "test.outputs.jsonl")
        ]
        write_outputs(folder / "test.outputs.jsonl", outputs)
        folder.rename(folder.with_name(f"{folder.name}<i>"))
    folders = [folder.with_name(f"{folder.name}<i>") for folder in copies]
    folders.append(Path(shutil.copytree(folders[0], tmp_path / "second<b>")))
    swap = Swap(EVIL, [generation("first", EVIL), generation(EVIL, EVIL)])
    out = write_report(compare_runs(folders), tmp_path / "report.html", [swap])
    page, parsed = out.read_text(encoding="utf-8"), parse(out)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "AdaDec (second&lt;b&gt;)" in page
    assert parsed.faults == []


def test_report_without_an_adaptive_system_says_why_there_is_no_map(runs: list[Path], tmp_path: Path) -> None:
    out = write_report(compare_runs(runs[1:]), tmp_path / "report.html")
    assert "None of these systems adapts" in out.read_text(encoding="utf-8")
    assert parse(out).tags.count("svg") == 10


def test_report_without_exemplars_has_no_manner(copies: list[Path], tmp_path: Path) -> None:
    for folder in copies:
        path = folder / "test.outputs.jsonl"
        write_outputs(path, [dataclasses.replace(output, exemplar=None) for output in read_outputs(path)])
    results = compare_runs(copies)
    assert results.manner == []
    assert results.copying == []
    page = write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Manner</h2>" not in page
    assert "Copied exemplar" not in page


def test_a_failed_report_leaves_the_old_one(copies: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    (copies[0] / "best.safetensors").unlink()
    with pytest.raises(InputError, match="no such checkpoint"):
        write_report(compare_runs(copies), out)
    assert out.read_text() == "old"


def test_a_report_that_cannot_be_written_whole_is_not_written(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.html"
    out.write_text("old", "utf-8")
    results = compare_runs(runs)
    write = Path.write_text

    def fill(path: Path, text: str, *others: object, **more: object) -> None:
        write(path, text[: len(text) // 2], "utf-8")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(OSError, match="No space left on device"):
        write_report(results, out)
    assert out.read_text("utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_report_has_names_and_days_but_no_absolute_path(runs: list[Path], copies: list[Path], tmp_path: Path) -> None:
    run, corpus = open_run(copies[0]), open_corpus(open_run(runs[0])).folder
    home = corpus.parent
    page = write_report(compare_runs(copies, corpus=corpus), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>exadec report: generated news wire</title>" in page
    assert f"training began on {run.created_on} (UTC)" in page
    without = write_report(compare_runs(copies), tmp_path / "without.html").read_text(encoding="utf-8")
    assert "There are no statistics of the corpus: seq2seq: the corpus of this run is not in corpus" in without
    assert "There is no map of coefficients: adadec: the corpus of this run is not in corpus" in without
    for text in (page, without):
        assert str(tmp_path) not in text
        assert str(home) not in text
        assert not re.search(r"[\s>(;,](/[\w.-]+){2,}", re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
