"""Tables of results: the numbers are those of the metrics, and unlike runs are refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from exadec.corpus.wire import STYLES, style_of
from exadec.errors import InputError
from exadec.textmetrics import bleu, compare, confidence_interval, leak, licensed, manner, rouge, support
from exadec.training.checkpoint import open_run
from exadec.training.evaluation import read_outputs, score_style, write_outputs
from exadec.views.plots import looks_of
from exadec.views.results import Results, compare_runs, render_table
from support.shown import WIRE, show


def test_seq2seq_comes_first_and_is_the_baseline(results: Results) -> None:
    assert [system.name for system in results.systems] == ["Seq2seq", "AdaDec"]
    assert results.baseline.difference is None
    assert results.instances == 40


def test_numbers_are_those_of_textmetrics(runs: list[Path], results: Results) -> None:
    adaptive, plain = (read_outputs(run / "test.outputs.jsonl") for run in runs)
    texts, references = [o.text for o in adaptive], [o.references for o in adaptive]
    direct = [*rouge(texts, references).values(), bleu(texts, references), score_style(adaptive, WIRE)]
    direct.append(licensed(texts, [o.source for o in adaptive], open_run(runs[0]).read_names()))
    measures = results.systems[1].measures
    assert list(measures) == ["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "style", "Facts"]
    for score in direct:
        measured = measures[score.name]
        assert measured.score.value == score.value
        assert measured.score.signature == score.signature
        assert (measured.low, measured.high) == confidence_interval(score)
    baseline = rouge([o.text for o in plain], references)["L"]
    assert results.systems[1].difference == compare(rouge(texts, references)["L"], baseline)


def test_manner_is_of_the_outputs_and_of_the_first_references(runs: list[Path], results: Results) -> None:
    adaptive = read_outputs(runs[0] / "test.outputs.jsonl")
    exemplars, sources = [o.exemplar for o in adaptive], [o.source for o in adaptive]
    reference, plain, column = results.manner
    assert [reference.name, plain.name, column.name] == ["Reference", "Seq2seq", "AdaDec"]
    for one, texts in ((column, [o.text for o in adaptive]), (reference, [o.references[0] for o in adaptive])):
        assert one.measures["Manner"].score.value == manner(texts, exemplars).value
        assert one.measures["Leak"].score.value == leak(texts, sources, exemplars).value
        assert one.measures["Support"].score.value == support(texts, sources).value


def test_copied_exemplar_is_scored_like_an_output(runs: list[Path], copies: list[Path], results: Results) -> None:
    outputs = read_outputs(runs[0] / "test.outputs.jsonl")
    copied, references = [o.exemplar or "" for o in outputs], [o.references for o in outputs]
    (row,) = results.copying
    assert (row.name, list(row.measures)) == ("Copied exemplar", list(results.baseline.measures))
    assert row.measures["ROUGE-L"].score.value == rouge(copied, references)["L"].value
    assert row.measures["style"].score.value == 100
    assert row.difference == compare(rouge(copied, references)["L"], results.baseline.rouge_l)
    others = [dataclasses.replace(output, exemplar=None) for output in outputs[:5]] + outputs[5:]
    write_outputs(copies[0] / "test.outputs.jsonl", others)
    first, second = compare_runs(copies).copying  # different exemplars: a row for each
    assert [first.name, second.name] == ["Copied exemplar of Seq2seq", "Copied exemplar of AdaDec"]
    texts = ["" if output.exemplar is None else output.exemplar for output in others]
    assert second.measures["ROUGE-L"].score.value == rouge(texts, references)["L"].value


def test_the_style_of_most_references_is_counted_among_exemplars(results: Results) -> None:
    outputs = results.baseline.outputs
    counts = {style: sum(style_of(o.references[0]) == style for o in outputs) for style in STYLES}
    assert results.majority is not None
    assert counts[results.majority.style] == max(counts.values())
    same = sum(style_of(o.exemplar or "") == results.majority.style for o in outputs)
    assert results.majority.among_exemplars == pytest.approx(100 * same / len(outputs))


def test_runs_of_the_same_model_are_told_apart_by_folder(copies: list[Path], tmp_path: Path) -> None:
    again = Path(shutil.copytree(copies[0], tmp_path / "again"))
    deeper = Path(shutil.copytree(copies[0], tmp_path / "deeper" / "again"))
    names = [system.name for system in compare_runs([copies[0], again]).systems]
    assert names == ["AdaDec (adadec)", "AdaDec (again)"]
    results = compare_runs([again, deeper])
    assert [system.name for system in results.systems] == [f"AdaDec ({tmp_path.name}/again)", "AdaDec (deeper/again)"]
    assert len({look.colour for look in looks_of(results.systems)}) == 2


def test_json_holds_raw_numbers_and_signatures(results: Results) -> None:
    first, second = json.loads(json.dumps(results.to_json()))["systems"]
    assert first["difference"] is None
    assert second["measures"]["ROUGE-L"]["value"] == results.systems[1].rouge_l.value
    assert second["measures"]["BLEU"]["signature"].startswith("nrefs:1|")
    assert 0 < second["difference"]["p_value"] <= 1
    (copied,) = json.loads(json.dumps(results.to_json()))["copying"]
    assert copied["measures"]["BLEU"]["value"] == results.copying[0].measures["BLEU"].score.value
    columns = json.loads(json.dumps(results.to_json()))["manner"]
    assert [column["name"] for column in columns] == ["Reference", "Seq2seq", "AdaDec"]
    assert columns[2]["measures"]["Leak"]["value"] == results.manner[2].measures["Leak"].score.value


def test_rows_are_what_a_data_frame_takes(results: Results) -> None:
    rows = results.to_rows()
    assert len(rows) == sum(len(system.measures) for system in results.systems)
    assert len({tuple(row) for row in rows}) == 1
    for row in rows:
        (system,) = [one for one in results.systems if one.name == row["model"]]
        measured = system.measures[row["measure"]]
        assert (row["value"], row["low"], row["high"]) == (measured.score.value, measured.low, measured.high)
        assert (row["variant"], row["split"], row["instances"]) == (system.run.config.model.variant, "test", 40)


def test_tables_show_every_score_with_its_interval(results: Results) -> None:
    terminal = show(render_table(results))
    assert max(map(len, terminal.splitlines())) <= 80
    for row in results.scored:
        assert row.name in terminal
        for name, measured in row.measures.items():
            for number in (measured.score.value, measured.low, measured.high):
                assert f"{number:.1f}".removeprefix("100.0") in terminal or name == "ROUGE-2"
    assert "ROUGE-2" not in terminal  # there is no room for it beside style and facts
    assert "Facts %" in terminal
    (copying,) = results.copying
    # Minus signs take room, but the table stays a table.
    low = dataclasses.replace(copying.difference, difference=-14.5, low=-16.4, high=-12.6)
    lower = dataclasses.replace(results, copying=[dataclasses.replace(copying, difference=low)])
    assert any("Model" in line and "ROUGE-1" in line for line in show(render_table(lower)).splitlines())
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


def test_a_corpus_that_was_named_is_that_of_the_runs(copies: list[Path], runs: list[Path]) -> None:
    corpus = runs[0].parent / "corpus"
    assert all(system.run.corpus_folder == corpus for system in compare_runs(copies, corpus=corpus).systems)
    with pytest.raises(InputError, match=f"{copies[0]}: not a prepared corpus"):
        compare_runs(copies, corpus=copies[0])
