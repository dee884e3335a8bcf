"""The style map and house styles, asked of a real server."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from exadec.api import load
from exadec.errors import RequestError
from exadec.server.styles import MOST_LABELS, StyleMap
from support.serving import Server

LOUD, CALM = "up n1 k2", "down k2 n1"
SOURCE = {"source": "house3 house3 house3 n4 k5"}


def test_the_map_has_exemplars_with_places_and_groups(server: Server) -> None:
    status, found, _ = server.ask("/v1/map")
    assert status == 200
    assert found["meaning"] == "group"
    assert sorted(found["labels"]) == ["calm", "loud"]
    assert len(found["points"]) > 50
    assert len({point["text"] for point in found["points"]}) == len(found["points"])
    for point in found["points"]:
        assert point["label"] == point["group"] == ("loud" if point["text"].startswith("up") else "calm")
        status, kept, _ = server.ask(f"/v1/exemplars/{point['id']}")
        assert (status, kept["text"]) == (200, point["text"])
    loud, calm = (np.array([p["x"] for p in found["points"] if p["group"] == name]) for name in ("loud", "calm"))
    assert abs(loud.mean() - calm.mean()) > loud.std() + calm.std()  # what differs most is the manner
    for axis, (begin, end) in found["frame"].items():
        values = np.array([point[axis] for point in found["points"]])
        assert ((begin <= values) & (values <= end)).mean() > 0.9
        assert {begin, end} <= {*values}
    assert found["spread"] > 0.05
    assert found["uniform"] is False


def test_a_deleted_exemplar_leaves_the_map(server: Server) -> None:
    first, *rest = server.ask("/v1/map")[1]["points"]
    assert server.ask(f"/v1/exemplars/{first['id']}", method="DELETE")[0] == 204
    assert server.ask("/v1/map")[1]["points"] == rest


def test_a_text_is_placed_where_the_map_has_it(server: Server) -> None:
    points = server.ask("/v1/map")[1]["points"]
    body = {"texts": [points[3]["text"], points[0]["text"]]}
    status, found, _ = server.ask("/v1/place", body)
    assert status == 200
    for place, point in zip(found["places"], (points[3], points[0]), strict=True):
        assert (place["x"], place["y"]) == pytest.approx((point["x"], point["y"]), abs=1e-3)
    assert server.ask("/v1/place", {"texts": ["zzz", "up"]})[1]["places"][0] is None
    assert server.ask("/v1/place", {"texts": []})[0] == 422
    assert "'texts.0'" in server.ask("/v1/place", {"texts": [" "]})[1]["error"]


def test_a_model_that_does_not_adapt_has_no_map() -> None:
    model = SimpleNamespace(adaptive=False, variant="attexp")
    writer = SimpleNamespace(run=SimpleNamespace(config=SimpleNamespace(model=model)))
    desk: Any = SimpleNamespace(writer=writer, retriever=None)
    with pytest.raises(RequestError, match=r"attexp.*does not adapt"):
        StyleMap(desk).show()


def test_only_so_many_groups_have_a_colour(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = load(run)
    retriever: Any = writer._retriever
    names = {number: f"g{number % 13}" for number in range(200)}
    monkeypatch.setattr(retriever, "group_of", names.get, raising=False)
    monkeypatch.setattr(retriever, "find_number", lambda name: int(name.split("-")[1]), raising=False)
    desk: Any = SimpleNamespace(writer=writer, retriever=retriever)
    found = StyleMap(desk).show()
    assert len(found["labels"]) == MOST_LABELS
    others = [point for point in found["points"] if point["label"] is None]
    assert others
    assert {point["group"] for point in others}.isdisjoint(found["labels"])


def test_a_mixture_is_written_as_its_exemplars_would_be(server: Server) -> None:
    def write(**how: object) -> Any:
        status, found, _ = server.ask("/v1/write", {**SOURCE, **how, "coefficients": True, "explain": True})
        assert status == 200, found
        return found

    loud, calm = (write(exemplar=text) for text in (LOUD, CALM))
    parts = [{"exemplar": LOUD, "weight": 1}, {"exemplar": CALM, "weight": 0}]
    assert write(mixture=parts)["text"] == loud["text"]
    parts = [{"exemplar": LOUD, "weight": 1}, {"exemplar": CALM, "weight": 3.0}]
    lam = [np.array(one["coefficients"]) for one in (write(mixture=parts), loud, calm)]
    mean = 0.25 * lam[1] + 0.75 * lam[2]
    mean *= np.linalg.norm(lam[1]) / np.linalg.norm(mean)  # the paper's model has λ of one norm
    np.testing.assert_allclose(lam[0], mean, atol=1e-5)
    assert [word["text"] for word in loud["words"]] == loud["text"].split()
    assert {word["origin"] for word in loud["words"]} >= {"source"}


def test_styles_are_saved_used_and_removed(server: Server) -> None:
    assert server.ask("/v1/styles")[1] == {"styles": []}
    parts = [{"exemplar": LOUD, "weight": 1.0}, {"exemplar": "up n3 k3", "weight": 2.0}]
    status, found, _ = server.ask("/v1/styles/very%20loud", {"exemplars": parts}, "PUT")
    assert (status, found) == (200, {"name": "very loud", "exemplars": parts})
    assert server.ask("/v1/styles")[1] == {"styles": [found]}
    assert server.ask("/v1/styles/very%20loud")[1] == found
    status, written, _ = server.ask("/v1/write", {**SOURCE, "style": "very loud"})
    assert status == 200
    assert written["text"] == server.ask("/v1/write", {**SOURCE, "mixture": parts})[1]["text"]
    assert written["text"].startswith("up")
    assert load(server.address).write(SOURCE["source"]).text
    assert server.ask("/v1/styles/very%20loud", method="DELETE")[0] == 204
    for method in ("GET", "DELETE"):
        status, found, _ = server.ask("/v1/styles/very%20loud", method=method)
        assert (status, found) == (404, {"error": "there is no style 'very loud'."})
    status, found, _ = server.ask("/v1/write", {**SOURCE, "style": "very loud"})
    assert status == 409
    assert "there is no style 'very loud'" in found["error"]


@pytest.mark.parametrize(
    ("name", "exemplars", "status", "message"),
    [
        ("-rf", [{"exemplar": LOUD}], 422, "cannot be the name"),
        (
            "a%2Fb",
            [{"exemplar": LOUD}],
            422,
            "'a/b' cannot be the name of a style: use up to 64 letters, digits, spaces,",
        ),
        ("a" * 5000, [{"exemplar": LOUD}], 422, "use up to 64 letters"),
        ("a", [{"exemplar": "zzz"}], 409, "no word the model knows"),
        ("a", [{"exemplar": LOUD, "weight": 0}], 409, "all weights"),
        ("a", [{"exemplar": LOUD, "weight": -1}], 422, "'exemplars.0.weight' must be at least 0."),
        ("a", [{"exemplar": LOUD, "mass": 1}], 422, "exemplars.0.mass"),
        ("a", [], 422, "'exemplars' must have at least 1 in its list."),
    ],
)
def test_a_style_that_cannot_be_is_refused(
    server: Server, name: str, exemplars: list[Any], status: int, message: str
) -> None:
    found, answer, _ = server.ask(f"/v1/styles/{name}", {"exemplars": exemplars}, "PUT")
    assert (found, message in answer["error"]) == (status, True), answer
    assert server.ask("/v1/styles")[1] == {"styles": []}


def test_an_exemplar_and_a_style_exclude_each_other(server: Server) -> None:
    status, found, _ = server.ask("/v1/write", {**SOURCE, "exemplar": LOUD, "style": "brief"})
    assert status == 409
    assert "exclude each other" in found["error"]
