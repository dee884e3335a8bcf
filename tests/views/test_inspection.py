"""What is said about a corpus, against counting by hand."""

import io
import json
import shutil
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from exadec.config import ExemplarConfig
from exadec.corpus.prepare import SPLITS, Corpus, prepare
from exadec.errors import InputError
from exadec.exemplars import audit as auditing
from exadec.exemplars.audit import Audit, audit, summarize
from exadec.exemplars.retrieve import open_exemplars, retrieve
from exadec.textmetrics import rouge
from exadec.views.inspection import NOT_RETRIEVED, Inspection, inspect_corpus, inspection_to_json
from exadec.views.inspection_tables import render_inspection, sparkline
from exadec.views.page import inspection_block
from exadec.views.plots import plot_histograms
from support.toys import config_for, toy_config, toy_records, write_splits

EVIL = '<script>alert("&")</script>'

TRAIN: list[dict[str, object]] = [
    {"source": "a b c d", "target": "a x", "group": "p"},
    {"source": "a b c d", "target": "a x", "group": "p"},  # the same again
    {"source": "a b c e", "target": "a x", "group": "q"},  # target as before
    {"source": "f g h", "target": "y rare1"},
    {"source": "lonely", "target": "z z z"},  # shares no word with any other
]
VALID: list[dict[str, object]] = [
    {"source": "a b c d", "target": "a x", "references": ["a x", "x a"]},  # source and target seen, exemplar leaks
    {"source": "f g g rare2", "target": "rare2 rare3 f f"},  # unknown words: one in the source, one not
    {"source": "nothing shared", "target": "z z z"},  # no exemplar, target seen
]
TEST: list[dict[str, object]] = [{"table": [["a", "b"]], "target": "b longer than the limit"}]


def write(folder: Path, split: str, records: list[dict[str, object]]) -> None:
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def small_corpus(folder: Path) -> Corpus:
    """Whole words; the vocabulary holds those that occur twice, so `rare1` and the like are unknown."""
    for split, records in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write(folder, split, records)
    # Five symbols, then by count a (6), b c x z (3), d (2), and of the words that occur once the first, e.
    config = config_for(folder, segmentation="words", pretokenized=True, vocabulary_size=12, max_target=4)
    return prepare(config)


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    corpus = small_corpus(tmp_path_factory.mktemp("inspection"))
    retrieve(corpus)
    return inspect_corpus(corpus.folder)


def show(inspection: Inspection, width: int = 80) -> list[str]:
    shown = io.StringIO()
    Console(file=shown, width=width, color_system=None).print(render_inspection(inspection))
    return shown.getvalue().splitlines()


# Counts ---------------------------------------------------------------------------------------------------------------


def test_records_are_counted(inspected: Inspection) -> None:
    facts = inspected.splits
    assert [facts[split].instances for split in SPLITS] == [5, 3, 1]
    assert [facts[split].tables for split in SPLITS] == [0, 0, 1]
    assert [facts[split].several_references for split in SPLITS] == [0, 1, 0]
    assert [facts[split].groups for split in SPLITS] == [2, 0, 0]
    assert [facts[split].targets.truncated for split in SPLITS] == [0, 0, 1]
    assert inspected.vocabulary == 12


def test_lengths_are_summed_up(inspected: Inspection) -> None:
    sources = inspected.splits["train"].sources.lengths
    assert (sources.mean, sources.median, sources.maximum) == (16 / 5, 4, 4)
    assert sources.edges == (1, 2, 3, 4, 5)
    assert sources.counts == (1, 0, 1, 3)
    assert inspected.splits["test"].targets.lengths.counts == (0, 0, 0, 1)  # five pieces, cut to four


def test_unknown_and_copyable_pieces_are_counted(inspected: Inspection) -> None:
    valid = inspected.splits["valid"]
    # a x | rare2 rare3 f f | z z z: unknown are rare2, rare3, f, f; of these all but rare3 stand in the source.
    assert (valid.targets.pieces, valid.targets.unknown) == (9, 4)
    assert (valid.copyable, valid.copyable_unknown) == (4, 3)
    # a b c d | f g g rare2 | nothing shared
    assert (valid.sources.pieces, valid.sources.unknown) == (10, 6)
    rates = inspection_to_json(inspected)["splits"]["valid"]["rates"]
    assert rates == {
        "source_coverage": 4 / 10,
        "target_coverage": 5 / 9,
        "target_unknown": 4 / 9,
        "unknown_copyable": 3 / 4,
        "target_copyable": 4 / 9,
    }


def test_leakage_is_counted(inspected: Inspection) -> None:
    assert inspected.audit is not None
    train, valid, test = (inspected.audit.splits[split] for split in SPLITS)
    # The first two find each other, the third finds the first; the other two share no word with anything.
    assert (train.without_exemplar, train.same_target, train.same_source) == (2, 3, 2)
    assert (train.seen_sources, train.seen_targets, train.seen_pairs) == (1, 2, 1)
    assert (valid.without_exemplar, valid.same_target, valid.same_source) == (1, 1, 1)
    assert (valid.seen_sources, valid.seen_targets, valid.seen_pairs) == (1, 2, 1)
    assert (test.without_exemplar, test.same_target, test.seen_targets) == (0, 0, 0)
    assert train.similarity is not None
    assert sum(train.similarity.counts) == 3
    assert train.similarity.counts[-1] == 2  # cosine 1; the other is 3/4
    assert train.similarity.counts[15] == 1
    assert train.similarity.mean == pytest.approx((1 + 1 + 0.75) / 3)


def test_audit_scans_for_itself(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    exemplars = retrieve(corpus)
    assert audit(corpus, exemplars) == inspect_corpus(corpus.folder).audit


@pytest.mark.parametrize("segmentation", [{"segmentation": "words", "vocabulary_size": 20}, {"vocabulary_size": 300}])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_pieces_are_counted_as_by_brute_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segmentation: dict[str, object], block: int
) -> None:
    monkeypatch.setattr(auditing, "_BLOCK_PIECES", block)
    write_splits(tmp_path, toy_records(40, seed=0))
    write(tmp_path, "test", [*toy_records(40, seed=1), {"source": "￭", "target": "￭"}])  # text of no pieces
    corpus = prepare(config_for(tmp_path, **segmentation))
    inspection = inspect_corpus(corpus.folder)
    for split in SPLITS:
        known = set(corpus.vocabulary.pieces[5:])
        unknown = copyable = both = 0
        for record in corpus.records(split):
            source = corpus.segmenter.segment(record.source)
            pieces = corpus.segmenter.segment(record.target)
            unknown += len([piece for piece in pieces if piece not in known]) + (not pieces)
            copyable += len([piece for piece in pieces if piece in source])
            both += len([piece for piece in pieces if piece in source and piece not in known])
        facts = inspection.splits[split]
        assert (facts.targets.unknown, facts.copyable, facts.copyable_unknown) == (unknown, copyable, both)
        assert facts.sources.pieces == sum(corpus.sources(split).lengths)


def test_copying_the_exemplar_is_scored(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(60, seed=0))
    write(tmp_path, "test", toy_records(30, seed=1))
    corpus = prepare(toy_config(tmp_path))
    exemplars = retrieve(corpus)
    scores = inspect_corpus(corpus.folder).copying["test"]
    targets = [record.target for record in corpus.records("train")]
    similarities = exemplars.similarities("test")
    expected = rouge(
        [targets[index] for index in exemplars.indices("test")],
        [record.scoring_references() for record in corpus.records("test")],
    )
    assert scores.overall.rouge == {score.name: pytest.approx(score.value) for score in expected.values()}
    assert [band.instances for band in scores.bands] == [8, 8, 7, 7]
    assert scores.bands[0].low == scores.overall.low == similarities.min()
    assert scores.bands[3].high == scores.overall.high == similarities.max()
    assert all(before.high <= after.low for before, after in zip(scores.bands, scores.bands[1:], strict=False))
    order = np.argsort(similarities, kind="stable")[:8]
    assert scores.bands[0].rouge["ROUGE-L"] == pytest.approx(expected["L"].per_instance[order].mean())


def test_an_instance_without_exemplar_scores_nothing(inspected: Inspection) -> None:
    valid = inspected.copying["valid"]
    assert valid.bands[0].rouge["ROUGE-1"] == 0
    assert valid.bands[-1].rouge["ROUGE-1"] == 100
    assert len(valid.bands) == 3  # of three instances no four bands can be made


# Folders --------------------------------------------------------------------------------------------------------------


def test_corpus_without_exemplars(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    inspection = inspect_corpus(corpus.folder)
    assert inspection.audit is None
    assert inspection.copying == {}
    assert f"Exemplars: {NOT_RETRIEVED}" in show(inspection)
    assert NOT_RETRIEVED in inspection_block(inspection, "toy")
    json.dumps(inspection_to_json(inspection), allow_nan=False)


def test_warnings_are_shown_and_written(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    config = ExemplarConfig(group="only")
    retrieve(corpus, config)
    inspection = inspect_corpus(corpus.folder, config)
    (fault,) = inspection.faults
    assert f"Warning: {fault}" in " ".join(" ".join(show(inspection)).split())
    assert inspection_to_json(inspection)["faults"] == (fault,)
    assert f"<p>Warning: {escape(fault)}</p>" in inspection_block(inspection, "toy")


def test_exemplars_of_another_corpus_are_not_shown(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    exemplars = retrieve(corpus)
    manifest = exemplars.folder / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace(corpus.hash, "other"), "utf-8")
    with pytest.raises(InputError) as refused:
        open_exemplars(corpus, exemplars.folder.resolve())
    inspection = inspect_corpus(corpus.folder)
    assert (inspection.audit, inspection.note) == (None, str(refused.value))
    assert all(len(line) <= 80 for line in show(inspection))


def test_what_is_no_corpus_is_refused_in_one_line(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    exemplars = retrieve(corpus)
    with pytest.raises(InputError, match="not a finished stage"):
        inspect_corpus(tmp_path)
    with pytest.raises(InputError, match="not a corpus folder"):
        inspect_corpus(exemplars.folder)
    broken = Path(shutil.copytree(corpus.folder, tmp_path / "broken"))
    (broken / "train.source.ids.npy").unlink()
    with pytest.raises(InputError, match=r"train.source.ids.npy: no such file; run `exadec prepare` again"):
        inspect_corpus(broken)


# Looks ----------------------------------------------------------------------------------------------------------------


def test_terminal_table_fits_80_columns(inspected: Inspection) -> None:
    inspected = replace(inspected, faults=())  # warnings are sentences, which wrap
    lines = show(inspected)
    assert max(map(len, lines)) <= 80
    text, wide = "\n".join(lines), "\n".join(show(inspected, 200))
    # Nothing was cut or wrapped to make it fit: a wider terminal shows the same.
    assert text[text.index("Instances") :] == wide[wide.index("Instances") :]
    assert "exemplar = target (leakage) 3 (60%) 1 (33%) 0" in " ".join(text.split())
    assert "…" not in text


def test_terminal_table_of_millions_fits_80_columns(inspected: Inspection) -> None:
    assert inspected.audit is not None
    facts, counts = dict(inspected.splits), dict(inspected.audit.splits)
    for split, instances in (("train", 3_803_957), ("valid", 189_651), ("test", 1_951)):
        facts[split] = replace(facts[split], instances=instances, tables=instances, several_references=instances)
        counts[split] = replace(counts[split], instances=instances, same_target=instances)
    lines = show(replace(inspected, splits=facts, audit=Audit(counts)))
    assert max(map(len, lines)) <= 80
    assert "3,803,957 (100%)" in "".join(lines)
    assert "…" not in "".join(lines)


def test_sparkline() -> None:
    assert sparkline([0, 1, 400, 800]) == "·▁▄█"
    assert sparkline([0, 0]) == "··"


class Checker(HTMLParser):
    """Every tag is closed by its own end, and no text has become a script."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert "script" not in checker.seen
    return checker


def test_html_is_sound_and_has_two_figures(inspected: Inspection) -> None:
    checker = check(inspection_block(inspected, "toy"))
    assert checker.seen.count("svg") == 4  # each for a wide and for a narrow screen
    # Bars: lengths of sources and targets in training, similarities of three splits.
    train = inspected.splits["train"]
    bars = len(train.sources.lengths.counts) + len(train.targets.lengths.counts) + 60
    assert checker.seen.count("rect") == 2 * bars
    assert "ROUGE-L" in checker.text


def test_html_escapes_what_comes_from_outside(tmp_path: Path) -> None:
    folder = tmp_path / "<b>&"
    folder.mkdir()
    text = inspection_block(inspect_corpus(small_corpus(folder).folder), folder.name)
    assert str(tmp_path) not in text
    check(text)
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text
    shape = summarize(np.array([1, 2]), np.arange(1, 4))
    check(plot_histograms([(EVIL, shape), (EVIL, None)], EVIL))


def test_json_has_all_and_only_plain_numbers(inspected: Inspection) -> None:
    content = json.loads(json.dumps(inspection_to_json(inspected), allow_nan=False))
    assert content["folder"] == str(inspected.folder)
    assert content["audit"]["splits"]["valid"]["same_target"] == 1
    assert content["copying"]["test"]["signatures"]["ROUGE-L"].startswith("rouge-L|f1")
    assert content["splits"]["train"]["sources"]["lengths"]["counts"] == [1, 0, 1, 3]
