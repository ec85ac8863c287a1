"""Batches out of a partition, as they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from stratamq.client.cluster import TopicPartition
from stratamq.client.committed import Aborted
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.client.versions import FETCH_BY_ID_CAP
from stratamq.model.errors import OffsetOutOfRange, TopicRecreated
from stratamq.wire.kafka.protocol import NO_UUID, Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

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
    """How much at once, and how long to wait for the first of it."""

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
    """OffsetOutOfRange, with where the log begins and ends, when the offset is not in it.

    With an id, only batches of that topic come: TopicRecreated when its name has another one now.
    """
    request = FetchRequest(
        max_wait_ms=limits.wait_ms_max,
        min_bytes=limits.bytes_min,
        max_bytes=limits.bytes_max,
        isolation_level=int(committed),
        topics=[
            FetchTopic(
                topic=place.topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=place.partition,
                        fetch_offset=offset,
                        partition_max_bytes=limits.bytes_max,
                    )
                ],
            )
        ],
    )

    async def once(node: NodeConnection) -> FetchablePartitionResponse:
        wait_s = router.request_s + limits.wait_ms_max / 1000
        cap = FETCH_BY_ID_CAP if topic_id != NO_UUID else None
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
        raise OffsetOutOfRange(str(place), offset, part.log_start_offset, part.high_watermark)
    return Fetched(
        data=part.records or b"",
        start=part.log_start_offset,
        high_watermark=part.high_watermark,
        last_stable=part.last_stable_offset,
        aborted=tuple(
            Aborted(one.first_offset, one.producer_id) for one in part.aborted_transactions or ()
        ),
    )


async def _check_id(router: Router, name: str, topic_id: bytes) -> None:
    """TopicRecreated, unless it is only this node that does not know the topic yet."""
    now = (await router.cluster([name])).topics[name].topic_id
    if now != topic_id:
        raise TopicRecreated(name, topic_id, now)
