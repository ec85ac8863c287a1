"""ListOffsets: the earliest, the latest, the first since a time, the one of the largest time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from stratamq.broker.kafka.contract import Caller, Handled, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.fetch_reading import READ_COMMITTED, EverythingIsStable, Stability
from stratamq.broker.kafka.topics import Refused, lead
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.topic import Topic
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


class Found(NamedTuple):
    offset: Offset = NO_OFFSET
    timestamp: TimestampMs = NO_TIMESTAMP


NOTHING = Found()


class Place(NamedTuple):
    topic: Topic
    partition: int
    isolation: int


class ListOffsets:
    """The family of one API."""

    def __init__(self, services: Services, stability: Stability | None = None) -> None:
        self._services = services
        self._stability = stability or EverythingIsStable()
        self._special: Mapping[int, Callable[[Place], Awaitable[Found]]] = {
            LATEST: self._latest,
            EARLIEST: self._earliest,
            MAX_TIMESTAMP: self._max_timestamp,
            EARLIEST_LOCAL: self._earliest,
            LATEST_TIERED: self._nothing,
            EARLIEST_PENDING_UPLOAD: self._nothing,
        }

    def handlers(self) -> Mapping[type, Handled]:
        return {ListOffsetsRequest: Handled(self.list_offsets)}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def list_offsets(
        self, request: ListOffsetsRequest, caller: Caller
    ) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        await self._partition(topic.name, one, request.isolation_level, caller)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    async def _partition(
        self, name: str, wanted: ListOffsetsPartition, isolation: int, caller: Caller
    ) -> ListOffsetsPartitionResponse:
        number = wanted.partition_index
        try:
            if wanted.timestamp < 0 and caller.version < SINCE.get(wanted.timestamp, 0):
                raise Refused(ErrorCode.UNSUPPORTED_VERSION)
            topic = self._services.broker_cache.topic(name)
            epoch = lead(self._services, topic, number, wanted.current_leader_epoch)
            found = await self._find(Place(topic, number, isolation), wanted.timestamp)
        except StrataError as error:
            code = error.code if isinstance(error, Refused) else code_of(error)
            return ListOffsetsPartitionResponse(partition_index=number, error_code=code)
        known = caller.version >= 4 and found.offset != NO_OFFSET
        return ListOffsetsPartitionResponse(
            partition_index=number,
            offset=found.offset,
            timestamp=found.timestamp,
            leader_epoch=epoch if known else -1,
        )

    async def _find(self, place: Place, timestamp: int) -> Found:
        if timestamp >= 0:
            return await self._since(place, TimestampMs(timestamp))
        special = self._special.get(timestamp)
        if special is None:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        return await special(place)

    # -- one for each kind ---------------------------------------------------------------------

    async def _latest(self, place: Place) -> Found:
        return Found(await self._end(place))

    async def _earliest(self, place: Place) -> Found:
        drivers = self._services.drivers
        return Found((await drivers.offsets(place.topic.name, place.partition)).start)

    async def _since(self, place: Place, timestamp: TimestampMs) -> Found:
        name, partition, drivers = place.topic.name, place.partition, self._services.drivers
        offset = await drivers.get_offset_by_timestamp(
            name, partition, timestamp, OffsetStrategy.LATEST
        )
        if offset >= await self._end(place):
            return NOTHING
        try:
            records = await drivers.read_by_offset(name, partition, offset, ReadLimit(1))
        except OffsetOutOfRange:
            return NOTHING  # retention was faster
        if not records or records[0].timestamp < timestamp:
            return NOTHING
        return Found(records[0].offset, records[0].timestamp)

    async def _max_timestamp(self, place: Place) -> Found:
        segments = await self._services.drivers.segments(place.topic.name, place.partition)
        largest = max((segment.max_timestamp for segment in segments), default=NO_TIMESTAMP)
        return NOTHING if largest < 0 else await self._since(place, largest)

    async def _nothing(self, place: Place) -> Found:
        """Nothing is tiered yet."""
        return NOTHING

    async def _end(self, place: Place) -> Offset:
        topic, partition, isolation = place
        offsets = await self._services.drivers.offsets(topic.name, partition)
        if isolation == READ_COMMITTED:
            return await self._stability.last_stable(topic, partition, offsets)
        return offsets.high_watermark
