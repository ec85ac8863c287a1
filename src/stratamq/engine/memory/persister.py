"""Moves sealed segments of persisted memory shards to disk, in the background.

One segment at a time: they share one disk. Writers do not wait for it, unless memory is full.
"""

from __future__ import annotations

import asyncio
import logging

from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.shard import Shard
from stratamq.model.errors import StorageError, StrataError
from stratamq.model.types import ShardName

logger = logging.getLogger(__name__)


class Persister:
    """`lock` is held while a segment is copied: a caller that changes the past of a persisted shard
    holds it too. A segment that could not be copied stays in memory and is tried again with the
    next one. Without `background` nothing moves before a caller waits for it."""

    def __init__(self, *, background: bool = True) -> None:
        self._background = background
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[Shard, None] = {}
        self._failures: dict[ShardName, type[StrataError]] = {}
        self.lock = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def poke(self, shard: Shard) -> None:
        """Something of this shard may have been sealed."""
        store = shard.store
        if isinstance(store, PersistedShardStore) and store.oldest_sealed() is not None:
            self._waiting[shard] = None
            if self._background and not self.busy:
                self._task = asyncio.create_task(self._move_all())

    async def wait(self) -> None:
        """Until nothing is left to move, or cannot be moved."""
        if not self._background:
            await self._move_all()
        elif self._task is not None:
            await asyncio.wait([self._task])

    async def _move_all(self) -> None:
        while self._waiting:
            shard = next(iter(self._waiting))
            del self._waiting[shard]
            try:
                await self._move(shard)
            except StrataError as error:
                if self._failures.get(shard.name) is not type(error):  # once until it changes
                    logger.error("%s was not persisted: %s", shard.name, error)
                self._failures[shard.name] = type(error)
            else:
                self._failures.pop(shard.name, None)

    async def _move(self, shard: Shard) -> None:
        while not shard.gone:
            async with self.lock:
                store = shard.store
                assert isinstance(store, PersistedShardStore), "only those are poked"
                segment = store.oldest_sealed()
                if segment is None:
                    return
                await asyncio.to_thread(store.copy, segment)
                store.release(segment)
                await self._note_producers(shard, store)

    async def _note_producers(self, shard: Shard, store: PersistedShardStore) -> None:
        """What is noted of the part in memory goes with it, and is of no use after a crash."""
        try:
            made = shard.producers.lasting(store, shard.committed())
            await asyncio.to_thread(lambda: shard.producers.save_lasting(store, made()))
        except (OSError, StorageError) as error:
            logger.warning("%s: producers were not saved: %s", shard.name, error)
