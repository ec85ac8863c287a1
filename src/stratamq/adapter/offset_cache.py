"""Group offsets in memory, stored in batches: a commit costs a dict entry instead of a disk sync.

A crash takes groups back by at most the flush interval, so they see some records twice; it never
takes them forward.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from stratamq.adapter.offsets import OffsetManager
from stratamq.log.kv import KVStore
from stratamq.meta.groups import (
    OFFSET_BYTES,
    CommitOffset,
    OffsetKey,
    OffsetMeta,
    Offsets,
    check_group_name,
    check_offset,
)
from stratamq.meta.store import entity_of, row_key, row_value
from stratamq.model.clock import Clock
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CapacityExceeded, Closed, NotFound, ShardNotFound
from stratamq.model.types import NO_OFFSET, ShardName

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCacheLimits:
    flush_interval_s: float = 1.0  # a crash takes groups back by at most this much
    flush_offsets_max: int = 10_000  # stored by one write; the rest goes with the next
    dirty_offsets_max: int = 100_000  # reached: commits wait for a flush
    offsets_max: int = 1_000_000  # reached: CapacityExceeded
    offset_bytes_max: int = 128 << 20  # reached: CapacityExceeded


class OffsetCacheManager(OffsetManager):
    """An offset is dirty from its commit until that very value was stored, never a moment less.

    `known` says whether a shard exists: offsets are stored for existing shards only.
    """

    def __init__(
        self,
        connect: Callable[[], KVStore],
        known: Callable[[ShardName], bool],
        clock: Clock,
        limits: OffsetCacheLimits | None = None,
    ) -> None:
        self._connect = connect
        self._known = known
        self._clock = clock
        self._limits = limits or OffsetCacheLimits()
        self._kv: KVStore | None = None
        self._groups: dict[str, dict[ShardName, OffsetMeta]] = {}
        self._count = self._bytes = 0
        self._dirty: dict[OffsetKey, OffsetMeta] = {}
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        # One thread: a write whose caller has gone is still over before the next one begins.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stratamq-offsets")

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        self._kv = await self._in_thread(self._connect)
        stored: list[OffsetMeta] = await self._in_thread(list, _stored(self._kv))
        for offset in stored:
            self._put(offset)
            if not self._known(offset.shard):  # its topic was deleted just before a crash
                self._drop(offset)
        self._flusher = asyncio.create_task(self._flush_forever(), name="offset-flusher")

    async def close(self) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is None:
            return
        flusher.cancel()
        await asyncio.wait([flusher])
        kv = self._open_kv()
        try:
            await self.flush()
        finally:
            self._kv = None
            await self._in_thread(kv.close)
            self._thread.shutdown()

    # -- OffsetManager -------------------------------------------------------------------------

    async def commit(self, group: str, offsets: Sequence[CommitOffset]) -> None:
        while len(self._dirty) >= self._limits.dirty_offsets_max:
            await self.flush()
        self._check(group, offsets)
        now = self._clock.now_ms()
        for entry in offsets:
            offset = OffsetMeta(
                group=group,
                shard=entry.shard,
                offset=entry.offset,
                metadata=entry.metadata,
                leader_epoch=entry.leader_epoch,
                commit_ms=now,
            )
            self._put(offset)
            self._dirty[offset.key] = offset

    def _check(self, group: str, offsets: Sequence[CommitOffset]) -> None:
        self._open_kv()
        check_group_name(group)
        for entry in offsets:
            check_offset(entry.offset, entry.metadata)
            if not self._known(entry.shard):
                raise ShardNotFound(f"no shard {entry.shard}")
        old = self._groups.get(group, {})
        new = {entry.shard for entry in offsets if entry.shard not in old}
        if self._count + len(new) > self._limits.offsets_max:
            raise CapacityExceeded(f"offsets_max is {self._limits.offsets_max}")
        growth = sum(OFFSET_BYTES + len(entry.metadata) for entry in offsets)
        growth -= sum(old[entry.shard].size_bytes for entry in offsets if entry.shard in old)
        if growth > 0 and self._bytes + growth > self._limits.offset_bytes_max:
            raise CapacityExceeded(f"offset_bytes_max is {self._limits.offset_bytes_max}")

    async def committed(self, group: str) -> Offsets:
        self._open_kv()
        return dict(self._groups.get(group, {}))

    async def groups(self) -> Collection[str]:
        self._open_kv()
        return sorted(self._groups)

    async def has_group(self, group: str) -> bool:
        self._open_kv()
        return group in self._groups

    async def delete(self, group: str, shards: Collection[ShardName]) -> None:
        self._open_kv()
        offsets = self._groups.get(group, {})
        for offset in [offsets[shard] for shard in shards if shard in offsets]:
            self._drop(offset)
        await self.flush()

    async def delete_group(self, group: str) -> None:
        self._open_kv()
        if group not in self._groups:
            raise NotFound(f"no group {group!r}")
        for offset in list(self._groups[group].values()):
            self._drop(offset)
        await self.flush()  # a group that was deleted does not come back after a crash

    async def forget(self, shards: Collection[ShardName]) -> None:
        gone = [
            offset
            for offsets in self._groups.values()
            for shard, offset in offsets.items()
            if shard in shards
        ]
        for offset in gone:
            self._drop(offset)

    # -- memory --------------------------------------------------------------------------------

    def _put(self, offset: OffsetMeta) -> None:
        offsets = self._groups.setdefault(offset.group, {})
        old = offsets.get(offset.shard)
        self._count += old is None
        self._bytes += offset.size_bytes - (0 if old is None else old.size_bytes)
        offsets[offset.shard] = offset

    def _drop(self, offset: OffsetMeta) -> None:
        offsets = self._groups[offset.group]
        del offsets[offset.shard]
        self._count -= 1
        self._bytes -= offset.size_bytes
        if not offsets:
            del self._groups[offset.group]
        # A deletion that is not stored yet is an offset of -1.
        self._dirty[offset.key] = OffsetMeta(
            group=offset.group, shard=offset.shard, offset=NO_OFFSET
        )

    # -- disk ----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Store everything that was dirty when this was called."""
        async with self._flushing:
            keys = list(self._dirty)
            step = self._limits.flush_offsets_max
            for start in range(0, len(keys), step):
                taken = {key: self._dirty[key] for key in keys[start : start + step]}
                await self._in_thread(_store, self._open_kv(), list(taken.values()))
                for key, offset in taken.items():
                    if self._dirty[key] is offset:  # else it was committed again meanwhile
                        del self._dirty[key]

    async def back_up(self, folder: Path) -> None:
        await self.flush()
        await self._in_thread(self._open_kv().copy_to, folder)

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(self._limits.flush_interval_s)
            try:
                await self.flush()
            except Exception as error:  # they stay dirty; the next round tries again
                log.error("%d group offsets wait to be stored: %s", len(self._dirty), error)

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *arguments)

    def _open_kv(self) -> KVStore:
        if self._kv is None:
            raise Closed("the offset manager is closed")
        return self._kv


def _store(kv: KVStore, offsets: Sequence[OffsetMeta]) -> None:
    batch = kv.batch()
    for offset in offsets:
        if offset.offset == NO_OFFSET:
            batch.delete(row_key(offset))
        else:
            batch.put(row_key(offset), row_value(offset))
    kv.write(batch, sync=True)


def _stored(kv: KVStore) -> Iterator[OffsetMeta]:
    for key, value in kv.scan(b"o", b"p"):
        offset = entity_of(key, value)
        assert isinstance(offset, OffsetMeta), "rows that start with o are group offsets"
        yield offset
