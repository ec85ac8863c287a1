"""Batches of a partition as they are stored, and which of them readers of committed records see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import FETCH_BY_ID_CAP, NodeConnection
from stratamq.client.failures import check
from stratamq.client.offsets import EARLIEST, LATEST, list_offsets
from stratamq.client.router import Router
from stratamq.model.errors import OffsetOutOfRange, TopicRecreated
from stratamq.wire.kafka.protocol import NO_UUID, Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from stratamq.wire.kafka.records import BatchHeader, ControlType, iter_batches
from stratamq.wire.kafka.records.control import read_mark


class Aborted(NamedTuple):
    first_offset: int
    producer_id: int


def visible_batches(
    data: Buffer, aborted: Sequence[Aborted] = ()
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield batches with records for readers: no marks, nothing that was aborted.

    A node says with its batches which transactions in them were aborted: from `first_offset` on,
    everything transactional of that producer is void, up to the mark that ends it.
    """
    waiting = sorted(aborted, reverse=True)
    void: set[int] = set()
    for header, batch in iter_batches(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            void.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in void and read_mark(header, batch).kind is ControlType.ABORT:
                void.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in void):
            yield header, batch


OTHER_TOPIC = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Whole batches. The first may begin before the offset that was asked for."""

    data: Buffer
    start: int
    high_watermark: int
    last_stable: int
    aborted: tuple[Aborted, ...] = ()
    """Transactions to be left out, if only what is committed was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How much a fetch returns at most, and how long it waits for the first bytes."""

    bytes_max: int = 8 << 20
    wait_ms_max: int = 500
    bytes_min: int = 1


async def fetch(
    router: Router,
    place: TopicPartition,
    offset: int,
    limits: FetchLimits,
    *,
    committed: bool,
    topic_id: bytes = NO_UUID,
) -> Fetched:
    """Fetch batches from `offset` on. OffsetOutOfRange, with where the log begins and ends, when
    the offset is not in it.

    With an id, only batches of that topic come: TopicRecreated when its name has another one now.
    """
    request = _fetch_request(place, offset, limits, committed, topic_id)
    wait_s = router.request_s + limits.wait_ms_max / 1000
    cap = FETCH_BY_ID_CAP if topic_id != NO_UUID else None

    async def once(node: NodeConnection) -> FetchablePartitionResponse:
        response = await node.ask(request, FetchResponse, wait_s, cap)
        check(response.error_code, f"fetch from {place}")
        part = response.responses[0].partitions[0]
        if part.error_code in OTHER_TOPIC:
            await _check_id(router, place.topic, topic_id)
        if part.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            check(part.error_code, f"fetch from {place}")
        return part

    part = await router.on_leader(place, once)
    if part.error_code:
        start, end = [
            (await list_offsets(router, {place: at}, committed=committed))[place]
            for at in (EARLIEST, LATEST)  # Kafka's answer does not say
        ]
        raise OffsetOutOfRange(str(place), offset, start, end)
    aborted = part.aborted_transactions or ()
    return Fetched(
        data=part.records or b"",
        start=part.log_start_offset,
        high_watermark=part.high_watermark,
        last_stable=part.last_stable_offset,
        aborted=tuple(Aborted(one.first_offset, one.producer_id) for one in aborted),
    )


async def _check_id(router: Router, name: str, topic_id: bytes) -> None:
    """Raise TopicRecreated, unless it is only this node that does not know the topic yet."""
    now = (await router.cluster([name])).topics[name].topic_id
    if now != topic_id:
        raise TopicRecreated(name, topic_id, now)


def _fetch_request(
    place: TopicPartition, offset: int, limits: FetchLimits, committed: bool, topic_id: bytes
) -> FetchRequest:
    partition = FetchPartition(
        partition=place.partition,
        fetch_offset=offset,
        partition_max_bytes=limits.bytes_max,
    )
    return FetchRequest(
        max_wait_ms=limits.wait_ms_max,
        min_bytes=limits.bytes_min,
        max_bytes=limits.bytes_max,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=place.topic, topic_id=topic_id, partitions=[partition])],
    )
