"""Reading for a Fetch: which partitions, how many bytes, up to where."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from itertools import islice
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.cold_fetches import BYTES_MAX, Answer, ColdFetches, Place
from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.fetch_sessions import PartitionKey
from stratamq.broker.kafka.topics import Refused, find, lead
from stratamq.broker.kafka.turns import paced
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.shard import ShardOffsets
from stratamq.model.topic import Topic
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchablePartitionResponse,
    FetchPartition,
)
from stratamq.wire.kafka.records import walk

UNKNOWN = -1
READ_COMMITTED = 1
AT_ONCE = 8
"""Partitions that are read at the same time for one request."""

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


class Diverging(StrataError):
    """A follower's log has left ours at the end of this epoch."""

    def __init__(self, epoch: LeaderEpoch, end: Offset) -> None:
        super().__init__(f"epoch {epoch} ends at {end}")
        self.epoch, self.end = epoch, end


class Readable(NamedTuple):
    """A partition with records at or after the offset that is asked for. `cold`: reading them waits
    for object storage."""

    topic: Topic
    wanted: FetchPartition
    offsets: ShardOffsets
    last_stable: Offset
    end: Offset
    committed: bool = False
    """Whether the consumer sees no further than the last stable offset."""
    cold: bool = False

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
    skips: bool = False
    """Whether an answer leads a consumer over deleted records: it is not to wait for more bytes."""
    failed: bool = False
    is_starved: bool = False
    is_cold: bool = False
    """Something came from object storage."""

    waits_for: list[Readable] = field(default_factory=list)
    under_way: list[asyncio.Task[Answer]] = field(default_factory=list)
    """Reads of object storage that are not done yet."""

    def taken(self, fetched: Answer | None, one: Readable) -> bytes | StrataError:
        """What of it goes into the answer, in the order of the request."""
        if fetched is None:
            return b""
        if isinstance(fetched, StrataError):
            return fetched
        data = fetched.data
        limit = min(one.wanted.partition_max_bytes, self.left_bytes)
        if len(data) > limit and self.found_bytes:
            return b""
        self.found_bytes += len(data)
        self.left_bytes -= len(data)
        self.skips = self.skips or fetched.skips
        return data

    def is_full(self, isolation: int) -> bool:
        """Whether waiting for more would add nothing: the limits of bytes left records out. What
        came from object storage does not wait either, since it would have to be read again."""
        return (
            self.is_cold
            or self.left_bytes <= 0
            or any(_goes_on(answer, isolation) for _, answer in self.told)
        )

    def refused(self, partition: int, error: StrataError) -> FetchablePartitionResponse:
        self.failed = True
        if isinstance(error, Diverging):
            return diverging(partition, error)
        return refusal(partition, error.code if isinstance(error, Refused) else code_of(error))


def at_once(limits: Sequence[int], left_bytes: int) -> int:
    """How many of the next partitions to read together, when each may bring up to its limit.

    No more than fit together, so that each gets the bytes it would get if it were read alone and in
    its turn.
    """
    count, together = 1, limits[0]
    for limit in limits[1:]:
        together += limit
        if together > left_bytes:
            break
        count += 1
    return count


class PartitionReader:
    """Reads partitions for one request after the other; holds nothing between them but what
    `cold` has under way."""

    def __init__(self, services: Services, stability: Stability, cold: ColdFetches) -> None:
        self._services = services
        self._stability = stability
        self._cold = cold

    async def read_all(
        self, wanted: Sequence[tuple[PartitionKey, FetchPartition]], bytes_max: int, isolation: int
    ) -> Reading:
        """Look at all of them first, then read those that have something, a few at a time."""
        reading = Reading(bytes_max, is_starved=bytes_max <= 0)
        seen = [await self._seen(key, one, isolation, reading) async for key, one in paced(wanted)]
        ready = [one for one in seen if isinstance(one, Readable) and not one.is_caught_up]
        found: dict[int, bytes | StrataError] = {
            id(one): self._picked_up(one, reading) for one in ready if one.cold
        }
        todo = deque(one for one in ready if not one.cold)
        while todo:
            limits = [one.wanted.partition_max_bytes for one in islice(todo, AT_ONCE)]
            wave = [todo.popleft() for _ in range(at_once(limits, reading.left_bytes))]
            answers = await self._read(wave, reading.left_bytes)
            for one, fetched in zip(wave, answers, strict=True):
                found[id(one)] = reading.taken(fetched, one)
        async for (key, _), look in paced(zip(wanted, seen, strict=True)):
            told = await self._answer(key, look, found.get(id(look), b""), isolation, reading)
            reading.told.append((key, told))
        return reading

    async def _seen(
        self, key: PartitionKey, wanted: FetchPartition, isolation: int, reading: Reading
    ) -> Readable | FetchablePartitionResponse:
        try:
            topic = find(self._services.broker_cache, key.topic, key.topic_id)
            lead(self._services, topic, wanted.partition, wanted.current_leader_epoch)
            if wanted.last_fetched_epoch >= 0:
                await self._check_same_log(topic, wanted)
            return await self._look(topic, wanted, isolation)
        except StrataError as error:
            return reading.refused(wanted.partition, error)

    async def _answer(
        self,
        key: PartitionKey,
        seen: Readable | FetchablePartitionResponse,
        data: bytes | StrataError,
        isolation: int,
        reading: Reading,
    ) -> FetchablePartitionResponse:
        if not isinstance(seen, Readable):
            return seen
        if isinstance(data, StrataError):
            return reading.refused(seen.wanted.partition, data)
        reading.waits_for.append(seen)
        try:
            aborted = await self._aborted(seen, data) if isolation == READ_COMMITTED else None
            # Records are read by name. An id never comes back: if the topic is still the one that
            # was found before the read, all that was read is of it.
            now = find(self._services.broker_cache, key.topic, key.topic_id)
            if now.topic_id != seen.topic.topic_id:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except StrataError as error:
            return reading.refused(seen.wanted.partition, error)
        return _told(seen, data, isolation, aborted)

    async def _check_same_log(self, topic: Topic, wanted: FetchPartition) -> None:
        """A follower says which epoch it read last; where its log left ours, it must cut it."""
        epoch, end = await self._services.drivers.end_of_epoch(
            topic.name, wanted.partition, LeaderEpoch(wanted.last_fetched_epoch)
        )
        if end >= 0 and (epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset):
            raise Diverging(epoch, end)

    async def _look(self, topic: Topic, wanted: FetchPartition, isolation: int) -> Readable:
        offsets = await self._services.drivers.offsets(topic.name, wanted.partition)
        start, high_watermark, _ = offsets
        if not start <= wanted.fetch_offset <= high_watermark:
            raise OffsetOutOfRange(topic.name, wanted.fetch_offset, start, high_watermark)
        stable = await self._stability.last_stable(topic, wanted.partition, offsets)
        committed = isolation == READ_COMMITTED
        end = stable if committed else high_watermark
        cold = wanted.fetch_offset < end and await self._is_cold(topic, wanted)
        return Readable(topic, wanted, offsets, stable, end, committed, cold)

    async def _is_cold(self, topic: Topic, wanted: FetchPartition) -> bool:
        here = await self._services.drivers.local_start(topic.name, wanted.partition)
        return wanted.fetch_offset < here

    async def _read(self, wave: Sequence[Readable], left_bytes: int) -> Sequence[Answer | None]:
        if len(wave) == 1:
            return [await self._records(wave[0], left_bytes)]
        return await asyncio.gather(*(self._records(one, left_bytes) for one in wave))

    async def _records(self, seen: Readable, left_bytes: int) -> Answer | None:
        limit = min(seen.wanted.partition_max_bytes, left_bytes)
        return await self._fetched(seen, limit) if limit > 0 else None

    async def _fetched(self, seen: Readable, limit: int) -> Answer:
        try:
            return await self._services.drivers.fetch_batches(
                seen.topic.name,
                seen.wanted.partition,
                Offset(seen.wanted.fetch_offset),
                limit,
                seen.end if seen.committed else None,
            )
        except StrataError as error:
            return error

    def _picked_up(self, seen: Readable, reading: Reading) -> bytes | StrataError:
        """What object storage has given by now. What does not fit this answer waits for the
        next."""
        limit = min(seen.wanted.partition_max_bytes, BYTES_MAX)
        if min(limit, reading.left_bytes) <= 0:
            return b""
        wanted = seen.wanted
        place = Place(seen.topic.topic_id, wanted.partition, wanted.fetch_offset, seen.committed)
        task = self._cold.begin(place, lambda: self._fetched(seen, limit))
        if task is None:
            return b""
        if not task.done():
            reading.under_way.append(task)
            return b""
        fetched = task.result()
        taken = reading.taken(fetched, seen)
        if taken or isinstance(fetched, StrataError) or not fetched.data:
            self._cold.forget(place)
        reading.is_cold = reading.is_cold or bool(taken)
        return taken

    async def _aborted(self, seen: Readable, data: bytes) -> Sequence[AbortedTransaction]:
        if not data:
            return []
        end = Offset(walk(data)[-1].last_offset + 1)
        start = Offset(seen.wanted.fetch_offset)
        return await self._stability.aborted(seen.topic, seen.wanted.partition, start, end)


def _goes_on(answer: FetchablePartitionResponse, isolation: int) -> bool:
    """Whether there are records after those of the answer."""
    if not answer.records:
        return False
    end = answer.last_stable_offset if isolation == READ_COMMITTED else answer.high_watermark
    return walk(answer.records)[-1].last_offset + 1 < end


def refusal(partition: int, code: ErrorCode) -> FetchablePartitionResponse:
    return FetchablePartitionResponse(
        partition_index=partition,
        error_code=code,
        high_watermark=UNKNOWN,
        aborted_transactions=None,
        records=b"",
    )


def diverging(partition: int, error: Diverging) -> FetchablePartitionResponse:
    """Not a failure: it tells a follower where to go on."""
    told = refusal(partition, ErrorCode.NONE)
    told.diverging_epoch = DivergingEpoch(epoch=error.epoch, end_offset=error.end)
    return told


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
