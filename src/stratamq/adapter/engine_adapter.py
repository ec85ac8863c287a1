"""Topics in our own engines: writes go to the leader, wherever it is, reads to this node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stratamq.adapter.contract import StorageAdapter
from stratamq.adapter.offsets import OffsetManager
from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    FetchResult,
    OffsetStrategy,
    ReadLimit,
    ShardHousekeeping,
    ShardManagement,
    ShardReading,
    ShardSpec,
)
from stratamq.engine.engine import StorageEngine
from stratamq.engine.handle import ShardHandle
from stratamq.engine.handler import StorageEngineHandler
from stratamq.log.contract import SegmentInfo
from stratamq.meta.groups import CommitOffset
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import ProducerStateEntry, TransactionMarker
from stratamq.model.types import EARLIEST, Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import Buffer


class EngineStorageAdapter(StorageAdapter):
    """One storage type: what changes records goes through the handler, everything else to the
    engine; group offsets by the OffsetManager."""

    def __init__(
        self,
        handler: StorageEngineHandler,
        storage: StorageType,
        engine: StorageEngine,
        groups: OffsetManager,
    ) -> None:
        self._handler = handler
        self._storage = storage
        self._shards: ShardManagement = engine
        self._reader: ShardReading = engine
        self._housekeeping: ShardHousekeeping = engine
        self._groups = groups

    async def open(self) -> None:
        await self._shards.open()

    async def close(self) -> None:
        await self._shards.close()

    # -- shards --------------------------------------------------------------------------------

    async def create_shard(self, spec: ShardSpec) -> None:
        await self._shards.create_shard(spec)

    async def delete_shard(self, shard: ShardName) -> None:
        await self._shards.delete_shard(shard)

    async def list_shard(self) -> Mapping[ShardName, ShardSpec]:
        return self._shards.list_shards()

    async def restore_shards(self, specs: Sequence[ShardSpec]) -> None:
        await self._shards.restore_shards(specs)

    def is_unopened(self, shard: ShardName) -> bool:
        return self._shards.is_unopened(shard)

    async def open_shard(self, shard: ShardName) -> None:
        await self._shards.open_shard(shard)

    def unavailable_shards(self) -> Mapping[ShardName, str]:
        return self._shards.unavailable_shards()

    async def check_files(self) -> None:
        await self._shards.check_files()

    async def retry_shard(self, spec: ShardSpec, *, repair: bool = False) -> bool:
        return await self._shards.retry_shard(spec, repair=repair)

    async def offsets(self, shard: ShardName) -> ShardOffsets:
        return self._reader.offsets(shard)

    def handle(self, shard: ShardName) -> ShardHandle:
        return self._handler.handle(self._storage, shard)

    # -- records -------------------------------------------------------------------------------

    async def write(self, shard: ShardName, record: Record, *, acks: Acks | None = None) -> Offset:
        return await self._handler.write(self._storage, shard, record, acks)

    async def batch_write(
        self, shard: ShardName, records: Sequence[Record], *, acks: Acks | None = None
    ) -> range:
        return await self._handler.batch_write(self._storage, shard, records, acks)

    async def read_by_offset(
        self, shard: ShardName, offset: Offset, limit: ReadLimit = ReadLimit()
    ) -> list[Record]:
        return await self._reader.read_by_offset(shard, offset, limit)

    async def read_by_tag(
        self,
        shard: ShardName,
        tag: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
    ) -> list[Record]:
        return await self._reader.read_by_tag(shard, tag, offset, limit)

    async def read_by_key(
        self,
        shard: ShardName,
        key: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
        *,
        history: bool = False,
    ) -> list[Record]:
        return await self._reader.read_by_key(shard, key, offset, limit, history=history)

    async def delete_by_key(self, shard: ShardName, key: bytes) -> int:
        return await self._handler.delete_by_key(self._storage, shard, key)

    async def delete_by_offset(self, shard: ShardName, offset: Offset) -> bool:
        return await self._handler.delete_by_offset(self._storage, shard, offset)

    async def get_offset_by_timestamp(
        self,
        shard: ShardName,
        timestamp: TimestampMs,
        strategy: OffsetStrategy = OffsetStrategy.LATEST,
    ) -> Offset:
        return await self._reader.offset_by_timestamp(shard, timestamp, strategy)

    async def youngest_record(self, shard: ShardName, end: Offset | None = None) -> Record | None:
        return await self._reader.youngest_record(shard, end)

    # -- groups --------------------------------------------------------------------------------

    async def get_offset_by_group(
        self,
        shard: ShardName,
        group: str,
        strategy: OffsetStrategy = OffsetStrategy.EARLIEST,
    ) -> Offset:
        committed = (await self._groups.committed(group)).get(shard)
        if committed is not None:
            return committed.offset
        start, high_watermark, _ = await self.offsets(shard)
        return start if strategy is OffsetStrategy.EARLIEST else high_watermark

    async def commit_offset(self, group: str, offsets: Mapping[ShardName, Offset]) -> None:
        entries = [CommitOffset(shard=shard, offset=at) for shard, at in offsets.items()]
        await self._groups.commit(group, entries)

    # -- batches -------------------------------------------------------------------------------

    async def append_batch(
        self,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        *,
        acks: Acks | None = None,
    ) -> AppendResult:
        return await self._handler.append_batch(self._storage, shard, data, acks)

    async def fetch_batches(
        self,
        shard: ShardName,
        offset: Offset,
        bytes_max: int = 1 << 20,
        end: Offset | None = None,
    ) -> FetchResult:
        return await self._reader.fetch_batches(shard, offset, bytes_max, end)

    async def segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        return await self._reader.load_segments(shard)

    def tiered_end(self, shard: ShardName) -> Offset:
        return self._reader.tiered_end(shard)

    def cold_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        return self._reader.cold_segments(shard)

    async def deleted(self, shard: ShardName, start: Offset, end: Offset) -> Sequence[Offset]:
        return await self._reader.deleted(shard, start, end)

    # -- transactions --------------------------------------------------------------------------

    async def write_marker(
        self,
        shard: ShardName,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
    ) -> Offset:
        marker = TransactionMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        return await self._handler.write_marker(self._storage, shard, marker)

    async def producers(self, shard: ShardName) -> list[ProducerStateEntry]:
        return self._reader.producers(shard)

    # -- housekeeping --------------------------------------------------------------------------

    async def trim(self, shard: ShardName, start: Offset) -> Offset:
        return await self._housekeeping.trim(shard, start)

    async def apply_retention(self, shard: ShardName) -> int:
        return await self._housekeeping.apply_retention(shard)

    async def compact(self, shard: ShardName) -> int:
        return await self._housekeeping.compact(shard)
