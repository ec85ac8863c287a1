"""How far consumer groups have come, stored in one of two ways.

`OffsetStorageManager` (here): in the Meta Service, durable when `commit` returns, seen by every
node. `OffsetCacheManager` (offset_cache.py): in this node's memory, stored in its own RocksDB in
batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path

from stratamq.meta.client import MetaClient
from stratamq.meta.groups import CommitOffset, CommitOffsets, DeleteGroup, DeleteOffsets, Offsets
from stratamq.model.clock import Clock
from stratamq.model.types import ShardName


class OffsetManager(ABC):
    """Offsets by group and shard. An offset is the next one the group wants to read."""

    @abstractmethod
    async def open(self) -> None:
        """Read what was stored."""

    @abstractmethod
    async def close(self) -> None:
        """Store what was not yet; release."""

    @abstractmethod
    async def commit(self, group: str, offsets: Sequence[CommitOffset]) -> None:
        """All are committed, or none. An offset may go back."""

    @abstractmethod
    async def committed(self, group: str) -> Offsets:
        """What the group committed; empty for an unknown group."""

    @abstractmethod
    async def groups(self) -> Collection[str]: ...

    @abstractmethod
    async def has_group(self, group: str) -> bool:
        """Whether the group has committed anything."""

    @abstractmethod
    async def delete(self, group: str, shards: Collection[ShardName]) -> None:
        """Forget the group's offsets in these shards; those it has none in are left out."""

    @abstractmethod
    async def delete_group(self, group: str) -> None: ...

    @abstractmethod
    async def forget(self, shards: Collection[ShardName]) -> None:
        """Forget every group's offsets in shards that are gone. Idempotent."""

    @abstractmethod
    async def back_up(self, folder: Path) -> None:
        """Copy to a new folder, for a backup, everything that was committed, unless the Meta
        Service has it."""


class OffsetStorageManager(OffsetManager):
    def __init__(self, meta: MetaClient, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def open(self) -> None:
        """The Meta Service is opened by its owner."""

    async def close(self) -> None:
        """The Meta Service is closed by its owner."""

    async def commit(self, group: str, offsets: Sequence[CommitOffset]) -> None:
        now = self._clock.now_ms()
        await self._meta.submit(CommitOffsets(group=group, offsets=tuple(offsets), commit_ms=now))

    async def committed(self, group: str) -> Offsets:
        return await self._meta.group_offsets(group)

    async def groups(self) -> Collection[str]:
        return await self._meta.groups()

    async def has_group(self, group: str) -> bool:
        return bool(await self._meta.group_offsets(group))

    async def delete(self, group: str, shards: Collection[ShardName]) -> None:
        await self._meta.submit(DeleteOffsets(group=group, shards=frozenset(shards)))

    async def delete_group(self, group: str) -> None:
        await self._meta.submit(DeleteGroup(group=group))

    async def forget(self, shards: Collection[ShardName]) -> None:
        """The Meta Service forgets them together with their topic."""

    async def back_up(self, folder: Path) -> None:
        """The Meta Service has them."""
