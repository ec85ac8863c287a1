"""The bytes of all requests have one limit: large requests come one after the other, small ones are
not held up by them, and whoever only claims to send keeps nobody waiting for long."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from typing import Any

import pytest

from stratamq.broker.kafka.contract import Caller
from stratamq.server.kafka.request_budget import MIDDLE_BYTES, PATIENCE_S, SMALL_BYTES
from stratamq.server.kafka.server import ServerLimits
from stratamq.wire.kafka.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.server.conftest import VERSION, Peer, connected, echo, serving
from tests.waiting import let_pass, let_run, until

MIB = 1 << 20
LIMIT = 16 * MIB
LIMITS = ServerLimits(request_bytes_max=LIMIT)


def sized(number: int, size_bytes: int) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=bytes(size_bytes))
    topic = TopicProduceData(name="t", partition_data=[part])
    return ProduceRequest(acks=-1, timeout_ms=number, topic_data=[topic])


class Gated:
    """A handler that answers when it is allowed to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun: list[int] = []

    async def serve(self, request: Any, caller: Caller) -> ProduceResponse:
        self.begun.append(request.timeout_ms)
        await self.gate.wait()
        return echo(request)


async def claim(peer: Peer, size_bytes: int) -> None:
    """The beginning of a request of that size, and nothing more."""
    peer.writer.write(struct.pack(">i", size_bytes) + bytes(100))
    await peer.writer.drain()


@pytest.mark.parametrize("size_bytes", [100_000, MIB, 3 * MIB, 7 * MIB])
async def test_no_more_than_the_limit_is_under_way_and_all_are_answered(size_bytes: int) -> None:
    gated = Gated()
    count = 3 * LIMIT // size_bytes if size_bytes > MIB else 2 * LIMIT // size_bytes
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (server, port),
        AsyncExitStack() as stack,
    ):
        budget = server.request_budget
        peers = [await stack.enter_async_context(connected(port)) for _ in range(count)]
        for number, peer in enumerate(peers):
            peer.send(sized(number, size_bytes), VERSION)
        await until(lambda: budget.used_bytes > LIMIT // 2 - size_bytes)
        for _ in range(20):
            await let_run(0.005)  # time for more
            assert budget.used_bytes <= LIMIT + count * SMALL_BYTES
        assert 0 < len(gated.begun) < count
        gated.gate.set()
        assert [await peer.echoed() for peer in peers] == list(range(count))


async def test_many_small_requests_of_one_connection_count_as_one_large() -> None:
    gated = Gated()
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (server, port),
        AsyncExitStack() as stack,
    ):
        peers = [await stack.enter_async_context(connected(port)) for _ in range(10)]
        for peer in peers:
            for number in range(60):
                peer.send(sized(number, 50_000), VERSION)
        await until(lambda: server.request_budget.used_bytes > LIMIT)
        await let_run(0.1)  # time for more
        assert server.request_budget.used_bytes <= LIMIT + 10 * 2 * SMALL_BYTES
        async with connected(port) as other:
            other.send(sized(7, 50_000), VERSION)
            await until(lambda: 7 in gated.begun)  # it has nothing under way
            gated.gate.set()
            assert await other.echoed() == 7
        for peer in peers:
            assert [await peer.echoed() for _ in range(60)] == list(range(60))


async def test_smaller_requests_do_not_wait_for_larger_ones() -> None:
    gated = Gated()
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (_, port),
        connected(port) as first,
        connected(port) as second,
        connected(port) as third,
    ):
        first.send(sized(1, 5 * MIB), VERSION)
        await until(lambda: gated.begun == [1])
        second.send(sized(2, 5 * MIB), VERSION)
        third.send(sized(3, MIB), VERSION)
        await until(lambda: gated.begun == [1, 3])
        gated.gate.set()
        assert [await peer.echoed() for peer in (first, second, third)] == [1, 2, 3]


async def test_a_request_larger_than_the_limit_comes_in_alone() -> None:
    gated = Gated()
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (_, port),
        connected(port) as huge,
        connected(port) as large,
    ):
        huge.send(sized(1, 2 * LIMIT), VERSION)
        await until(lambda: gated.begun == [1])
        large.send(sized(2, 2 * MIDDLE_BYTES), VERSION)
        await let_run()  # time for it to come in
        assert gated.begun == [1]
        gated.gate.set()
        assert await huge.echoed() == 1
        assert await large.echoed() == 2


async def test_a_claim_is_cut_off_when_others_wait() -> None:
    gated = Gated()
    gated.gate.set()
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (server, port),
        connected(port) as claiming,
        connected(port) as waiting,
    ):
        await claim(claiming, 8 * MIB)
        await until(lambda: server.request_budget.used_bytes > 8 * MIB)
        waiting.send(sized(1, 5 * MIB), VERSION)
        await until(lambda: server.request_budget.used_bytes > 8 * MIB + 1000)
        let_pass(PATIENCE_S * 1.3)
        assert await claiming.is_closed()
        assert await waiting.echoed() == 1


async def test_a_claim_that_nobody_waits_for_may_take_its_time() -> None:
    gated = Gated()
    gated.gate.set()
    async with (
        serving({ProduceRequest: gated.serve}, LIMITS) as (server, port),
        connected(port) as slow,
        connected(port) as small,
    ):
        await claim(slow, 8 * MIB)
        await until(lambda: server.request_budget.used_bytes > 8 * MIB)
        let_pass(PATIENCE_S * 3)
        small.send(sized(1, 1000), VERSION)
        assert await small.echoed() == 1
        assert server.connection_count == 2


async def test_who_leaves_while_waiting_or_coming_leaves_nothing() -> None:
    gated = Gated()
    gated.gate.set()
    async with serving({ProduceRequest: gated.serve}, LIMITS) as (server, port):
        async with connected(port) as claiming, connected(port) as waiting:
            await claim(claiming, 8 * MIB)
            await until(lambda: server.request_budget.used_bytes > 8 * MIB)
            await claim(waiting, 8 * MIB)
            await until(lambda: server.request_budget.used_bytes > 8 * MIB + 100)
        await until(lambda: server.request_budget.used_bytes == 0)
        async with connected(port) as next_one:
            next_one.send(sized(1, 8 * MIB - 1000), VERSION)
            assert await next_one.echoed() == 1


async def test_only_produce_may_be_as_large_as_a_frame() -> None:
    async def beat(request: Any, caller: Caller) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=0)

    gated = Gated()
    gated.gate.set()
    limits = ServerLimits(other_frame_bytes_max=200_000)
    handlers = {HeartbeatRequest: beat, ProduceRequest: gated.serve}
    async with serving(handlers, limits) as (_, port), connected(port) as peer:
        peer.send(sized(1, 300_000), VERSION)
        assert await peer.echoed() == 1
        peer.send(HeartbeatRequest(group_id="g" * 190_000, generation_id=1, member_id="m"), 4)
        await peer.answer(HeartbeatRequest, 4)
        peer.send(HeartbeatRequest(group_id="g" * 210_000, generation_id=1, member_id="m"), 4)
        assert await peer.is_closed()
