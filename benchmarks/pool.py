"""What the engine itself costs per batch, without any storage: `python -m benchmarks.pool`.

A store that only counts offsets stands below the I/O pool, so everything that is left is checking,
queueing, placing, answering: the part of `append_batch` that no disk can be blamed for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.group import Group
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import MemoryStorage
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.pool import IOPool
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.model.clock import SystemClock
from stratamq.model.record import Record
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.records import check_batch, encode_batch, place_batch, scan_batch

NOWHERE = Path("/nonexistent")
SHARD = ShardName("bench_0")
BATCHES = 60_000
PRODUCERS = 128


class CountingStorage(MemoryStorage):
    """Forgets every batch but the number of the next offset."""

    def commit(self, groups: Sequence[Group], *, waits: bool = True) -> None:
        for group in groups:
            assert isinstance(group.store, MemoryShardStore)
            group.store.restart(Offset(group.end))


async def requests_per_second(batch: bytes) -> float:
    clock, limits = SystemClock(), EngineLimits()
    storage = CountingStorage(limits, SegmentStorage(NOWHERE, limits), NOWHERE, clock)
    engine = StorageEngine(storage, IOPool(storage.commit, clock, limits), clock, limits)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD))

    async def produce() -> None:
        for _ in range(BATCHES // PRODUCERS):
            await engine.append_batch(SHARD, batch)

    begin = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    took = time.perf_counter() - begin
    await engine.close()
    return BATCHES / took


def micros_each(work: object, times: int = 20_000) -> float:
    assert callable(work)
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times * 1e6


def main() -> None:
    batch = encode_batch([Record(os.urandom(100)) for _ in range(145)], now_ms=0)
    header = check_batch(batch, 1 << 20)
    limit = 64 << 20
    print(f"batch of {len(batch)} bytes, {header.record_count} records")
    checked = micros_each(lambda: check_batch(batch, 1 << 20))
    scanned = micros_each(
        lambda: scan_batch(
            header, batch, keys=True, tags=True, decompressed_max=limit, consecutive=True
        )
    )
    placed = micros_each(lambda: place_batch(header, batch, Offset(7), header.leader_epoch))
    print(f"check {checked:.2f} µs, scan {scanned:.2f} µs, place {placed:.2f} µs")
    for _ in range(3):
        rate = asyncio.run(requests_per_second(batch))
        total = 1e6 / rate
        print(
            f"{rate:,.0f} requests/s, {total:.2f} µs each, "
            f"{total - checked - scanned - placed:.2f} µs of it the engine"
        )


if __name__ == "__main__":
    main()
