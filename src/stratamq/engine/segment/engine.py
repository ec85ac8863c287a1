"""EngineSegment: segment files, for high throughput and long histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.pool import IOPool
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.log.disk import Disk
from stratamq.log.kv import OpenKV, RocksKV
from stratamq.model.clock import Clock, SystemClock


class EngineSegment(StorageEngine):
    """Everything under `data_dir`; see `stratamq.engine.segment.storage` for the layout."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock | None = None,
        limits: EngineLimits | None = None,
        disk: Disk | None = None,
        open_kv: OpenKV = RocksKV,
        pool: Callable[..., IOPool] = IOPool,
    ) -> None:
        clock, limits = clock or SystemClock(), limits or EngineLimits()
        storage = SegmentStorage(data_dir, limits, disk, open_kv)
        super().__init__(storage, pool(storage.commit, clock, limits), clock, limits)
        self.syncs = storage.syncs
