"""The brokers' way in: topics by name. Finds the topic's storage, chooses partitions, names
shards."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stratamq.adapter.contract import StorageAdapter
from stratamq.adapter.partitions import (
    FoundRecord,
    Placed,
    Shares,
    cut,
    gathered,
    partitions_of,
    put_together,
    shard_of,
    share_out,
)
from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    FetchResult,
    OffsetStrategy,
    ReadLimit,
)
from stratamq.engine.handle import ShardHandle
from stratamq.log.contract import SegmentInfo
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.errors import AlreadyExists, Closed, InvalidConfig, StorageError
from stratamq.model.record import Record
from stratamq.model.shard import ShardOffsets
from stratamq.model.topic import Topic
from stratamq.model.transaction import ProducerStateEntry
from stratamq.model.types import (
    EARLIEST,
    Offset,
    TimestampMs,
)
from stratamq.wire.kafka.partitioner import partition_for_key
from stratamq.wire.kafka.records import Buffer

log = logging.getLogger(__name__)

DriverFactory = Callable[[], StorageAdapter]
"""Creates a driver that is not open yet."""

REOPEN_WAIT_S = 5.0
"""How long a storage that could not be opened is left alone."""


class OpenFailure(NamedTuple):
    """Why a storage could not be opened, and when it is tried again, by the event loop's clock."""

    reason: str
    retry_at_s: float


class StorageDriverManager:
    """Routes topic -> driver -> shard. One driver per storage type, created at its first use.

    Records with a key go where the key's hash says, as Kafka's clients do it, so that a key stays
    in one partition. Records without one take turns by `message_seq`, which counts over all topics.
    The keyless records of one call take one turn: they stay together, and are stored whole or not
    at all.
    """

    def __init__(self, topics: BrokerCacheManager) -> None:
        self._topics = topics
        self._factories: dict[str, DriverFactory] = {}
        self._drivers: dict[str, StorageAdapter] = {}
        self._failures: dict[str, OpenFailure] = {}
        self._opening: dict[str, asyncio.Task[StorageAdapter]] = {}
        self._message_seq = itertools.count()
        self._closed = False

    # -- drivers -------------------------------------------------------------------------------

    def register(self, storage_type: str, factory: DriverFactory) -> None:
        """Name a kind of storage. Topics choose it by their config `storage.type`."""
        if storage_type in self._factories:
            raise AlreadyExists(f"storage type {storage_type!r} is registered already")
        self._factories[storage_type] = factory

    @property
    def storage_types(self) -> frozenset[str]:
        return frozenset(self._factories)

    @property
    def open_drivers(self) -> Mapping[str, StorageAdapter]:
        return self._drivers

    async def driver(self, storage_type: str) -> StorageAdapter:
        """The one driver of a storage type, opened if this is the first call. Opening it may mean
        reading it all: it goes on when its callers give up, and a second one waits for it."""
        if (driver := self._drivers.get(storage_type)) is not None:
            return driver
        task = self._opening.get(storage_type)
        if task is None:
            factory = self._factory(storage_type)
            task = self._opening[storage_type] = asyncio.create_task(
                self._open(storage_type, factory), name=f"open {storage_type}"
            )
            task.add_done_callback(lambda done: self._opened(storage_type, done))
        return await asyncio.shield(task)

    def _factory(self, storage_type: str) -> DriverFactory:
        """A storage that could not be opened is not tried again with every request."""
        if self._closed:
            raise Closed("the node is shut down")
        factory = self._factories.get(storage_type)
        if factory is None:
            known = ", ".join(sorted(self._factories))
            raise InvalidConfig(f"storage.type: {storage_type!r} is not one of {known}")
        failure = self._failures.get(storage_type)
        if failure is not None and asyncio.get_running_loop().time() < failure.retry_at_s:
            raise StorageError(f"storage {storage_type} cannot be opened: {failure.reason}")
        return factory

    def _opened(self, storage_type: str, task: asyncio.Task[StorageAdapter]) -> None:
        del self._opening[storage_type]
        if not task.cancelled():
            task.exception()  # perhaps all callers have given up, and no other code asks for it

    async def _open(self, storage_type: str, factory: DriverFactory) -> StorageAdapter:
        driver = factory()
        try:
            await driver.open()
        except Exception as error:
            known = self._failures.get(storage_type)
            if known is None or known.reason != str(error):
                log.error("storage %s cannot be opened: %s", storage_type, error)
            retry_at_s = asyncio.get_running_loop().time() + REOPEN_WAIT_S
            self._failures[storage_type] = OpenFailure(str(error), retry_at_s)
            try:
                await driver.close()
            except Exception as close_error:
                log.debug("storage %s, which did not open: %s", storage_type, close_error)
            raise StorageError(f"storage {storage_type} cannot be opened: {error}") from error
        self._failures.pop(storage_type, None)
        self._drivers[storage_type] = driver
        return driver

    async def close(self) -> None:
        """Close every driver, also when one of them fails."""
        self._closed = True
        if self._opening:
            await asyncio.wait(self._opening.values())
        drivers, self._drivers = list(self._drivers.values()), {}
        outcomes = await asyncio.gather(
            *(driver.close() for driver in drivers), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    # -- one partition for many calls ----------------------------------------------------------

    def handle(self, topic: Topic, partition: int) -> ShardHandle | None:
        """The shard of a partition; None while its storage, or the shard itself, is not open. It
        holds until the topic's metadata or the shard's changes."""
        driver, shard = self._drivers.get(topic.config.storage_name), shard_of(topic, partition)
        return None if driver is None or driver.is_unopened(shard) else driver.handle(shard)

    async def open_handle(self, topic: Topic, partition: int) -> ShardHandle:
        driver, shard = await self.driver(topic.config.storage_name), shard_of(topic, partition)
        await driver.open_shard(shard)
        return driver.handle(shard)

    # -- writing -------------------------------------------------------------------------------

    async def write(
        self,
        topic: str,
        record: Record,
        *,
        partition: int | None = None,
        acks: Acks | None = None,
    ) -> Placed:
        meta, driver = await self._route(topic)
        if partition is None:
            if meta.partitions == 1:
                partition = 0
            elif record.key is not None:
                partition = partition_for_key(record.key, meta.partitions)
            else:
                partition = next(self._message_seq) % meta.partitions
        shard = shard_of(meta, partition)
        return Placed(partition, await driver.write(shard, record, acks=acks))

    async def batch_write(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        acks: Acks | None = None,
    ) -> list[Placed]:
        """Where each record landed, in the order they were given.

        Each partition takes its share whole or not at all. When some do and some do not,
        PartialWrite says which; when none does, the first one's error is raised as it is.
        """
        meta, driver = await self._route(topic)
        shares = self._share_out(meta, records, partition)

        async def write(number: int, share: Sequence[int]) -> range:
            chosen = records if len(shares) == 1 else [records[index] for index in share]
            return await driver.batch_write(shard_of(meta, number), chosen, acks=acks)

        outcomes = await asyncio.gather(
            *(write(number, share) for number, share in shares.items()), return_exceptions=True
        )
        return put_together(len(records), shares, outcomes)

    def _share_out(self, topic: Topic, records: Sequence[Record], partition: int | None) -> Shares:
        if partition is None and topic.partitions > 1:
            turn = next(self._message_seq)
            return share_out(records, topic.partitions, turn % topic.partitions)
        number = partition or 0
        shard_of(topic, number)
        return {number: range(len(records))} if records else {}

    async def append_batch(
        self,
        topic: str,
        partition: int,
        data: Buffer | AcceptedBatch,
        *,
        acks: Acks | None = None,
    ) -> AppendResult:
        meta, driver = await self._route(topic)
        return await driver.append_batch(shard_of(meta, partition), data, acks=acks)

    # -- reading -------------------------------------------------------------------------------

    async def read_by_offset(
        self, topic: str, partition: int, offset: Offset, limit: ReadLimit = ReadLimit()
    ) -> list[Record]:
        meta, driver = await self._route(topic)
        return await driver.read_by_offset(shard_of(meta, partition), offset, limit)

    async def read_by_key(
        self,
        topic: str,
        key: bytes,
        *,
        partition: int | None = None,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
        history: bool = False,
    ) -> list[FoundRecord]:
        """Newest first, by timestamp where several partitions hold the key. Without a partition all
        are searched: a producer may have put the key anywhere."""
        meta, driver = await self._route(topic)
        found = await gathered(
            partitions_of(meta, partition),
            lambda number: driver.read_by_key(
                shard_of(meta, number), key, offset, limit, history=history
            ),
        )
        found.sort(key=lambda one: (-one.record.timestamp, one.partition, -one.record.offset))
        return cut(found, limit) if history else found[:1]

    async def read_by_tag(
        self,
        topic: str,
        tag: bytes,
        *,
        partition: int | None = None,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
    ) -> list[FoundRecord]:
        """Oldest first within a partition, one partition after the other."""
        meta, driver = await self._route(topic)
        found = await gathered(
            partitions_of(meta, partition),
            lambda number: driver.read_by_tag(shard_of(meta, number), tag, offset, limit),
        )
        return cut(found, limit)

    async def fetch_batches(
        self,
        topic: str,
        partition: int,
        offset: Offset,
        bytes_max: int = 1 << 20,
        end: Offset | None = None,
    ) -> FetchResult:
        meta, driver = await self._route(topic)
        return await driver.fetch_batches(shard_of(meta, partition), offset, bytes_max, end)

    async def offsets(self, topic: str, partition: int) -> ShardOffsets:
        meta, driver = await self._route(topic)
        return await driver.offsets(shard_of(meta, partition))

    async def segments(self, topic: str, partition: int) -> tuple[SegmentInfo, ...]:
        meta, driver = await self._route(topic)
        return await driver.segments(shard_of(meta, partition))

    async def cold_segments(self, topic: str, partition: int) -> tuple[SegmentInfo, ...]:
        """Those that are on object storage only."""
        meta, driver = await self._route(topic)
        return driver.cold_segments(shard_of(meta, partition))

    async def tiered_end(self, topic: str, partition: int) -> Offset:
        """The end of what is on object storage; 0 where nothing is."""
        meta, driver = await self._route(topic)
        return driver.tiered_end(shard_of(meta, partition))

    async def get_offset_by_timestamp(
        self,
        topic: str,
        partition: int,
        timestamp: TimestampMs,
        strategy: OffsetStrategy = OffsetStrategy.LATEST,
    ) -> Offset:
        meta, driver = await self._route(topic)
        return await driver.get_offset_by_timestamp(shard_of(meta, partition), timestamp, strategy)

    async def youngest_record(
        self, topic: str, partition: int, end: Offset | None = None
    ) -> Record | None:
        meta, driver = await self._route(topic)
        return await driver.youngest_record(shard_of(meta, partition), end)

    # -- groups --------------------------------------------------------------------------------

    async def get_offset_by_group(
        self,
        topic: str,
        partition: int,
        group: str,
        strategy: OffsetStrategy = OffsetStrategy.EARLIEST,
    ) -> Offset:
        meta, driver = await self._route(topic)
        return await driver.get_offset_by_group(shard_of(meta, partition), group, strategy)

    async def commit_offset(self, topic: str, group: str, offsets: Mapping[int, Offset]) -> None:
        meta, driver = await self._route(topic)
        by_shard = {shard_of(meta, number): offset for number, offset in offsets.items()}
        await driver.commit_offset(group, by_shard)

    # -- transactions --------------------------------------------------------------------------

    async def write_marker(
        self,
        topic: str,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
    ) -> Offset:
        """End a producer's transaction in one partition; the offset of the mark."""
        meta, driver = await self._route(topic)
        return await driver.write_marker(
            shard_of(meta, partition),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )

    async def producers(self, topic: str, partition: int) -> list[ProducerStateEntry]:
        meta, driver = await self._route(topic)
        return await driver.producers(shard_of(meta, partition))

    # -- deleting ------------------------------------------------------------------------------

    async def delete_by_key(self, topic: str, key: bytes, *, partition: int | None = None) -> int:
        """Delete records of a key, in all partitions unless one is named."""
        meta, driver = await self._route(topic)
        counts = await asyncio.gather(
            *(
                driver.delete_by_key(shard_of(meta, number), key)
                for number in partitions_of(meta, partition)
            )
        )
        return sum(counts)

    async def delete_by_offset(self, topic: str, partition: int, offset: Offset) -> bool:
        meta, driver = await self._route(topic)
        return await driver.delete_by_offset(shard_of(meta, partition), offset)

    async def trim(self, topic: str, partition: int, start: Offset) -> Offset:
        meta, driver = await self._route(topic)
        return await driver.trim(shard_of(meta, partition), start)

    # -- routing -------------------------------------------------------------------------------

    async def _route(self, topic: str) -> tuple[Topic, StorageAdapter]:
        meta = self._topics.topic(topic)
        storage = meta.config.storage_name
        return meta, self._drivers.get(storage) or await self.driver(storage)
