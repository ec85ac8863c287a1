"""ListOffsets and OffsetForLeaderEpoch.

ListOffsets: the earliest offset, the latest, the first since a time, the one of the largest time.
OffsetForLeaderEpoch: where an epoch ended, for clients that must not read past it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.fetch.reading import READ_COMMITTED
from stratamq.broker.kafka.turns import paced, paced_each
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.handle import ShardHandle
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
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


class FoundOffset(NamedTuple):
    offset: Offset = NO_OFFSET
    timestamp: TimestampMs = NO_TIMESTAMP


NOT_FOUND = FoundOffset()


class ListedPartition(NamedTuple):
    topic: str
    partition: int
    isolation: int
    shard: ShardHandle

    def end(self) -> Offset:
        """The end of the log as far as the consumer may see it."""
        high_watermark = self.shard.offsets().high_watermark
        if self.isolation == READ_COMMITTED:
            return min(self.shard.last_stable(), high_watermark)
        return high_watermark


def searches(timestamp: int) -> bool:
    """Whether records are read, which may lie on object storage."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


class LogOffsets(Family):
    def __init__(self, services: Services) -> None:
        self._services = services

    def handlers(self) -> Mapping[type, Handled]:
        return {
            ListOffsetsRequest: Handled(self.list_offsets),
            OffsetForLeaderEpochRequest: Handled(self.end_offsets),
        }

    # -- ListOffsets ---------------------------------------------------------------------------

    async def list_offsets(
        self, request: ListOffsetsRequest, caller: Caller
    ) -> ListOffsetsResponse:
        """Searches run concurrently: one that waits for object storage holds up no other."""
        patience_s = min(request.timeout_ms / 1000, PATIENCE_S) or PATIENCE_S
        isolation = request.isolation_level

        async def find(name: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
            if not searches(wanted.timestamp):
                return await self._partition(name, wanted, isolation, caller)
            try:
                async with asyncio.timeout(patience_s):
                    return await self._partition(name, wanted, isolation, caller)
            except TimeoutError:
                return ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                )

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
            listed = ListedPartition(name, number, isolation, shard)
            found = await self._find(listed, wanted.timestamp)
        except StrataError as error:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=code_of(error))
        known = caller.version >= 4 and found.offset != NO_OFFSET
        return ListOffsetsPartitionResponse(
            partition_index=number,
            offset=found.offset,
            timestamp=found.timestamp,
            leader_epoch=epoch if known else -1,
        )

    async def _find(self, listed: ListedPartition, timestamp: int) -> FoundOffset:
        drivers = self._services.drivers
        if timestamp >= 0:
            return await self._since(listed, TimestampMs(timestamp))
        if timestamp == LATEST:
            return FoundOffset(listed.end())
        if timestamp == EARLIEST:
            return FoundOffset(listed.shard.offsets().start)
        if timestamp == EARLIEST_LOCAL:
            return FoundOffset(listed.shard.local_start())
        if timestamp == MAX_TIMESTAMP:
            # Of the records that this consumer can see: marks and deleted records do not count.
            found = await drivers.youngest_record(listed.topic, listed.partition, listed.end())
            return NOT_FOUND if found is None else FoundOffset(found.offset, found.timestamp)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            tiered_end = await drivers.tiered_end(listed.topic, listed.partition)
            if tiered_end <= listed.shard.offsets().start:
                return NOT_FOUND  # object storage has nothing of it
            return FoundOffset(Offset(tiered_end - (timestamp == LATEST_TIERED)))
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)

    async def _since(self, listed: ListedPartition, timestamp: TimestampMs) -> FoundOffset:
        name, partition, drivers = listed.topic, listed.partition, self._services.drivers
        offset = await drivers.get_offset_by_timestamp(
            name, partition, timestamp, OffsetStrategy.LATEST
        )
        if offset >= listed.end():
            return NOT_FOUND
        try:
            records = await drivers.read_by_offset(name, partition, offset, ReadLimit(1))
        except OffsetOutOfRange:
            return NOT_FOUND  # retention was faster
        if not records or records[0].timestamp < timestamp:
            return NOT_FOUND
        return FoundOffset(records[0].offset, records[0].timestamp)

    # -- OffsetForLeaderEpoch ------------------------------------------------------------------

    async def end_offsets(
        self, request: OffsetForLeaderEpochRequest, caller: Caller
    ) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        await self._epoch_end(topic.topic, one)
                        async for one in paced(topic.partitions)
                    ],
                )
                async for topic in paced(request.topics)
            ]
        )

    async def _epoch_end(self, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        number = wanted.partition
        try:
            shard, current = await self._services.partitions.led(
                name, number, wanted.current_leader_epoch
            )
            asked = LeaderEpoch(wanted.leader_epoch)
            epoch, end = shard.end_of_epoch(asked)
            if asked > current:
                epoch, end = NO_EPOCH, NO_OFFSET
            elif asked == current:  # it is still being written, perhaps without a record yet
                epoch, end = asked, shard.offsets().end
        except StrataError as error:
            return EpochEndOffset(partition=number, error_code=code_of(error))
        return EpochEndOffset(partition=number, leader_epoch=epoch, end_offset=end)
