"""Shards on their way out: beside each other, and in nobody's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment import EngineSegment
from stratamq.log.disk import RealDisk
from stratamq.model.types import ShardName
from tests.engine.support import S, record, spec

LIMITS = EngineLimits(workers=1, reader_threads=2)
ONE, TWO = ShardName("topic_0"), ShardName("topic_1")


class Meeting(RealDisk):
    """Folders are removed when as many as are expected have come."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(expected)

    def remove_folder(self, path: Path) -> None:
        self._barrier.wait(10)
        super().remove_folder(path)


class Held(RealDisk):
    """Folders are removed when that is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.allowed = threading.Event(), threading.Event()

    def remove_folder(self, path: Path) -> None:
        self.entered.set()
        assert self.allowed.wait(10)
        super().remove_folder(path)


@asynccontextmanager
async def engine_on(disk: RealDisk, path: Path) -> AsyncIterator[EngineSegment]:
    engine = EngineSegment(path, limits=LIMITS, disk=disk)
    await engine.open()
    yield engine
    await engine.close()


async def test_deletions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with engine_on(Meeting(2), tmp_path) as engine:
        for name in (ONE, TWO):
            await engine.create_shard(spec(name))
        await asyncio.gather(engine.delete_shard(ONE), engine.delete_shard(TWO))
        assert not engine.list_shards()


async def test_whoever_wants_the_name_again_waits(tmp_path: Path) -> None:
    disk = Held()
    async with engine_on(disk, tmp_path) as engine:
        await engine.create_shard(spec())
        await engine.write(S, record(b"old"))
        deletion = asyncio.create_task(engine.delete_shard(S))
        await asyncio.to_thread(disk.entered.wait, 10)
        creation = asyncio.create_task(engine.create_shard(spec()))
        done, _ = await asyncio.wait([creation], timeout=0.05)
        assert not done
        disk.allowed.set()
        await asyncio.gather(deletion, creation)
        assert engine.offsets(S).end == 0
        assert await engine.write(S, record(b"new")) == 0


async def test_deleting_again_waits_for_the_first(tmp_path: Path) -> None:
    disk = Held()
    async with engine_on(disk, tmp_path) as engine:
        await engine.create_shard(spec())
        first = asyncio.create_task(engine.delete_shard(S))
        await asyncio.to_thread(disk.entered.wait, 10)
        again = asyncio.create_task(engine.delete_shard(S))
        done, _ = await asyncio.wait([again], timeout=0.05)
        assert not done
        disk.allowed.set()
        await asyncio.gather(first, again)


async def test_closing_waits_for_a_deletion_that_was_given_up(tmp_path: Path) -> None:
    disk = Held()
    async with engine_on(disk, tmp_path) as engine:
        await engine.create_shard(spec())
        deletion = asyncio.create_task(engine.delete_shard(S))
        await asyncio.to_thread(disk.entered.wait, 10)
        deletion.cancel()
        with suppress(asyncio.CancelledError):
            await deletion
        asyncio.get_running_loop().call_later(0.05, disk.allowed.set)
    assert disk.allowed.is_set()
    assert not list((tmp_path / "segments").glob(f"{S}*"))
