"""Starting the server, and stopping it.

In: a run, an address and limits. Out: nothing, when it is told to stop; what it began is finished first.
"""

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from exadec.api import Writer
from exadec.errors import InputError
from exadec.exemplars.growing import GrowingRetriever
from exadec.server.app import create_app
from exadec.server.desk import Desk
from exadec.server.door import Limits
from exadec.server.metrics import Metrics
from exadec.server.worker import Worker

logger = logging.getLogger(__name__)

_KEPT = 75
"""Seconds that a connection without a request stays open. With uvicorn's five, a client's next request may come just as
it is closed."""
_GRACE = 5
"""Seconds beyond the time limit in which clients take the last answers. A client that does not read would block a
server that is told to stop."""


def serve(
    open_run: Callable[[], tuple[Writer, GrowingRetriever | None]],
    host: str,
    port: int,
    token: str | None,
    limits: Limits,
    announce: Callable[[str], None],
) -> None:
    """Answer requests until a signal ends it. `announce` gets the address once requests are accepted."""
    with _bind(host, port) as bound:
        address = bound.getsockname()
        if token is None and not _is_local(host):
            logger.warning("anybody who can reach %s can use this server; set a token.", host)
        writer, growing = open_run()
        metrics = Metrics()
        worker = Worker(writer, limits.waiting, metrics.count_batch)
        desk = Desk(writer, growing, worker, limits)
        metrics.watch("waiting", "Requests that wait.", lambda: len(worker))
        metrics.watch("exemplars", "Exemplars that can be found.", lambda: desk.exemplar_count() or 0)
        config = uvicorn.Config(
            create_app(desk, limits, token, metrics),
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            server_header=False,
            timeout_keep_alive=_KEPT,
        )
        shown = f"[{address[0]}]" if bound.family == socket.AF_INET6 else address[0]
        server = _Server(config, lambda: announce(f"http://{shown}:{address[1]}"), limits.seconds + _GRACE)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has stopped in order
            server.run([bound])


class _Server(uvicorn.Server):
    """Says when it is ready, and waits for slow clients only so long when it is told to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], patience: float):
        super().__init__(config)
        self._ready, self._patience = ready, patience

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait until every answer is sent, but not for ever for clients that do not read theirs."""
        closing = asyncio.get_running_loop().call_later(self._patience, self._close_connections)
        await super().shutdown(sockets)
        closing.cancel()

    def _close_connections(self) -> None:
        connections = list(self.server_state.connections)
        if connections:
            logger.warning("connections closed, because their clients did not take the answers: %s.", len(connections))
        for connection in connections:
            connection.transport.abort()


def _bind(host: str, port: int) -> socket.socket:
    """The socket, before a model is loaded for it; requests wait in it until the server is ready."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, OverflowError):
        raise InputError(f"{host}:{port}: there is no such address here.") from None
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        wrong = "host=ADDRESS" if error.errno == errno.EADDRNOTAVAIL else "port=NUMBER"
        raise InputError(f"{host}:{port}: {error.strerror}; choose another `{wrong}`.") from None
    return bound


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
