"""Requests and answers that take long to read and write: in turns, in order, within limits."""

from __future__ import annotations

import asyncio
from typing import Any

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.turns import TURN_S
from stratamq.server.kafka.server import ServerLimits
from stratamq.server.kafka.session import ELEMENT_BYTES
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.attack.watching import watched_loop
from tests.server.conftest import connected, serving
from tests.waiting import until

VERSION = 6
LIMIT = ServerLimits().request_elements_max


def names(count: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[f"{number:x}" for number in range(count)])


async def found(request: Any, caller: Caller) -> FindCoordinatorResponse:
    """An answer as large as the request."""
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=1, host="h", port=1, error_message="")
            for key in request.coordinator_keys
        ]
    )


async def counted(request: Any, caller: Caller) -> FindCoordinatorResponse:
    count = str(len(request.coordinator_keys))
    one = Coordinator(key=count, node_id=1, host="h", port=1, error_message="")
    return FindCoordinatorResponse(coordinators=[one])


async def test_large_and_small_requests_stay_in_order() -> None:
    sizes = [30_000, 1, 5, 20_000, 2, 30_000, 1]
    async with serving({FindCoordinatorRequest: counted}) as (_, port), connected(port) as peer:
        for number, size in enumerate(sizes):
            peer.send(names(size), VERSION, number)
        for number, size in enumerate(sizes):
            correlation_id, answer = await peer.answer(FindCoordinatorRequest, VERSION)
            assert (correlation_id, answer.coordinators[0].key) == (number, str(size))


async def test_the_loop_is_left_to_others_while_a_request_is_read() -> None:
    """Nothing holds the loop longer than a few turns; at once, it would be half a second."""
    request = names(100_000)
    async with serving({FindCoordinatorRequest: counted}) as (_, port), connected(port) as peer:
        peer.send(request, VERSION)
        with watched_loop() as watch:
            answer = await peer.answer(FindCoordinatorRequest, VERSION)
        assert answer[1].coordinators[0].key == "100000"
        assert watch.held_s_max < 20 * TURN_S
        assert watch.turns > 10


async def test_the_loop_is_left_to_others_while_an_answer_is_written() -> None:
    async with serving({FindCoordinatorRequest: found}) as (_, port), connected(port) as peer:
        peer.send(names(20_000), VERSION)
        answered = asyncio.create_task(peer.frame())
        with watched_loop() as watch:
            assert len(await answered) > 20_000 * 10
        assert watch.turns > 10


async def test_more_elements_than_allowed_are_refused() -> None:
    limits = ServerLimits(request_elements_max=1000)
    async with serving({FindCoordinatorRequest: counted}, limits) as (_, port):
        for count in (1001, 50_000):
            async with connected(port) as peer:
                peer.send(names(1000), VERSION)
                assert (await peer.answer(FindCoordinatorRequest, VERSION))[1]
                peer.send(names(count), VERSION)
                assert await peer.is_closed()


async def test_what_lists_take_in_memory_counts() -> None:
    """With the limit reached, a connection that has a request under way waits; another one that
    asks for little is served."""
    gate = asyncio.Event()

    async def held(request: Any, caller: Caller) -> FindCoordinatorResponse:
        if len(request.coordinator_keys) > 1:
            await gate.wait()
        return await counted(request, caller)

    limits = ServerLimits(request_bytes_max=1 << 20)
    count = (2 << 20) // ELEMENT_BYTES
    handlers = {FindCoordinatorRequest: held}
    async with serving(handlers, limits) as (server, port), connected(port) as peer:
        peer.send(names(count), VERSION)
        await until(lambda: server.request_budget.used_bytes > 2 << 20)
        peer.send(names(1), VERSION)
        async with connected(port) as other:
            other.send(names(1), VERSION)
            assert (await other.answer(FindCoordinatorRequest, VERSION))[1]
            other.send(ApiVersionsRequest(), 0)
            assert await other.frame()
        gate.set()
        for size in (count, 1):
            answer = await peer.answer(FindCoordinatorRequest, VERSION)
            assert answer[1].coordinators[0].key == str(size)


async def test_a_client_that_leaves_while_its_request_is_read() -> None:
    async with serving({FindCoordinatorRequest: counted}) as (server, port):
        async with connected(port) as peer:
            peer.send(names(LIMIT), VERSION)
            await until(lambda: server.request_budget.used_bytes > 0)
        await until(lambda: server.connection_count == 0)
        await until(lambda: server.request_budget.used_bytes == 0)  # or it was read just before
