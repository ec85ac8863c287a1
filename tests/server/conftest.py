"""A KafkaServer on a free port over a broker of our choosing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.contract import Beginner, Caller, Family, Handled
from stratamq.server.kafka.server import KafkaServer, ServerLimits
from stratamq.wire.kafka.protocol import decode_response, encode_request
from stratamq.wire.kafka.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from stratamq.wire.kafka.protocol.schema import message_of
from tests.waiting import until

VERSION = 9
Answer = Callable[[Any, Caller], Awaitable[Any]]


def numbered(number: int) -> ProduceRequest:
    """One of those requests that may be under way at the same time."""
    return ProduceRequest(acks=-1, timeout_ms=number, topic_data=[])


def echo(request: ProduceRequest) -> ProduceResponse:
    named = TopicProduceResponse(name=str(request.timeout_ms), partition_responses=[])
    return ProduceResponse(responses=[named])


class Table(Family):
    """A family that is given its handlers."""

    def __init__(
        self, handlers: dict[type, Answer], beginners: dict[type, Beginner] | None = None
    ) -> None:
        self._handlers, self._beginners = handlers, beginners or {}

    def handlers(self) -> dict[type, Handled]:
        return {
            request: Handled(handler, beginner=self._beginners.get(request))
            for request, handler in self._handlers.items()
        }


class Peer:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, body: object, version: int, correlation_id: int = 0) -> None:
        for buffer in encode_request(body, version, correlation_id, "peer"):
            self.writer.write(buffer)

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def answer(self, request: type, version: int) -> tuple[int, Any]:
        response = decode_response(await self.frame(), message_of(request).key, version)
        return response.correlation_id, response.body

    async def echoed(self) -> int:
        """The number of the request that is answered next."""
        _, response = await self.answer(ProduceRequest, VERSION)
        return int(response.responses[0].name)

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 5) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def serving(
    handlers: dict[type, Answer],
    limits: ServerLimits | None = None,
    beginners: dict[type, Beginner] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[KafkaServer, int]]:
    security = options.get("security")
    broker = KafkaBroker([Table(handlers, beginners)], security.served if security else None)
    server = KafkaServer(broker, AnswerBudget(1 << 20), limits, **options)
    _, port = await server.start("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.stop(1)
        await until(lambda: server.request_budget.used_bytes == 0)
        assert server.answer_budget.used_bytes == 0


@asynccontextmanager
async def connected(port: int, **options: Any) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
