"""One connection: bytes in, buffers out, back-pressure both ways."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast, runtime_checkable

from stratamq.net.tls import principal_of

logger = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

CLOSE_GRACE_S = 10.0
"""What is unsent when a connection is closed has this long to leave."""

USER_TIMEOUT_MS = 120_000
"""A peer that acknowledges nothing of what was sent for this long is gone."""


READ_BYTES = 256 << 10
"""Largest read into the default buffer."""


class Hold:
    """Why nothing is read from a connection at the moment: bits. Plain numbers, since they are
    looked at with every request."""

    BUSY: Final = 1
    UNSENT: Final = 2
    MEMORY: Final = 4
    MUTED: Final = 8


class Session(Protocol):
    """What a connection calls. Every call is made on the event loop and must not wait."""

    def received(self, data: bytes) -> None: ...

    def sent(self) -> None:
        """What was written is on its way; before, too much of it was waiting."""

    def is_busy(self) -> bool:
        """Whether the peer is waiting for us, and not we for the peer."""

    def finish(self) -> None:
        """Take nothing new, answer what is under way, then close."""

    def ended(self) -> None:
        """The connection is gone. Called once, last."""


@runtime_checkable
class Receiver(Session, Protocol):
    """A session that has a buffer for some of the bytes to come, and spares them a copy."""

    def buffer(self) -> memoryview | None:
        """Where the next bytes go, at least one; None for those that come by `received`. It is used
        before anything else is asked of the session."""

    def filled(self, count: int) -> None:
        """So many bytes came into the last `buffer`."""


class ConnectionGate(Protocol):
    """Admits connections, and counts what moves over all of them: the listener."""

    received_bytes: int
    sent_bytes: int

    def admit(self, connection: Connection) -> bool: ...

    def left(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """Reading stops while any `Hold` is on. Buffers are sent as they are, in order.

    `number` is unique within the process. `principal` is the name in the peer's certificate, where
    TLS asked for one. What is read goes into `shared`, which all connections of an event loop may
    have in common, unless the session has a buffer of its own.
    """

    def __init__(
        self,
        number: int,
        gate: ConnectionGate,
        make_session: Callable[[Connection], Session],
        water_bytes: tuple[int, int],
        shared: memoryview | None = None,
    ) -> None:
        self.number = number
        self.host = ""
        self.principal: str | None = None
        self.active_at = 0.0
        self.session: Session | None = None
        self._gate, self._make_session = gate, make_session
        self._high, self._low = water_bytes
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._holds = 0
        self.is_clogged = False
        """Whether so much is unsent that no more should be written."""
        self._reads = True
        self._closing = False
        self._unsent_before = 0
        self._grace: asyncio.TimerHandle | None = None
        self._shared = memoryview(bytearray(READ_BYTES)) if shared is None else shared
        self._receiver: Receiver | None = None
        self._in_buffer = False

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.host = host_of(transport)
        self.active_at = self._loop.time()
        if not self._gate.admit(self):
            self._transport.abort()
            return
        self.principal = principal_of(transport.get_extra_info("peercert"))
        self._transport.set_write_buffer_limits(self._high, self._low)
        _tune(transport.get_extra_info("socket"))
        self.session = session = self._make_session(self)
        self._receiver = session if isinstance(session, Receiver) else None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._receiver is not None and not self._closing:
            buffer = self._receiver.buffer()
            if buffer is not None:
                self._in_buffer = True
                return buffer
        return self._shared

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at = self._loop.time()
        self._gate.received_bytes += nbytes
        in_buffer, self._in_buffer = self._in_buffer, False
        if self.session is None or self._closing:
            return
        if in_buffer and self._receiver is not None:
            self._receiver.filled(nbytes)
        else:
            self.session.received(bytes(self._shared[:nbytes]))

    def pause_writing(self) -> None:
        self.is_clogged = True
        self.hold(Hold.UNSENT)

    def resume_writing(self) -> None:
        self.active_at = self._loop.time()
        self.is_clogged = False
        self.release(Hold.UNSENT)
        if self.session is not None:
            self.session.sent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._gate.left(self)
        session, self.session, self._receiver = self.session, None, None
        # Transport and connection refer to each other: only the garbage collector would free them.
        self._transport = None
        if self._grace is not None:
            self._grace.cancel()
        if session is not None:
            session.ended()

    # -- what the session calls ----------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.active_at = self._loop.time()
            self._gate.sent_bytes += sum(map(len, buffers))
            self._transport.writelines(buffers)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def look_for_progress(self) -> None:
        """A peer that reads slowly is not idle: called now and then, to see if anything left."""
        unsent = self.unsent_bytes
        if unsent < self._unsent_before:
            self.active_at = self._loop.time()
        self._unsent_before = unsent

    @property
    def is_closing(self) -> bool:
        return self._closing

    def hold(self, reason: int) -> None:
        self._holds |= reason
        self._steer()

    def release(self, reason: int) -> None:
        if self._holds & reason:
            self._holds &= ~reason
            self._steer()

    def close(self, reason: str = "") -> None:
        """Send what is written, then close; nothing is read any more."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        if reason:
            fields = {"host": self.host, "connection": self.number, "reason": reason}
            logger.debug("connection closed", extra={"fields": fields})
        self._transport.close()
        self._grace = self._loop.call_later(CLOSE_GRACE_S, self._transport.abort)

    def abort(self) -> None:
        """Close at once; what is unsent is dropped."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _steer(self) -> None:
        reads = not self._holds
        transport = self._transport
        if reads is self._reads or transport is None or transport.is_closing():
            return
        self._reads = reads
        if reads:
            transport.resume_reading()
        else:
            transport.pause_reading()


def host_of(transport: asyncio.BaseTransport) -> str:
    """The peer's address; empty where it has none any more."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _tune(sock: socket.socket | None) -> None:
    """Answers leave at once, and a peer that vanished is noticed."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
