"""Reading history back beside the warm log: in order, and somewhere."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import cramjam

from benchmarks.lake.readings import batches
from benchmarks.storage.report import Row
from stratamq.engine.contract import ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.lake.parquet.writing import (
    ZSTD_LEVEL,
    FileLayout,
    FileSummary,
    read_chunks,
    write_file,
)
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.tiering.cold.ahead import Ahead
from stratamq.tiering.cold.block_files import BlockFiles
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import Bridge, CachedObjects
from stratamq.tiering.cold.reads import ColdReads
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.wire.kafka.records import walk

BATCHES = 12_000
FETCH_BYTES = 1 << 20
SHARD = ShardName("bench_0")
ROUNDS = 7
SEEKS = 40
THREADS = 4
WARM_PASSES = 3
"""So that both take about as long: a short run finds a quiet moment more easily."""
CODEC_BATCHES = 4000
CODEC_PIECE_BYTES = 1 << 20
EVERYTHING = Offset(1 << 62)

Read = Callable[[Offset], Awaitable[bytes]]


class Rate(NamedTuple):
    """MB of log per second, of the clock and of processor time (all threads)."""

    wall: float
    cpu: float


async def measure(folder: Path) -> list[Row]:
    engine = EngineSegment(folder / "node")
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD, config=TopicConfig.of({"flush": "os"})))
    for batch in batches(BATCHES):
        await engine.append_batch(SHARD, batch)
    store = await open_store(StoreOptions(url=(folder / "store").as_uri()))
    file = await _stored(store, folder)
    with ThreadPoolExecutor(THREADS) as threads:
        rows = await _in_order(engine, store, folder, file, threads)
        rows += [
            await _first_bytes(store, folder, file, threads),
            await _first_bytes_cached(store, folder, file, threads),
        ]
    await store.close()
    await engine.close()
    return rows


async def _stored(store: Store, folder: Path) -> TierFile:
    work = folder / "work.parquet"
    summary = await asyncio.to_thread(_convert, folder, work)
    await store.put_file("bench.parquet", work)
    return _tier_file(summary)


def _convert(folder: Path, work: Path) -> FileSummary:
    (log,) = folder.glob("node/**/00000000000000000000.log")
    with log.open("rb") as source, work.open("wb") as sink:
        return write_file(read_chunks(source), sink, FileLayout(partition=0))


def _tier_file(summary: FileSummary) -> TierFile:
    return TierFile(
        shard=SHARD,
        base_offset=Offset(summary.base_offset),
        end_offset=Offset(summary.last_offset + 1),
        final=True,
        parquet=TierObject("bench.parquet", summary.size_bytes, summary.crc),
        parquet_end=ParquetEnd(*summary.footer),
        max_timestamp=TimestampMs(summary.max_timestamp),
    )


async def _rate(read: Read, passes: int = 1) -> Rate:
    size = 0
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(passes):
        offset = Offset(0)
        while data := await read(offset):
            size += len(data)
            offset = Offset(walk(data)[-1].last_offset + 1)
    took = time.perf_counter() - wall, time.process_time() - cpu
    return Rate(size / 1e6 / took[0], size / 1e6 / took[1])


async def _in_order(
    engine: EngineSegment, store: Store, folder: Path, file: TierFile, threads: ThreadPoolExecutor
) -> list[Row]:
    """In turns, so that what else the machine does meets both."""

    async def warm(offset: Offset) -> bytes:
        return (await engine.fetch_batches(SHARD, offset, FETCH_BYTES)).data

    beside, ours, codec = [], [], []
    for _ in range(ROUNDS):
        cold = await ColdReads.open(store, folder, ColdLimits())
        beside.append(await _rate(warm, WARM_PASSES))
        ours.append(await _rate(_reader(cold, file, threads, FETCH_BYTES)))
        codec.append(await asyncio.to_thread(_codec_rate))
        await cold.close()
    wall, cpu, warm_wall, warm_cpu = (_best(r, w) for r in (ours, beside) for w in (0, 1))
    return [
        _ratio("history in order, directory store", wall, warm_wall, "warm", 0.5),
        _ratio("the same by processor time", cpu, warm_cpu, "warm"),
        _ratio("the same by processor time", cpu, max(codec), "zstd alone"),
    ]


def _codec_rate() -> float:
    """The codec alone, into memory that is used again: MB per second of processor time."""
    data = b"".join(batches(CODEC_BATCHES))
    starts = range(0, len(data), CODEC_PIECE_BYTES)
    pieces = [
        bytes(cramjam.zstd.compress(data[start : start + CODEC_PIECE_BYTES], level=ZSTD_LEVEL))
        for start in starts
    ]
    room = memoryview(bytearray(CODEC_PIECE_BYTES))
    begin = time.thread_time()
    for piece in pieces:
        cramjam.zstd.decompress_into(piece, room)
    return len(data) / 1e6 / (time.thread_time() - begin)


def _reader(
    cold: ColdReads, file: TierFile, threads: ThreadPoolExecutor, max_bytes: int = 1
) -> Read:
    history = cold.history(SHARD)
    history.replace([file])
    loop = asyncio.get_running_loop()

    async def read(offset: Offset) -> bytes:
        return await loop.run_in_executor(threads, history.read, offset, max_bytes, EVERYTHING)

    return read


def _best(rates: list[Rate], which: int) -> float:
    """The fastest: the others measure what else the machine does."""
    return max(rate[which] for rate in rates)


def _ratio(what: str, rate: float, beside: float, whose: str, goal: float | None = None) -> Row:
    return Row(
        what=what,
        ours=f"{rate:,.0f} MB/s",
        ceiling=f"{beside:,.0f} MB/s {whose}",
        ratio=f"{rate / beside:.2f}",
        goal=f">= {goal}" if goal else "",
        met=rate / beside >= goal if goal else None,
    )


async def _first_bytes(
    store: Store, folder: Path, file: TierFile, threads: ThreadPoolExecutor
) -> Row:
    """Nothing of the file is open."""
    found = []
    for offset in _places(file):
        cold = await ColdReads.open(store, folder, ColdLimits())
        found.append(await _timed(_reader(cold, file, threads), offset))
        await cold.close()
    return _waits("directory store", found, 100)


async def _first_bytes_cached(
    store: Store, folder: Path, file: TierFile, threads: ThreadPoolExecutor
) -> Row:
    """Blocks are in the cache on disk; nothing is unpacked, and the file is not open."""
    found, limits = [], ColdLimits()
    bridge = Bridge(asyncio.get_running_loop(), limits.timeout_ms)
    blocks = BlockFiles(folder / "cache", limits.cache_bytes)
    for turn in range(2):
        for offset in _places(file):
            ahead = Ahead(1, 0)
            objects = CachedObjects(store, bridge, blocks, ahead)
            cold = ColdReads(objects, Bridge(asyncio.get_running_loop(), 1000), ahead, limits)
            took = await _timed(_reader(cold, file, threads), offset)
            await cold.close()
            found += [took] if turn else []
    return _waits("blocks in the cache", found, 10)


def _places(file: TierFile) -> list[Offset]:
    rng = random.Random(5)
    return [Offset(rng.randrange(file.end_offset)) for _ in range(SEEKS)]


async def _timed(read: Read, offset: Offset) -> float:
    begin = time.perf_counter()
    assert await read(offset), "there is something everywhere"
    return (time.perf_counter() - begin) * 1e3


def _waits(what: str, found: list[float], goal_ms: int) -> Row:
    return Row(
        what=f"first byte somewhere, {what}, {len(found)} reads",
        ours=f"p50 {statistics.median(found):.1f} ms, max {max(found):.1f} ms",
        goal=f"all <= {goal_ms} ms",
        met=max(found) <= goal_ms,
    )
