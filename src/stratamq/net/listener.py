"""A port that connections come in by, and how many it lets in."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CannotListen
from stratamq.net.connection import Connection, Session, host_of
from stratamq.net.log_limit import LogLimit
from stratamq.net.tls import why_no_handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`unsent_high_bytes`: reading stops while more than that waits to be sent, until it is down to
    `unsent_low_bytes`. A connection on which nothing moves for `idle_ms_max` is closed."""

    connections_max: int = 2048
    connections_per_host_max: int = 2048
    idle_ms_max: int = 600_000
    unsent_high_bytes: int = 256 << 10
    unsent_low_bytes: int = 32 << 10
    backlog: int = 1024


logger = logging.getLogger(__name__)

WILDCARDS = ("", "0.0.0.0", "::")
SWEEPS_PER_IDLE_TIME = 4
HANDSHAKE_TIMEOUT_S = 10.0
READ_BYTES = 64 << 10
"""Large requests have buffers of their own; only their first bytes come this way."""

ALL_HOSTS = ""
SPELL_PART = 10
"""A spell of refusals is over when a tenth of the limit is free."""

_numbers = itertools.count(1)


class _Greeting(asyncio.Protocol):
    """A connection before its handshake."""

    def __init__(self, greet: Callable[[asyncio.Transport], None]) -> None:
        self._greet = greet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._greet(cast(asyncio.Transport, transport))


async def listen(
    make: Callable[[], asyncio.BaseProtocol], host: str, port: int, backlog: int = 100
) -> asyncio.Server:
    """A server whose connections each have a protocol of `make`; CannotListen says why not."""
    loop, host = asyncio.get_running_loop(), host or WILDCARDS[1]
    try:
        return await loop.create_server(make, host, port, backlog=backlog)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "another program uses it; end that, or choose another port"
        else:
            is_known = error.errno is not None and error.errno in errno.errorcode
            reason = os.strerror(error.errno or 0) if is_known else str(error)
        raise CannotListen(f"cannot listen on {host}:{port}: {reason}") from error


class Listener:
    """Accepts connections within its limits, closes idle ones, and stops gracefully.

    A connection over a limit is closed at once: its client will try again, and one that is refused
    now and then is better than a node that serves no client. Connections count from the moment they
    are accepted, not only from the end of their TLS handshake: each has a descriptor.
    """

    def __init__(
        self,
        make_session: Callable[[Connection], Session],
        limits: ConnectionLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._make_session = make_session
        self._limits = limits or ConnectionLimits()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()
        self._refused: Counter[str] = Counter()
        self.received_bytes = self.sent_bytes = 0
        self.accepted = self.refused = self.handshake_failures = 0
        """Connections since the start. `handshake_failures` are of TLS."""
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._handshake_lines = LogLimit(self._report_left_out)
        self._shared = memoryview(bytearray(READ_BYTES))

    def limit(self, limits: ConnectionLimits) -> None:
        """From now on; connections that are open stay open."""
        self._limits = limits

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """From the next handshake on. For a listener that has had a context from the start."""
        assert self._tls is not None, "a listener with TLS"
        self._tls = tls

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was taken, which port 0 leaves to the system."""
        make = self._new_connection if self._tls is None else lambda: _Greeting(self._greet)
        self._server = await listen(make, host, port, self._limits.backlog)
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="idle-connections")
        taken = self._server.sockets[0].getsockname()
        return str(taken[0]), int(taken[1])

    async def stop_accepting(self) -> None:
        """Accept no connection any more; the open ones finish what is under way and are closed."""
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in list(self._connections):
            if connection.session is not None:
                connection.session.finish()

    async def stop(self, grace_s: float) -> None:
        """Wait for them, so long; then the rest is cut off."""
        await self.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        if self._connections:
            logger.warning("connections cut off: %d", len(self._connections))
        for connection in list(self._connections):
            connection.abort()
        await self._empty.wait()
        self._handshake_lines.close()

    # -- ConnectionGate ------------------------------------------------------------------------

    def admit(self, connection: Connection) -> bool:
        limits = self._limits
        if connection in self._connections:
            return True  # since before its handshake
        if len(self._connections) >= limits.connections_max:
            self._refuse(ALL_HOSTS, "connections.max", limits.connections_max)
            return False
        if self._by_host[connection.host] >= limits.connections_per_host_max:
            per_host_max = limits.connections_per_host_max
            self._refuse(connection.host, "connections.per.host.max", per_host_max)
            return False
        self._connections[connection] = None
        self.accepted += 1
        self._by_host[connection.host] += 1
        self._empty.clear()
        return True

    def left(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        self._by_host[connection.host] -= 1
        if not self._by_host[connection.host]:
            del self._by_host[connection.host]
        if not self._connections:
            self._empty.set()
        if self._refused:
            host, limits = connection.host, self._limits
            self._accept_again(ALL_HOSTS, len(self._connections), limits.connections_max)
            self._accept_again(host, self._by_host[host], limits.connections_per_host_max)

    def _refuse(self, host: str, limit: str, limit_max: int) -> None:
        """Logged once in a spell of refusals: a flood of connections is not one of the log."""
        if host not in self._refused:
            fields = {"host": host or "any", "limit": limit, "max": limit_max}
            logger.warning("connections are refused", extra={"fields": fields})
        self._refused[host] += 1
        self.refused += 1

    def _accept_again(self, host: str, count: int, limit_max: int) -> None:
        """A spell is over when there is clearly less than the limit; not with each that leaves."""
        if host in self._refused and count < limit_max - limit_max // SPELL_PART:
            fields = {"host": host or "any", "refused": self._refused.pop(host)}
            logger.warning("connections are accepted again", extra={"fields": fields})

    def _new_connection(self) -> Connection:
        water = (self._limits.unsent_high_bytes, self._limits.unsent_low_bytes)
        return Connection(next(_numbers), self, self._make_session, water, self._shared)

    # -- TLS -----------------------------------------------------------------------------------

    def _greet(self, transport: asyncio.Transport) -> None:
        """The event loop would report a connection when its handshake is done. So it is accepted
        without TLS, counted, and its socket given to the event loop again, this time with TLS."""
        connection = self._new_connection()
        connection.host = host_of(transport)
        if self.admit(connection):
            try:
                plain = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            except OSError:  # no descriptor is left
                self.left(connection)
            else:
                plain.setblocking(False)
                shaking = asyncio.create_task(self._shake_hands(plain, connection))
                self._handshakes[shaking] = None
                shaking.add_done_callback(self._handshakes.pop)
        transport.abort()

    async def _shake_hands(self, plain: socket.socket, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                plain,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except (OSError, asyncio.CancelledError) as error:  # those of TLS and time are OSErrors too
            self.handshake_failures += 1
            self._report_handshake(connection.host, error)
            plain.close()
            self.left(connection)

    def _report_handshake(self, host: str, error: BaseException) -> None:
        """A client whose TLS is set up wrong tries again and again: a few of its lines are
        enough."""
        reason = why_no_handshake(error)
        if reason is None:
            logger.debug("no TLS", extra={"fields": {"host": host, "reason": error}})
        elif self._handshake_lines.admits(host):
            fields = {"host": host, "reason": reason}
            logger.warning("TLS handshake failed", extra={"fields": fields})

    def _report_left_out(self, host: str, left_out: int) -> None:
        fields = {"host": host, "left_out": left_out}
        logger.warning("more failed TLS handshakes were not logged", extra={"fields": fields})

    # -- idle connections ----------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        idle_s = self._limits.idle_ms_max / 1000
        while True:
            await asyncio.sleep(idle_s / SWEEPS_PER_IDLE_TIME)
            self._sweep(asyncio.get_running_loop().time() - idle_s)

    def _sweep(self, before: float) -> None:
        for connection in list(self._connections):
            connection.look_for_progress()
            if connection.active_at < before:
                self._sweep_one(connection)

    def _sweep_one(self, connection: Connection) -> None:
        if connection.unsent_bytes:
            connection.abort()  # it does not read what it asked for
        elif connection.session is None or not connection.session.is_busy():
            connection.close("idle")


def reachable_name(host: str) -> str:
    """The name for clients where the address that we listen on means all addresses."""
    return socket.gethostname() if host in WILDCARDS else host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address that we listen on."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
