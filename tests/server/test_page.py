"""The page in a real browser, on a phone and on a desk: what people do with it, by mouse and by keyboard."""

import base64
import itertools
import json
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import torch

from exadec.server.page import STATIC
from exadec.training.trainer import train
from support.browser import DESK, PHONE, open_browser
from support.serving import Server, serving
from support.toys import toy_records, variant_config, write_splits

pytestmark = pytest.mark.browser

SOURCE = "house3 house3 house3 n4 k5"
LOUD, CALM = "up n1 k2", "down k2 n1"
LOUD_TEXT, CALM_TEXT = "up n4 k5", "down k5 n4"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Of a model that has learnt to follow its exemplar; with two groups, `loud` and `calm`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("page")
    records = toy_records(300, seed=0)
    for record in records:
        record["group"] = "loud" if str(record["target"]).startswith("up") else "calm"
    write_splits(folder, records)
    run = train(variant_config(folder, "adadec", epochs=12, evaluation_size=10), folder / "run").folder
    with serving(run) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Any]:
    """Opens the page in a window of its own. Errors of its script, and warnings of the browser, are failures."""
    contexts, faults = [], []

    def opened(
        width: int, fragment: str | None = None, prepare: Any = None, scheme: str = "light", touch: bool = False
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            reduced_motion="reduce",  # what scrolls smoothly would move under the pointer
            has_touch=touch,
            is_mobile=touch,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        # What the server refuses, or a test, is logged by the browser; the page says it in its own words.
        refused = re.compile("status of|ERR_FAILED")
        page.on("console", lambda one: refused.search(one.text) or faults.append(one.text))
        if prepare is not None:
            prepare(page)
        page.goto(f"{server.address}/{link(source=SOURCE) if fragment is None else fragment}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expecting

    return expecting(locator)


def link(**state: object) -> str:
    return "#" + base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def ready(page: Any) -> Any:
    """With our source, three retrieved exemplars and their texts, an empty card, and the map."""
    page.locator("#map .points path").first.wait_for()
    expect(page.locator(".card")).to_have_count(4)
    for number in range(3):
        expect(text_of(page, number)).to_have_text(re.compile("k5"))
    return page


def text_of(page: Any, number: int) -> Any:
    return page.locator(".card").nth(number).locator(".written")


def shown_points(page: Any, server: Server) -> list[tuple[dict[str, Any], float, float]]:
    """The points of the map with their places on the screen."""
    points = server.ask("/v1/map")[1]["points"]
    page.locator("#map").scroll_into_view_if_needed()
    boxes = page.evaluate(
        """[...document.querySelectorAll("#map .points path")].map(one => {
            const box = document.querySelector("#map").getBoundingClientRect();
            const [x, y] = one.getAttribute("transform").match(/[\\d.]+/g).map(Number);
            return [box.left + x, box.top + y];
        })"""
    )
    return [(point, x, y) for point, (x, y) in zip(points, boxes, strict=True)]


def lonely(points: list[tuple[dict[str, Any], float, float]], group: str) -> tuple[dict[str, Any], float, float]:
    """The point of a group that is farthest from its nearest other point, so that a click on it is clear."""

    def room(one: tuple[dict[str, Any], float, float]) -> float:
        return min((one[1] - x) ** 2 + (one[2] - y) ** 2 for point, x, y in points if point is not one[0])

    return max((one for one in points if one[0]["group"] == group), key=room)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_writing_an_exemplar_changes_the_text(open_page: Any, width: int) -> None:
    page = ready(open_page(width))
    expect(page.locator(".origin").first).to_have_text(re.compile(r"Retrieved · similarity 0\.\d\d|1\.00"))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    page.get_by_label("Exemplar", exact=True).last.fill(CALM)
    expect(text_of(page, 3)).to_have_text(CALM_TEXT)
    expect(page.locator(".origin").last).to_have_text("Your own")
    expect(page.locator("#live")).to_have_text(re.compile(f"Text 4: {CALM_TEXT}"))


def test_the_page_begins_with_an_example_and_follows_the_source(open_page: Any, server: Server) -> None:
    page = open_page(DESK, "")
    example = server.ask("/v1/examples")[1]["examples"][0]["source"]
    source = page.get_by_label("Source", exact=True)
    expect(source).to_have_value(example)
    expect(text_of(page, 0)).to_have_text(re.compile(example.split()[-1]))
    source.fill(SOURCE)
    expect(text_of(page, 0)).to_have_text(re.compile("k5"))
    expect(page.locator(".card")).to_have_count(4)


def test_what_is_typed_before_the_page_is_ready_stays(open_page: Any) -> None:
    held: list[Any] = []
    page = open_page(DESK, "", prepare=lambda page: page.route("**/v1/examples", lambda route: held.append(route)))
    with page.expect_request("**/v1/examples"):
        page.reload()
    page.get_by_label("Source", exact=True).fill(SOURCE)
    held[-1].continue_()
    expect(text_of(page, 0)).to_have_text(re.compile("k5"))
    expect(page.get_by_label("Source", exact=True)).to_have_value(SOURCE)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_click_on_the_map_uses_that_exemplar(open_page: Any, server: Server, width: int) -> None:
    page = ready(open_page(width))
    for group, text in (("loud", LOUD_TEXT), ("calm", CALM_TEXT)):
        point, x, y = lonely(shown_points(page, server), group)
        page.mouse.click(x, y)
        card = page.locator(".card", has=page.locator(".origin", has_text=f"From the map · {group}"))
        expect(card.locator("textarea")).to_have_value(point["text"])
        expect(card.locator(".written")).to_have_text(text)


def middle_of_handle(page: Any) -> tuple[float, float]:
    """In one look: marks are drawn again whenever a text comes, and one that is gone has no place."""
    x, y = page.locator("#map").evaluate(
        """map => {
            const box = map.querySelector(".handle").getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }"""
    )
    return x, y


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_drag_between_two_points_moves_the_wording(open_page: Any, server: Server, width: int) -> None:
    page = ready(open_page(width))
    points = shown_points(page, server)
    (_, ax, ay), (_, bx, by) = lonely(points, "loud"), lonely(points, "calm")
    page.mouse.move(ax, ay)
    page.mouse.down()
    page.mouse.move((ax + bx) / 2, (ay + by) / 2)
    page.mouse.move(bx, by)
    page.mouse.up()
    card = page.locator(".card", has_text="Between two")
    expect(card.locator(".written")).to_have_text(re.compile("k5"))
    # The card came in above the map, so that the map may have moved.
    for share, text in ((0.0, LOUD_TEXT), (1.0, CALM_TEXT)):
        page.locator("#map").scroll_into_view_if_needed()
        box = page.locator("#map").bounding_box()
        at_handle = middle_of_handle(page)
        line = page.locator("#map .line").evaluate("one => ['x1', 'y1', 'x2', 'y2'].map(k => +one.getAttribute(k))")
        page.mouse.move(*at_handle)
        page.mouse.down()
        for part in (0.4, 1.0):
            at = 0.5 + part * (share - 0.5) if share == 0 else part
            page.mouse.move(
                box["x"] + line[0] + at * (line[2] - line[0]), box["y"] + line[1] + at * (line[3] - line[1])
            )
        page.mouse.up()
        expect(card.locator(".share-shown")).to_have_text(f"{share * 100:.0f} %")
        expect(card.locator(".written")).to_have_text(text)
        expect(page.locator("#map-tip")).to_have_text(text)


class Finger:
    """Real touches, which the browser may take for scrolling."""

    def __init__(self, page: Any):
        self.page, self._session = page, page.context.new_cdp_session(page)

    def _send(self, kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": x, "y": y} for x, y in points]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    def drag(self, *places: tuple[float, float]) -> None:
        self._send("touchStart", places[0])
        for (ax, ay), (bx, by) in itertools.pairwise(places):
            for part in range(1, 13):
                self._send("touchMove", (ax + part * (bx - ax) / 12, ay + part * (by - ay) / 12))
                self.page.wait_for_timeout(10)
        self._send("touchEnd")

    def tap(self, place: tuple[float, float]) -> None:
        self._send("touchStart", place)
        self._send("touchEnd")


def centre_map(page: Any) -> dict[str, float]:
    page.locator("#map").evaluate("one => one.scrollIntoView({ block: 'center' })")
    return page.locator("#map").bounding_box()


def test_a_finger_drags_between_two_points_and_moves_the_handle(open_page: Any, server: Server) -> None:
    page = ready(open_page(PHONE, touch=True))
    finger = Finger(page)
    centre_map(page)
    points = shown_points(page, server)
    (_, ax, ay), (_, bx, by) = lonely(points, "loud"), lonely(points, "calm")
    finger.drag((ax, ay), (bx, by + 40), (bx, by))  # also upwards, which would scroll
    card = page.locator(".card", has_text="Between two")
    expect(card.locator(".written")).to_have_text(re.compile("k5"))
    for beside, share, text in ((12, 0, LOUD_TEXT), (-12, 1, CALM_TEXT)):
        box = centre_map(page)
        x, y = middle_of_handle(page)
        line = page.locator("#map .line").evaluate("one => ['x1', 'y1', 'x2', 'y2'].map(k => +one.getAttribute(k))")
        end = (box["x"] + line[2 * share], box["y"] + line[2 * share + 1])
        finger.drag((x, y + beside), (end[0], end[1] + beside), (2 * end[0] - x, 2 * end[1] - y))
        expect(card.locator(".share-shown")).to_have_text(f"{share * 100} %")
        expect(card.locator(".written")).to_have_text(text)
        expect(page.locator("#map-tip")).to_have_text(text)


def test_a_finger_on_the_map_scrolls_where_there_is_no_point(open_page: Any, server: Server) -> None:
    page = ready(open_page(PHONE, touch=True))
    box = centre_map(page)
    points = shown_points(page, server)
    spots = [(box["x"] + 3 * i, box["y"] + 3 * j) for i in range(6, 110) for j in range(6, 90)]
    room = {spot: min((spot[0] - x) ** 2 + (spot[1] - y) ** 2 for _, x, y in points) for spot in spots}
    free = max(room, key=room.__getitem__)
    assert room[free] > 15**2
    before = page.evaluate("scrollY")
    Finger(page).drag(free, (free[0], free[1] + 150))
    page.wait_for_function("before => scrollY < before - 50", arg=before)
    expect(page.locator(".card")).to_have_count(4)


def test_a_tap_fills_the_tip_and_shows_the_card(open_page: Any, server: Server) -> None:
    page = ready(open_page(PHONE, touch=True))
    centre_map(page)
    point, x, y = lonely(shown_points(page, server), "calm")
    Finger(page).tap((x, y))
    expect(page.locator("#map-tip")).to_have_text(f"calm: {point['text']}")
    card = page.locator(".card", has=page.locator(".origin", has_text="From the map"))
    expect(card).to_be_in_viewport()
    expect(card.locator(".written")).to_have_text(CALM_TEXT)


def test_far_points_stand_hollow_at_the_border(open_page: Any, server: Server) -> None:
    told = server.ask("/v1/map")[1]
    far, *rest = told["points"]
    changed = {**told, "uniform": True, "points": [{**far, "x": 1e4, "y": -1e4}, *rest]}

    def prepare(page: Any) -> None:
        page.route("**/v1/map", lambda route: route.fulfill(json=changed))

    page = ready(open_page(DESK, prepare=prepare))
    place = "one => one.getAttribute('transform').match(/[\\d.]+/g).map(Number)"
    x, y = page.locator("#map .points .outside").evaluate(place)
    view = page.locator("#map").evaluate("one => [one.viewBox.baseVal.width, one.viewBox.baseVal.height]")
    assert [x, y] == [view[0] - 18, view[1] - 18]
    others = page.locator("#map .points path:not(.outside)").evaluate_all(f"all => all.map({place})")
    assert max(x for x, _ in others) - min(x for x, _ in others) > 0.5 * view[0]
    note = page.locator("#map-note")
    expect(note).to_have_text(
        "This model makes almost no difference between exemplars, so places on the map mean little. "
        "Hollow points at the border lie farther out: 1."
    )
    looks = [
        page.locator(f"#map .points {kind}").first.evaluate("one => getComputedStyle(one).fill")
        for kind in (".outside", "path:not(.outside)")
    ]
    assert looks[0] == "rgb(255, 255, 255)" != looks[1]
    expect(ready(open_page(DESK)).locator("#map-note")).to_be_hidden()


def test_the_skip_link_leaves_the_address_alone(open_page: Any) -> None:
    page = ready(open_page(DESK))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    page.wait_for_timeout(700)  # the address follows the last change
    address = page.url
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#cards-title")).to_be_focused()
    assert page.url == address
    page.reload()
    expect(page.locator(".card textarea").nth(3)).to_have_value(LOUD)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_an_accepted_text_is_an_exemplar_until_it_is_taken_back(open_page: Any, server: Server, width: int) -> None:
    page = ready(open_page(width, link(source=" ".join([f"house{width}"] * 3 + ["n4", "k5"]))))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    with page.expect_response("**/v1/exemplars") as answer:
        page.locator(".card").nth(3).get_by_role("button", name="Accept").click()
    name = answer.value.json()["id"]
    expect(page.locator(".card").nth(3).locator(".accept")).to_have_text("Accepted ✓ undo")
    assert server.ask(f"/v1/exemplars/{name}")[1]["text"] == LOUD_TEXT
    page.get_by_role("button", name="Retrieve again").click()
    expect(page.locator(".card textarea").first).to_have_value(LOUD_TEXT)  # the nearest one now
    page.wait_for_timeout(700)  # the address follows the last change
    page.reload()
    own = page.locator(".card", has_text="Your own")
    expect(own.locator(".written")).to_have_text(LOUD_TEXT)
    accepting = own.locator(".accept")
    expect(accepting).to_have_text("Accept")
    with page.expect_response("**/v1/exemplars") as answer:
        accepting.click()
    assert answer.value.json()["id"] == name  # not a second one
    page.get_by_role("button", name="Accepted ✓ undo").click()
    expect(page.get_by_role("button", name="Accepted")).to_have_count(0)
    assert server.ask(f"/v1/exemplars/{name}")[0] == 404


def test_a_text_that_somebody_else_has_deleted_can_be_accepted_again(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK, link(source="house55 house55 house55 n4 k5")))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    accepting = page.locator(".card").nth(3).locator(".accept")
    with page.expect_response("**/v1/exemplars") as answer:
        accepting.click()
    expect(accepting).to_have_text("Accepted ✓ undo")
    assert server.ask(f"/v1/exemplars/{answer.value.json()['id']}", method="DELETE")[0] == 204
    accepting.click()
    expect(accepting).to_have_text("Accept")


def test_letters_beyond_sixteen_bits_leave_words_in_their_places(open_page: Any) -> None:
    """JavaScript counts two units for an emoji, the server one character."""

    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["text"] = f"😀 {body['text']}"
        for word in body["words"]:
            word["start"], word["end"] = word["start"] + 2, word["end"] + 2
        route.fulfill(response=response, json=body)

    plain = ready(open_page(DESK)).locator(".card").first.locator(".written").inner_text()
    page = ready(open_page(DESK, prepare=lambda page: page.route("**/v1/write", answer)))
    expect(text_of(page, 0)).to_have_text(f"😀 {plain}")


def test_records_with_the_same_text_have_one_card(open_page: Any, server: Server) -> None:
    source, others = "house77 house77 house77 n4 k5", ("n4 house77 house77 house77 k5", "k5 n4 house77 house77 house77")
    bodies = [{"source": one, "target": LOUD_TEXT} for one in (source, *others)]
    names = [server.ask("/v1/exemplars", body)[1]["id"] for body in bodies]
    page = ready(open_page(DESK, link(source=source)))
    texts = [page.locator(".card textarea").nth(number).input_value() for number in range(3)]
    assert texts[0] == LOUD_TEXT
    assert len(set(texts)) == 3
    for name in names:
        server.ask(f"/v1/exemplars/{name}", method="DELETE")


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_permalink_restores_everything(open_page: Any, server: Server, width: int) -> None:
    page = ready(open_page(width))
    page.get_by_label("Exemplar", exact=True).last.fill(CALM)
    points = shown_points(page, server)
    (loud, *_), (calm, *_) = lonely(points, "loud"), lonely(points, "calm")
    for name, point in (("from", loud), ("to", calm)):
        page.get_by_label("Find an exemplar").fill(point["text"])
        page.get_by_label(f"Write {name} “{point['text']}”").first.click()
    page.locator(".share:visible").fill("0.25")
    page.locator(".card").nth(1).get_by_role("checkbox").check()
    page.get_by_text("Table", exact=True).click()
    page.get_by_label("Attribute 1").fill("näme|")
    page.get_by_label("Value 1").fill("n4 k5")
    page.get_by_label("Retrieve from").fill("loud")
    page.get_by_label("Retrieve from").blur()
    page.get_by_role("group", name="Show on the map").get_by_role("button", name="calm").click()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(700)  # the address follows the last change
    fragment = page.url.removeprefix(f"{server.address}/")

    def everything(page: Any) -> list[Any]:
        page.locator("#map .points path").first.wait_for()
        cards = page.locator(".card")
        expect(page.locator(".card[aria-busy]")).to_have_count(0)
        return [
            page.locator("textarea, input:not([type=password]), select").evaluate_all(
                "all => all.filter(one => one.id !== 'find').map(one => one.type + one.value + one.checked)"
            ),
            cards.locator(".origin").all_inner_texts(),
            cards.locator(".written").all_inner_texts(),
            page.locator("#map-legend button").evaluate_all("all => all.map(one => one.ariaPressed)"),
            page.locator("#map .points path").count(),
        ]

    before = everything(page)
    assert len(before[1]) == 5
    assert before[3] == ["true", "false"] or before[3] == ["false", "true"]
    assert all(before[2])
    again = open_page(width, fragment)
    expect(text_of(again, 4)).to_have_text(before[2][4])
    assert everything(again) == before


def open_demands(page: Any) -> Any:
    """The panel, opened by keyboard."""
    page.locator("#demands summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Begins with")).to_be_visible()
    return page.locator("#demands")


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_demands_are_kept_and_part_of_the_link(open_page: Any, server: Server, width: int) -> None:
    page = ready(open_page(width))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    expect(page.locator("#demanded")).to_have_text("nothing yet")
    panel = open_demands(page)
    for _ in range(2):  # past the summary, into the first two fields
        page.keyboard.press("Tab")
        page.keyboard.type("k5")
    expect(panel.get_by_label("Begins with")).to_have_value("k5")
    for number in range(4):
        expect(text_of(page, number)).to_have_text(re.compile("^k5"))
    panel.get_by_label("Begins with").fill("")
    panel.get_by_label("Must say").fill("n4 n4\n\n k5 ")
    panel.get_by_label("May not say").fill("UP\ndown")
    panel.get_by_label("Characters").fill("12")
    panel.get_by_text("Strict", exact=True).click()
    for number in range(4):
        expect(text_of(page, number)).to_have_text(re.compile("n4 n4"))
        text = text_of(page, number).inner_text()
        assert "k5" in text
        assert not {"up", "down"} & set(text.split())
        assert len(text) <= 12
    expect(page.locator("#demanded")).to_have_text(
        "says “n4 n4” · says “k5” · does not say “UP” · does not say “down” · at most 12 characters · facts: strict"
    )
    expect(page.locator("#facts-help")).to_have_text("Only facts that the source states are written.")
    page.wait_for_timeout(700)  # the address follows the last change
    with_demands = text_of(page, 3).inner_text()
    again = open_page(width, page.url.removeprefix(f"{server.address}/"))
    expect(text_of(again, 3)).to_have_text(with_demands)
    expect(again.get_by_label("Must say")).to_have_value("n4 n4\n\n k5 ")
    expect(again.get_by_label("Characters")).to_have_value("12")
    expect(again.get_by_role("radio", name="Strict")).to_be_checked()
    again.get_by_role("button", name="Export").click()
    assert "\n\n**Demands:** says “n4 n4”; says “k5”; " in again.get_by_label("Markdown").input_value()
    again.get_by_role("button", name="Close").click()
    again.get_by_role("button", name="Clear").click()
    expect(text_of(again, 3)).to_have_text(LOUD_TEXT)
    expect(again.get_by_label("Begins with")).to_be_focused()
    expect(again.locator("#demanded")).to_have_text("nothing yet")
    expect(again.get_by_role("radio", name="Mark")).to_be_checked()


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_demand_that_cannot_be_met_is_named_on_the_card_and_at_the_panel(open_page: Any, width: int) -> None:
    page = ready(open_page(width))
    panel, fault = open_demands(page), page.locator("#demands-fault")
    panel.get_by_label("Must say").fill("zebra")
    reason = "The model cannot write 'zebra': it is neither in its vocabulary nor in the source."
    expect(page.locator(".card").first.get_by_role("alert")).to_have_text(reason)
    expect(fault).to_have_text(f"3 of 4 cards have no text. {reason}")
    page.get_by_role("button", name="Remove this card").first.click()
    expect(fault).to_have_text(f"2 of 3 cards have no text. {reason}")
    panel.get_by_label("Must say").fill("k5")
    expect(text_of(page, 0)).to_have_text(re.compile("k5"))
    expect(fault).to_be_hidden()
    panel.get_by_label("Characters").fill("many")
    limit = page.locator("#limit-fault")
    expect(limit).to_have_text("There is no limit: it must be a whole number from 1 to 100,000.")
    expect(panel.get_by_label("Characters")).to_have_attribute("aria-invalid", "true")
    panel.get_by_label("Characters").fill("60")
    expect(limit).to_be_hidden()


def test_the_way_with_facts_is_the_servers_unless_another_is_chosen(open_page: Any, server: Server) -> None:
    def asks(page: Any, options: dict[str, str], change: Any) -> None:
        """Other requests may still be under way."""
        with page.expect_request(
            lambda one: one.url.endswith("/v1/write") and one.post_data_json["options"] == options
        ):
            change()

    page = ready(open_page(DESK))  # of a server that does not check facts
    asks(page, {"facts": "mark"}, page.reload)
    open_demands(page)
    asks(page, {}, page.get_by_text("Off", exact=True).click)
    asks(page, {"facts": "strict"}, page.get_by_text("Strict", exact=True).click)
    told = {**server.ask("/v1/model")[1], "facts": "strict"}
    strict = ready(
        open_page(DESK, prepare=lambda page: page.route("**/v1/model", lambda route: route.fulfill(json=told)))
    )
    asks(strict, {}, strict.reload)
    open_demands(strict)
    expect(strict.get_by_role("radio", name="Strict")).to_be_checked()
    asks(strict, {"facts": "mark"}, strict.get_by_text("Mark", exact=True).click)


def test_a_group_is_found_among_thousands(open_page: Any) -> None:
    """The list has few of them at a time, those whose names have the letters that were typed."""
    names = [*(f"Outlet {number}" for number in range(4000)), "loud"]

    def answer(route: Any) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        fitting = [name for name in names if query.get("search", [""])[0].lower() in name.lower()]
        shown = [{"name": name, "exemplars": 1} for name in fitting[: int(query["k"][0])]]
        route.fulfill(json={"count": len(fitting), "groups": shown})

    page = ready(open_page(DESK, prepare=lambda page: page.route("**/v1/groups?*", answer)))
    offered = page.locator("#groups option")
    expect(offered).to_have_count(50)
    page.get_by_label("Retrieve from").press_sequentially("LOU")
    expect(offered).to_have_count(1)
    expect(offered).to_have_attribute("value", "loud")
    page.get_by_label("Retrieve from").fill("loud")
    page.get_by_label("Retrieve from").blur()
    expect(text_of(page, 0)).to_have_text(LOUD_TEXT)
    expect(text_of(page, 2)).to_have_text(LOUD_TEXT)


def test_a_damaged_link_is_named(open_page: Any) -> None:
    page = open_page(DESK, "#b64-nonsense")
    expect(page.get_by_role("alert").first).to_have_text("This link is damaged, so the page starts afresh.")
    expect(text_of(page, 0)).to_have_text(re.compile("k"))


def test_words_tell_where_they_come_from_by_keyboard_and_mouse(open_page: Any) -> None:
    page = ready(open_page(DESK))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    card = page.locator(".card").nth(3)
    expect(card.locator(".written")).to_have_text(LOUD_TEXT)
    page.keyboard.press("Tab")
    expect(card.locator(".word").nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(card.locator(".word").nth(1)).to_be_focused()
    expect(card.locator(".detail")).to_have_text(
        re.compile(r"n4 from the source · copied \d+ %\s*attention .*n4 \d+ %")
    )
    page.keyboard.press("End")
    expect(card.locator(".detail")).to_have_text(re.compile("k5 from the source"))
    page.keyboard.press("Tab")
    expect(card.locator(".detail")).to_have_text("")
    card.locator(".word").first.hover()
    expect(card.locator(".detail")).to_have_text(re.compile("up the model’s own"))
    styles = [
        page.locator(f".legend .word.{kind}").evaluate(
            "one => [getComputedStyle(one).color, getComputedStyle(one).textDecorationStyle, "
            "getComputedStyle(one).textDecorationLine]"
        )
        for kind in ("source", "exemplar", "unlicensed", "other")
    ]
    assert len({colour for colour, *_ in styles}) == len({tuple(marks) for _, *marks in styles}) == 4


def test_leaks_and_facts_are_counted_and_marked(open_page: Any) -> None:
    word = {"copied": 0.5, "attended": [{"text": "n4", "weight": 0.75}]}
    words = [
        {**word, "text": "up", "start": 0, "end": 2, "origin": "exemplar", "fact": None},
        {**word, "text": "12", "start": 3, "end": 5, "origin": "exemplar", "fact": "unlicensed"},
        {**word, "text": "13", "start": 7, "end": 9, "origin": "other", "fact": "unlicensed"},
    ]
    answer = {"text": "up 12! 13", "words": words, "truncated": 0, "exemplar_truncated": 3}

    def prepare(page: Any) -> None:
        page.route("**/v1/write", lambda route: route.fulfill(json=answer))

    page = open_page(DESK, prepare=prepare)
    expect(text_of(page, 0)).to_have_text("up 12! 13")
    card = page.locator(".card").first
    expect(card.locator(".detail")).to_have_text(
        "2 words from the exemplar only · 2 words of unlicensed facts · the end of the exemplar was not read"
    )
    expect(card.get_by_role("button", name="up, from the exemplar only")).to_have_class("word exemplar")
    both = card.get_by_role("button", name="12, from the exemplar only, unlicensed fact")
    expect(both).to_have_class("word exemplar unlicensed")
    expect(card.get_by_role("button", name="13, unlicensed fact")).to_have_class("word unlicensed")
    look = "one => [getComputedStyle(one).textDecorationLine, getComputedStyle(one).textDecorationStyle]"
    assert both.evaluate(look) == ["underline", "wavy"]
    assert both.locator(".fact").evaluate(look) == ["underline", "double"]
    assert both.evaluate("one => getComputedStyle(one, '::after').content").startswith('"↩!"')
    both.hover()
    expect(card.locator(".detail")).to_have_text(re.compile("12 from the exemplar only, unlicensed fact · "))


def test_the_map_can_be_used_by_keyboard(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK))
    points = server.ask("/v1/map")[1]["points"]
    loud = next(point["text"] for point in points if point["group"] == "loud")
    calm = next(point["text"] for point in points if point["group"] == "calm")
    page.get_by_label("Find an exemplar").fill(loud)
    first = page.get_by_role("button", name=loud, exact=True)
    expect(first).to_be_visible()
    page.keyboard.press("Tab")
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".card textarea").nth(3)).to_have_value(loud)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_label("Find an exemplar").fill(calm)
    page.get_by_label(f"Write to “{calm}”").press("Enter")
    share = page.locator(".share:visible")
    share.focus()
    page.keyboard.press("Home")
    expect(page.locator(".card", has_text="Between two").locator(".written")).to_have_text(LOUD_TEXT)
    page.keyboard.press("End")
    expect(page.locator(".card", has_text="Between two").locator(".written")).to_have_text(CALM_TEXT)


def test_a_house_style_is_saved_and_used(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK))
    name = page.get_by_label("Name of the style")
    name.fill("brief")
    name.press("Enter")
    said = page.locator("#style-said")
    expect(said).to_have_text(re.compile("Tick one card"))
    expect(said).to_be_in_viewport()
    page.get_by_label("Exemplar", exact=True).last.fill(CALM)
    page.locator(".card").nth(3).get_by_role("checkbox").check()
    name.fill("a/b")
    name.press("Enter")
    expect(said).to_have_text(re.compile("'a/b' cannot be the name of a style"))
    expect(name).to_have_value("a/b")
    for verb in ("Saved", "Replaced"):
        name.fill("brief")
        page.get_by_role("button", name="Save style").click()
        expect(said).to_have_text(f"{verb} the style brief.")
        expect(name).to_have_value("")
    expect(page.locator("#notice")).to_be_hidden()
    page.locator("#styles").get_by_role("button", name=re.compile("^brief")).click()
    assert server.ask("/v1/styles/brief")[1]["exemplars"] == [{"exemplar": CALM, "weight": 1.0}]
    expect(page.locator(".origin").last).to_have_text("House style · brief")
    expect(text_of(page, 4)).to_have_text(CALM_TEXT)
    page.get_by_role("button", name="Remove the style brief").click()
    expect(page.locator("#styles li")).to_have_count(0)
    assert server.ask("/v1/styles")[1] == {"styles": []}


def test_export_gives_a_table_in_markdown(open_page: Any) -> None:
    page = ready(open_page(DESK))
    page.get_by_label("Exemplar", exact=True).last.fill(f"{LOUD} | up")
    expect(text_of(page, 3)).to_have_text(re.compile("up"))
    page.get_by_role("button", name="Export").click()
    text = page.get_by_label("Markdown").input_value()
    assert text.startswith(f"**Source:** {SOURCE}\n\n| exemplar | similarity | text |")
    rows = text.splitlines()[4:]
    assert len(rows) == 4
    assert rows[3].startswith(f"| {LOUD} \\| up |  | up n4 k5 |")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text("utf-8") == text
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def as_if_guided(server: Server) -> Any:
    """Let the page believe that the model was trained for guidance."""
    model = server.ask("/v1/model")[1]
    assert model["takes_guidance"] is False
    told = {**model, "takes_guidance": True}
    return lambda page: page.route("**/v1/model", lambda route: route.fulfill(json=told))


def test_strength_is_sent_where_the_model_has_guidance(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK, prepare=as_if_guided(server)))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    for control, help_text in (("strength", "How much the exemplar decides"), ("followed", "written again with more")):
        expect(page.locator(f"#{control}-help")).to_contain_text(help_text)
        expect(page.locator(f"#{control}")).to_have_accessible_description(re.compile(help_text))
    with page.expect_request(lambda one: '"guidance":1.5' in (one.post_data or "")):
        page.get_by_role("slider", name="Strength").fill("1.5")
    with page.expect_request(lambda one: '"manner":"followed"' in (one.post_data or "")):
        page.get_by_role("checkbox", name="search until it is the exemplar’s").check()
    expect(page).to_have_url(re.compile("#"))
    again = open_page(DESK, f"#{page.url.split('#')[1]}", prepare=as_if_guided(server))
    expect(again.locator("#followed")).to_be_checked()
    plain = ready(open_page(DESK))
    expect(plain.locator("#strength")).to_be_hidden()
    expect(plain.locator("#followed")).to_be_hidden()
    expect(plain.locator("#strength-help")).to_be_hidden()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "This is too long for the server. Shorten the source or the exemplar."),
        (422, "'source' is odd."),
        (503, "The server needed too long. Try again, perhaps with a shorter text."),
    ],
)
def test_a_refusal_is_said_on_its_card(open_page: Any, status: int, message: str) -> None:
    def prepare(page: Any) -> None:
        page.route("**/v1/write", lambda route: route.fulfill(status=status, json={"error": "'source' is odd."}))

    page = open_page(DESK, prepare=prepare)
    card = page.locator(".card").first
    expect(card.get_by_role("alert")).to_have_text(message)
    page.unroute("**/v1/write")
    card.get_by_role("button", name="Try again").click()
    expect(text_of(page, 0)).to_have_text(re.compile("k"))
    expect(card.get_by_role("alert")).to_have_count(0)


def test_after_a_failure_trying_again_retrieves_first(open_page: Any, server: Server) -> None:
    """Otherwise the exemplars would be those of the source before."""
    page = ready(open_page(DESK))
    page.route(re.compile("/v1/(retrieve|write)$"), lambda route: route.abort())
    source = "house9 house9 house9 n7 k8"
    page.get_by_label("Source", exact=True).fill(source)
    fault = "The server cannot be reached. Is it still running?"
    expect(page.locator("#notice")).to_have_text(fault)
    expect(page.locator(".card").nth(1).get_by_role("alert")).to_have_text(fault)
    expect(page.locator(".origin")).to_have_text([*["Retrieved earlier"] * 3, "Empty"])
    page.unroute(re.compile("/v1/(retrieve|write)$"))
    with page.expect_response("**/v1/retrieve") as answer:
        page.get_by_role("button", name="Try again").nth(1).click()
    found = answer.value.json()["exemplars"]
    for number in range(3):
        expect(text_of(page, number)).to_have_text(re.compile("k8"))
    expect(page.locator(".origin").first).to_have_text(f"Retrieved · similarity {found[0]['similarity']:.2f}")
    expect(page.locator(".card textarea").first).to_have_value(found[0]["text"])
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


def test_the_end_of_a_failure_is_the_end_of_its_notice(open_page: Any) -> None:
    page = ready(open_page(DESK))
    page.route("**/v1/retrieve", lambda route: route.abort())
    page.get_by_role("button", name="Retrieve again").click()
    expect(page.locator("#notice")).to_have_text(re.compile("cannot be reached"))
    expect(page.locator(".origin").first).to_have_text(re.compile("similarity"))  # the source is the same
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_table_of_the_examples_opens_as_a_table(open_page: Any) -> None:
    table = [["name", "house3 house3 house3"], ["food", "n4 k5"]]
    cells = ["name", "house3 house3 house3", "food", "n4 k5"]
    triples = [["The Oak", "food", "n4"], ["The Oak", "area", "k5"]]
    examples = [
        {"source": "name : house3 house3 house3 | food : n4 k5", "table": table, "group": None},
        {"source": SOURCE, "table": None, "group": None},
        {"source": "subject : The Oak | food : n4 | area : k5", "table": triples, "group": None},
    ]

    def prepare(page: Any) -> None:
        page.route("**/v1/examples", lambda route: route.fulfill(json={"examples": examples}))

    page = open_page(DESK, "", prepare=prepare)
    with page.expect_request("**/v1/write") as request:
        page.reload()
    assert request.value.post_data_json["table"] == table
    expect(page.get_by_role("radio", name="Table")).to_be_checked()
    assert page.locator("#rows input").evaluate_all("all => all.map(one => one.value)") == cells
    choice = page.get_by_label("Example")
    expect(choice.locator("option:checked")).to_have_text("name: house3 house3 house3; food: n4 k5")
    for number in (1, 2):
        choice.select_option(index=number + 1)
        expect(page.get_by_label("Source", exact=True)).to_have_value(examples[number]["source"])
    expect(choice.locator("option:checked")).to_have_text(examples[2]["source"])
    page.get_by_label("Source", exact=True).fill("another")
    expect(choice.locator("option:checked")).to_have_text("Choose one…")


def test_without_examples_the_page_works_and_asks_again(open_page: Any, server: Server) -> None:
    def prepare(page: Any) -> None:
        page.route("**/v1/examples", lambda route: route.fulfill(status=500, json={"error": "the server failed."}))

    page = open_page(DESK, "", prepare=prepare)
    expect(page.locator("#examples-said")).to_have_text("There are no examples: The server failed.")
    expect(page.locator(".origin")).to_have_text(["Empty"])
    page.locator("#map .points path").first.wait_for()
    page.unroute("**/v1/examples")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#examples-fault")).to_be_hidden()
    example = server.ask("/v1/examples")[1]["examples"][0]["source"]
    expect(page.get_by_label("Source", exact=True)).to_have_value(example)
    expect(text_of(page, 0)).to_have_text(re.compile(example.split()[-1]))


def test_a_busy_server_is_asked_again(open_page: Any) -> None:
    refused: list[str] = []

    def answer(route: Any) -> None:
        if len(refused) < 3:
            refused.append(route.request.url)
            route.fulfill(status=429, json={"error": "busy"}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    page = open_page(DESK, prepare=lambda page: page.route("**/v1/write", answer))
    expect(page.locator(".card").first.get_by_role("alert")).to_have_text("The server is busy; trying again in 1 s.")
    expect(text_of(page, 0)).to_have_text(re.compile("k"))


def test_a_token_is_asked_for_once(open_page: Any) -> None:
    def answer(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": "the token is missing or wrong."})

    page = open_page(DESK, prepare=lambda page: page.route("**/v1/**", answer))
    for given in ("wrong", "secret"):
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill(given)
        page.get_by_role("button", name="Use it").click()
    expect(text_of(page, 0)).to_have_text(re.compile("k"))


def test_the_page_works_where_the_browser_forbids_storage(open_page: Any) -> None:
    """Then even to name `sessionStorage` is an error."""

    def answer(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": "the token is missing or wrong."})

    def prepare(page: Any) -> None:
        for name in ("localStorage", "sessionStorage"):
            page.add_init_script(f"Object.defineProperty(window, '{name}', {{ get() {{ throw new Error('no'); }} }})")
        page.route("**/v1/**", answer)

    page = open_page(DESK, prepare=prepare)
    page.get_by_role("textbox", name="Token").fill("secret")
    page.get_by_role("button", name="Use it").click()
    ready(page)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_token_that_several_requests_lack_is_asked_for_once(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK, prepare=as_if_guided(server)))
    slow: list[Any] = []

    def answer(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        elif not slow:
            slow.append(route)
        else:
            route.fulfill(status=401, json={"error": "the token is missing or wrong."})

    page.route("**/v1/write", answer)
    page.get_by_role("slider", name="Strength").fill("1.5")  # all texts are asked for
    page.get_by_role("textbox", name="Token").fill("secret")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    with page.expect_request("**/v1/write") as request:
        slow[0].fulfill(status=401, json={"error": "the token is missing or wrong."})
    assert request.value.headers["authorization"] == "Bearer secret"
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_link_in_an_open_page_restores_the_map_too(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK))
    points = server.ask("/v1/map")[1]["points"]
    loud = next(point["text"] for point in points if point["group"] == "loud")
    page.get_by_label("Find an exemplar").fill(loud)
    legend = page.get_by_role("group", name="Show on the map")
    for hidden, ends, pressed in ((["calm"], [loud], "false"), ([], [], "true")):
        page.evaluate("hash => { location.hash = hash; }", link(source=SOURCE, hidden=hidden, ends=ends))
        expect(legend.get_by_role("button", name="calm")).to_have_attribute("aria-pressed", pressed)
        expect(page.locator("#map .points path")).to_have_count(sum(point["label"] not in hidden for point in points))
        chosen = page.get_by_label(f"Write from “{loud}”").first
        expect(chosen).to_have_attribute("aria-pressed", "true" if ends else "false")


def test_a_link_is_opened_although_the_page_was_about_to_keep_its_state(open_page: Any) -> None:
    """The event of a new address comes a little later than the address; meanwhile the page may write its own."""
    page = ready(open_page(DESK))
    kept = page.url
    page.evaluate(
        "([hash, kept]) => { location.hash = hash; history.replaceState(null, '', kept); }",
        [link(source=SOURCE, hidden=["calm"]), kept],
    )
    calm = page.get_by_role("group", name="Show on the map").get_by_role("button", name="calm")
    expect(calm).to_have_attribute("aria-pressed", "false")
    page.wait_for_url(lambda url: url != kept)  # the address holds what was opened


def test_a_text_stays_one_stop_of_the_tab_key(open_page: Any) -> None:
    page = ready(open_page(DESK))
    words = page.locator(".card").first.locator(".word")
    words.nth(1).click()
    page.keyboard.press("ArrowRight")
    expect(words.nth(2)).to_be_focused()
    assert words.evaluate_all("all => all.map(one => one.tabIndex)") == [-1, -1, 0]


def test_a_card_shows_its_style_as_it_was_saved_last(open_page: Any, server: Server) -> None:
    page = ready(open_page(DESK))
    page.locator(".card").nth(3).get_by_role("checkbox").check()
    for exemplar, text in ((CALM, CALM_TEXT), (LOUD, LOUD_TEXT)):
        page.get_by_label("Name of the style").fill("changing")
        page.locator(".card textarea").nth(3).fill(exemplar)
        page.get_by_role("button", name="Save style").click()
        if exemplar == CALM:
            page.locator("#styles").get_by_role("button", name=re.compile("^changing")).click()
        expect(text_of(page, 4)).to_have_text(text)
        expect(page.locator(".card").nth(4).locator(".parts li")).to_have_text([exemplar])
    assert server.ask("/v1/styles/changing", method="DELETE")[0] == 204


def test_a_notice_goes_when_the_map_is_there(open_page: Any) -> None:
    refused: list[str] = []

    def answer(route: Any) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=429, json={"error": "busy"}, headers={"Retry-After": "1"})

    page = open_page(DESK, prepare=lambda page: page.route("**/v1/map", answer))
    expect(page.locator("#notice")).to_have_text("The server is busy; trying again in 1 s.")
    ready(page)
    expect(page.locator("#notice")).to_be_hidden()


def test_what_was_shown_is_accepted_and_nothing_else(open_page: Any) -> None:
    """Although the source is another one already, and then the text."""
    page = ready(open_page(DESK))
    page.get_by_label("Exemplar", exact=True).last.fill(LOUD)
    expect(text_of(page, 3)).to_have_text(LOUD_TEXT)
    slow: list[Any] = []
    page.route("**/v1/exemplars", lambda route: slow.append(route))
    with page.expect_request("**/v1/exemplars") as request:
        page.evaluate(
            """() => {
                const source = document.querySelector("#source");
                source.value = "house3 house3 house3 n7 k8";
                source.dispatchEvent(new Event("input"));
                document.querySelectorAll(".card .accept")[3].click();
            }"""
        )
    assert request.value.post_data_json == {"source": SOURCE, "target": LOUD_TEXT, "group": None}
    expect(text_of(page, 3)).to_have_text(re.compile("k8"))
    slow[0].fulfill(status=201, json={"id": "new-1"})
    expect(page.locator("#live")).to_have_text(re.compile("Accepted: it is exemplar new-1 now."))
    expect(page.locator(".card .accept").nth(3)).to_have_text("Accept")


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_axe_finds_no_serious_violation(open_page: Any, server: Server, width: int) -> None:
    package = pytest.importorskip("axe_playwright_python.sync_playwright", reason="in the extra `dev`")
    page = ready(open_page(width, prepare=as_if_guided(server)))
    page.get_by_label("Exemplar", exact=True).last.fill("up n1 k2 k9")
    page.get_by_label("Find an exemplar").fill("up")
    page.locator("#found li").first.wait_for()
    points = server.ask("/v1/map")[1]["points"]
    page.get_by_label(f"Write from “{points[0]['text']}”").or_(page.locator("#found .quiet").first).first.click()
    page.locator("#found li").nth(1).locator(".quiet").nth(1).click()
    expect(page.locator(".card", has_text="Between two").locator(".written")).to_have_text(re.compile("k5"))
    panel = open_demands(page)
    panel.get_by_label("May not say").fill("k7")
    panel.get_by_label("Characters").fill("none")
    expect(page.locator("#limit-fault")).to_be_visible()
    panel.get_by_label("Must say").fill("zebra")
    expect(page.locator("#demands-fault")).to_be_visible()
    panel.get_by_label("Must say").fill("k5")
    expect(page.locator(".word").first).to_be_visible()
    page.locator(".word").first.hover()
    for opened, scheme in itertools.product(("page", "dialog"), ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        if opened == "dialog" and scheme == "light":
            page.get_by_role("button", name="Export").click()
        found = package.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], json.dumps([[one["id"], [n["html"] for n in one["nodes"]]] for one in serious], indent=1)
    across, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert across <= inside == width


def test_colours_follow_the_switch(open_page: Any) -> None:
    page = open_page(DESK)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Colours").select_option("dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    assert open_page(DESK, scheme="dark").evaluate(ground) == dark


def test_the_page_asks_nobody_else(open_page: Any, server: Server) -> None:
    asked: list[str] = []
    ready(open_page(DESK, prepare=lambda page: page.on("request", lambda request: asked.append(request.url))))
    assert len(asked) > 8
    assert all(url.startswith(server.address) for url in asked)
    for path in ("/", *(f"/static/{path.name}" for path in STATIC.iterdir())):
        status, _, headers = server.ask(path)
        assert status == 200
        assert headers["content-security-policy"].startswith("default-src 'self';")


def test_modules_import_what_exists_and_is_used_and_never_in_a_circle() -> None:
    """Without a browser, so that a mistake is named, not seen as a page on which nothing happens."""
    texts = {path.name: path.read_text("utf-8") for path in STATIC.glob("*.js")}
    exported = {
        name: set(re.findall(r"^export (?:let|const|(?:async )?function) ([\w$]+)", text, re.MULTILINE))
        for name, text in texts.items()
    }
    unused = {(module, name) for module, names in exported.items() for name in names}
    graph: dict[str, set[str]] = {}
    for importer, text in texts.items():
        assert text.startswith("// "), f"{importer} must say what it is for"
        assert text.count("\n") <= 250, f"{importer}: split it by meaning"
        imports = re.findall(r'^import \{ (.+) \} from "\./(\w+\.js)";$', text, re.MULTILINE)
        assert len(imports) == len(re.findall(r"\bimport\b", text)), f"{importer} imports in another form"
        assert text.count("export ") == len(exported[importer]), f"{importer} exports in another form"
        graph[importer] = {module for _, module in imports}
        for name, module in ((name, module) for names, module in imports for name in names.split(", ")):
            assert name in exported.get(module, ()), f"{importer} imports {name}, which {module} does not export"
            uses = re.findall(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", text)
            assert len(uses) > 1, f"{importer} imports {name} and does not use it"
            unused.discard((module, name))
    assert unused == set(), "what nobody imports is not exported"
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_the_description_of_the_api_asks_nobody_else(browser: Any, server: Server) -> None:
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.address}/docs")
    page.get_by_role("button", name="Write a text").click()
    page.get_by_role("button", name="Try it out").click()
    page.locator("textarea").fill(json.dumps({"source": SOURCE, "exemplar": LOUD}))
    page.get_by_role("button", name="Execute").click()
    page.get_by_text(f'"text": "{LOUD_TEXT}"').first.wait_for()
    page.close()
    assert len(asked) > 4
    assert all(url.startswith((server.address, "data:", "blob:")) for url in asked)
