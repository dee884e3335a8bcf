"""A swap study as tables, files and a page: numbers are the study's, and pages hold no text of the corpus."""

import json
from dataclasses import replace
from pathlib import Path

from exadec.views.manner import format_measure, format_rate
from exadec.views.swap_tables import content_rows, measure_rows, render_page, render_study, write_study
from support.shown import show
from support.swaps import CASES, EXEMPLARS, GUIDED_TEXTS, REFERENCES, SOURCES, make_study


def test_rows_name_the_texts_and_show_their_numbers() -> None:
    study = make_study()
    plain, guided = study.strengths
    headings, *rows = measure_rows(study)
    assert headings == ["Texts", "Manner", "Leak ↓", "Support"]
    names = ["Own, w = 0", "Swapped, w = 0", "Own, w = 0.5", "Swapped, w = 0.5"]
    assert [row[0] for row in rows] == ["Reference", "Chance, w = 0", *names]
    assert rows[-1][1:] == [format_measure(measured) for measured in guided.swapped.measures.values()]
    headings, *rows = content_rows(study)
    assert headings == ["Texts", "ROUGE-1 recall", "Kept", "Content"]
    assert [row[0] for row in rows] == names
    assert rows[1][1:] == [format_measure(measured) for measured in (plain.recall, plain.kept, plain.content)]
    assert rows[2][1:] == [format_measure(guided.own_recall), "–", format_measure(guided.own_content)]  # noqa: RUF001


def test_terminal_shows_each_trait_and_strength_and_the_worst_cases() -> None:
    study = make_study()
    shown = show(render_study(study))
    assert max(map(len, shown.splitlines())) <= 80
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("colon Reference"))
    for line, column in zip(lines[begin:], (study.reference, study.strengths[0].chance), strict=False):
        assert line.endswith(" ".join(["2", rates(column, "has"), "2", rates(column, "has_not")]))
    for line, strength in zip(lines[begin + 2 :], study.strengths, strict=False):
        cells = ["2", rates(strength.swapped, "has"), "2", rates(strength.swapped, "has_not")]
        assert line == f"{strength.swapped.name} {' '.join(cells)}"
    text = " ".join(lines)
    assert "No exemplar has: Title Case, all capitals, quotation marks, dash or bar before a tail, more than" in text
    assert "4 swaps of toy (adadec), seed 3. Exemplars: training targets of another group; drawn 2 for colon" in text
    missed, leaked = text.index("Most traits missed"), text.index("Most words leaked")
    assert missed < text.index("w = 0 Brack refuses missed colon leaked –") < leaked  # noqa: RUF001
    assert text.index("leaked Ice, roads") > leaked
    assert "w = 0.5 Ice: roads refused" in text


def rates(column, kind: str) -> str:
    row = next(row for row in column.traits if row.trait == "colon")
    return format_rate(getattr(row, f"if_exemplar_{kind}"))


def test_many_strengths_fit_the_terminal() -> None:
    study = make_study()
    many = [replace(study.strengths[0]) for _ in range(6)]
    shown = show(render_study(replace(study, strengths=many)))
    assert "…" not in shown
    assert shown.count("Swapped, w = 0 ") == 6 * 4  # measures, content, two traits


def test_texts_are_no_markup() -> None:
    study = make_study()
    cases = [replace(case, source=f"[red]{case.source}") for case in study.cases]
    assert "[red]Ada" in show(render_study(replace(study, cases=cases)))


def test_files_hold_numbers_texts_page_and_figure(tmp_path: Path) -> None:
    study = make_study()
    page = write_study(study, tmp_path / "deep" / "study", "exadec swap toy --study 4")
    assert page.read_text("utf-8") == render_page(study, "exadec swap toy --study 4")
    assert {path.name for path in page.parent.iterdir()} == {"study.md", "study.json", "study.svg", "texts.jsonl"}
    numbers = json.loads((page.parent / "study.json").read_text("utf-8"))
    assert numbers["settings"] == study.settings
    assert numbers["swaps"] == 4
    plain, guided = numbers["strengths"]
    assert (plain["guidance"], guided["guidance"]) == (0, 0.5)
    assert guided["swapped"]["traits"]["colon"]["if_exemplar_has"]["value"] == 100
    assert plain["chance"]["traits"]["colon"]["if_exemplar_has"]["cases"] == 2
    assert guided["kept"]["value"] == study.strengths[1].kept.score.value
    assert guided["kept"]["cases"] == 4
    rows = [json.loads(line) for line in (page.parent / "texts.jsonl").read_text("utf-8").splitlines()]
    assert [row["uid"] for row in rows] == [case.uid for case in CASES]
    assert [row["texts"][1]["swapped"] for row in rows] == GUIDED_TEXTS.swapped
    assert [row["texts"][1]["leaked"] for row in rows] == [["shut"], ["Ice", "roads"], ["strike"], ["Mayor"]]
    assert [row["texts"][0]["missed"] for row in rows] == [[], ["colon"], [], []]
    assert rows[1]["texts"][0]["own_exemplar"] is None


def test_page_and_numbers_hold_no_text_of_the_corpus(tmp_path: Path) -> None:
    folder = write_study(make_study(), tmp_path, "exadec swap toy --study 4").parent
    published = "".join((folder / name).read_text("utf-8") for name in ("study.md", "study.json", "study.svg"))
    for text in (*SOURCES, *REFERENCES, *EXEMPLARS, *GUIDED_TEXTS.swapped):
        assert text not in published


def test_page_is_the_same_every_time_and_its_tables_are_whole() -> None:
    page = render_page(make_study(), "exadec swap toy --study 4")
    assert page == render_page(make_study(), "exadec swap toy --study 4")
    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("|")]
    assert len(tables) == 5
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1
    assert "| colon | 2 | 0\\* (0–0) | 0\\* (0–0) | 50\\* (0–100) | 100\\* (100–100) |" in page  # noqa: RUF001
    assert "`rouge-1|recall|" in page
    assert "(study.svg)" in page
