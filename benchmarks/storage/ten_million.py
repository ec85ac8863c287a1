"""Ten million records in one shard: index size, random look-ups, and opening again after kill
-9."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from benchmarks.storage.report import Row, percentile
from stratamq.engine.contract import ReadLimit, ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.index import OFFSETS, IndexStore
from stratamq.log.kv import RocksKV, after_prefix
from stratamq.model.record import Record
from stratamq.model.types import Offset, ShardName

SHARD = ShardName("bench_0")
RECORDS = 10_000_000
PER_CALL = 1000
LOOKUPS = 1000
TAGS = RECORDS // 10
"""As many tags as give each ten records."""

GOAL_INDEX_BYTES = 240_000
GOAL_OFFSET_US, GOAL_KEY_US, GOAL_TAG_US = 1000, 2000, 2000
GOAL_REOPEN_S = 2.0


def record(number: int) -> Record:
    return Record(b"%080d" % number, b"key-%08d" % number, (), (b"tag-%06d" % (number % TAGS),))


async def fill(folder: Path) -> None:
    """Write all records, say so, and wait for the end that will not be announced."""
    engine = EngineSegment(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD))
    for first in range(0, RECORDS, PER_CALL):
        await engine.batch_write(SHARD, [record(first + n) for n in range(PER_CALL)])
    print("filled", flush=True)
    await asyncio.sleep(3600)


def fill_and_kill(folder: Path) -> None:
    """A real process, killed with its files open and its index unflushed."""
    command = [sys.executable, "-m", "benchmarks.storage.ten_million", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "filled\n", line
        os.kill(process.pid, signal.SIGKILL)


async def look_up(folder: Path) -> list[Row]:
    engine = EngineSegment(folder)
    begin = time.perf_counter()
    await engine.open()
    reopened_s = time.perf_counter() - begin
    assert engine.offsets(SHARD).high_watermark == RECORDS, engine.offsets(SHARD)
    rng = random.Random(11)
    one = ReadLimit(records_max=1)

    async def by_offset() -> None:
        offset = rng.randrange(RECORDS)
        found = await engine.read_by_offset(SHARD, Offset(offset), one)
        assert found[0].offset == offset

    async def by_key() -> None:
        number = rng.randrange(RECORDS)
        found = await engine.read_by_key(SHARD, b"key-%08d" % number)
        assert found[0].offset == number

    async def by_tag() -> None:
        number = rng.randrange(TAGS)
        found = await engine.read_by_tag(SHARD, b"tag-%06d" % number, limit=ReadLimit(10))
        assert [hit.offset % TAGS for hit in found] == [number] * 10

    rows = [
        _latency("random read_by_offset, 10 M records", await _timed(by_offset), GOAL_OFFSET_US),
        _latency("read_by_key, 10 M records", await _timed(by_key), GOAL_KEY_US),
        _latency("read_by_tag, 10 hits, 10 M records", await _timed(by_tag), GOAL_TAG_US),
        Row(
            what="open after kill -9, 10 M records",
            ours=f"{reopened_s:.2f} s",
            goal=f"<= {GOAL_REOPEN_S:.0f} s",
            met=reopened_s <= GOAL_REOPEN_S,
        ),
    ]
    await engine.close()
    return rows


async def _timed(call: Callable[[], Awaitable[None]]) -> list[float]:
    latencies: list[float] = []
    for _ in range(LOOKUPS):
        begin = time.perf_counter()
        await call()
        latencies.append((time.perf_counter() - begin) * 1e6)
    return latencies


def _latency(what: str, latencies: list[float], goal_us: int) -> Row:
    p50 = percentile(latencies, 0.5)
    return Row(
        what=what,
        ours=f"p50 {p50:,.0f} us, p99 {percentile(latencies, 0.99):,.0f} us",
        goal=f"p50 <= {goal_us:,} us",
        met=p50 <= goal_us,
    )


def offset_index_bytes(folder: Path) -> int:
    """Sidecars of sealed segments, and the rows (keys and values) of the active one."""
    sealed = sum(path.stat().st_size for path in (folder / "segments").glob("*/*.index"))
    kv = RocksKV(folder / "index")
    prefix = (1).to_bytes(4, "big") + OFFSETS
    assert IndexStore(kv).names() == [SHARD], "the one shard has the first id"
    rows = sum(len(key) + len(value) for key, value in kv.scan(prefix, after_prefix(prefix)))
    kv.close()
    return sealed + rows


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    try:
        fill_and_kill(folder)
        rows = uvloop.run(look_up(folder))
        size = offset_index_bytes(folder)
    finally:
        shutil.rmtree(folder)
    index = Row(
        what="offset index of 10 M records",
        ours=f"{size / 1000:,.0f} KB",
        goal=f"<= {GOAL_INDEX_BYTES // 1000} KB",
        met=size <= GOAL_INDEX_BYTES,
    )
    return [index, *rows]


if __name__ == "__main__":
    uvloop.run(fill(Path(sys.argv[1])))
