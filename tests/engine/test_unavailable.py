"""Shards whose files are lost or damaged: theirs is the trouble, and nothing is destroyed."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.log import names
from stratamq.model.errors import ShardNotFound, ShardUnavailable, StorageError
from stratamq.model.types import Offset, ShardName
from tests.engine.support import EVERYTHING, S, T, read_all, record, spec, values
from tests.waiting import until

LIMITS = EngineLimits(workers=1, reader_threads=1)
X = ShardName("0123456789abcdef0123456789abcdef_7")


class Disk:
    """An engine that keeps shards in folders, and where they are."""

    def __init__(self, data_dir: Path, kind: str) -> None:
        self.data_dir, self.kind = data_dir, kind
        self.home = data_dir / "memory" if kind == "memory" else data_dir
        self.shards = self.home / "segments"

    def spec(self, name: object = S) -> ShardSpec:
        extra = {"memory_persist": True} if self.kind == "memory" else {}
        return spec(name, segment_bytes=1024, **extra)  # type: ignore[arg-type]

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[StorageEngine]:
        make = EngineMemory if self.kind == "memory" else EngineSegment
        engine = make(self.data_dir, limits=LIMITS)
        await engine.open()
        try:
            yield engine
        finally:
            await engine.close()

    async def fill(self) -> None:
        """Two shards with ten records each."""
        async with self.engine() as engine:
            for name in (S, T):
                await engine.create_shard(self.spec(name))
                for number in range(10):
                    await engine.write(name, record(b"%d" % number, b"key"))

    def content(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.shards)): path.read_bytes()
            for path in sorted((self.shards / S).rglob("*"))
        }


@pytest.fixture(params=["segment", "memory"])
async def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Disk:
    disk = Disk(tmp_path, request.param)
    await disk.fill()
    return disk


TEN = [b"%d" % number for number in range(10)]


def lost(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbled(path: Path) -> None:
    path.write_bytes(b"\x00\xff{garbage")


def altered(path: Path) -> None:
    """Good JSON, and not what was written."""
    path.write_text(path.read_text().replace('"segment.bytes": 1024', '"segment.bytes": 2048'))


def of_another(path: Path) -> None:
    path.write_bytes((path.parent.parent / T / path.name).read_bytes())


HARMS = [lost, emptied, garbled, altered, of_another]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_shard_without_its_spec_is_left_as_it_is(
    disk: Disk, harm: Callable[[Path], None]
) -> None:
    harm(disk.shards / S / "shard.json")
    before = disk.content()
    async with disk.engine() as engine:
        assert list(engine.unavailable_shards()) == [S]
        assert "shard.json" in engine.unavailable_shards()[S]
        for call in (
            lambda: engine.write(S, record(b"more")),
            lambda: engine.create_shard(disk.spec()),
            lambda: engine.read_by_offset(S, Offset(0)),
        ):
            with pytest.raises(ShardUnavailable, match=S):
                await call()
        assert values(await read_all(engine, T)) == TEN
        assert await engine.write(T, record(b"more")) == 10
        assert not await engine.retry_shard(disk.spec(T))
        with pytest.raises(StorageError):
            await engine.retry_shard(disk.spec())
    assert disk.content() == before


@pytest.mark.parametrize("harm", HARMS)
async def test_an_operator_can_have_the_spec_written_again(
    disk: Disk, harm: Callable[[Path], None]
) -> None:
    path = disk.shards / S / "shard.json"
    harm(path)
    left = path.read_bytes() if path.exists() else None
    async with disk.engine() as engine:
        assert await engine.retry_shard(disk.spec(), repair=True)
        assert not engine.unavailable_shards()
        assert values(await read_all(engine)) == TEN
        assert await engine.write(S, record(b"more")) == 10
    kept = path.with_name("shard.json.damaged")
    assert (kept.read_bytes() if kept.exists() else None) == left
    async with disk.engine() as engine:
        assert values(await read_all(engine)) == [*TEN, b"more"]


async def test_each_damaged_spec_is_kept(disk: Disk) -> None:
    path = disk.shards / S / "shard.json"
    for text in ("one", "two", "three"):
        path.write_text(text)
        async with disk.engine() as engine:
            assert await engine.retry_shard(disk.spec(), repair=True)
    kept = [found.read_text() for found in sorted(path.parent.glob("shard.json.damaged*"))]
    assert kept == ["one", "two", "three"]


async def test_a_shard_whose_files_are_back_is_opened(disk: Disk) -> None:
    path = disk.shards / S / "shard.json"
    kept = path.read_bytes()
    path.unlink()
    async with disk.engine() as engine:
        path.write_bytes(kept)
        assert await engine.retry_shard(disk.spec())
        assert values(await read_all(engine)) == TEN


async def test_a_user_can_delete_what_is_unavailable(disk: Disk) -> None:
    (disk.shards / S / "shard.json").unlink()
    async with disk.engine() as engine:
        await engine.delete_shard(S)
        assert not (disk.shards / S).exists()
        await engine.create_shard(disk.spec())
        assert await engine.write(S, record(b"first")) == 0


async def test_a_durable_shard_that_is_gone_is_not_created_empty(disk: Disk) -> None:
    for path in (disk.shards / S).iterdir():
        path.unlink()
    (disk.shards / S).rmdir()
    async with disk.engine() as engine:
        await engine.restore_shards([disk.spec(S), disk.spec(T)])
        assert list(engine.unavailable_shards()) == [S]
        with pytest.raises(ShardUnavailable, match="files are missing"):
            await engine.write(S, record(b"more"))
        assert values(await read_all(engine, T)) == TEN
    assert not (disk.shards / S).exists()


async def test_a_shard_in_memory_alone_begins_again_empty(tmp_path: Path) -> None:
    engine = EngineMemory(tmp_path, limits=LIMITS)
    await engine.open()
    await engine.restore_shards([spec(S)])
    assert await engine.write(S, record(b"first")) == 0
    await engine.close()


async def test_a_creation_that_was_cut_off_leaves_nothing_in_the_way(disk: Disk) -> None:
    (disk.shards / X).mkdir()
    (disk.shards / X / "00000000000000000000.log").touch()
    (disk.shards / X / "shard.json.tmp").write_text("{")
    async with disk.engine() as engine:
        assert not engine.unavailable_shards()
    assert not (disk.shards / X).exists()


async def test_an_emptied_log_further_on_is_no_creation(disk: Disk) -> None:
    """All its records were deleted by retention, say; its offsets were given out."""
    (disk.shards / X).mkdir()
    (disk.shards / X / "00000000000000000042.log").touch()
    async with disk.engine() as engine:
        assert list(engine.unavailable_shards()) == [X]
    assert (disk.shards / X / "00000000000000000042.log").exists()


async def test_stray_names_are_left_alone(disk: Disk) -> None:
    (disk.shards / "notes.txt").write_text("mine")
    (disk.shards / "a folder").mkdir()
    async with disk.engine() as engine:
        assert not engine.unavailable_shards()
        assert values(await read_all(engine)) == TEN
    assert (disk.shards / "notes.txt").read_text() == "mine"
    assert (disk.shards / "a folder").exists()


@pytest.mark.parametrize("harm", [lost, emptied, garbled])
@pytest.mark.parametrize("pattern", ["*.sst", "CURRENT", "MANIFEST-*"])
async def test_a_damaged_index_is_rebuilt_from_the_logs(
    disk: Disk, pattern: str, harm: Callable[[Path], None]
) -> None:
    harm(next((disk.home / "index").glob(pattern)))
    async with disk.engine() as engine:
        assert values(await read_all(engine)) == TEN
        found = await engine.read_by_key(S, b"key", history=True)
        assert values(found) == TEN[::-1]
        assert await engine.write(S, record(b"more")) == 10
    assert (disk.home / "index-damaged").exists()


async def test_a_bit_of_the_index_flips(disk: Disk) -> None:
    table = next((disk.home / "index").glob("*.sst"))
    flipped = bytearray(table.read_bytes())
    flipped[20] ^= 1
    table.write_bytes(flipped)
    async with disk.engine() as engine:
        assert values(await engine.read_by_key(S, b"key", history=True)) == TEN[::-1]


async def test_an_engine_that_cannot_open_can_be_opened_later(disk: Disk) -> None:
    """The index store of the failed try must not stay locked."""
    kept = (disk.shards / S / "shard.json").read_bytes()
    (disk.home / "high-watermarks-moved").mkdir()
    disk.shards.rename(disk.home / "elsewhere")
    disk.shards.write_text("in the way")
    engine = EngineSegment(disk.home, limits=LIMITS)
    with pytest.raises(StorageError, match="cannot be read"):
        await engine.open()
    disk.shards.unlink()
    (disk.home / "elsewhere").rename(disk.shards)
    async with disk.engine() as again:
        assert values(await read_all(again)) == TEN
    assert json.loads((disk.shards / S / "shard.json").read_bytes()) == json.loads(kept)


async def test_rows_of_a_shard_that_are_gone(tmp_path: Path) -> None:
    engine = EngineRocksDB(tmp_path, limits=LIMITS)
    await engine.open()
    await engine.create_shard(spec(T))
    await engine.restore_shards([spec(S), spec(T)])
    with pytest.raises(ShardUnavailable, match="files are missing"):
        await engine.write(S, record(b"more"))
    with pytest.raises(ShardUnavailable):
        await engine.retry_shard(spec(S), repair=True)
    await engine.delete_shard(S)
    with pytest.raises(ShardNotFound):
        engine.offsets(S)
    await engine.close()


async def test_an_index_that_is_damaged_while_it_is_used_is_rebuilt(disk: Disk) -> None:
    async with disk.engine() as engine:
        for number in range(10, 40):
            await engine.write(S, record(b"%d" % number, b"key"))
    async with disk.engine() as engine:
        registry = engine._registry  # type: ignore[attr-defined]
        registry.index_is_damaged()
        await until(lambda: registry._rebuilding is None)
        assert not engine.unavailable_shards()
        found = await engine.read_by_key(S, b"key", history=True, limit=EVERYTHING)
        assert values(found) == [b"%d" % number for number in reversed(range(40))]
        assert await engine.write(S, record(b"more")) == 40
    assert (disk.home / "index-damaged").exists()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_spec_that_cannot_be_read_just_now_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """An operator asks for repair while descriptors are short: nothing is set aside."""
    storage = SegmentStorage(tmp_path, EngineLimits())
    storage.open()
    storage.create([spec(S)])
    folders, path = storage._folders, tmp_path / "segments" / S / names.SPEC
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(code, "not now")

    with monkeypatch.context() as broken:
        broken.setattr(folders, "read_spec", fail)
        with pytest.raises(OSError, match="not now"):
            folders.spec_of(spec(S), repair=True)
    assert [one.name for one in path.parent.glob("shard.json*")] == ["shard.json"]
    assert path.read_bytes() == before
    storage.close()
