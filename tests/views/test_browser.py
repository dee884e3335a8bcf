"""The report in a real browser, on a phone and on a desk: nothing is cut off without a hint."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exadec.api import load
from exadec.config import CorpusConfig
from exadec.training.evaluation import evaluate, read_outputs, write_outputs
from exadec.training.trainer import train
from exadec.views.report import write_report
from exadec.views.results import compare_runs
from exadec.views.swap import Swap, pick_swaps
from support.browser import DESK, PHONE, open_browser
from support.shown import generation
from support.tiny_runs import tiny_config

pytestmark = pytest.mark.browser

LONG = "Donaudampfschifffahrtsgesellschaft" * 9
SMALLEST = 10.0
"""Pixels of the smallest letters in a figure."""

LETTERS = """
[...document.querySelectorAll("svg text")].filter(text => text.getClientRects().length).map(text => {
    const svg = text.ownerSVGElement;
    return parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
})
"""
OUTSIDE = """
[...document.querySelectorAll("main *")].filter(one => !one.closest("table, svg")).filter(one => {
    const box = one.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.outerHTML.slice(0, 80))
"""
REGIONS = """
[...document.querySelectorAll("[role=region]")].map(one => ({
    name: one.ariaLabel,
    focusable: one.tabIndex === 0,
    overflows: one.scrollWidth > one.clientWidth,
    shaded: getComputedStyle(one).backgroundImage.includes("gradient"),
    hinted: Boolean(one.previousElementSibling?.matches(".hint")
                    && one.previousElementSibling.getClientRects().length),
}))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def reports(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """On the wire, with swaps; on tables; and with the longest of names and words."""
    folder = tmp_path_factory.mktemp("reports")
    usual = compare_runs(runs)
    swaps = [*pick_swaps(load(runs[0]), count=1), Swap(LONG, [generation(LONG, LONG), generation("a", LONG)])]
    return {
        "wire": write_report(usual, folder / "wire.html", swaps),
        "tables": _report_on_tables(folder),
        "long": _report_on_long_words(runs, folder),
    }


def _report_on_tables(folder: Path) -> Path:
    rows = [
        {"table": [["name", f"Café {i}"], ["food", LONG if i % 5 == 0 else "Thai"]], "target": f"Café {i} is a place"}
        for i in range(20)
    ]
    for split in ("train", "valid", "test"):
        path = folder / f"{split}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    names = {split: str(folder / f"{split}.jsonl") for split in ("train", "valid", "test")}
    corpus = CorpusConfig(**names, segmentation="words", vocabulary_size=60)
    run = train(tiny_config(folder / "prepared", "adadec", corpus), folder / "run")
    evaluate(run.folder)
    return write_report(compare_runs([run.folder]), folder / "tables.html")


def _report_on_long_words(runs: list[Path], folder: Path) -> Path:
    copies = [Path(shutil.copytree(runs[0], folder / f"{letter}{'-long-name' * 6}")) for letter in "ab"]
    for copy in copies:
        path = copy / "test.outputs.jsonl"
        outputs = [
            dataclasses.replace(output, source=LONG, exemplar=LONG, text=f"{LONG} {output.text}")
            for output in read_outputs(path)
        ]
        write_outputs(path, outputs)
    return write_report(compare_runs(copies), folder / "long.html")


@pytest.fixture
def open_page(browser: Any, reports: dict[str, Path]) -> Iterator[Any]:
    """Opens a report, with all its parts unfolded, at a width."""
    pages = []

    def opened(name: str, width: int) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 844})
        pages.append(page)
        page.goto(reports[name].as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        return page

    yield opened
    for page in pages:
        page.close()


@pytest.mark.parametrize("name", ["wire", "tables", "long"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_page_does_not_scroll_sideways(open_page: Any, name: str, width: int) -> None:
    page = open_page(name, width)
    across, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert inside == width
    assert across <= inside
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_wide_tables_scroll_in_a_named_box_with_a_hint(open_page: Any, width: int) -> None:
    regions = open_page("wire", width).evaluate(REGIONS)
    assert len(regions) >= 6
    for region in regions:
        assert region["name"]
        assert region["focusable"]
        assert region["shaded"]
    assert any(region["hinted"] for region in regions) == (width == PHONE)
    (scores,) = [region for region in regions if region["name"] == "Scores of the systems"]
    assert scores["overflows"] == scores["hinted"] == (width == PHONE)


def test_a_name_is_not_broken_unless_it_is_very_long(open_page: Any) -> None:
    page = open_page("wire", PHONE)
    name = page.locator(".scores tbody th").first
    line = name.bounding_box()["height"]
    for text, is_broken in (("AdaDec+AttExp", False), ("w" * 80, True)):
        name.evaluate("(one, text) => { one.lastChild.data = text; }", text)
        box = name.bounding_box()
        assert (box["height"] > line) == is_broken
        assert box["width"] <= PHONE / 2


def test_the_name_of_a_field_is_not_broken_unless_it_is_very_long(open_page: Any) -> None:
    page = open_page("tables", PHONE)
    name = page.locator(".record tbody th").first
    line = page.locator(".record tbody th").evaluate_all("all => Math.min(...all.map(one => one.clientHeight))")
    name.evaluate("one => one.nextElementSibling.append(' ' + 'a long value '.repeat(30))")
    for text, is_broken in (("description", False), ("w" * 80, True)):
        name.evaluate("(one, text) => { one.textContent = text; }", text)
        height = name.evaluate("""one => {
            const letters = document.createRange();
            letters.selectNodeContents(one);
            return letters.getBoundingClientRect().height;
        }""")
        assert (height > line) == is_broken
    assert name.bounding_box()["width"] <= PHONE / 2
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE


def test_score_table_scrolls_with_the_keyboard(open_page: Any) -> None:
    page = open_page("wire", PHONE)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Scores of the systems"
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize("name", ["wire", "tables", "long"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_figures_fit_and_can_be_read(open_page: Any, name: str, width: int) -> None:
    page = open_page(name, width)
    seen = page.evaluate(
        """[...document.querySelectorAll("figure")].map(figure =>
            [...figure.querySelectorAll("svg")].filter(svg => svg.getClientRects().length)
            .map(svg => svg.getBoundingClientRect().right <= figure.getBoundingClientRect().right))"""
    )
    assert seen
    assert all(figure == [True] for figure in seen)  # one of the two, inside its frame
    assert min(page.evaluate(LETTERS)) >= SMALLEST


def test_page_asks_for_nothing_else(browser: Any, reports: dict[str, Path]) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(reports["wire"].as_uri(), wait_until="networkidle")
    page.close()
    assert asked == [reports["wire"].as_uri()]
