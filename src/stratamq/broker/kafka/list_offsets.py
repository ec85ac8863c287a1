"""ListOffsets: the earliest, the latest, the first since a time, the one of the largest time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.fetch.reading import READ_COMMITTED
from stratamq.broker.kafka.turns import paced, paced_each
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.handle import ShardHandle
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import NO_OFFSET, NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which a special time may be asked for."""

SEARCHES_AT_ONCE = 64
"""Partitions of one request in which records are looked for at the same time."""

PATIENCE_S = 15.0
"""How long a search may take. Clients wait twice as long for an answer, as a rule, and ask again
after the error."""


class Found(NamedTuple):
    offset: Offset = NO_OFFSET
    timestamp: TimestampMs = NO_TIMESTAMP


NOTHING = Found()


class ListedPartition(NamedTuple):
    topic: str
    partition: int
    isolation: int
    shard: ShardHandle

    def end(self) -> Offset:
        """Where the part of the log ends that the consumer may see."""
        high_watermark = self.shard.offsets().high_watermark
        if self.isolation == READ_COMMITTED:
            return min(self.shard.last_stable(), high_watermark)
        return high_watermark


def searches(timestamp: int) -> bool:
    """Whether records are looked at, which may lie on object storage."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def refused(partition: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition, error_code=code)


class ListOffsets(Family):
    """The family of one API."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._special: Mapping[int, Callable[[ListedPartition], Awaitable[Found]]] = {
            LATEST: self._latest,
            EARLIEST: self._earliest,
            MAX_TIMESTAMP: self._max_timestamp,
            EARLIEST_LOCAL: self._earliest_local,
            LATEST_TIERED: self._latest_tiered,
            EARLIEST_PENDING_UPLOAD: self._earliest_pending,
        }

    def handlers(self) -> Mapping[type, Handled]:
        return {ListOffsetsRequest: Handled(self.list_offsets)}

    async def list_offsets(
        self, request: ListOffsetsRequest, caller: Caller
    ) -> ListOffsetsResponse:
        """Searches run side by side: one that waits for object storage holds up no other."""
        patience_s = min(request.timeout_ms / 1000, PATIENCE_S) or PATIENCE_S
        isolation = request.isolation_level

        async def find(name: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
            if not searches(wanted.timestamp):
                return await self._partition(name, wanted, isolation, caller)
            try:
                async with asyncio.timeout(patience_s):
                    return await self._partition(name, wanted, isolation, caller)
            except TimeoutError:
                return refused(wanted.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=await paced_each(
                        topic.partitions,
                        partial(find, topic.name),
                        min(len(topic.partitions), SEARCHES_AT_ONCE)
                        if any(searches(one.timestamp) for one in topic.partitions)
                        else 1,
                    ),
                )
                async for topic in paced(request.topics)
            ]
        )

    async def _partition(
        self, name: str, wanted: ListOffsetsPartition, isolation: int, caller: Caller
    ) -> ListOffsetsPartitionResponse:
        number = wanted.partition_index
        try:
            if wanted.timestamp < 0 and caller.version < SINCE.get(wanted.timestamp, 0):
                raise Refused(ErrorCode.UNSUPPORTED_VERSION)
            shard, epoch = await self._services.partitions.led(
                name, number, wanted.current_leader_epoch
            )
            place = ListedPartition(name, number, isolation, shard)
            found = await self._find(place, wanted.timestamp)
        except StrataError as error:
            code = code_of(error)
            return refused(number, code)
        known = caller.version >= 4 and found.offset != NO_OFFSET
        return ListOffsetsPartitionResponse(
            partition_index=number,
            offset=found.offset,
            timestamp=found.timestamp,
            leader_epoch=epoch if known else -1,
        )

    async def _find(self, place: ListedPartition, timestamp: int) -> Found:
        if timestamp >= 0:
            return await self._since(place, TimestampMs(timestamp))
        special = self._special.get(timestamp)
        if special is None:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        return await special(place)

    # -- one for each kind ---------------------------------------------------------------------

    async def _latest(self, place: ListedPartition) -> Found:
        return Found(place.end())

    async def _earliest(self, place: ListedPartition) -> Found:
        return Found(place.shard.offsets().start)

    async def _since(self, place: ListedPartition, timestamp: TimestampMs) -> Found:
        name, partition, drivers = place.topic, place.partition, self._services.drivers
        offset = await drivers.get_offset_by_timestamp(
            name, partition, timestamp, OffsetStrategy.LATEST
        )
        if offset >= place.end():
            return NOTHING
        try:
            records = await drivers.read_by_offset(name, partition, offset, ReadLimit(1))
        except OffsetOutOfRange:
            return NOTHING  # retention was faster
        if not records or records[0].timestamp < timestamp:
            return NOTHING
        return Found(records[0].offset, records[0].timestamp)

    async def _max_timestamp(self, place: ListedPartition) -> Found:
        """Of the records that this consumer can see: marks and deleted records do not count."""
        drivers = self._services.drivers
        found = await drivers.youngest_record(place.topic, place.partition, place.end())
        return NOTHING if found is None else Found(found.offset, found.timestamp)

    async def _earliest_local(self, place: ListedPartition) -> Found:
        return Found(place.shard.local_start())

    async def _latest_tiered(self, place: ListedPartition) -> Found:
        """The last offset that object storage has."""
        tiered_end = await self._tiered_end(place)
        return NOTHING if tiered_end is None else Found(Offset(tiered_end - 1))

    async def _earliest_pending(self, place: ListedPartition) -> Found:
        """The first offset that it does not have, where it has any."""
        tiered_end = await self._tiered_end(place)
        return NOTHING if tiered_end is None else Found(tiered_end)

    async def _tiered_end(self, place: ListedPartition) -> Offset | None:
        tiered_end = await self._services.drivers.tiered_end(place.topic, place.partition)
        return tiered_end if tiered_end > place.shard.offsets().start else None
