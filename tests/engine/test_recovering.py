"""Recovery that is slow, fails or is given up by its caller: once per shard, to the end, and again
when it failed."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stratamq.engine import housekeeping, tiering
from stratamq.engine.layout import HIGH_WATERMARKS
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.registry import REBUILD_WAIT_S
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.high_watermarks import HighWatermarks
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.engine.shard import Shard
from stratamq.log import kv as kv_module
from stratamq.log.disk import File, RealDisk
from stratamq.log.kv import KVStore, RocksKV
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import DiskFull, KVDamaged, ShardPoisoned, ShardUnavailable, StorageError
from stratamq.model.types import Offset
from tests.engine.support import S, T, batch, read_all, record, spec, values
from tests.twins.kv import SimKV
from tests.waiting import let_pass, until

LIMITS = EngineLimits(workers=2, reader_threads=2)
TEN = [b"%d" % number for number in range(10)]


@asynccontextmanager
async def opened(data_dir: Path, **more: Any) -> AsyncIterator[EngineSegment]:
    engine = EngineSegment(data_dir, limits=LIMITS, **more)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def fill(engine: EngineSegment) -> None:
    for name in (S, T):
        await engine.create_shard(spec(name))
        for value in TEN:
            await engine.write(name, record(value, b"key"))


def storage_of(engine: EngineSegment) -> SegmentStorage:
    storage = engine._registry._storage
    assert isinstance(storage, SegmentStorage)
    return storage


async def rebuilt(engine: EngineSegment) -> None:
    engine._registry.index_is_damaged()
    await until(lambda: engine._registry._rebuilding is None)


# -- one recovery per shard ----------------------------------------------------------------------


async def test_a_recovery_that_its_caller_gives_up_goes_on_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log it finds ends earlier: the high watermark goes down with it, for good."""
    async with opened(tmp_path) as engine:
        await engine.create_shard(spec(S, replicated=True, flush="sync"))
        for number in range(10):
            await engine.append_replica(S, batch(b"%d" % number, base=number))
        await engine.advance_high_watermark(S, Offset(10))
        await engine._registry.watermarks.save_unsaved()
        shard = engine._registry.get(S)
        begun, go_on, calls = threading.Event(), threading.Event(), []
        storage = storage_of(engine)
        real = storage.reopen

        def reopen(spec: Any, store: Any) -> Any:
            calls.append(spec.name)
            begun.set()
            assert go_on.wait(60)
            store.truncate(Offset(5))
            return real(spec, store)

        monkeypatch.setattr(storage, "reopen", reopen)
        shard.poison = "an fsync failed"
        first = asyncio.create_task(engine.retry_shard(shard.spec))
        await until(begun.is_set)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        others = [
            asyncio.create_task(engine.retry_shard(shard.spec)),
            asyncio.create_task(engine.recover_shard(S)),
        ]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*others)
        assert calls == [S]
        assert shard.commits.high_watermark == 5
        saved = HighWatermarks(RealDisk(), tmp_path / "segments" / HIGH_WATERMARKS).load()
        assert saved == {S: 5}, "before the shard takes writes"
        assert not engine.unavailable_shards()
        await engine.append_replica(S, batch(*[b"new"] * 5, base=5))
    async with opened(tmp_path) as engine:
        assert engine.offsets(S).high_watermark == 5, "what came after it is not committed"


async def test_a_shard_that_is_fine_is_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await fill(engine)
        assert not await engine.retry_shard(spec(S))


# -- the index -----------------------------------------------------------------------------------


async def test_the_rebuild_of_the_index_waits_for_the_last_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is still open would write into the folder of the new one."""
    monkeypatch.setattr(kv_module, "REOPEN_ATTEMPTS_MAX", 2)
    async with opened(tmp_path) as engine:
        await fill(engine)
        kv = storage_of(engine)._kv
        cursor = kv.scan(b"", b"\xff" * 8)
        next(cursor)
        await rebuilt(engine)
        assert "a scan goes on" in engine.unavailable_shards()[S]
        assert not (tmp_path / "index-damaged").exists()
        let_pass(REBUILD_WAIT_S)
        again = asyncio.create_task(engine.retry_shard(spec(S)))
        await until(lambda: engine._registry._rebuilding is not None)
        cursor.close()  # type: ignore[attr-defined]
        monkeypatch.undo()
        assert await again
        assert not engine.unavailable_shards()
        assert values(await engine.read_by_key(S, b"key", history=True)) == TEN[::-1]
        assert await engine.write(S, record(b"more")) == 10


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), DiskFull("full"), RuntimeError("odd")]
)
async def test_a_rebuild_that_failed_is_tried_again(tmp_path: Path, error: Exception) -> None:
    failing = False

    def open_kv(*_: object, **__: object) -> KVStore:
        if failing:
            raise error
        return RocksKV(tmp_path / "index")

    async with opened(tmp_path, open_kv=open_kv) as engine:
        await fill(engine)
        damaged = (tmp_path / "index").stat().st_ino
        failing = True
        await rebuilt(engine)
        assert set(engine.unavailable_shards()) == {S, T}
        for _ in range(2):
            with pytest.raises(ShardPoisoned, match="could not be rebuilt"):
                await engine.write(S, record(b"more"))
            with pytest.raises(StorageError, match="could not be rebuilt"):
                await engine.retry_shard(spec(S))
            let_pass(REBUILD_WAIT_S)
        failing = False
        let_pass(REBUILD_WAIT_S)
        assert await engine.retry_shard(spec(S))
        assert not engine.unavailable_shards(), "all of them have their index again"
        for name in (S, T):
            assert values(await engine.read_by_key(name, b"key", history=True)) == TEN[::-1]
            assert await engine.write(name, record(b"more")) == 10
    assert (tmp_path / "index-damaged").stat().st_ino == damaged, "it is kept over all tries"


async def test_a_shard_that_is_half_deleted_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as engine:
        await fill(engine)
        storage = storage_of(engine)

        def fail(*_: Any) -> None:
            raise StorageError("the disk said no")

        with monkeypatch.context() as broken:
            broken.setattr(storage, "destroy", fail)
            with pytest.raises(StorageError):
                await engine.delete_shard(S)
        await rebuilt(engine)
        assert "half-way" in engine.unavailable_shards()[S]
        assert await engine.write(T, record(b"more")) == 10
        await engine.delete_shard(S)
        assert not (tmp_path / "segments" / S).exists()


async def test_closing_does_not_wait_for_the_whole_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as engine:
        await fill(engine)
        storage, begun, go_on = storage_of(engine), threading.Event(), threading.Event()
        real, calls = storage.reopen, []

        def reopen(spec: Any, store: Any) -> Any:
            calls.append(spec.name)
            begun.set()
            assert go_on.wait(60)
            return real(spec, store)

        monkeypatch.setattr(storage, "reopen", reopen)
        engine._registry.index_is_damaged()
        await until(begun.is_set)
        closing = asyncio.create_task(engine.close())
        await until(lambda: engine._registry._closing)
        go_on.set()
        await closing
        assert len(calls) == 1
    async with opened(tmp_path) as engine:
        for name in (S, T):
            assert values(await engine.read_by_key(name, b"key", history=True)) == TEN[::-1]


# -- opening -------------------------------------------------------------------------------------


class SickDisk(RealDisk):
    """Fails for paths with `sick` in them."""

    sick, error = "nothing", errno.EIO

    def _check(self, path: Path) -> None:
        if self.sick in str(path):
            raise OSError(self.error, "the disk said no", str(path))

    def exists(self, path: Path) -> bool:
        self._check(path)
        return super().exists(path)

    def remove_folder(self, path: Path) -> None:
        self._check(path)
        super().remove_folder(path)

    def open(self, path: Path, *, create: bool = False) -> File:
        self._check(path)
        return super().open(path, create=create)


async def test_a_folder_that_cannot_be_looked_into_is_its_shards_trouble(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await fill(engine)
    disk = SickDisk()
    disk.sick = S
    async with opened(tmp_path, disk=disk) as engine:
        assert list(engine.unavailable_shards()) == [S]
        with pytest.raises(ShardUnavailable):
            await engine.write(S, record(b"more"))
        assert values(await read_all(engine, T)) == TEN
        disk.sick = "nothing"
        assert await engine.retry_shard(spec(S))
        assert values(await read_all(engine, S)) == TEN


async def test_a_deletion_that_cannot_be_finished_keeps_no_shard_closed(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await fill(engine)
    segments = tmp_path / "segments"
    (segments / S).rename(segments / f"{S}-deleted")
    disk = SickDisk()
    disk.sick = "-deleted"
    async with opened(tmp_path, disk=disk) as engine:
        assert values(await read_all(engine, T)) == TEN
    async with opened(tmp_path) as engine:
        assert list(engine.list_shards()) == [T]
    assert not (segments / f"{S}-deleted").exists()


async def test_rows_that_a_full_disk_does_not_let_go_keep_no_shard_closed(tmp_path: Path) -> None:
    kv = SimKV()
    async with opened(tmp_path, open_kv=lambda *_, **__: kv) as engine:
        await fill(engine)
    segments = tmp_path / "segments"
    (segments / S).rename(segments / f"{S}-deleted")
    kv = SimKV(kv.rows())
    refused: list[bool] = []

    def refuse_the_first(sync: bool) -> None:
        if not refused:
            refused.append(sync)
            raise DiskFull("the disk is full")

    kv.before_write = refuse_the_first
    async with opened(tmp_path, open_kv=lambda *_, **__: kv) as engine:
        assert refused == [True]
        assert values(await read_all(engine, T)) == TEN


async def test_only_what_is_a_shards_is_removed(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    theirs = [tmp_path / "segments" / name for name in ("backup", "photos-deleted", f"{S}-old")]
    for folder in theirs:
        folder.mkdir()
    async with opened(tmp_path) as engine:
        assert not engine.unavailable_shards()
    assert all(folder.exists() for folder in theirs)


def our_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("stratamq")}


async def test_an_engine_that_does_not_open_leaves_no_thread(tmp_path: Path) -> None:
    before = our_threads()
    (tmp_path / "segments").write_text("in the way")
    engine = EngineSegment(tmp_path, limits=LIMITS)
    with pytest.raises(StorageError):
        await engine.open()
    await engine.close()
    assert our_threads() == before


# -- high watermarks and closing -----------------------------------------------------------------


async def test_a_watermark_that_cannot_be_saved_is_one_of_our_errors(tmp_path: Path) -> None:
    disk = SickDisk()
    async with opened(tmp_path, disk=disk) as engine:
        await engine.create_shard(spec(S, replicated=True))
        await engine.append_replica(S, batch(*TEN, base=0))
        await engine.advance_high_watermark(S, Offset(10))
        disk.sick, disk.error = "high-watermarks", errno.ENOSPC
        with pytest.raises(DiskFull):
            await engine.truncate(S, Offset(5))
        assert engine.offsets(S).end == 10, "nothing was cut"


class NoSpace:
    """A file that can be read."""

    def __init__(self, file: File) -> None:
        self.read, self.size = file.read, file.size

    def write(self, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    truncate = sync = write


class FullDisk(RealDisk):
    """No watermark can be saved on it."""

    full = True

    def open(self, path: Path, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        if self.full and "high-watermarks" in str(path):
            return NoSpace(file)  # type: ignore[return-value]
        return file


async def test_a_lowered_watermark_that_cannot_be_saved_keeps_its_shard_from_writing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as engine:
        for name in (S, T):
            await engine.create_shard(spec(name, replicated=True, flush="sync"))
            await engine.append_replica(name, batch(*TEN, base=0))
        await engine.advance_high_watermark(T, Offset(10))
    storage = SegmentStorage(tmp_path, LIMITS)
    storage.open()
    storage.save_high_watermarks({S: Offset(20)})
    storage.close()
    full = FullDisk()
    async with opened(tmp_path, disk=full) as engine:
        assert list(engine.unavailable_shards()) == [S]
        assert await engine.append_replica(T, batch(b"more", base=10)) == 11
        full.full = False
        assert await engine.retry_shard(spec(S, replicated=True, flush="sync"))
        assert await engine.append_replica(S, batch(b"more", base=10)) == 11


async def test_a_shard_that_fails_at_the_close_keeps_no_other_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineSegment(tmp_path, limits=LIMITS)
    await engine.open()
    await fill(engine)
    closed: list[str] = []
    real = FileShardLog.close

    def close(store: FileShardLog) -> None:
        if store.name == S:
            raise StorageError("it does not close")
        real(store)
        closed.append(store.name)

    monkeypatch.setattr(FileShardLog, "close", close)
    with pytest.raises(StorageError, match="does not close"):
        await engine.close()
    monkeypatch.undo()
    assert closed == [T]
    assert not [one for one in our_threads() if "write" in one.name]
    async with opened(tmp_path) as again:
        assert values(await read_all(again, S)) == TEN


# -- damage that is met while the engine runs ----------------------------------------------------


class DamagedKV(SimKV):
    damaged = False

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self.damaged:
            raise KVDamaged("a table of the index is damaged")
        return super().scan(begin, end)

    scan_back = scan


@pytest.mark.parametrize("by", ["read", "read of a tiered shard", "delete", "plan", "export"])
async def test_whoever_meets_a_damaged_index_has_it_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    kv = DamagedKV()

    def damaged(*_: Any) -> Any:
        raise KVDamaged("a table of the index is damaged")

    async with opened(tmp_path, open_kv=lambda *_, **__: kv) as engine:
        await engine.create_shard(spec(S, cleanup_policy="compact", segment_bytes=1024))
        for number in range(40):
            await engine.write(S, record(b"%d" % number, b"key"))
        first = engine.segments(S)[0].base_offset
        met: list[str] = []
        engine._readers._index_is_damaged = lambda: met.append(by)
        kv.damaged = True
        monkeypatch.setattr(housekeeping, "plan", damaged)
        monkeypatch.setattr(tiering, "export", damaged)
        if by == "read of a tiered shard":
            monkeypatch.setattr(Shard, "is_tiered", lambda shard: True)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "delete": lambda: engine.delete_by_key(S, b"key"),
            "plan": lambda: engine.compact(S),
            "export": lambda: engine.export_segment(S, first, tmp_path / "exported"),
        }
        with pytest.raises(KVDamaged):
            await calls.get(by, lambda: engine.read_by_key(S, b"key"))()
        assert met == [by]
        kv.damaged = False


async def test_a_persisted_shard_that_fails_at_the_close_costs_no_other_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineMemory(tmp_path, limits=LIMITS)
    await engine.open()
    for name in (S, T):
        await engine.create_shard(spec(name, memory_persist=True))
        for value in TEN:
            await engine.write(name, record(value))
    sick, real = engine._registry.get(S).store, PersistedShardStore.roll

    def roll(store: PersistedShardStore) -> None:
        if store is sick:
            raise StorageError("it does not roll")
        real(store)

    monkeypatch.setattr(PersistedShardStore, "roll", roll)
    with pytest.raises(StorageError, match="does not roll"):
        await engine.close()
    monkeypatch.undo()
    again = EngineMemory(tmp_path, limits=LIMITS)
    await again.open()
    assert values(await read_all(again, T)) == TEN
    await again.close()
