"""The style map and the house styles, over HTTP.

In: a `Desk`. Out: routes. All that reads exemplars is done in the worker's thread.
"""

from collections import Counter
from functools import cached_property, partial
from http import HTTPStatus
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, Path
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.convertors import StringConvertor, register_url_convertor

from exadec.bank import LITTLE, Projection, frame, spread
from exadec.corpus.readers import known_styles
from exadec.errors import RequestError
from exadec.server import schema
from exadec.server.desk import Desk
from exadec.server.refusals import RefusedError
from exadec.styles import LARGEST, NAME, Mixture, require_style_name

MOST_POINTS = 2_000
MOST_LABELS = 10
"""More colours and shapes cannot be told apart."""


class _Rest(StringConvertor):
    """The rest of a path, whatever it is. Starlette's own `path` ends before a line end, which it drops."""

    regex = r"[\s\S]*"


register_url_convertor("rest", _Rest())


def _require_name(name: str) -> str:
    require_style_name(name)
    return name


NewName = Annotated[str, AfterValidator(_require_name), Path(json_schema_extra={"pattern": f"^{NAME}$"})]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PlaceBody(_Body):
    texts: Annotated[list[schema.Text], Field(min_length=1, max_length=100)]


class ReadBody(_Body):
    texts: Annotated[list[schema.PlainText], Field(max_length=100)]


class Coefficients(BaseModel):
    coefficients: Annotated[
        list[list[list[float]] | None],
        Field(description="For each text a list, or one for each gate; null if it has no word the model knows."),
    ]


class StyleBody(_Body):
    exemplars: Annotated[list[schema.Part], Field(min_length=1, max_length=LARGEST)]


class Place(BaseModel):
    x: float
    y: float


class Point(Place):
    id: str
    text: str
    group: str | None
    label: Annotated[str | None, Field(description="Its house style or group, if it is one of `labels`.")]


class Frame(BaseModel):
    """Where the map begins and ends on each axis. The few points outside are far from all others."""

    x: tuple[float, float]
    y: tuple[float, float]


class Map(BaseModel):
    meaning: Annotated[str, Field(description="What a label is: `house style` or `group`.")]
    labels: Annotated[list[str], Field(description="The most frequent ones, the most frequent first.")]
    frame: Frame
    spread: Annotated[
        float, Field(description="How far λ of an exemplar lies from their middle: a share of its length.")
    ]
    uniform: Annotated[bool, Field(description="Whether λ is much the same for all, so that places mean little.")]
    points: list[Point]


class Places(BaseModel):
    places: Annotated[list[Place | None], Field(description="Null for a text that has no word the model knows.")]


class Style(BaseModel):
    name: str
    exemplars: list[schema.Part]


class Styles(BaseModel):
    styles: list[Style]


class StyleMap:
    """λ of training exemplars, and of any text, in the plane. For the worker's thread."""

    def __init__(self, desk: Desk):
        self._desk = desk

    def show(self) -> dict[str, Any]:
        """Without exemplars that have been deleted since the sample was drawn."""
        drawn, retriever = self._sampled[0], self._desk.retriever
        return drawn | {"points": [one for one in drawn["points"] if retriever.find_number(one["id"]) is not None]}

    def place(self, texts: list[str]) -> list[dict[str, float] | None]:
        """Where texts would be."""
        found = self._desk.writer.read_coefficients(texts)
        known = [one for one in found if one is not None]
        places = iter(self._sampled[1](np.stack(known)) if known else ())
        return [None if one is None else _place(next(places)) for one in found]

    @cached_property
    def _sampled(self) -> tuple[dict[str, Any], Projection]:
        """The map but for what is deleted later, and its plane."""
        writer, retriever = self._desk.writer, self._desk.retriever
        if not writer.run.config.model.adaptive:
            raise RequestError(f"this model ({writer.run.config.model.variant}) does not adapt, so there is no map.")
        numbers = self._draw()
        texts = list(numbers)
        lam = writer.read_coefficients(texts)
        texts = [text for text, one in zip(texts, lam, strict=True) if one is not None]
        if len(texts) < 3:
            raise RequestError("a map needs at least 3 different exemplars.")
        rows = np.stack([one for one in lam if one is not None])
        projection = Projection(rows)
        places = projection(rows)
        meaning, labels = self._label({text: numbers[text] for text in texts})
        kept = [label for label, _ in Counter(filter(None, labels)).most_common(MOST_LABELS)]
        points = [
            {
                "id": f"train-{numbers[text]}",
                "text": text,
                "group": retriever.group_of(numbers[text]),
                "label": label if label in kept else None,
                **_place(place),
            }
            for text, label, place in zip(texts, labels, places, strict=True)
        ]
        first, last = map(_place, frame(places))
        ends = {axis: [first[axis], last[axis]] for axis in ("x", "y")}
        varied = spread(rows)
        about = {"spread": round(varied, 5), "uniform": varied < LITTLE}
        return {"meaning": meaning, "labels": kept, "frame": ends, **about, "points": points}, projection

    def _draw(self) -> dict[str, int]:
        """Texts and numbers of exemplars: a sample, because λ of all can take minutes, and more points would hide each
        other."""
        writer, retriever = self._desk.writer, self._desk.retriever
        order = np.random.default_rng(1).permutation(len(retriever.corpus.targets("train")))
        numbers: dict[str, int] = {}  # the first one of several with the same text stands for all
        for number in order.tolist():
            if retriever.find_number(f"train-{number}") is not None:
                numbers.setdefault(writer.exemplar_text(number), number)
            if len(numbers) == MOST_POINTS:
                break
        return numbers

    def _label(self, numbers: dict[str, int]) -> tuple[str, list[str | None]]:
        styles = known_styles(self._desk.writer.run.config.corpus)
        if styles is not None:
            return "house style", [styles.style_of(text) for text in numbers]
        return "group", [self._desk.retriever.group_of(number) for number in numbers.values()]


def _place(point: np.ndarray) -> dict[str, float]:
    x, y = (*point.tolist(), 0.0)[:2]
    return {"x": float(f"{x:.6g}"), "y": float(f"{y:.6g}")}  # λ may vary by thousandths


def style_routes(desk: Desk, problems: dict[int | str, dict[str, Any]]) -> APIRouter:
    """The map at /v1/map and /v1/place, and house styles at /v1/styles."""
    router = APIRouter(tags=["styles"])
    _add_map(router, desk, problems)
    _add_styles(router, desk, problems)
    return router


def _add_map(router: APIRouter, desk: Desk, problems: dict[int | str, dict[str, Any]]) -> None:
    drawn = StyleMap(desk)

    @router.get("/v1/map", summary="Exemplars in the plane", response_model=Map, responses=problems)
    async def show_map() -> Response:
        """Training exemplars by their λ: the plane in which it varies most. Between two lies their mixture."""
        return JSONResponse(await desk.call(drawn.show))

    @router.post("/v1/place", summary="Place texts on the map", response_model=Places, responses=problems)
    async def place(body: Annotated[PlaceBody, Body()]) -> Response:
        """Where texts would lie if they were exemplars."""
        return JSONResponse({"places": await desk.call(partial(drawn.place, body.texts))})

    @router.post("/v1/coefficients", summary="Read exemplars", response_model=Coefficients, responses=problems)
    async def read(body: Annotated[ReadBody, Body()]) -> Response:
        """λ of texts, as when they are given as exemplars."""
        found = await desk.call(partial(desk.writer.read_coefficients, body.texts))
        return JSONResponse({"coefficients": [None if one is None else one.tolist() for one in found]})


def _add_styles(router: APIRouter, desk: Desk, problems: dict[int | str, dict[str, Any]]) -> None:
    styles, one = desk.writer.styles, "/v1/styles/{name:rest}"  # a slash is part of the name, and refused as such

    @router.get("/v1/styles", summary="All house styles", response_model=Styles, responses=problems)
    async def list_styles() -> Response:
        """The names that `style` of a request may have."""
        found = await desk.call(styles.all)
        return JSONResponse({"styles": [_show(name, mixture) for name, mixture in found.items()]})

    @router.get(one, summary="Show a house style", response_model=Style, responses=problems)
    async def show(name: str) -> Response:
        mixture = (await desk.call(styles.all)).get(name)
        if mixture is None:
            raise _not_found(name)
        return JSONResponse(_show(name, mixture))

    @router.put(one, summary="Save a house style", response_model=Style, responses=problems)
    async def save(name: NewName, body: Annotated[StyleBody, Body()]) -> Response:
        """λ of the exemplars, averaged by their weights, under a name. One that is there is replaced."""
        mixture = schema.to_mixture(body.exemplars)
        await desk.call(partial(desk.writer.save_style, name, mixture), finish=True)
        return JSONResponse(_show(name, mixture))

    @router.delete(
        one,
        summary="Remove a house style",
        status_code=HTTPStatus.NO_CONTENT,
        response_class=Response,
        responses=problems,
    )
    async def remove(name: str) -> Response:
        def remove_if_there() -> bool:
            is_there = name in styles.all()
            if is_there:
                styles.remove(name)
            return is_there

        if not await desk.call(remove_if_there, finish=True):
            raise _not_found(name)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _show(name: str, mixture: Mixture) -> dict[str, Any]:
    return {"name": name, "exemplars": [{"exemplar": text, "weight": weight} for text, weight in mixture.parts]}


def _not_found(name: str) -> RefusedError:
    return RefusedError(HTTPStatus.NOT_FOUND, f"there is no style {name[:70]!r}.")
