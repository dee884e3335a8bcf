"""What every request passes first: size, time and token; and what every answer passes last: counts and errors.

In: an ASGI application. Out: one that checks each request first. Errors become answers, and the log has no bodies.
"""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse

from exadec.server.metrics import Metrics
from exadec.server.refusals import RefusedError, refuse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_DRAINED = 64 * 1024 * 1024
"""Bytes of a body that is too large which are still read, so that the client reads our answer instead of an error."""


@dataclass(frozen=True)
class Limits:
    """What one request may take, and all of them."""

    max_bytes: int
    """Of a body"""
    seconds: float
    """Until it is answered"""
    waiting: int
    """Requests that may wait at a time"""


class _GoneError(Exception):
    """The client left."""


class Door:
    """Refuses what is too large, too slow or without the token; counts all; turns every error into an answer."""

    def __init__(self, app: App, limits: Limits, token: str | None, metrics: Metrics):
        self._app, self._limits, self._metrics = app, limits, metrics
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            body = await self._read(scope, receive)
            self._check_token(scope)
            await self._app(scope, _replay(body, receive), noting)
        except _GoneError:
            return
        except Exception as error:
            if not status:  # otherwise the application has answered and logged it
                refusal = refuse(error, f"{scope['method']} {route_of(scope)}")
                answer = JSONResponse(refusal.to_json(), refusal.status, refusal.headers)
                await answer(scope, receive, noting)
        finally:
            if status:
                self._metrics.count_request(route_of(scope), status, time.monotonic() - begun)

    async def _read(self, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        """The whole body; it is small."""
        body, size, more = bytearray(), 0, True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while more and size <= _DRAINED:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    size += len(message.get("body", b""))
                    if size <= self._limits.max_bytes:
                        body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the body did not arrive within {self._limits.seconds:g} seconds.",
                {"Connection": "close"},
            ) from None
        if size > self._limits.max_bytes:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is larger than {self._limits.max_bytes:,} bytes; send a shorter text.",
                {"Connection": "close"} if more else {},
            )
        return bytes(body)

    def _check_token(self, scope: MutableMapping[str, Any]) -> None:
        """The page, its files and the description of the API are for all; what they ask for is not."""
        if self._token is None or not (scope["path"].startswith("/v1/") or scope["path"] == "/metrics"):
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "the token is missing or wrong; send it as `Authorization: Bearer TOKEN`.",
                {"WWW-Authenticate": "Bearer"},
            )


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever follows it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def route_of(scope: MutableMapping[str, Any]) -> str:
    """The route's own path, such as /v1/exemplars/{id}: paths that clients make up are one."""
    return getattr(scope.get("route"), "path_format", "other")
