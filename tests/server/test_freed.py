"""A connection that ended is freed at once, without the garbage collector: a node under attack
closes thousands of them, and each collection stops it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop

from stratamq.broker.kafka.contract import Caller
from stratamq.net.connection import Connection
from stratamq.server.kafka.session import KafkaSession
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest, FetchResponse
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratamq.wire.kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.server.conftest import VERSION, Peer, connected, echo, numbered, serving
from tests.waiting import until

LARGE = MetadataRequest(topics=[MetadataRequestTopic(name=f"{n:0200}") for n in range(20_000)])
"""Takes many turns to read."""

Visit = Callable[[Peer], Awaitable[None]]


async def is_answered(peer: Peer) -> None:
    peer.send(numbered(7), VERSION)
    assert await peer.echoed() == 7


async def sends_no_frame(peer: Peer) -> None:
    peer.writer.write(b"\x7f\xff\xff\xff\0\0\0\0")
    assert await peer.is_closed()


async def sends_a_request_that_cannot_be_read(peer: Peer) -> None:
    peer.writer.write(b"\0\0\0\x08\0\x01\0\x0c\xff\xff\xff\xff")
    assert await peer.is_closed()


async def leaves_while_its_request_is_read(peer: Peer) -> None:
    peer.send(LARGE, 12)
    await peer.writer.drain()


async def leaves_while_it_waits(peer: Peer) -> None:
    peer.send(FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[]), 12)
    await until(lambda: WAITS)
    assert len(new_ones()) == 2, "they are seen while they are there"


WAITS: list[asyncio.Event] = []


async def produce(request: Any, caller: Caller) -> ProduceResponse:
    return echo(request)


async def wait(request: Any, caller: Caller) -> FetchResponse:
    WAITS.append(asyncio.Event())
    await WAITS[-1].wait()
    return FetchResponse(responses=[])


EARLIER: list[object] = []
"""Of tests that ran before, and whose event loop still holds them."""


def of_connections() -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, KafkaSession | Connection)]


def new_ones() -> list[str]:
    """Their names: the list itself must hold none of them."""
    earlier = set(map(id, EARLIER))
    return [type(one).__name__ for one in of_connections() if id(one) not in earlier]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    WAITS.clear()
    gc.collect()
    EARLIER[:] = of_connections()
    gc.disable()
    yield
    gc.enable()
    EARLIER.clear()


@pytest.mark.parametrize(
    "visit",
    [
        is_answered,
        sends_no_frame,
        sends_a_request_that_cannot_be_read,
        leaves_while_its_request_is_read,
        leaves_while_it_waits,
    ],
)
def test_a_connection_that_ended_is_freed_at_once(visit: Visit) -> None:
    async def run() -> None:
        async with serving({ProduceRequest: produce, FetchRequest: wait}) as (_, port):
            async with connected(port) as peer:
                await visit(peer)
            await until(lambda: not new_ones(), lambda: str(new_ones()))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
