"""Connections that are held, and answers that are not read."""

from __future__ import annotations

import struct

from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.attack.bombs import produce, small
from tests.attack.hostile.target import FILLED, MIB, STORED, WIDE, Target, attack
from tests.attack.raw import Closed, frame_of

HELD_S = 1.0


def fetch(topic: str, offset: int, max_wait_ms: int) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=8 * MIB)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    return frame_of(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics), 12)


@attack
def slow_requests(target: Target) -> None:
    """Some bytes of a request, and then nothing."""
    with target.crowd(100) as clients:
        for client in clients:
            client.send(struct.pack(">i", 1000) + bytes(100))
        target.hold(HELD_S)


@attack
def large_requests_that_never_end(target: Target) -> None:
    """Each claims the largest request and sends the first megabyte of it."""
    with target.crowd(10) as clients:
        for client in clients:
            client.give_up_after(1)
            try:
                client.send(struct.pack(">i", 50 * MIB) + bytes(MIB))
            except (Closed, TimeoutError):
                continue
        target.hold(HELD_S)


@attack
def large_requests_at_once(target: Target) -> None:
    frame = frame_of(produce(small(bytes(900_000)), topic=STORED), 9)
    with target.crowd(16) as clients:
        for client in clients:
            client.send(frame)
        for client in clients:
            assert client.answer()


@attack
def idle_connections(target: Target) -> None:
    with target.crowd(500):
        target.hold(HELD_S / 4)


@attack
def fetches_that_wait(target: Target) -> None:
    """For minutes; their clients leave before."""
    frame = fetch(STORED, 1 << 40, 0) + fetch(WIDE, 0, 600_000)
    with target.crowd(100) as clients:
        for client in clients:
            client.send(frame)
        for client in clients:
            assert client.answer()
        target.hold(HELD_S)


@attack
def answers_that_nobody_reads(target: Target) -> None:
    """Eight megabytes each."""
    frame = fetch(FILLED, 0, 0)
    with target.crowd(8) as clients:
        for client in clients:
            client.send(frame * 10)
        target.hold(HELD_S)


@attack
def long_answers_that_nobody_reads(target: Target) -> None:
    frame = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name=WIDE)] * 2000))
    with target.crowd(20) as clients:
        for client in clients:
            client.send(frame * 20)
        target.hold(HELD_S)


@attack
def a_thousand_requests_before_the_first_answer(target: Target) -> None:
    frames = [frame_of(ApiVersionsRequest(), 0, number) for number in range(1000)]
    with target.connected() as client:
        client.send(b"".join(frames))
        numbers = [struct.unpack(">i", client.answer()[:4])[0] for _ in frames]
        assert numbers == list(range(1000))
