"""A segment is rewritten beside its shard's writer; only the swap is the writer's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.disk import File, RealDisk
from stratamq.model.types import Offset
from tests.engine.support import S, T, fill_segments, offsets, read_all, record, spec, stored
from tests.waiting import let_run

LIMITS = EngineLimits(workers=1, reader_threads=2)
OLD = [record(b"0", b"a"), record(b"1", b"b"), record(b"2", b"a"), record(b"3", b"c")]
YOUNG = [record(b"4", b"d")]


class HoldingDisk(RealDisk):
    """Holds whoever writes a rewritten segment, until told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def open(self, path: Path, *, create: bool = False) -> File:
        if create and path.name.endswith(".cleaned"):
            self.begun.set()
            assert self.go_on.wait(20)
        return super().open(path, create=create)


class Held:
    """An engine whose shard S is being compacted, held in the middle."""

    def __init__(self, engine: EngineSegment, disk: HoldingDisk, folder: Path) -> None:
        self.engine, self.disk, self.folder = engine, disk, folder
        self.compaction: asyncio.Task[int] | None = None

    async def begin(self) -> None:
        self.compaction = asyncio.create_task(self.engine.compact(S))
        assert await asyncio.to_thread(self.disk.begun.wait, 10)

    async def end(self) -> int:
        self.disk.go_on.set()
        assert self.compaction is not None
        return await self.compaction

    def leftovers(self) -> list[Path]:
        return list(self.folder.rglob("*.cleaned"))


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    disk = HoldingDisk()
    engine = EngineSegment(tmp_path, limits=LIMITS, disk=disk)
    await engine.open()
    await engine.create_shard(spec(S, cleanup_policy="compact"))
    await engine.create_shard(spec(T))
    await fill_segments(engine, OLD, YOUNG)
    holder = Held(engine, disk, tmp_path)
    await holder.begin()
    yield holder
    disk.go_on.set()
    await engine.close()


async def soon(call: object) -> object:
    return await asyncio.wait_for(call, 10)  # type: ignore[arg-type]


async def test_the_worker_is_free_meanwhile(held: Held) -> None:
    assert await soon(held.engine.write(T, record(b"other shard, same worker"))) == 0
    assert await soon(held.engine.write(S, record(b"5", b"b"))) == 5
    assert offsets(await read_all(held.engine)) == [0, 1, 2, 3, 4, 5]
    assert await held.end() > 0
    assert offsets(await read_all(held.engine)) == [1, 2, 3, 4, 5]
    assert await stored(held.engine) == [1, 2, 3, 4, 5]


async def test_what_is_deleted_meanwhile_stays_deleted(held: Held) -> None:
    assert await soon(held.engine.delete_by_offset(S, Offset(1)))
    await held.end()
    assert offsets(await read_all(held.engine)) == [2, 3, 4]
    await held.engine.compact(S)
    assert await stored(held.engine) == [2, 3, 4], "its space goes with the next one"
    assert offsets(await read_all(held.engine)) == [2, 3, 4]


async def test_a_log_that_is_cut_meanwhile_is_not_rewritten(held: Held) -> None:
    await soon(held.engine.truncate(S, Offset(2)))
    for value in (b"new 2", b"new 3"):
        await held.engine.write(S, record(value, b"a"))
    assert await held.end() == 0
    found = await read_all(held.engine)
    assert [(one.offset, one.value) for one in found] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"new 2"),
        (3, b"new 3"),
    ]
    by_key = await held.engine.read_by_key(S, b"a", history=True)
    assert offsets(by_key) == [3, 2, 0]


async def test_a_segment_that_is_trimmed_away_meanwhile_stays_away(held: Held) -> None:
    await soon(held.engine.trim(S, Offset(4)))
    assert await held.end() == 0
    assert offsets(await read_all(held.engine)) == [4]
    assert len(held.engine.segments(S)) == 1
    assert not list((held.folder / "segments" / S).glob("0*0.log"))


async def test_a_shard_that_is_deleted_meanwhile_stays_deleted(held: Held) -> None:
    await soon(held.engine.delete_shard(S))
    held.disk.go_on.set()
    assert held.compaction is not None
    await asyncio.wait([held.compaction])
    assert held.compaction.exception() is not None, "there is nothing to compact any more"
    await held.engine.create_shard(spec(S))
    assert await held.engine.write(S, record(b"again")) == 0


async def test_a_shard_that_is_recovered_meanwhile_is_left_alone(held: Held) -> None:
    await soon(held.engine.recover_shard(S))
    assert await held.end() == 0
    assert offsets(await read_all(held.engine)) == [0, 1, 2, 3, 4]
    assert await held.engine.compact(S) > 0
    assert offsets(await read_all(held.engine)) == [1, 2, 3, 4]


async def test_of_two_compactions_at_once_one_comes_into_force(held: Held) -> None:
    second = asyncio.create_task(held.engine.compact(S))
    await let_run()
    freed = await held.end() + await soon(second)  # type: ignore[operator]
    assert freed > 0
    assert offsets(await read_all(held.engine)) == [1, 2, 3, 4]
    assert held.leftovers() == []


async def test_a_rewrite_whose_caller_gave_up_leaves_no_files(held: Held) -> None:
    assert held.compaction is not None
    held.compaction.cancel()
    await asyncio.wait([held.compaction])
    held.disk.go_on.set()
    await held.engine.close()
    assert not held.leftovers()
