"""The routes.

In: a `Desk`. Out: an ASGI application, with its OpenAPI page at /docs.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from exadec.errors import InputError
from exadec.exemplars.journal import Accepted
from exadec.generation import Generation
from exadec.server import schema
from exadec.server.desk import Desk, Event
from exadec.server.door import App, Door, Limits, route_of
from exadec.server.metrics import Metrics
from exadec.server.page import add_page
from exadec.server.refusals import RefusedError, describe_faults, describe_unreadable, refuse
from exadec.server.styles import style_routes
from exadec.server.words import describe_words
from exadec.server.worker import BusyError, ClosedError, Task

_DESCRIPTION = """Text from a source (*what to say*) in the manner of an exemplar (*how to say it*).

Every error is a JSON object with one line in `error`. Bodies with unknown keys are refused."""
_EVENTS = {
    "example": 'event: queued\ndata: {"before": 0}\n\nevent: started\ndata: {"together": 1}\n\n'
    'event: text\ndata: {"text": "Flood"}\n\n'
    'event: done\ndata: {"text": "..."}\n\n',
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    says = {
        400: "The body cannot be read; the message says why if it is known.",
        401: "The token is missing or wrong.",
        404: "There is no such exemplar or style.",
        408: "The body took too long to arrive.",
        409: "The body is sound, but this model cannot do what it asks for.",
        413: "The body is too large.",
        422: "A key or a value of the body is wrong.",
        429: "Too many requests are waiting; `Retry-After` says when to ask again.",
        500: "The server failed; its log says where.",
        503: "The time limit was reached, or the server is stopping.",
    }
    wait = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return {
        status: {"model": schema.Problem, "description": says[status], **({"headers": wait} if status == 429 else {})}
        for status in statuses
    }


_ALWAYS = (401, 408, 413, 500)
_QUEUED = (*_ALWAYS, 409, 422, 429, 503)


def create_app(desk: Desk, limits: Limits, token: str | None, metrics: Metrics) -> App:
    """The application; it closes the desk when it stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPIOffline(
        redoc_url=None,
        redirect_slashes=False,  # an empty id or name is refused, not sent to the list of all
        static_url="/static/docs",
        favicon_url="/static/icon.svg",
        title="exadec",
        version=version("exadec"),
        description=_DESCRIPTION,
        lifespan=lifespan,
    )
    secured = [] if token is None else [Security(HTTPBearer(auto_error=False))]
    for router in (_writing(desk), _exemplars(desk), _about(desk)):
        app.include_router(router, dependencies=secured)
    app.include_router(style_routes(desk, _problems(400, 404, *_QUEUED)), dependencies=secured)
    _add_operations(app, metrics, secured)
    add_page(app)
    _add_error_handlers(app)
    return Door(app, limits, token, metrics)


def _writing(desk: Desk) -> APIRouter:
    router, segmenter = APIRouter(tags=["writing"]), desk.writer.run.segmenter

    @router.post(
        "/v1/write",
        summary="Write a text",
        response_model=schema.Written,
        responses={
            200: {"description": "The text, or the events of its writing.", "content": {"text/event-stream": _EVENTS}},
            **_problems(400, *_QUEUED),
        },
    )
    async def write(body: Annotated[schema.WriteBody, Body()]) -> Response:
        """Say what the source or the table says in the manner of the exemplar.

        Without an exemplar, the nearest one is retrieved; with a group, the nearest of that group. With `stream`, the
        answer is a stream of events: `queued`, `started`, `text` with the beginning of the text as it grows, then
        `done` with what would be the answer without it, or `error`.
        """
        request = schema.to_request(body)
        task = Task(request, body.k, body.options.settings, body.explain)

        def show(text: Generation) -> dict[str, Any]:
            shown = text.to_json(body.coefficients, body.pieces, body.explain)
            return shown | {"words": describe_words(text, request, segmenter)} if body.explain else shown

        if body.stream:
            return StreamingResponse(_lines(desk.stream(task), show), media_type="text/event-stream")
        return JSONResponse(show(await desk.write(task)))

    @router.post(
        "/v1/vary",
        summary="Write different texts",
        response_model=schema.Varied,
        responses=_problems(400, *_QUEUED),
    )
    async def vary(body: Annotated[schema.VaryBody, Body()]) -> Response:
        """Up to `k` different texts, each in the manner of one of the nearest exemplars.

        They differ more than the alternatives of one text do. With a group, exemplars come only from it. An exemplar
        with which no text does what `options` demand is left out.
        """
        texts = await desk.vary(Task(schema.to_request(body), settings=body.options.settings), body.k)
        return JSONResponse({"texts": [one.to_json(body.coefficients, body.pieces) for one in texts]})

    @router.post(
        "/v1/retrieve",
        summary="Find exemplars",
        response_model=schema.Retrieved,
        responses=_problems(400, *_QUEUED),
    )
    async def retrieve(body: Annotated[schema.RetrieveBody, Body()]) -> Response:
        """The nearest exemplars, as the run's policy finds them for new text."""
        return JSONResponse({"exemplars": await desk.retrieve(body.said, body.group, body.k)})

    return router


async def _lines(
    events: AsyncIterator[Event | Generation], show: Callable[[Generation], dict[str, Any]]
) -> AsyncIterator[str]:
    """Server-sent events; an error is one, too, because the answer has begun."""
    try:
        async for event in events:
            name, data = ("done", show(event)) if isinstance(event, Generation) else event
            yield _event(name, data)
    except Exception as error:
        refusal = refuse(error, "POST /v1/write")
        yield _event("error", {"status": refusal.status, **refusal.to_json()})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _exemplars(desk: Desk) -> APIRouter:
    router = APIRouter(tags=["exemplars"])

    @router.post(
        "/v1/exemplars",
        summary="Accept a text",
        status_code=201,
        response_model=schema.AcceptedId,
        responses={
            200: {"model": schema.AcceptedId, "description": "It was accepted before; its id."},
            **_problems(400, *_QUEUED),
        },
    )
    async def accept(body: Annotated[schema.AcceptBody, Body()]) -> Response:
        """Make a text an exemplar. It can be retrieved at once, and is on disk when the answer comes.

        The same text for the same source and group is accepted once: after that, the answer is 200 and the id it has.
        """
        name, is_new = await desk.accept(Accepted(body.said, body.target, body.group))
        return JSONResponse({"id": name}, 201 if is_new else 200)

    @router.get(
        "/v1/exemplars/{id}",
        summary="Show an exemplar",
        response_model=schema.KeptExemplar,
        responses=_problems(404, *_QUEUED),
    )
    async def show(id: schema.ExemplarId) -> Response:
        """The text of an exemplar: `train-7` is that of the eighth training record, `own-7` an accepted one."""
        return JSONResponse(await desk.show(id))

    @router.delete(
        "/v1/exemplars/{id}",
        summary="Delete an exemplar",
        status_code=204,
        response_class=Response,
        responses=_problems(404, *_QUEUED),
    )
    async def delete(id: schema.ExemplarId) -> Response:
        """Never retrieve this exemplar again, whether it was accepted or is a training target."""
        await desk.delete(id)
        return Response(status_code=204)

    return router


def _about(desk: Desk) -> APIRouter:
    router = APIRouter(tags=["about"])

    @router.get("/v1/model", summary="What runs here", response_model=schema.Model, responses=_problems(*_ALWAYS))
    async def model() -> Response:
        return JSONResponse(desk.describe())

    @router.get("/v1/groups", summary="Groups by name", response_model=schema.Groups, responses=_problems(*_QUEUED))
    async def groups(
        search: Annotated[str, Query(max_length=1000, description="Letters of the name, in whatever case.")] = "",
        start: Annotated[int, Query(ge=0, le=10**9, description="How many to leave out.")] = 0,
        k: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    ) -> Response:
        """Groups whose exemplars can be found, accepted ones included."""
        return JSONResponse(await desk.groups(search, start, k))

    @router.get("/v1/examples", summary="Sources to try", response_model=schema.Examples, responses=_problems(*_QUEUED))
    async def examples() -> Response:
        """The first sources of the test split, if the run's corpus is there; otherwise none.

        Those with the most similar exemplars come first.
        """
        return JSONResponse({"examples": await desk.call(lambda: desk.examples)})

    return router


def _add_operations(app: FastAPI, metrics: Metrics, secured: list[Any]) -> None:
    @app.get(
        "/healthz",
        summary="Whether it runs",
        tags=["operation"],
        response_model=schema.Health,
        responses=_problems(500),
    )
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get(
        "/metrics",
        summary="Numbers for Prometheus",
        tags=["operation"],
        dependencies=secured,
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_problems(*_ALWAYS)},
    )
    async def show_metrics() -> Response:
        return Response(metrics.show(), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one line in JSON."""

    def answer(refusal: RefusedError) -> Response:
        return JSONResponse(refusal.to_json(), refusal.status, refusal.headers)

    @app.exception_handler(RequestValidationError)
    async def on_faults(_: Request, error: RequestValidationError) -> Response:
        return answer(RefusedError(422, describe_faults(error.errors())))

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        says = {
            400: describe_unreadable(error.__cause__),
            404: "there is nothing at this path; /docs lists what there is.",
            405: "this path takes another method; /docs lists what there is.",
        }
        message = says.get(error.status_code, str(error.detail))
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the routes of one path are separate, and only the first has named its method
            methods = app.openapi()["paths"].get(route_of(request.scope), {})
            headers |= {"Allow": ", ".join(map(str.upper, methods))} if methods else {}
        return answer(RefusedError(error.status_code, message, headers))

    async def on_error(request: Request, error: Exception) -> Response:
        return answer(refuse(error, f"{request.method} {route_of(request.scope)}"))

    for kind in (RefusedError, InputError, BusyError, ClosedError, Exception):
        app.add_exception_handler(kind, on_error)
