"""EngineMemory: microseconds, and gone with the process, except what `memory.persist` saves."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stratamq.engine.contract import ExportedSegment, ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.group import Group
from stratamq.engine.layout import MEMORY_FOLDER
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.capacity import Capacity
from stratamq.engine.memory.executor import MemoryExecutor
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.engine.shard import Shard
from stratamq.engine.storage import OpenedStorage, ShardStorage, StoredShard
from stratamq.engine.tiered import History, end_of
from stratamq.engine.tiering import covered_to
from stratamq.log.contract import ShardStore
from stratamq.log.disk import Disk, RealDisk
from stratamq.log.kv import OpenKV, RocksKV
from stratamq.log.shard_copy import OnBytes, ShardCopy
from stratamq.log.shard_log import FileShardLog
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.errors import ShardUnavailable, StorageError, StrataError
from stratamq.model.types import Offset, ShardName

logger = logging.getLogger(__name__)


class MemoryStorage:
    """Keeps shards in memory, within a capacity that all of them share.

    `disk` keeps what is persisted. It is opened when the first shard needs it, or when it was there
    before: without persisted shards there is nothing on disk at all.
    """

    def __init__(
        self,
        limits: EngineLimits,
        disk: ShardStorage,
        disk_folder: Path,
        clock: Clock,
        files: Disk | None = None,
    ) -> None:
        """`files` is where `disk_folder` is; the machine's own file system unless it is given."""
        self.capacity, self._clock = Capacity(limits), clock
        self.capacity.is_elsewhere = self._is_elsewhere
        self._disk, self._disk_folder, self._files = disk, disk_folder, files or RealDisk()
        self._disk_is_open = False
        self._shards: dict[ShardStore, Shard] = {}

    def open(self) -> OpenedStorage:
        if not self._files.exists(self._disk_folder):
            return OpenedStorage()
        opened = self._disk.open()
        self._disk_is_open = True
        return opened._replace(kept=[self._with_memory(kept) for kept in opened.kept])

    def _with_memory(self, kept: StoredShard) -> StoredShard:
        return kept._replace(store=self._persisted(kept.spec, kept.store))

    def is_durable(self, spec: ShardSpec) -> bool:
        return _persists(spec)

    def is_stored(self, spec: ShardSpec) -> bool:
        return not _persists(spec) or self._disk.is_stored(spec)

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        persisted = [spec for spec in specs if _persists(spec)]
        on_disk = iter(self._create_on_disk(persisted) if persisted else ())
        return [
            self._persisted(spec, next(on_disk)) if _persists(spec) else self._in_memory(spec)
            for spec in specs
        ]

    def _in_memory(self, spec: ShardSpec) -> MemoryShardStore:
        memory = MemoryShardStore(spec.config, weigh=self.capacity.weigh, clock=self._clock)
        self.capacity.adopt(memory, memory)
        return memory

    def _create_on_disk(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        self._open_disk()
        return self._disk.create(specs)

    def _open_disk(self) -> None:
        if not self._disk_is_open:
            self._files.make_folder(self._disk_folder)
            self._files.sync_folder(self._disk_folder.parent)
            self._disk.open()
            self._disk_is_open = True

    def _persisted(self, spec: ShardSpec, disk: ShardStore) -> PersistedShardStore:
        end, weigh = disk.end_offset, self.capacity.weigh
        memory = MemoryShardStore(spec.config, end, weigh, self._clock)
        store = PersistedShardStore(_on_disk(disk), memory)
        self.capacity.adopt(memory, store)
        return store

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        if isinstance(store, PersistedShardStore):
            self._disk.configure(spec, store.disk)
        _memory(store).config = spec.config

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """Memory cannot be poisoned, its disk can."""
        if isinstance(store, PersistedShardStore):
            store.disk = _on_disk(self._disk.reopen(spec, store.disk))
        return store

    def retry(self, spec: ShardSpec, *, repair: bool) -> StoredShard:
        if not self._disk_is_open:
            raise ShardUnavailable(f"{self._disk_folder} is missing")
        return self._with_memory(self._disk.retry(spec, repair=repair))

    def begin_index(self) -> bool:
        return self._disk_is_open and self._disk.begin_index()

    def discard(self, name: ShardName) -> None:
        if self._disk_is_open:
            self._disk.discard(name)

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        if isinstance(store, PersistedShardStore):
            self._disk.destroy(spec, store.disk)
        _memory(store).destroy()
        self.capacity.release(_memory(store))
        self._shards.pop(store, None)

    def commit(self, groups: Sequence[Group], *, waits: bool = True) -> None:
        for group in groups:
            self._shards[group.store] = group.shard
            try:
                self.capacity.make_room(group.batches, group.now_ms)
                group.store.append(group.batches)
            except StrataError as error:
                group.error = error
        self.report_evicted()

    def _is_elsewhere(self, memory: MemoryShardStore, end: Offset) -> bool:
        shard = self._shards.get(memory)
        if shard is None or shard.history is None or end > shard.last_stable():
            return False
        return covered_to(memory, shard.history.segments(), end) >= end

    def report_evicted(self) -> None:
        """A shard that had to give way hears of it from here; it took no part in the commit."""
        if self.capacity.evicted:
            moved, self.capacity.evicted = dict.fromkeys(self.capacity.evicted), []
            for shard in [self._shards.get(store) for store in moved]:
                if shard is not None:
                    shard.moved()

    def copy_index(self, target: Path) -> None:
        if self._disk_is_open:
            self._disk.copy_index(target / MEMORY_FOLDER)

    def copy_of(self, store: ShardStore, target: Path, end: Offset) -> ShardCopy | None:
        """What is in memory alone is gone with the process, and not in a backup either."""
        if not isinstance(store, PersistedShardStore):
            return None
        return self._disk.copy_of(store.disk, target / MEMORY_FOLDER, end)

    def copy_rest(self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes) -> None:
        if self._disk_is_open:
            self._disk.copy_rest(target / MEMORY_FOLDER, ends, on_bytes)

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        if self._disk_is_open:
            self._disk.save_high_watermarks(marks)

    def close(self) -> None:
        if self._disk_is_open:
            self._disk.close()


class EngineMemory(StorageEngine):
    """All in memory; the event loop does what is short. Persisted segments go to
    `{data_dir}/memory`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock | None = None,
        limits: EngineLimits | None = None,
        disk: Disk | None = None,
        open_kv: OpenKV = RocksKV,
        persist_in_background: bool = True,
    ) -> None:
        """Unless segments are persisted in the background, they are when `persist` is called."""
        clock, limits = clock or SystemClock(), limits or EngineLimits()
        folder = data_dir / MEMORY_FOLDER
        # What memory holds is counted over all shards, so none is left closed at a start.
        on_disk = replace(limits, shards_opened_first_max=sys.maxsize)
        persisted = SegmentStorage(folder, on_disk, disk, open_kv)
        storage = MemoryStorage(limits, persisted, folder, clock, disk)
        self._memory_storage = storage
        self._strangers: set[ShardName] = set()
        self._writer = MemoryExecutor(
            storage.commit,
            storage.capacity,
            clock,
            waits=limits.memory_full == "evict",
            background=persist_in_background,
        )
        super().__init__(storage, self._writer, clock, limits)

    @property
    def used_bytes(self) -> int:
        """Memory that all shards take, about."""
        return self._memory_storage.capacity.used_bytes

    async def persist(self) -> None:
        """Move to disk whatever is sealed and to be persisted."""
        await self._writer.persist()

    async def back_up(
        self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes
    ) -> set[ShardName]:
        """What is in memory goes to disk first, as at a clean stop."""
        await self._writer.persist_all()
        return await super().back_up(target, ends, on_bytes)

    def attach_history(self, shard: ShardName, history: History | None) -> None:
        """Memory that was lost with a process is empty: its log goes on behind what object storage
        has. Where it was written to before that was known, there are two logs, and the history
        stays away from the new one."""
        target = self._shard(shard)
        known = () if history is None or target.replicated else history.segments()
        memory, end = target.store, end_of(known)
        if end > memory.end_offset and isinstance(memory, MemoryShardStore):
            if memory.end_offset:
                logger.error("%s was written to before its history was known: they differ", shard)
                self._strangers.add(shard)
            else:
                memory.resume(known[0].base_offset, end)
                target.commits.stored(end)
                target.moved()
        super().attach_history(shard, None if shard in self._strangers else history)

    async def export_segment(
        self, shard: ShardName, base_offset: Offset, folder: Path
    ) -> ExportedSegment:
        """What is to be persisted goes to disk first. Else, after a crash, object storage would
        have more of the log than there is, and new records would get offsets that are taken."""
        store = self._shard(shard).store
        if isinstance(store, PersistedShardStore) and store.is_to_be_copied(base_offset):
            await self.persist()
            if store.is_to_be_copied(base_offset):
                raise StorageError(f"{shard}: the segment at {base_offset} is not on disk yet")
        return await super().export_segment(shard, base_offset, folder)

    async def apply_retention(self, shard: ShardName) -> int:
        self._shard(shard)
        self._memory_storage.capacity.evict_old(self.clock.now_ms())
        self._memory_storage.report_evicted()
        self._writer.poke_all()
        return await super().apply_retention(shard)


def _persists(spec: ShardSpec) -> bool:
    return spec.config.flag("memory.persist")


def _on_disk(store: ShardStore) -> FileShardLog:
    assert isinstance(store, FileShardLog), "its storage keeps files"
    return store


def _memory(store: ShardStore) -> MemoryShardStore:
    memory = store.memory if isinstance(store, PersistedShardStore) else store
    assert isinstance(memory, MemoryShardStore), "every store here was created here"
    return memory
