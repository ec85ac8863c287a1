"""Shards on their way out: beside each other, and in nobody's way."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.disk import RealDisk
from stratamq.model.errors import ShardPoisoned, StorageError, StrataError
from stratamq.model.types import ShardName
from tests.engine.support import S, record, spec, values
from tests.twins.disk import SimDisk, at_call, no_trouble
from tests.twins.kv import SimKV

LIMITS = EngineLimits(workers=1, reader_threads=2)
DATA = Path("/data")
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


# -- a disk that fails -----------------------------------------------------------------------------


class FailingStorage:
    """An engine on twins of disk and index store, with one shard whose deletion fails."""

    def __init__(self) -> None:
        self.disk, self.kv = SimDisk(), SimKV()
        self.disk.make_folder(DATA)
        self.kv.before_write = self._before_kv_write
        self.engine = EngineSegment(
            DATA, limits=LIMITS, disk=self.disk, open_kv=lambda *_, **__: self.kv
        )

    def _before_kv_write(self, sync: bool) -> None:
        """Writes to the index count as calls as well."""
        try:
            self.disk.step("kv", DATA)
        except OSError as error:
            raise StorageError(str(error)) from error

    async def open(self) -> None:
        await self.engine.open()
        await self.engine.create_shard(spec())
        await self.engine.write(S, record(b"v", b"k"))
        await self.engine.roll(S)

    def fail_at(self, number: int) -> None:
        """The call with this number from now on, and no other."""
        error = OSError(errno.EIO, "the disk said no")
        self.disk.trouble = at_call(len(self.disk.calls) + number, error)

    def left(self) -> list[Path]:
        return [path for path in self.disk.files() if S in str(path)]


async def fails_at(number: int) -> bool:
    """Delete a shard, with trouble at this call, and again if that failed; whether it did."""
    storage = FailingStorage()
    await storage.open()
    storage.fail_at(number)
    failed = False
    try:
        await storage.engine.delete_shard(S)
    except StrataError:
        failed = True
        assert S in storage.engine.list_shards(), "it is there until all of it is gone"
        with pytest.raises(StrataError):
            await storage.engine.write(S, record(b"too late"))
        await storage.engine.delete_shard(S)
    storage.disk.trouble = no_trouble
    assert S not in storage.engine.list_shards()
    assert not storage.left()
    await storage.engine.create_shard(spec())
    assert await storage.engine.write(S, record(b"new")) == 0
    assert values(await storage.engine.read_by_key(S, b"k")) == []
    await storage.engine.close()
    return failed


async def test_a_deletion_that_failed_at_any_call_can_be_repeated() -> None:
    number = 0
    while await fails_at(number):
        number += 1
    assert number > 4


async def test_a_half_deleted_shard_is_not_recovered() -> None:
    """There would be an empty one in its place."""
    storage = FailingStorage()
    await storage.open()
    storage.disk.trouble = lambda call: (
        OSError(errno.EIO, "the disk said no") if call.kind == "remove" else None
    )
    with pytest.raises(StrataError):
        await storage.engine.delete_shard(S)
    storage.disk.trouble = no_trouble
    with pytest.raises(ShardPoisoned, match="deletion"):
        await storage.engine.recover_shard(S)
    await storage.engine.delete_shard(S)
    assert not storage.left()
    await storage.engine.close()
