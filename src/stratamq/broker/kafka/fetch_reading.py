"""Reading for a Fetch: which partitions, how many bytes, up to where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.fetch_sessions import PartitionKey
from stratamq.broker.kafka.topics import Refused, find, lead
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.shard import ShardOffsets
from stratamq.model.topic import Topic
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchablePartitionResponse,
    FetchPartition,
)
from stratamq.wire.kafka.records import walk

UNKNOWN = -1
READ_COMMITTED = 1

Told = tuple[PartitionKey, FetchablePartitionResponse]


class Stability(Protocol):
    """What transactions let a `read_committed` consumer see."""

    async def last_stable(self, topic: Topic, partition: int, offsets: ShardOffsets) -> Offset:
        """The first offset of which it is not decided yet whether it counts."""

    async def aborted(
        self, topic: Topic, partition: int, start: Offset, end: Offset
    ) -> Sequence[AbortedTransaction]:
        """Transactions that were aborted and have records in `start..end - 1`."""


class EverythingIsStable:
    """Where nobody writes transactions."""

    async def last_stable(self, topic: Topic, partition: int, offsets: ShardOffsets) -> Offset:
        return offsets.high_watermark

    async def aborted(
        self, topic: Topic, partition: int, start: Offset, end: Offset
    ) -> Sequence[AbortedTransaction]:
        return []


class Readable(NamedTuple):
    """A partition with records at or after the offset that is asked for."""

    topic: Topic
    wanted: FetchPartition
    offsets: ShardOffsets
    last_stable: Offset
    end: Offset

    @property
    def is_caught_up(self) -> bool:
        return self.wanted.fetch_offset >= self.end


@dataclass(slots=True)
class Reading:
    """One pass over the partitions. `left_bytes` is shared by all of them.

    The first batch of the first partition that has any comes whatever its size, or a consumer with
    too small a limit would never get on; no other may go over.
    """

    left_bytes: int
    told: list[Told] = field(default_factory=list)
    found_bytes: int = 0
    failed: bool = False
    is_starved: bool = False
    waits_for: list[Readable] = field(default_factory=list)


class PartitionReader:
    """Reads partitions for one request after the other; holds nothing between them."""

    def __init__(self, services: Services, stability: Stability) -> None:
        self._services = services
        self._stability = stability

    async def read_all(
        self, wanted: Sequence[tuple[PartitionKey, FetchPartition]], bytes_max: int, isolation: int
    ) -> Reading:
        reading = Reading(bytes_max, is_starved=bytes_max <= 0)
        for key, partition in wanted:
            reading.told.append((key, await self._read(key, partition, isolation, reading)))
        return reading

    async def _read(
        self, key: PartitionKey, wanted: FetchPartition, isolation: int, reading: Reading
    ) -> FetchablePartitionResponse:
        try:
            topic = find(self._services.broker_cache, key.topic, key.topic_id)
            lead(self._services, topic, wanted.partition, wanted.current_leader_epoch)
            seen = await self._look(topic, wanted, isolation)
            if seen.is_caught_up:
                reading.waits_for.append(seen)
                return _told(seen, b"", isolation)
            data = await self._records(seen, reading)
            if not data:
                reading.waits_for.append(seen)  # what is left up to the end was compacted away
            aborted = await self._aborted(seen, data) if isolation == READ_COMMITTED else None
            return _told(seen, data, isolation, aborted)
        except StrataError as error:
            reading.failed = True
            code = error.code if isinstance(error, Refused) else code_of(error)
            return refusal(wanted.partition, code)

    async def _look(self, topic: Topic, wanted: FetchPartition, isolation: int) -> Readable:
        offsets = await self._services.drivers.offsets(topic.name, wanted.partition)
        start, high_watermark, _ = offsets
        if not start <= wanted.fetch_offset <= high_watermark:
            raise OffsetOutOfRange(topic.name, wanted.fetch_offset, start, high_watermark)
        stable = await self._stability.last_stable(topic, wanted.partition, offsets)
        end = stable if isolation == READ_COMMITTED else high_watermark
        return Readable(topic, wanted, offsets, stable, end)

    async def _records(self, seen: Readable, reading: Reading) -> bytes:
        wanted = seen.wanted
        limit = min(wanted.partition_max_bytes, reading.left_bytes)
        if limit <= 0:
            return b""
        fetched = await self._services.drivers.fetch_batches(
            seen.topic.name, wanted.partition, Offset(wanted.fetch_offset), limit
        )
        data = fetched.data
        if data and seen.end < fetched.offsets.high_watermark:
            data = below(data, seen.end)
        if len(data) > limit and reading.found_bytes:
            return b""
        reading.found_bytes += len(data)
        reading.left_bytes -= len(data)
        return data

    async def _aborted(self, seen: Readable, data: bytes) -> Sequence[AbortedTransaction]:
        if not data:
            return []
        end = Offset(walk(data)[-1].last_offset + 1)
        start = Offset(seen.wanted.fetch_offset)
        return await self._stability.aborted(seen.topic, seen.wanted.partition, start, end)


def below(data: bytes, end: Offset) -> bytes:
    """Those batches that lie wholly below `end`."""
    for span in walk(data):
        if span.last_offset >= end:
            return data[: span.position]
    return data


def refusal(partition: int, code: ErrorCode) -> FetchablePartitionResponse:
    return FetchablePartitionResponse(
        partition_index=partition,
        error_code=code,
        high_watermark=UNKNOWN,
        aborted_transactions=None,
        records=b"",
    )


def _told(
    seen: Readable,
    data: bytes,
    isolation: int,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> FetchablePartitionResponse:
    if aborted is None and isolation == READ_COMMITTED:
        aborted = []
    return FetchablePartitionResponse(
        partition_index=seen.wanted.partition,
        high_watermark=seen.offsets.high_watermark,
        last_stable_offset=seen.last_stable,
        log_start_offset=seen.offsets.start,
        aborted_transactions=aborted,
        records=data,
    )
