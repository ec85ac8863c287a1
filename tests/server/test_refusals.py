"""Refused requests: counted by API and error, shown at debug, and never a flood above it."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.produce.answers import Unanswered
from stratamq.server.kafka.refusals import Refusals
from stratamq.wire.kafka.protocol import APIS, ErrorCode
from stratamq.wire.kafka.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.server.conftest import VERSION, connected, numbered, serving
from tests.server.test_session import Password, beat
from tests.server.test_session import numbered as beaten
from tests.waiting import until

REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


async def refuse(request: Any, caller: Caller) -> ProduceResponse:
    """Two partitions of one topic fail alike, another one differently, and one is stored."""
    codes = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, 0)
    parts = [
        PartitionProduceResponse(index=at, error_code=code, base_offset=0)
        for at, code in enumerate(codes)
    ]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)])


async def test_answers_are_counted_by_api_and_error() -> None:
    handlers = {HeartbeatRequest: beat, ProduceRequest: refuse}
    async with serving(handlers) as (server, port), connected(port) as peer:
        for code in (0, REBALANCING, 0, REBALANCING):
            peer.send(beaten(code), 4)
            await peer.answer(HeartbeatRequest, 4)
        peer.send(numbered(0), VERSION)
        await peer.answer(ProduceRequest, VERSION)
        assert server.refusals.snapshot() == {
            ("Heartbeat", "REBALANCE_IN_PROGRESS"): 2,
            ("Produce", "MESSAGE_TOO_LARGE"): 1,
            ("Produce", "INVALID_RECORD"): 1,
        }


async def lost(request: Any, caller: Caller) -> HeartbeatResponse:
    raise Unanswered("lost", ErrorCode.NOT_LEADER_OR_FOLLOWER)


def header(api_key: int, version: int) -> bytes:
    """A frame that ends before its body."""
    return struct.pack(">ihhih", 10, api_key, version, 7, -1)


UNREADABLE = {
    "a size": (b"\xff" * 4, ("unknown", "INVALID_REQUEST")),
    "an API": (header(9999, 0), ("unknown", "UNSUPPORTED_VERSION")),
    "a version": (header(12, 99), ("Heartbeat", "UNSUPPORTED_VERSION")),
    "a body": (header(12, 0), ("Heartbeat", "INVALID_REQUEST")),
    "ApiVersions": (header(18, 99), ("ApiVersions", "UNSUPPORTED_VERSION")),
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_cannot_be_read_is_counted(name: str) -> None:
    data, counted = UNREADABLE[name]
    async with serving({HeartbeatRequest: beat}) as (server, port), connected(port) as peer:
        peer.writer.write(data)
        await until(lambda: bool(server.refusals.snapshot()))
        assert server.refusals.snapshot() == {counted: 1}


async def test_requests_before_authentication_and_unanswered_ones_are_counted() -> None:
    handlers = {HeartbeatRequest: lost}
    async with (
        serving(handlers, security=Password()) as (strict, port),
        connected(port) as stranger,
    ):
        stranger.send(beaten(0), 4)
        assert await stranger.is_closed()
        assert strict.refusals.snapshot() == {("Heartbeat", "ILLEGAL_SASL_STATE"): 1}
    async with serving(handlers) as (server, port), connected(port) as peer:
        peer.send(beaten(0), 4)
        assert await peer.is_closed()
        assert server.refusals.snapshot() == {("Heartbeat", "NOT_LEADER_OR_FOLLOWER"): 1}


async def test_one_line_at_debug_for_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "stratamq.server")
    async with serving({HeartbeatRequest: beat}) as (_, port), connected(port) as peer:
        peer.send(beaten(0), 4)
        peer.send(beaten(REBALANCING), 4)
        await peer.answer(HeartbeatRequest, 4)
        await peer.answer(HeartbeatRequest, 4)
    (line,) = [record for record in caplog.records if "refused" in record.message]
    shown = vars(line)["fields"]
    assert line.levelno == logging.DEBUG
    assert {name: shown[name] for name in ("api", "error", "client", "principal", "host")} == {
        "api": "Heartbeat",
        "error": "REBALANCE_IN_PROGRESS",
        "client": "peer",
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
    }


async def test_failures_of_our_own_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Any, caller: Caller) -> HeartbeatResponse:
        raise RuntimeError("a bug")

    async with serving({HeartbeatRequest: fail}) as (server, port):
        for _ in range(25):
            async with connected(port) as peer:
                peer.send(beaten(0), 4)
                assert await peer.is_closed()
        assert server.refusals.snapshot() == {("Heartbeat", "UNKNOWN_SERVER_ERROR"): 25}
    shown = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [vars(record)["fields"]["count"] for record in shown] == [1, 10]
    assert all(record.exc_info for record in shown)


def test_a_snapshot_stays_as_it_was() -> None:
    refusals = Refusals()
    (key,) = (api.key for api in APIS.values() if api.name == "Fetch")
    refusals.count(key, [ErrorCode.OFFSET_OUT_OF_RANGE, 12_345])
    before = refusals.snapshot()
    refusals.count(key, [ErrorCode.OFFSET_OUT_OF_RANGE])
    assert before == {("Fetch", "OFFSET_OUT_OF_RANGE"): 1, ("Fetch", "12345"): 1}
    assert refusals.snapshot()["Fetch", "OFFSET_OUT_OF_RANGE"] == 2


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc", "MQTT"),
    ],
)
async def test_another_protocol_on_the_port_is_named_in_the_log(
    sent: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving({}) as (_, port):
            for _ in range(9):
                async with connected(port) as peer:
                    peer.writer.write(sent)
                    assert await peer.is_closed()
    (record,) = caplog.records
    assert record.getMessage().endswith(f"looks like {name}")


async def test_a_size_over_the_limit_is_no_other_protocol(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving({}) as (_, port), connected(port) as peer:
            peer.writer.write(b"\x7f\xff\xff\xff\0\0\0\0")
            assert await peer.is_closed()
    assert not caplog.records
