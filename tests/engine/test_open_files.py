"""Open files of an engine that rolls, compacts, expires and deletes: removed files are closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stratamq.engine.contract import ShardSpec
from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.storage import SEGMENTS_FOLDER
from stratamq.model.clock import ManualClock
from stratamq.model.types import ShardName
from tests.engine.support import NOW, fetch_all, read_all, record, spec, values
from tests.waiting import every

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


def some_shards(**config: object) -> list[ShardSpec]:
    return [spec(ShardName(f"many_{number}"), **config) for number in range(60)]


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize("flush", ["os", "interval", "sync"])
async def test_files_with_unsynced_writes_are_within_the_limit(
    tmp_path: Path, flush: str, together: bool
) -> None:
    """They stay open until a sync, which `flush=os` never promises."""
    limits = EngineLimits(workers=2, reader_threads=2, open_files_max=16)
    engine = EngineSegment(tmp_path, limits=limits)
    await engine.open()
    specs = some_shards(flush=flush, flush_ms=3_600_000)
    for one in specs:
        await engine.create_shard(one)
    for number in range(4):
        writes = [engine.write(one.name, record(b"%d" % number)) for one in specs]
        if together:
            await asyncio.gather(*writes)
        else:
            for write in writes:
                await write
        assert len(open_segments(tmp_path)) <= limits.open_files_max
        for one in every(specs[::7]):
            assert len(values(await read_all(engine, one.name))) == number + 1
        assert len(open_segments(tmp_path)) <= limits.open_files_max
    await engine.close()
    again = EngineSegment(tmp_path, limits=limits)
    await again.open()
    for one in every(specs):
        assert values(await read_all(again, one.name)) == [b"0", b"1", b"2", b"3"]
    await again.close()
