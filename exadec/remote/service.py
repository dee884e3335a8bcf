"""Asking a server that `exadec serve` started.

In: its address, and bodies in JSON. Out: its answers, or the errors that a `Writer` here would raise.
"""

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from exadec.errors import InputError, RequestError
from exadec.reading.content import matches, parse_json
from exadec.remote.answers import EVENTS, PROBLEM

TOKEN = "EXADEC_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token of a server that asks for one."""
_TOGETHER = 16
"""Questions asked at the same time, which the server then answers together."""
_PATIENCE = 300.0
"""Seconds for which a busy server is asked again."""
_SILENCE = 120.0
"""Seconds without a byte from the server before it counts as gone."""
_REFUSED = (HTTPStatus.CONFLICT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
_NO_ANSWER = ()
"""The shape that nothing has."""
_BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_SCHEME = re.compile("https?://", re.IGNORECASE)
_SENT_AS_IT_IS = re.compile("[!-~]*")
"""What the path of an address may have."""


def is_address(place: object) -> bool:
    """Whether a place is the address of a server rather than a folder or a file."""
    return isinstance(place, str) and _SCHEME.match(place) is not None


def choose_token(given: str | None) -> str | None:
    """The token that was given, or else that of the environment variable `EXADEC_TOKEN`; None if there is neither.

    One that a header cannot carry as it is would be refused for no visible reason, and an empty one is most likely a
    variable that was forgotten: a server would be open to all.
    """
    token = os.environ.get(TOKEN) if given is None else given
    if token is None:
        return None
    fault = None
    if not token.strip():
        fault = "is empty"
    elif token != token.strip():
        fault = "has a space or a line end around it"
    elif not (token.isascii() and token.isprintable()):
        fault = "has characters other than letters, digits and signs of ASCII"
    if fault is not None:
        where = f"the variable {TOKEN}" if given is None else "`token=TEXT`"
        raise InputError(f"the token in {where} {fault}; choose another one, or give none at all.")
    return token


class MissingError(InputError):
    """The server has nothing of this name."""


class Service:
    """A server at an address. Each call opens a connection of its own."""

    def __init__(self, address: str, token: str | None = None):
        """`token` is by default that of the environment variable `EXADEC_TOKEN`."""
        self.address = address.rstrip("/")
        try:
            parts = urlsplit(address)
            self._place = parts.hostname or "", parts.port
            self._secure, self._root = parts.scheme == "https", parts.path.rstrip("/")
            self._place[0].encode("idna")  # as the socket will
            self._connect()  # looks at the host's name, and opens nothing yet
            is_sound = parts.hostname and _SENT_AS_IT_IS.fullmatch(parts.path) and not (parts.query or parts.fragment)
        except (ValueError, http.client.InvalidURL):
            is_sound = False
        if not is_sound:
            raise InputError(f"{address}: this is not the address of a server, such as http://127.0.0.1:8000.")
        token = choose_token(token)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def ask(self, path: str, shape: Any, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        """The answer to one question: POST with a body, otherwise GET. A refusal raises `RequestError`.

        An answer without this shape raises `InputError`: it is not that of an exadec server.
        """
        with closing(self._connect()) as connection:
            return self._ask(connection, path, shape, body, method)

    def ask_all(self, path: str, shape: Any, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        """The answers to many questions, in their order; what is refused has its `RequestError` in its place."""
        waiting: SimpleQueue[int] = SimpleQueue()
        for number in range(len(bodies)):
            waiting.put(number)
        answers: list[Any] = [None] * len(bodies)
        failed = Event()

        def work() -> None:
            with closing(self._connect()) as connection:
                while not failed.is_set():
                    try:
                        number = waiting.get_nowait()
                    except Empty:
                        return
                    try:
                        answers[number] = self._ask(connection, path, shape, bodies[number])
                    except RequestError as error:
                        answers[number] = error
                    except BaseException:
                        failed.set()  # other questions need not be asked
                        raise

        with ThreadPoolExecutor(_TOGETHER) as pool:
            for worker in [pool.submit(work) for _ in range(min(_TOGETHER, len(bodies)))]:
                worker.result()
        return answers

    def listen(self, path: str, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The name and the data of each event of an answer, as soon as it is there. A refusal raises `RequestError`."""
        deadline, name = time.monotonic() + _PATIENCE, ""
        while name != "done":
            for name, data in self._events(path, body):
                if name == "error":
                    if data["status"] not in _BUSY or time.monotonic() > deadline:
                        raise self._refusal(data["status"], data["error"])
                    time.sleep(1.0)
                    break
                yield name, data
            else:
                if name != "done":
                    raise InputError(f"{self.address}: the server stopped in the middle of an answer; ask again.")

    def _events(self, path: str, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        with closing(self._connect()) as connection:
            try:
                connection.request("POST", self._root + path, json.dumps(body).encode(), self._headers)
                answer = connection.getresponse()
                if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                    content = answer.read()
                    if answer.status not in _BUSY:
                        self._judge(path, answer.status, content, _NO_ANSWER)
                    yield "error", {"status": answer.status, "error": "the server is busy."}
                    return
                name = ""
                for line in answer:
                    field, _, value = line.rstrip(b"\r\n").partition(b": ")
                    name = value.decode(errors="replace") if field == b"event" else name
                    if field == b"data":
                        yield name, self._parse(path, answer.status, value, EVENTS.get(name, object))
            except (http.client.HTTPException, OSError) as error:
                raise self._gone(error) from None

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return connection(*self._place, timeout=_SILENCE)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        shape: Any,
        body: dict[str, Any] | None,
        method: str | None = None,
    ) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, pause, content = self._exchange(connection, path, body, method)
            if status not in _BUSY or time.monotonic() + pause > deadline:
                return self._judge(path, status, content, shape)
            time.sleep(pause)

    def _exchange(
        self, connection: http.client.HTTPConnection, path: str, body: dict[str, Any] | None, method: str | None
    ) -> tuple[int, float, bytes]:
        """Status, seconds to wait before asking again, and content."""
        sent = None if body is None else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        for attempt in range(2):
            kept = connection.sock is not None  # from an earlier question; the server may have closed it since
            try:
                connection.request(method, self._root + path, sent, self._headers)
                answer = connection.getresponse()
                pause = answer.headers.get("Retry-After", "")
                return answer.status, float(pause) if pause.isdecimal() else 1.0, answer.read()
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                if not kept or attempt == 1 or isinstance(error, socket.timeout):
                    raise self._gone(error) from None
        raise AssertionError("the second attempt returns or raises")

    def _gone(self, error: Exception) -> InputError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return InputError(f"{self.address}: no server answers there ({reason}); start one with `exadec serve RUN`.")

    def _judge(self, path: str, status: int, content: bytes, shape: Any) -> Any:
        """The answer, if it has this shape."""
        if status >= HTTPStatus.BAD_REQUEST:
            raise self._refusal(status, self._parse(path, status, content, PROBLEM)["error"])
        return self._parse(path, status, b"null" if status == HTTPStatus.NO_CONTENT else content, shape)

    def _parse(self, path: str, status: int, content: bytes, shape: Any) -> Any:
        try:
            answer = parse_json(content.decode(), path)
            fits = matches(answer, shape)
        except ValueError:
            fits = False
        if not fits:
            raise InputError(
                f"{self.address}: this does not look like an exadec server; it answers {path} with something else "
                f"(status {status})."
            )
        return answer

    def _refusal(self, status: int, message: str) -> InputError:
        if status in _REFUSED:
            return RequestError(message)
        if status == HTTPStatus.UNAUTHORIZED:  # the server tells programs which header to send
            message = f"the token is missing or wrong; set the variable {TOKEN}, or give `token` to `load` in Python."
        return (MissingError if status == HTTPStatus.NOT_FOUND else InputError)(f"{self.address}: {message}")
