"""`batch_write` of small records with all four indexes on, and single writes to memory."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.storage.report import Row, median, percentile, spread
from stratamq.engine.contract import ShardSpec
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.record import Record
from stratamq.model.types import ShardName

SHARD = ShardName("bench_0")
ROUNDS = 5
CALLS = 600
RECORDS_PER_CALL = 1000
WRITERS = 4
WRITES = 20_000
GOAL_RECORDS_PER_SECOND = 300_000
GOAL_P50_US = 100


def hundred_byte_records(count: int, seed: int = 7) -> list[Record]:
    """100 bytes of key and value together, a key of its own for almost every record, one of ten
    tags."""
    rng = random.Random(seed)
    return [
        Record(rng.randbytes(84), b"key-%012d" % rng.randrange(10**12), (), (b"tag-%d" % (n % 10),))
        for n in range(count)
    ]


async def _write_rate(folder: Path, chunks: list[list[Record]]) -> float:
    engine = EngineSegment(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD))

    async def produce(number: int) -> None:
        for call in range(CALLS // WRITERS):
            await engine.batch_write(SHARD, chunks[(call + number) % len(chunks)])

    begin = time.perf_counter()
    await asyncio.gather(*(produce(number) for number in range(WRITERS)))
    took = time.perf_counter() - begin
    await engine.close()
    return CALLS // WRITERS * WRITERS * RECORDS_PER_CALL / took


async def _memory_latencies(folder: Path) -> list[float]:
    engine = EngineMemory(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD))
    latencies: list[float] = []
    for record in hundred_byte_records(WRITES):
        begin = time.perf_counter()
        await engine.write(SHARD, record)
        latencies.append((time.perf_counter() - begin) * 1e6)
    await engine.close()
    return latencies


def run() -> list[Row]:
    return [_batch_write(), _memory_write()]


def _batch_write() -> Row:
    chunks = [hundred_byte_records(RECORDS_PER_CALL, seed) for seed in range(50)]
    rates: list[float] = []
    for _ in range(ROUNDS):
        folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
        rates.append(uvloop.run(_write_rate(folder, chunks)))
        shutil.rmtree(folder)
    return Row(
        what=f"batch_write, {RECORDS_PER_CALL} x 100 B, key + tag, 4 indexes, flush=sync",
        ours=f"{median(rates):,.0f} records/s ({spread([rate / 1e6 for rate in rates])} M)",
        goal=f">= {GOAL_RECORDS_PER_SECOND:,}",
        met=median(rates) >= GOAL_RECORDS_PER_SECOND,
    )


def _memory_write() -> Row:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    latencies = uvloop.run(_memory_latencies(folder))
    shutil.rmtree(folder)
    p50 = percentile(latencies, 0.5)
    return Row(
        what="EngineMemory, single write",
        ours=f"p50 {p50:.0f} us, p99 {percentile(latencies, 0.99):.0f} us",
        goal=f"p50 <= {GOAL_P50_US} us",
        met=p50 <= GOAL_P50_US,
    )
