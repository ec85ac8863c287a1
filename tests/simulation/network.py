"""Streams between hosts: whole and in order as TCP's, with delays, odd chunks, cuts and resets.

TCP loses no bytes on the way. So a cut link holds back what is sent over it until it is mended, and
what is lost for good is lost with its connection, by a reset. Links are cut one way at a time.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

from tests.simulation.host import Host
from tests.simulation.loop import HOST, SimLoop

SLOW_SHARE = 0.03
"""Of all messages, those that take a hundred times as long as others."""
CHUNKED_SHARE = 0.2
"""Of all writes, those that arrive in more than one piece."""


class _End:
    """Comes after the last bytes of a stream."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class Transport(asyncio.Transport):
    """One end of a connection. `context` is that of its host."""

    def __init__(
        self, network: Network, here: Host, there: Host, context: contextvars.Context
    ) -> None:
        super().__init__()
        self.here, self.there, self.context = here, there, context
        self.peer: Transport
        self.protocol: asyncio.BufferedProtocol
        self.is_lost = False
        self._network, self._loop = network, network.loop
        self._closing = self._paused = self._clogged = False
        self._arrived: deque[bytes | _End] = deque()
        self._held_back: deque[bytes | _End] = deque()
        self._last_arrival = 0.0
        self._unread = 0
        self._high, self._low = 64 << 10, 16 << 10

    # -- what asyncio promises -------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.there.name, 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or self._high, low or self._low

    def get_write_buffer_size(self) -> int:
        return self._unread

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._read, context=self.context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Sequence[Any]) -> None:  # type: ignore[override]
        data = b"".join(list_of_data)
        if self._closing or not data:
            return
        self._unread += len(data)
        chance, begin = self._network.chance, 0
        while begin < len(data):
            whole = chance.random() >= CHUNKED_SHARE
            end = len(data) if whole else chance.randint(begin + 1, len(data))
            self._send(data[begin:end])
            begin = end
        if self._unread > self._high and not self._clogged:
            self._clogged = True
            self.protocol.pause_writing()

    def close(self) -> None:
        self._leave(_End(None))

    def abort(self) -> None:
        self._leave(_End(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))))

    def _leave(self, end: _End) -> None:
        if not self._closing:
            self._closing = True
            self._send(end)
            self._loop.call_soon(self._lose, None, context=self.context)

    # -- on the way ------------------------------------------------------------------------------

    def reset_peer(self) -> None:
        """What the kernel of a killed process does for it."""
        self._closing = True
        self._send(_End(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))))

    def flow_again(self) -> None:
        held_back, self._held_back = self._held_back, deque()
        for one in held_back:
            self._send(one)

    def _send(self, one: bytes | _End) -> None:
        arrival = self._loop.time() + self._network.delay_s()
        self._last_arrival = max(self._last_arrival, arrival)
        self._loop.call_at(self._last_arrival, self._arrive, one, context=self.peer.context)

    def _arrive(self, one: bytes | _End) -> None:
        """Runs on the peer's host."""
        if self._held_back or self._network.is_cut(self.here, self.there):
            self._held_back.append(one)
        else:
            self.peer._arrived.append(one)
            self.peer._read()

    def _read(self) -> None:
        while self._arrived and not self._paused and not self.is_lost:
            one = self._arrived.popleft()
            if isinstance(one, _End):
                self._lose(one.error)
                return
            self._loop.trace("read", str(self.here), one.hex())
            self._give(memoryview(one))

    def _give(self, data: memoryview) -> None:
        while data and not self._closing and not self._paused:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            data = data[count:]
            self.peer._was_read(count)
            self.protocol.buffer_updated(count)
        if data and not self._closing:
            self._arrived.appendleft(bytes(data))

    def _was_read(self, count: int) -> None:
        self._unread -= count
        if self._clogged and self._unread <= self._low and not self.is_lost:
            self._clogged = False
            self._loop.call_soon(self.protocol.resume_writing, context=self.context)

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self._closing = True
            self._network.transports.pop(self, None)
            self.protocol.connection_lost(error)


class _Address:
    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class Server:
    """A port of a host that is listened on."""

    def __init__(
        self, network: Network, address: tuple[str, int], factory: Callable[[], Any]
    ) -> None:
        self.factory, self.context = factory, contextvars.copy_context()
        self.sockets = [_Address(address)]
        self._network, self._address = network, address

    def close(self) -> None:
        self._network.servers.pop(self._address, None)

    async def wait_closed(self) -> None:
        pass


class Network:
    def __init__(self, loop: SimLoop, seed: str) -> None:
        self.loop, self.chance = loop, Random(f"{seed}/network")
        self.servers: dict[tuple[str, int], Server] = {}
        self.hosts: dict[str, Host] = {}
        """By name, each in its present life."""
        self.transports: dict[Transport, None] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._mended = asyncio.Event()

    def delay_s(self) -> float:
        if self.chance.random() < SLOW_SHARE:
            return self.chance.uniform(0.01, 0.3)
        return self.chance.uniform(1e-4, 2e-3)

    # -- trouble ---------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        self._cuts.add((source, target))
        self._mended.clear()

    def is_cut(self, source: Host, target: Host) -> bool:
        return (source.name, target.name) in self._cuts

    def mend(self) -> None:
        self._cuts.clear()
        self._mended.set()
        for transport in list(self.transports):
            transport.flow_again()

    def died(self, host: Host) -> None:
        for address in [one for one in self.servers if one[0] == host.name]:
            del self.servers[address]
        for transport in [one for one in self.transports if one.here is host]:
            del self.transports[transport]
            transport.reset_peer()

    # -- the event loop's side -------------------------------------------------------------------

    def listen(self, factory: Callable[[], Any], port: int) -> Server:
        address = (_here().name, port)
        if address in self.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.servers[address] = server = Server(self, address, factory)
        return server

    async def connect(
        self, factory: Callable[[], Any], name: str, port: int
    ) -> tuple[Transport, Any]:
        here, there = _here(), self.hosts[name]
        await asyncio.sleep(self.delay_s())
        if self.is_cut(here, there) or self.is_cut(there, here):
            await self._mended.wait()  # or until the caller gives up
        server = self.servers.get((name, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        there = cast(Host, server.context[HOST])
        mine = Transport(self, here, there, contextvars.copy_context())
        theirs = Transport(self, there, here, server.context.copy())
        mine.peer, theirs.peer = theirs, mine
        mine.protocol, theirs.protocol = factory(), theirs.context.run(server.factory)
        self.transports |= {mine: None, theirs: None}
        self.loop.call_soon(theirs.protocol.connection_made, theirs, context=theirs.context)
        mine.protocol.connection_made(mine)
        return mine, mine.protocol


def _here() -> Host:
    host = HOST.get()
    assert host is not None, "only hosts have a network"
    return host
