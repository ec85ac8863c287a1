"""Ten thousand open shards with data in each: what they cost in memory, and how long opening
takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.storage.report import Row, resident_mb
from stratamq.engine.contract import ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName

SHARDS = 10_000
GOAL_MB = 300


async def fill(folder: Path) -> None:
    """Memory before the shards, with them, and after each took a record; for the parent to read."""
    engine = EngineSegment(folder)
    await engine.open()
    empty = resident_mb()
    config = TopicConfig.of({"flush": "os"})
    begin = time.perf_counter()
    for number in range(SHARDS):
        await engine.create_shard(ShardSpec(name=ShardName(f"bench_{number}"), config=config))
    created_s = time.perf_counter() - begin
    for number in range(SHARDS):
        await engine.write(ShardName(f"bench_{number}"), Record(b"value", b"key"))
    written = resident_mb()
    await engine.close()
    begin = time.perf_counter()
    again = EngineSegment(folder)
    await again.open()
    opened_s = time.perf_counter() - begin
    print(empty, created_s, written, opened_s, flush=True)
    await again.close()


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    try:
        command = [sys.executable, "-m", "benchmarks.storage.many_shards", str(folder)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        shutil.rmtree(folder)
    empty, created_s, written, opened_s = map(float, output.split())
    each_kb = (written - empty) * 1024 / SHARDS
    return [
        Row(
            what=f"{SHARDS:,} open shards with a record each",
            ours=f"{written:.0f} MB resident ({empty:.0f} without; {each_kb:.1f} KB each)",
            goal=f"<= {GOAL_MB} MB",
            met=written <= GOAL_MB,
        ),
        Row(
            what=f"{SHARDS:,} shards: create, open again",
            ours=f"{created_s:.1f} s, {opened_s:.1f} s",
        ),
    ]


if __name__ == "__main__":
    uvloop.run(fill(Path(sys.argv[1])))
