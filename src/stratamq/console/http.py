"""The console's port: HTTP by uvicorn, on the node's own event loop.

uvicorn and Starlette take 60 ms and 5 MB to import. The port is open from the start, and they are
imported by the first connection: a node whose console is not used does not pay for it, and no node
starts later because of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from stratamq.net.listener import listen

if TYPE_CHECKING:
    from stratamq.console.http_protocol import App, Ended, HttpProtocol

logger = logging.getLogger(__name__)

REQUEST_PAUSE_S_MAX = 60.0
"""A connection on which no new request came for this long is closed. Prometheus asks more often."""

STOP_GRACE_S = 1.0
"""Answers under way have this long when the node stops; they are all short."""


class HttpServer:
    """Serves the application that `make_app` returns when the first client connects.

    When `connections_max` is reached, new connections are closed.
    """

    def __init__(self, make_app: Callable[[], App], connections_max: int) -> None:
        self._make_app, self._connections_max = make_app, connections_max
        self._server: asyncio.Server | None = None
        self._maker: asyncio.Future[Callable[[Ended], HttpProtocol]] | None = None
        self.connections: dict[HttpConnection, None] = {}

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was taken. CannotListen if there is none."""
        self._server = await listen(lambda: HttpConnection(self), host, port)
        taken = self._server.sockets[0].getsockname()
        return str(taken[0]), int(taken[1])

    async def stop(self) -> None:
        """Answer what is under way, and close every connection."""
        if self._server is not None:
            self._server.close()
        tasks = [task for each in list(self.connections) for task in each.finish()]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        for connection in list(self.connections):
            connection.abort()

    def admits(self) -> bool:
        return len(self.connections) < self._connections_max

    async def protocol(self, ended: Ended) -> HttpProtocol:
        """uvicorn's protocol for a connection. The first caller imports it, the others wait."""
        if self._maker is None:
            self._maker = asyncio.ensure_future(asyncio.to_thread(self._import))
        make = await asyncio.shield(self._maker)
        return make(ended)

    def _import(self) -> Callable[[Ended], HttpProtocol]:
        """In a thread: the event loop goes on meanwhile."""
        from stratamq.console.http_protocol import protocol_maker

        return protocol_maker(self._make_app(), REQUEST_PAUSE_S_MAX)


class HttpConnection(asyncio.Protocol):
    """Holds a connection until uvicorn can take it over, and closes it when no request comes."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._http: HttpProtocol | None = None
        self._early = b""
        self._opening: asyncio.Task[None]
        self._pause: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.admits():
            self._transport.abort()
            return
        self._server.connections[self] = None
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(), name="console-connection")
        self._pause = loop.call_later(REQUEST_PAUSE_S_MAX, self._look, None)

    def data_received(self, data: bytes) -> None:
        """Before uvicorn has taken over. One piece is enough to wait with."""
        self._early += data
        self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop, or by uvicorn's protocol once that has taken over."""
        if self in self._server.connections:
            del self._server.connections[self]
            self._pause.cancel()
            self._opening.cancel()

    async def _open(self) -> None:
        try:
            self._http = await self._server.protocol(self.connection_lost)
        except Exception:
            logger.exception("the console cannot be served")
            self._transport.abort()
            return
        self._transport.set_protocol(self._http)
        self._http.connection_made(self._transport)
        if self._early:
            self._transport.resume_reading()
            self._http.data_received(self._early)

    def _look(self, last: object) -> None:
        """Only a request that began since the last look keeps the connection: a client that sends
        one slowly, or does not read its answer, is cut off too."""
        newest = self._http.cycle if self._http is not None else None
        if newest is last:
            self._transport.abort()
        else:
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(REQUEST_PAUSE_S_MAX, self._look, newest)

    def finish(self) -> set[asyncio.Task[None]]:
        """Close after the answer that is under way; return the tasks that write it."""
        if self._http is None:
            self._transport.abort()
            return set()
        self._http.shutdown()
        return self._http.tasks

    def abort(self) -> None:
        self._transport.abort()
