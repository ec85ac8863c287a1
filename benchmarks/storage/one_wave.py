"""Writes that come at the same time, synced: all to one shard, and each to a shard of its own. The
files of many shards are written first and then synced together."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.storage.report import Row, median, spread
from stratamq.engine.contract import ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName

WRITES = 64
ROUNDS, WARM_UPS = 30, 3
GOAL = 4.0


async def waves(folder: Path) -> tuple[list[float], list[float]]:
    """Seconds for one shard and for many, round by round."""
    engine = EngineSegment(folder)
    await engine.open()
    names = [ShardName(f"bench_{number}") for number in range(WRITES)]
    config = TopicConfig.of({"flush": "sync"})
    await asyncio.gather(
        *(engine.create_shard(ShardSpec(name=name, config=config)) for name in names)
    )
    one: list[float] = []
    many: list[float] = []
    for _ in range(WARM_UPS + ROUNDS):
        for targets, took in ((names[:1] * WRITES, one), (names, many)):
            begin = time.perf_counter()
            await asyncio.gather(*(engine.write(name, Record(b"x" * 100)) for name in targets))
            took.append(time.perf_counter() - begin)
    await engine.close()
    return one[WARM_UPS:], many[WARM_UPS:]


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    try:
        one, many = uvloop.run(waves(folder))
    finally:
        shutil.rmtree(folder)
    ratios = [slow / quick for quick, slow in zip(one, many, strict=True)]
    return [
        Row(
            what=f"{WRITES} writes to {WRITES} shards, flush=sync",
            ours=f"{median(many) * 1000:.1f} ms",
            ceiling=f"{median(one) * 1000:.1f} ms to one shard",
            ratio=f"{median(ratios):.1f} ({spread(ratios)})",
            goal=f"<= {GOAL:.0f}",
            met=median(ratios) <= GOAL,
        )
    ]
