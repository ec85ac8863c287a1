"""All that reading history takes, put together for a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stratamq.model.types import ShardName
from stratamq.tiering.cold.ahead import Ahead
from stratamq.tiering.cold.block_files import BlockFiles
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import Bridge, CachedObjects, FolderObjects, Objects
from stratamq.tiering.cold.raw import RawReaders
from stratamq.tiering.cold.readers import ParquetReaders
from stratamq.tiering.stores.store import Store

CACHE_FOLDER = "cold-cache"
FILE_SCHEME = "file://"


class ColdReads:
    """Gives out the histories of shards. They are read from threads other than the loop's, whose
    number the engine bounds. Close it before the store, and before those threads are waited for:
    what they wait for then ends with Closed."""

    def __init__(self, objects: Objects, bridge: Bridge, ahead: Ahead, limits: ColdLimits) -> None:
        self._bridge, self._ahead, self.objects = bridge, ahead, objects
        self.parquet = ParquetReaders(objects, ahead, limits)
        self.raw = RawReaders(objects, limits)

    @classmethod
    async def open(cls, store: Store, data_dir: Path, limits: ColdLimits) -> ColdReads:
        """Open reads over a store, with a cache below `data_dir` unless the store is a local
        folder."""
        bridge = Bridge(asyncio.get_running_loop(), limits.timeout_ms)
        ahead = Ahead(limits.ahead_threads, limits.ahead_pending_max)
        if store.url.startswith(FILE_SCHEME):
            root = Path(store.url.removeprefix(FILE_SCHEME))
            return cls(FolderObjects(root), bridge, ahead, limits)
        folder = data_dir / CACHE_FOLDER
        files = await asyncio.to_thread(BlockFiles, folder, limits.cache_bytes)
        return cls(CachedObjects(store, bridge, files, ahead), bridge, ahead, limits)

    def history(self, shard: ShardName) -> ShardHistory:
        """Create a shard's history, empty until `replace` gives it the shard's files."""
        return ShardHistory(shard, self.parquet, self.raw)

    async def close(self) -> None:
        self._bridge.close()
        await asyncio.to_thread(self._ahead.close)
        self.parquet.clear()
        self.raw.clear()
