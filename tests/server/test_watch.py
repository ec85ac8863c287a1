"""Lines of the log name the request that they belong to, and slow requests are named at all."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from stratamq.broker.kafka.contract import Answered, Caller, Cancel, nothing
from stratamq.cli import logs
from stratamq.model.config import load
from stratamq.server.kafka.ordering import RequestSlot
from stratamq.server.kafka.watch import RequestWatch
from stratamq.wire.kafka.protocol import APIS, Request, RequestHeader
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest, FetchResponse
from stratamq.wire.kafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from stratamq.wire.kafka.protocol.messages.produce import ProduceRequest
from tests.server.conftest import VERSION, connected, echo, numbered, serving
from tests.waiting import keep_busy, let_run, until

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
GOOD = HeartbeatResponse(error_code=0)
log = logging.getLogger("stratamq.test")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """As a node logs in JSON."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    logs.setup(load(flags={"log.format": "json", "log.level": "info"}), stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def events(lines: io.StringIO, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [one for one in found if one["event"] == event]


def watching(slow_ms: int) -> RequestWatch:
    watch = RequestWatch()
    watch.limit(slow_ms)
    return watch


async def test_a_line_names_its_request_in_tasks_threads_and_plain_calls(
    lines: io.StringIO,
) -> None:
    after = asyncio.Event()

    async def live_on() -> None:
        log.info("child")
        await after.wait()
        log.info("later")

    children = []

    def handle(request: Any, caller: Caller) -> Any:
        log.info("called")
        return answer()

    async def answer() -> HeartbeatResponse:
        log.info("task")
        children.append(asyncio.create_task(live_on()))
        await asyncio.to_thread(log.info, "thread")
        return GOOD

    def begin(request: Any, caller: Caller, answered: Answered) -> Cancel | None:
        log.info("begun")
        answered(echo(request))
        return nothing

    log.info("outside")
    handlers = {HeartbeatRequest: handle, ProduceRequest: handle}
    async with (
        serving(handlers, beginners={ProduceRequest: begin}) as (_, port),
        connected(port) as peer,
    ):
        peer.send(BEAT, 4, correlation_id=41)
        await peer.answer(HeartbeatRequest, 4)
        peer.send(numbered(0), VERSION, correlation_id=42)
        await peer.answer(ProduceRequest, VERSION)
        after.set()
        await children[0]
    for event, number, api in [
        *[(name, 41, "Heartbeat") for name in ("called", "task", "child", "thread")],
        ("begun", 42, "Produce"),
    ]:
        (line,) = events(lines, event)
        assert line["request"] == f"{line['connection']}-{number}", event
        assert (line["api"], line["client"], line["host"]) == (api, "peer", "127.0.0.1")
        assert line["principal"] == "User:ANONYMOUS"
    for event in ("outside", "later"):
        (line,) = events(lines, event)
        assert "request" not in line, event


async def test_requests_that_are_served_together_keep_their_own_names(lines: io.StringIO) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def handle(request: Any, caller: Caller) -> Any:
        await gates[request.timeout_ms].wait()
        log.info("woken")
        return echo(request)

    async with serving({ProduceRequest: handle}) as (_, port), connected(port) as peer:
        for number in range(3):
            peer.send(numbered(number), VERSION, correlation_id=100 + number)
        for gate in reversed(gates):
            gate.set()
            await let_run(0)
        for _ in range(3):
            await peer.echoed()
    assert {line["request"].rpartition("-")[2] for line in events(lines, "woken")} == {
        *("100", "101", "102")
    }


async def test_a_request_that_has_its_answer_is_not_named_any_more(lines: io.StringIO) -> None:
    """Also while its answer waits for those before it."""
    first, answered = asyncio.Event(), asyncio.Event()
    children = []

    async def live_on() -> None:
        await answered.wait()
        log.info("later")

    async def handle(request: Any, caller: Caller) -> Any:
        if request.timeout_ms:
            children.append(asyncio.create_task(live_on()))
        else:
            await first.wait()
        return echo(request)

    async with serving({ProduceRequest: handle}) as (server, port), connected(port) as peer:
        for number in range(2):
            peer.send(numbered(number), VERSION)
        await until(lambda: sum(server.durations[0].counts) == 1)
        answered.set()
        await children[0]
        first.set()
        assert [await peer.echoed() for _ in range(2)] == [0, 1]
    (line,) = events(lines, "later")
    assert "request" not in line


async def test_a_slow_request_is_logged_once_with_its_times(lines: io.StringIO) -> None:
    async def slow(request: Any, caller: Caller) -> Any:
        await let_run(0.05)
        return GOOD

    watch = watching(20)
    async with serving({HeartbeatRequest: slow}, watch=watch) as (_, port), connected(port) as peer:
        peer.send(BEAT, 4, correlation_id=1)
        peer.send(BEAT, 4, correlation_id=2)  # waits for the first
        for _ in range(2):
            await peer.answer(HeartbeatRequest, 4)
        await until(lambda: watch.slow["Heartbeat"] == 2)
    first, second = events(lines, "slow request")
    assert first["level"] == "warning"
    assert (first["api"], first["version"], first["client"]) == ("Heartbeat", 4, "peer")
    assert (first["principal"], first["host"]) == ("User:ANONYMOUS", "127.0.0.1")
    assert first["request"].endswith("-1")
    assert first["work_ms"] >= 20
    assert second["queue_ms"] >= 20


def served(api: str, queue_s: float, wait_s: float) -> RequestSlot:
    (key,) = (one.key for one in APIS.values() if one.name == api)
    header = RequestHeader(key, 4, 7, "peer")
    slot = RequestSlot(key, 100, Request(header, None))
    slot.header, slot.caller = header, Caller(version=4)
    slot.began_at, slot.wait_s = slot.read_at + queue_s, wait_s
    return slot


@pytest.mark.parametrize(
    ("api", "queue_s", "work_s", "wait_s", "is_slow"),
    [
        ("Produce", 0.0, 1.1, 0.0, True),
        ("Produce", 9.0, 0.9, 0.0, False),  # others were in its way
        ("Fetch", 0.0, 30.9, 30.0, False),  # no records came
        ("Fetch", 0.0, 31.1, 30.0, True),
        ("JoinGroup", 0.0, 60.0, 0.0, False),
        ("SyncGroup", 0.0, 60.0, 0.0, False),
        ("FlushLake", 0.0, 60.0, 0.0, False),
        ("BackUp", 0.0, 60.0, 0.0, False),
    ],
)
async def test_only_own_work_is_slow(
    api: str, queue_s: float, work_s: float, wait_s: float, is_slow: bool
) -> None:
    watch = watching(1000)
    slot = served(api, queue_s, wait_s)
    watch.look(slot, queue_s + work_s)
    assert watch.slow == ({api: 1} if is_slow else {})
    watch.close()


async def test_a_fetch_that_waits_for_records_is_not_slow() -> None:
    async def poll(request: Any, caller: Caller) -> Any:
        await let_run(0.1)
        return FetchResponse(responses=[])

    watch = watching(1)
    async with serving({FetchRequest: poll}, watch=watch) as (_, port), connected(port) as peer:
        peer.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[], replica_id=-1), 4)
        await peer.answer(FetchRequest, 4)
    assert not watch.slow


async def test_many_slow_requests_do_not_fill_the_log(lines: io.StringIO) -> None:
    async def slow(request: Any, caller: Caller) -> Any:
        keep_busy(0.002)
        return GOOD

    watch = watching(1)
    async with serving({HeartbeatRequest: slow}, watch=watch) as (_, port), connected(port) as peer:
        for _ in range(25):
            peer.send(BEAT, 4)
            await peer.answer(HeartbeatRequest, 4)
    assert watch.slow == {"Heartbeat": 25}
    assert len(events(lines, "slow request")) == 10
    (rest,) = events(lines, "more slow requests were not logged")
    assert rest["left_out"] == 15


def test_with_0_nothing_is_slow() -> None:
    assert watching(0).least_s == float("inf")
