"""Requests that begin without a task: order, failures, and what does not begin that way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratamq.broker.kafka.contract import Answered, Caller, Cancel, nothing
from stratamq.broker.kafka.quotas.manager import RequestCost
from stratamq.server.kafka.server import ServerLimits
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.server.conftest import VERSION, Peer, connected, echo, numbered, serving
from tests.waiting import let_run, until

ODD = 1
UNREADABLE = ProduceResponse(
    responses=[
        TopicProduceResponse(
            name="", partition_responses=[PartitionProduceResponse(index=1 << 40, base_offset=0)]
        )
    ]
)
"""It cannot be encoded: that fails after the handler."""


class Both:
    """Even numbers begin at once, odd ones have a task; `order` is that in which they began."""

    def __init__(self) -> None:
        self.order: list[tuple[str, int]] = []
        self.gate = asyncio.Event()
        self.waiting: list[Answered] = []

    def begin(self, request: Any, caller: Caller, answered: Answered) -> Cancel | None:
        if request.timeout_ms % 2 == ODD:
            return None
        self.order.append(("at once", request.timeout_ms))
        answered(echo(request))
        return nothing

    def begin_and_wait(self, request: Any, caller: Caller, answered: Answered) -> Cancel | None:
        self.waiting.append(answered)
        return nothing

    async def serve(self, request: Any, caller: Caller) -> ProduceResponse:
        await self.gate.wait()
        self.order.append(("a task", request.timeout_ms))
        return echo(request)


async def answers(peer: Peer, count: int) -> list[int]:
    return [await peer.echoed() for _ in range(count)]


async def test_nobody_overtakes_one_of_its_kind_that_had_a_task() -> None:
    both = Both()
    handlers, beginners = {ProduceRequest: both.serve}, {ProduceRequest: both.begin}
    async with serving(handlers, beginners=beginners) as (_, port), connected(port) as peer:
        for number in (0, 1, 2, 4):
            peer.send(numbered(number), VERSION)
        assert await answers(peer, 1) == [0]
        await let_run()
        assert both.order == [("at once", 0)]
        both.gate.set()
        assert await answers(peer, 3) == [1, 2, 4]
        peer.send(numbered(6), VERSION)
        assert await answers(peer, 1) == [6]
    kinds = [kind for kind, _ in both.order]
    assert kinds == ["at once", "a task", "a task", "a task", "at once"]
    assert [number for _, number in both.order] == [0, 1, 2, 4, 6]


async def test_thousands_that_are_answered_at_once() -> None:
    """They come in one piece, wait for two that fill the line, and are then taken one by one: the
    stack must not grow with them."""
    both = Both()
    handlers, beginners = {ProduceRequest: both.serve}, {ProduceRequest: both.begin}
    limits = ServerLimits(requests_max=2)
    async with (
        serving(handlers, limits, beginners=beginners) as (_, port),
        connected(port) as peer,
    ):
        for number in (1, 3, *([0] * 5000)):
            peer.send(numbered(number), VERSION)
        await let_run(0.1)
        both.gate.set()
        assert await answers(peer, 5002) == [1, 3, *([0] * 5000)]


async def test_answers_that_come_later_leave_in_order() -> None:
    both = Both()
    handlers, beginners = {ProduceRequest: both.serve}, {ProduceRequest: both.begin_and_wait}
    async with serving(handlers, beginners=beginners) as (_, port), connected(port) as peer:
        for number in range(3):
            peer.send(numbered(number), VERSION)
        await until(lambda: len(both.waiting) == 3)
        for number in (2, 0, 1):
            both.waiting[number](echo(numbered(number)))
        assert await answers(peer, 3) == [0, 1, 2]


async def test_an_answer_to_somebody_who_left() -> None:
    both = Both()
    handlers, beginners = {ProduceRequest: both.serve}, {ProduceRequest: both.begin_and_wait}
    async with serving(handlers, beginners=beginners) as (server, port):
        async with connected(port) as peer:
            peer.send(numbered(0), VERSION)
            await until(lambda: bool(both.waiting))
        await until(lambda: not server.connection_count)
        both.waiting[0](echo(numbered(0)))


@pytest.mark.parametrize("bad_answer", [False, True])
async def test_a_failure_closes_its_own_connection_only(bad_answer: bool) -> None:
    def fail(request: Any, caller: Caller, answered: Answered) -> Cancel | None:
        if request.timeout_ms and not bad_answer:
            raise RuntimeError("a bug")
        answered(UNREADABLE if request.timeout_ms else echo(request))
        return nothing

    handlers, beginners = {ProduceRequest: Both().serve}, {ProduceRequest: fail}
    async with (
        serving(handlers, beginners=beginners) as (_, port),
        connected(port) as bad,
        connected(port) as good,
    ):
        bad.send(numbered(1), VERSION)
        assert await bad.is_closed()
        good.send(numbered(0), VERSION)
        assert await answers(good, 1) == [0]


class Timed:
    idle = False
    times = True

    def __init__(self) -> None:
        self.busy_ms: list[float] = []

    def charge(self, caller: Caller, cost: RequestCost) -> int:
        self.busy_ms.append(cost.busy_ms)
        return 0


async def test_one_that_is_timed_needs_no_task() -> None:
    both, quotas = Both(), Timed()
    handlers, beginners = {ProduceRequest: both.serve}, {ProduceRequest: both.begin}
    async with (
        serving(handlers, beginners=beginners, quotas=quotas) as (_, port),
        connected(port) as peer,
    ):
        peer.send(numbered(0), VERSION)
        assert await answers(peer, 1) == [0]
    assert both.order == [("at once", 0)]
    assert len(quotas.busy_ms) == 1
    assert quotas.busy_ms[0] > 0
