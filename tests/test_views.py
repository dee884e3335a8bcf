"""What people look at: tables, figures, swaps, the report."""

import dataclasses
import io
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from exadec.api import Explanation, Generation, Writer, load
from exadec.cli import app
from exadec.config import VARIANTS, Config, CorpusConfig, ModelConfig, SearchConfig, TrainingConfig
from exadec.corpus.readers import known_styles
from exadec.corpus.wire import STYLES, style_of
from exadec.errors import InputError
from exadec.model.seq2seq import Seq2seq
from exadec.textmetrics import bleu, compare, confidence_interval, rouge
from exadec.training.checkpoint import Run
from exadec.training.evaluation import Output, evaluate, read_outputs, score_style, write_outputs
from exadec.training.trainer import train
from exadec.views.coefficients import choose_adaptive, map_coefficients, project
from exadec.views.plots import bin_by_similarity, looks_of, plot_coefficients, spread_apart
from exadec.views.report import write_report
from exadec.views.results import Results, compare_runs, render_markdown, render_table
from exadec.views.swap import Swap, make_swap, mark_new_words, pick_swaps, render_swap

VOID = {"meta", "br", "link", "img", "input", "hr"}
WIRE = known_styles(CorpusConfig(format="wire"))
EVIL = '<script>alert("&")</script>'


def tiny_config(folder: Path, variant: str, corpus: CorpusConfig) -> Config:
    sizes = {"hidden": 8, "embedding": 8, "encoder_layers": 1, "exemplar_hidden": 4}
    return Config(
        folder=str(folder),
        corpus=corpus,
        model=ModelConfig(**sizes, **VARIANTS[variant]),
        training=TrainingConfig(epochs=1, batch_size=8, evaluation_size=10),
        search=SearchConfig(max_length=12, beam_size=2),
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A seq2seq and an adaptive run on the smallest of wires; not for writing."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("views")
    corpus = CorpusConfig(
        format="wire", segmentation="words", vocabulary_size=400, wire_train=300, wire_outlets=30, wire_heldout=40
    )
    paths = []
    for variant in ("adadec", "seq2seq"):
        train(tiny_config(folder, variant, corpus), folder / variant)
        evaluate(folder / variant)
        paths.append(folder / variant)
    return paths


@pytest.fixture(scope="module")
def results(runs: list[Path]) -> Results:
    return compare_runs(runs)


@pytest.fixture(scope="module")
def writer(runs: list[Path]) -> Writer:
    return load(runs[0])


@pytest.fixture
def copies(runs: list[Path], tmp_path: Path) -> list[Path]:
    """The same runs, for writing into."""
    return [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs]


def show(renderable: RenderableType, colour: bool = False) -> str:
    shown = io.StringIO()
    Console(width=80, file=shown, force_terminal=colour, color_system="standard" if colour else None).print(renderable)
    return shown.getvalue()


def generation(text: str, exemplar: str | None = None, similarity: float | None = None) -> Generation:
    return Generation(text, 0.0, exemplar, similarity, [], [], None, [], 0, lambda: Explanation(None, None))


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


def test_seq2seq_comes_first_and_is_the_baseline(results: Results) -> None:
    assert [system.name for system in results.systems] == ["Seq2seq", "AdaDec"]
    assert results.baseline.difference is None
    assert results.instances == 40


def test_numbers_are_those_of_textmetrics(runs: list[Path], results: Results) -> None:
    adaptive, plain = (read_outputs(run / "test.outputs.jsonl") for run in runs)
    texts, references = [o.text for o in adaptive], [o.references for o in adaptive]
    direct = [*rouge(texts, references).values(), bleu(texts, references), score_style(adaptive, WIRE)]
    measures = results.systems[1].measures
    assert list(measures) == ["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "style"]
    for score in direct:
        measured = measures[score.name]
        assert measured.score.value == score.value
        assert measured.score.signature == score.signature
        assert (measured.low, measured.high) == confidence_interval(score)
    baseline = rouge([o.text for o in plain], references)["L"]
    assert results.systems[1].difference == compare(rouge(texts, references)["L"], baseline)


def test_majority_style_is_counted_among_references_and_exemplars(results: Results) -> None:
    outputs = results.baseline.outputs
    counts = {style: sum(style_of(o.references[0]) == style for o in outputs) for style in STYLES}
    assert results.majority is not None
    assert counts[results.majority.style] == max(counts.values())
    assert results.majority.among_references == pytest.approx(100 * max(counts.values()) / len(outputs))
    same = sum(style_of(o.exemplar or "") == results.majority.style for o in outputs)
    assert results.majority.among_exemplars == pytest.approx(100 * same / len(outputs))


def test_runs_of_the_same_model_are_told_apart_by_folder(copies: list[Path], tmp_path: Path) -> None:
    again = Path(shutil.copytree(copies[0], tmp_path / "again"))
    deeper = Path(shutil.copytree(copies[0], tmp_path / "deeper" / "again"))
    names = [system.name for system in compare_runs([copies[0], again]).systems]
    assert names == ["AdaDec (adadec)", "AdaDec (again)"]
    results = compare_runs([again, deeper])
    assert [system.name for system in results.systems] == [f"AdaDec ({again})", f"AdaDec ({deeper})"]
    assert len({look.colour for look in looks_of(results.systems)}) == 2


def test_json_holds_raw_numbers_and_signatures(results: Results) -> None:
    first, second = json.loads(json.dumps(results.to_json()))["systems"]
    assert first["difference"] is None
    assert second["measures"]["ROUGE-L"]["value"] == results.systems[1].rouge_l.value
    assert second["measures"]["BLEU"]["signature"].startswith("nrefs:1|")
    assert 0 < second["difference"]["p_value"] <= 1


def test_tables_show_every_score_with_its_interval(results: Results) -> None:
    terminal, markdown = show(render_table(results)), render_markdown(results)
    assert max(map(len, terminal.splitlines())) <= 80
    for system in results.systems:
        assert system.name in terminal
        for measured in system.measures.values():
            for number in (measured.score.value, measured.low, measured.high):
                assert f"{number:.1f}" in terminal
                assert f"{number:.1f}" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(results.systems)
    assert len({row.count("|") for row in rows}) == 1
    assert "baseline" not in show(render_table(dataclasses.replace(results, systems=results.systems[:1])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uid": "elsewhere"}, "output 4 is of instance 'elsewhere'"),
        ({"references": ("of data with equal uids",)}, "with other references"),
    ],
)
def test_other_instances_are_refused(copies: list[Path], changes: dict[str, object], message: str) -> None:
    path = copies[0] / "test.outputs.jsonl"
    outputs = read_outputs(path)
    outputs[3] = dataclasses.replace(outputs[3], **changes)
    write_outputs(path, outputs)
    with pytest.raises(InputError, match=message):
        compare_runs(copies)


def test_missing_fewer_and_no_outputs_are_refused(copies: list[Path]) -> None:
    with pytest.raises(InputError, match="no such file"):
        compare_runs(copies, split="valid")
    path = copies[1] / "test.outputs.jsonl"
    write_outputs(path, read_outputs(path)[:-1])
    with pytest.raises(InputError, match="seq2seq for 39;"):
        compare_runs(copies)
    path.write_text("")
    with pytest.raises(InputError, match="holds no outputs"):
        compare_runs(copies)
    with pytest.raises(InputError, match="at least one run"):
        compare_runs([])


def test_bins_hold_equally_many_instances_and_average_to_the_score(results: Results) -> None:
    system = results.baseline
    many = [dataclasses.replace(output, similarity=number / 100) for number, output in enumerate(system.outputs * 5)]
    score = rouge([o.text for o in many], [o.references for o in many])["L"]
    measures = {"ROUGE-L": dataclasses.replace(system.measures["ROUGE-L"], score=score)}
    centres, means, lows, highs = bin_by_similarity(dataclasses.replace(system, outputs=many, measures=measures))
    assert len(centres) == 8
    assert centres == sorted(centres)
    assert np.mean(means) == pytest.approx(score.value)
    assert all(low <= mean <= high for low, mean, high in zip(lows, means, highs, strict=True))


def test_principal_components_recover_a_plane() -> None:
    random = np.random.default_rng(0)
    plane = random.normal(size=(50, 2)) * (3.0, 1.0)
    basis = np.linalg.qr(random.normal(size=(7, 2)))[0]
    points, explained = project(plane @ basis.T + 5.0)
    assert sum(explained) == pytest.approx(1.0)
    assert explained[0] > explained[1]
    centred = plane - plane.mean(axis=0)
    assert points @ points.T == pytest.approx(centred @ centred.T)  # the same up to rotation


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


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 0.3))
def test_labels_are_spread_apart_in_order(places: list[float], gap: float) -> None:
    spread = spread_apart(sorted(places), gap)
    assert len(spread) == len(places)
    needed = min(gap, 1 / max(1, len(places)))
    assert all(after - before >= needed - 1e-9 for before, after in pairwise(spread))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in spread)


def test_new_words_are_marked_and_nothing_is_lost() -> None:
    marked = mark_new_words('What next for Brensoft, after "71" million?', "Brensoft was bought for 71 MILLION")
    assert marked == [("What next", True), ("for Brensoft,", False), ("after", True), ('"71" million?', False)]
    assert " ".join(words for words, _ in marked) == 'What next for Brensoft, after "71" million?'
    assert mark_new_words("", "first") == []


def test_swap_rendering_highlights_what_the_first_output_lacks() -> None:
    swap = Swap("the source", [generation("alpha beta", "one", 0.5), generation("alpha gamma", "two")])
    plain = show(render_swap(swap))
    for text in ("the source", "one", "similarity 0.50", "two", "alpha gamma"):
        assert text in plain
    coloured = show(render_swap(swap), colour=True)
    assert re.search(r"\x1b\[1;33mgamma", coloured)
    assert not re.search(r"\x1b\[1;33m(alpha|beta)", coloured)


def test_house_styles_are_ticked_for_the_wire_only() -> None:
    headline = "What next for Galway after 950 Milotrans job cuts?"
    followed = "What next for Brensoft after $71 mln Zetagrid takeover?"
    generations = [generation(followed, headline), generation("some words", headline)]
    styled = show(render_swap(Swap("source", generations, WIRE)))
    assert "✓ question" in styled
    assert "✗ no house style" in styled
    assert "✓" not in show(render_swap(Swap("source", generations)))


def test_make_swap_writes_with_each_exemplar(writer: Writer, results: Results) -> None:
    source = results.baseline.outputs[0].source
    given = "What next for Galway after 950 Milotrans job cuts?"
    swap = make_swap(writer, source, [None, given])
    assert swap.styles is WIRE
    assert [found.exemplar for found in swap.generations] == [results.baseline.outputs[0].exemplar, given]
    assert swap.generations[0].similarity is not None
    assert swap.generations[1].similarity is None


def test_picked_swaps_are_the_same_every_time_and_show_three_styles(writer: Writer) -> None:
    swaps = pick_swaps(writer)
    assert len(swaps) == 3
    assert len({swap.source for swap in swaps}) == 3
    for swap in swaps:
        assert len({style_of(found.exemplar or "") for found in swap.generations}) == 3
    again = pick_swaps(load(writer.run.folder))
    assert [show(render_swap(swap)) for swap in again] == [show(render_swap(swap)) for swap in swaps]


def test_a_model_without_exemplars_has_nothing_to_swap(runs: list[Path]) -> None:
    with pytest.raises(InputError, match="nothing to swap"):
        pick_swaps(load(runs[1]))


def test_report_is_one_sound_file(runs: list[Path], writer: Writer, tmp_path: Path) -> None:
    swaps = [*pick_swaps(writer, count=1), Swap("source", [generation("alpha"), generation("beta")])]
    out = write_report(compare_runs(runs), tmp_path / "new" / "report.html", swaps)
    assert out == tmp_path / "new" / "report.html"
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    page, parsed = out.read_text(encoding="utf-8"), parse(out)
    assert (parsed.faults, parsed.open) == ([], [])
    assert parsed.tags.count("svg") == 5
    assert "script" not in parsed.tags
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)
    assert not re.search(r"url\((?!#)|@import", page)
    for text in (
        "Exemplar swaps",
        "Sample of outputs",
        "rouge-L|f1|",
        "wire_outlets: 30",
        "coefficients C",
        "<mark>beta",
    ):
        assert text in page
    for label in ("Training loss", "cosine similarity", "principal component"):
        assert label in page


def test_report_is_the_same_every_time(runs: list[Path], tmp_path: Path) -> None:
    first, second = (write_report(compare_runs(runs), tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert first == second


def test_a_report_loads_each_model_once(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swaps, the map of λ and the count of parameters share it."""
    loaded, load_model = [], Run.load_model

    def count(run: Run) -> Seq2seq:
        loaded.append(run.folder)
        return load_model(run)

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
    assert parse(out).tags.count("svg") == 4


def test_a_failed_report_leaves_the_old_one(copies: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    (copies[0] / "best.safetensors").unlink()
    with pytest.raises(InputError, match="no such checkpoint"):
        write_report(compare_runs(copies), out)
    assert out.read_text() == "old"
