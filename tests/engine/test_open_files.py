"""Open files of an engine that rolls, compacts, expires and deletes: removed files are closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.storage import SEGMENTS_FOLDER
from stratamq.model.clock import ManualClock
from stratamq.model.types import ShardName
from tests.engine.support import NOW, fetch_all, record, spec

ROUNDS = 25
SHARDS = [ShardName(f"topic_{number}") for number in range(4)]


def open_segments(data_dir: Path) -> list[str]:
    """Segment files that the process has open, as the kernel names them."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            name = str(entry.readlink())
        except FileNotFoundError:  # the descriptor of this very listing
            continue
        if name.startswith(f"{data_dir / SEGMENTS_FOLDER}/"):
            found.append(name)
    return found


async def wear(engine: EngineSegment, clock: ManualClock, shard: ShardName, number: int) -> None:
    """Some rolls, look-ups that map the sidecars, a compaction, and now and then a new shard."""
    await engine.create_shard(spec(shard, cleanup_policy="compact,delete", retention_ms=4000))
    for key in (b"a", b"b", b"a"):
        await engine.write(shard, record(b"%d" % number, key, at=clock.now_ms()))
        await engine.roll(shard)
    await fetch_all(engine, shard)
    await engine.offset_by_timestamp(shard, clock.now_ms())
    await engine.compact(shard)
    clock.advance(1000)
    await engine.apply_retention(shard)
    if number % 10 == 9:
        await engine.delete_shard(shard)


async def test_files_that_are_gone_are_closed(tmp_path: Path) -> None:
    """Each round makes, rewrites and removes dozens of files of four shards at once."""
    clock = ManualClock(NOW)
    engine = EngineSegment(tmp_path, clock=clock, limits=EngineLimits(workers=2, reader_threads=2))
    await engine.open()
    for number in range(ROUNDS):
        await asyncio.gather(*(wear(engine, clock, shard, number) for shard in SHARDS))
    found = open_segments(tmp_path)
    live = [path for path in (tmp_path / SEGMENTS_FOLDER).glob("*/*") if path.is_file()]
    assert not [name for name in found if name.endswith(" (deleted)")]
    assert len(found) <= 2 * len(live), "a file is open once and mapped once at most"
    await engine.close()
