"""Copying an engine's shards for a backup, each as it was when its log ended at a given offset.

| part      | EngineSegment              | EngineRocksDB              | EngineMemory            |
|-----------|----------------------------|----------------------------|-------------------------|
| the index | copied before the ends are | none                       | as EngineSegment        |
|           | taken                      |                            |                         |
| a shard   | links and copies of its    | nothing                    | persisted whole, then   |
|           | files                      |                            | as EngineSegment        |
| the rest  | files of shards that are   | the store is copied; a     | as EngineSegment        |
|           | unavailable                | restore cuts it            |                         |

From the turn in which the ends are taken until everything is copied, no compaction begins: it would
take out records whose successors are not in the copy. And no segment is offloaded: the metadata of
the backup may not know yet that object storage has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from stratamq.engine.executor import Executor
from stratamq.engine.shard import Shard
from stratamq.engine.storage import ShardStorage
from stratamq.log.disk import storage_error
from stratamq.log.freeing import remove_tree
from stratamq.log.shard_copy import OnBytes
from stratamq.model.errors import StorageError
from stratamq.model.types import Offset, ShardName


class ShardCopier:
    """Copies into `target`, which becomes a data folder."""

    def __init__(
        self, storage: ShardStorage, executor: Executor, target: Path, on_bytes: OnBytes
    ) -> None:
        self._storage, self._executor = storage, executor
        self._target, self._on_bytes = target, on_bytes

    async def copy(self, shard: Shard, end: Offset) -> None:
        """A shard that is opened again meanwhile, after a failed write, is copied again. Of one
        that is deleted meanwhile, nothing is left in the copy."""
        while not shard.gone:
            store = shard.store
            copy = self._storage.copy_of(store, self._target, end)
            if copy is None:
                return
            if store.lasting_end < end:
                raise StorageError(f"shard {shard.name} is stored up to {store.lasting_end} only")
            try:
                while not copy.is_whole:
                    await self._executor.run(shard, copy.take)
                    await asyncio.to_thread(copy.write, self._on_bytes)
            except OSError as error:
                if not shard.gone:
                    raise storage_error(f"shard {shard.name} was not copied", error) from error
            if shard.store is store and not shard.gone:
                return
            await asyncio.to_thread(remove_tree, copy.target)

    async def copy_rest(self, ends: Mapping[ShardName, Offset]) -> None:
        await asyncio.to_thread(self._storage.copy_rest, self._target, ends, self._on_bytes)
