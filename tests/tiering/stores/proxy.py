"""A proxy between a store and its server that spoils what it is told to, and counts.

It speaks just enough HTTP: whole requests in, whole answers out, one connection per request to the
server. Faults are given to requests in turn, to those that `only` lets through.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from tests.waiting import let_run

TRICKLE_S = 0.1


class Fault(StrEnum):
    REFUSE = "cut before the request is passed on"
    LOSE_ANSWER = "passed on, and cut before the answer"
    SILENCE = "passed on, and never answered"
    ERROR_500 = "answered 500 without being passed on"
    BUSY_503 = "answered 503 without being passed on"
    TRUNCATE = "half of the answer's body"
    WRONG_ANSWER = "a wrong byte in the answer's body"
    WRONG_REQUEST = "a wrong byte in the request's body"
    WRONG_AND_LOST = "a wrong byte in the request's body, and no answer"
    TRICKLE = "the answer's body a byte at a time"
    STALE = "the answer to the first request like this one"


@dataclass(frozen=True, slots=True)
class Message:
    first: bytes
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def method(self) -> str:
        return self.first.split(b" ")[0].decode()

    @property
    def target(self) -> str:
        return self.first.split(b" ")[1].decode()

    def encode(self) -> bytes:
        lines = [self.first, *(b"%s: %s" % item for item in self.headers.items())]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def spoilt(self) -> Message:
        """One bit in the middle of the body."""
        body = bytearray(self.body)
        body[len(body) // 2] ^= 1
        return Message(self.first, self.headers, bytes(body))


Only = Callable[[Message], bool]


@dataclass
class Proxy:
    server: str
    only: Only = lambda _: True
    faults: list[Fault] = field(default_factory=list)
    for_ever: Fault | None = None
    passed: list[str] = field(default_factory=list)
    met: int = 0
    rewrite: tuple[bytes, bytes] = (b"", b"")
    """What to put in the place of what, in every answer; both of one length."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _remembered: dict[str, bytes] = field(default_factory=dict)
    _end: asyncio.Event = field(default_factory=asyncio.Event)

    def spoil(
        self, faults: Iterable[Fault] = (), *, only: Only | None = None, ever: Fault | None = None
    ) -> None:
        """From now on, what to do to the requests that `only` lets through."""
        self.faults, self.for_ever, self.met = list(faults), ever, 0
        self.only = only or (lambda _: True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        try:
            while (request := await _read(reader, writer)) and await self._answer(request, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            await _closed(writer)
            self.tasks.discard(task)

    def _fault(self, request: Message) -> Fault | None:
        if not self.only(request):
            return None
        self.met += 1
        return self.faults.pop(0) if self.faults else self.for_ever

    async def _answer(self, request: Message, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection is still good."""
        fault = self._fault(request)
        if fault is Fault.REFUSE:
            return self._cut(writer)
        if fault in (Fault.ERROR_500, Fault.BUSY_503):
            return await _say(writer, fault)
        if fault in (Fault.WRONG_REQUEST, Fault.WRONG_AND_LOST):
            request = request.spoilt()
        answer = await self._ask(request)
        if fault in (Fault.LOSE_ANSWER, Fault.WRONG_AND_LOST):
            return self._cut(writer)
        if fault is Fault.SILENCE:
            await self._end.wait()
            return False
        if fault is Fault.STALE:
            answer = self._remembered[request.target]
        self._remembered.setdefault(request.target, answer)
        head, _, body = answer.partition(b"\r\n\r\n")
        if fault is Fault.TRUNCATE:
            writer.write(head + b"\r\n\r\n" + body[: len(body) // 2])
            await writer.drain()
            return False
        if fault is Fault.TRICKLE:
            return await _trickle(writer, head, body)
        if fault is Fault.WRONG_ANSWER:
            body = Message(b"", {}, body).spoilt().body
        writer.write(head + b"\r\n\r\n" + body)
        await writer.drain()
        return True

    def _cut(self, writer: asyncio.StreamWriter) -> bool:
        writer.transport.abort()
        return False

    async def _ask(self, request: Message) -> bytes:
        self.passed.append(f"{request.method} {urlsplit(request.target).path}")
        place = urlsplit(self.server)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(request.encode())
            answer = await _read_answer(reader, request.method)
        finally:
            await _closed(writer)
        return answer.replace(*self.rewrite) if self.rewrite[0] else answer

    def end(self) -> None:
        self._end.set()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Message | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, headers = _parse(head)
    if headers.pop(b"expect", b"").lower() == b"100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
    return Message(first, headers, body)


async def _read_answer(reader: asyncio.StreamReader, method: str) -> bytes:
    """With a content length, whatever the server did: a body that is cut off must show."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, headers = _parse(head)
    bodiless = method == "HEAD" or b" 204 " in first
    if bodiless:
        return head
    if headers.pop(b"transfer-encoding", b"") == b"chunked":
        body = await _read_chunks(reader)
    elif b"content-length" in headers:
        body = await reader.readexactly(int(headers[b"content-length"]))
    else:
        body = await reader.read()
    headers[b"content-length"] = b"%d" % len(body)
    return Message(first, headers, body).encode()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _parse(head: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    first, *lines = head.strip().split(b"\r\n")
    pairs = (re.split(rb":\s*", line, maxsplit=1) for line in lines)
    return first, {name.lower(): value for name, value in pairs}


async def _say(writer: asyncio.StreamWriter, fault: Fault) -> bool:
    status = b"500 Internal Server Error" if fault is Fault.ERROR_500 else b"503 Slow Down"
    writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
    await writer.drain()
    return True


async def _trickle(writer: asyncio.StreamWriter, head: bytes, body: bytes) -> bool:
    writer.write(head + b"\r\n\r\n")
    for each in body:
        writer.write(bytes([each]))
        await writer.drain()
        await let_run(TRICKLE_S)
    return True


@contextlib.asynccontextmanager
async def proxy_to(server: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy and its address."""
    proxy = Proxy(server)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    try:
        yield proxy, f"http://{host}:{port}"
    finally:
        proxy.end()
        listener.close()
        tasks = list(proxy.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
