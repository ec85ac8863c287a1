"""Shards come into being many at a time, whole or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest

from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.engine.storage import StoredShard
from stratamq.log.contract import ShardStore
from stratamq.log.disk import File, RealDisk
from stratamq.model.errors import DiskFull, InvalidName, StorageError
from stratamq.model.types import ShardName
from tests.engine.support import read_all, record, spec, values
from tests.log.support import batches_from
from tests.twins.disk import Crash, Power, SimDisk, at_call
from tests.twins.kv import Loss, SimKV

LIMITS = EngineLimits(workers=2, reader_threads=2)
DATA = Path("/data")
SPECS = [spec(ShardName(f"topic_{number}"), retention_ms=number) for number in range(3)]


class CountingDisk(RealDisk):
    """Counts what it syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def open(self, path: Path, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        return CountedFile(self, file)

    def sync_folder(self, path: Path) -> None:
        self.syncs += 1
        super().sync_folder(path)


class CountedFile:
    def __init__(self, disk: CountingDisk, file: File) -> None:
        self._disk, self._file = disk, file
        self.read, self.write, self.truncate = file.read, file.write, file.truncate
        self.read_at_once, self.size, self.has_name = file.read_at_once, file.size, file.has_name

    def sync(self) -> None:
        self._disk.syncs += 1
        self._file.sync()


def many(number: int) -> list[ShardSpec]:
    return [spec(ShardName(f"many_{partition}")) for partition in range(number)]


async def create_all(engine: StorageEngine, specs: Sequence[ShardSpec]) -> list[object]:
    return await asyncio.gather(*map(engine.create_shard, specs), return_exceptions=True)


def folders(data_dir: Path) -> set[str]:
    return {path.name for path in (data_dir / "segments").iterdir() if path.is_dir()}


async def test_many_shards_cost_two_syncs_each_and_few_together(tmp_path: Path) -> None:
    disk = CountingDisk()
    engine = EngineSegment(tmp_path, limits=LIMITS, disk=disk)
    await engine.open()
    before = disk.syncs
    await create_all(engine, many(100))
    assert disk.syncs - before <= 2 * 100 + 10
    assert len(engine.list_shards()) == 100
    before = disk.syncs
    await engine.write(ShardName("many_7"), record(b"first"))
    assert disk.syncs == before, "its first leader needs no note; its names are durable already"
    await engine.write(ShardName("many_7"), record(b"second"))
    assert disk.syncs == before
    await engine.close()


async def test_many_shards_are_there_after_a_restart(tmp_path: Path) -> None:
    engine = EngineSegment(tmp_path, limits=LIMITS)
    await engine.open()
    await create_all(engine, many(300))
    await engine.write(ShardName("many_299"), record(b"kept"))
    await engine.close()
    engine = EngineSegment(tmp_path, limits=LIMITS)
    await engine.open()
    assert engine.list_shards() == {one.name: one for one in many(300)}
    assert values(await read_all(engine, ShardName("many_299"))) == [b"kept"]
    await engine.close()


@pytest.mark.parametrize("kind", [EngineSegment, EngineRocksDB])
async def test_a_name_asked_for_twice_is_made_once(
    kind: Callable[..., StorageEngine], tmp_path: Path
) -> None:
    engine = kind(tmp_path, limits=LIMITS)
    await engine.open()
    name = ShardName("twice_0")
    wanted = [*many(3), spec(name, retention_ms=1), spec(name, retention_ms=2)]
    assert await create_all(engine, wanted) == [None] * 5
    assert engine.list_shards()[name].config.number("retention.ms") == 2, "the last word counts"
    await engine.close()


async def test_a_shard_that_cannot_be_made_fails_alone(tmp_path: Path) -> None:
    engine = EngineSegment(tmp_path, limits=LIMITS)
    await engine.open()
    bad = spec(ShardName("../elsewhere"))
    *good, refused = await create_all(engine, [*many(5), bad])
    assert good == [None] * 5
    assert isinstance(refused, InvalidName)
    assert set(engine.list_shards()) == {one.name for one in many(5)}
    await engine.close()


# -- callers that give up ------------------------------------------------------------------------


class Held(SegmentStorage):
    """Makes shards when it is told to go on."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, LIMITS)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        self.begun.set()
        assert self.go_on.wait(10)
        return super().create(specs)


async def held(tmp_path: Path) -> tuple[EngineSegment, Held]:
    engine, storage = EngineSegment(tmp_path, limits=LIMITS), Held(tmp_path)
    engine._registry._storage = storage
    await engine.open()
    return engine, storage


async def test_a_creation_that_was_given_up_is_finished_and_can_be_deleted(tmp_path: Path) -> None:
    engine, storage = await held(tmp_path)
    creation = asyncio.create_task(engine.create_shard(SPECS[0]))
    await asyncio.to_thread(storage.begun.wait, 10)
    creation.cancel()
    await asyncio.wait([creation])
    assert creation.cancelled()
    deletion = asyncio.create_task(engine.delete_shard(SPECS[0].name))
    storage.go_on.set()
    await deletion
    assert not engine.list_shards()
    assert folders(tmp_path) == set()
    await engine.close()


async def test_a_creation_that_was_given_up_early_is_never_begun(tmp_path: Path) -> None:
    engine, storage = await held(tmp_path)
    first, second = (asyncio.create_task(engine.create_shard(one)) for one in SPECS[:2])
    late = asyncio.create_task(asyncio.to_thread(storage.begun.wait, 10))
    await late
    third = asyncio.create_task(engine.create_shard(SPECS[2]))
    await asyncio.sleep(0)
    third.cancel()
    storage.go_on.set()
    await asyncio.gather(first, second)
    await asyncio.wait([third])
    assert set(engine.list_shards()) == folders(tmp_path) == {one.name for one in SPECS[:2]}
    await engine.close()


# -- disks that give up --------------------------------------------------------------------------


def storage_on(disk: SimDisk, kv: SimKV) -> SegmentStorage:
    return SegmentStorage(DATA, LIMITS, disk, lambda *_, **__: kv)


def opened(disk: SimDisk, kv: SimKV) -> tuple[SegmentStorage, dict[ShardName, StoredShard]]:
    storage = storage_on(disk, kv)
    return storage, {kept.spec.name: kept for kept in storage.open().kept}


def stopped_at(number: int) -> tuple[SimDisk, SimKV, bool]:
    """A machine that stops at this call of a creation, if it comes to it."""
    disk, kv = SimDisk(), SimKV()
    kv.before_write = lambda sync: disk.step("kv", DATA)
    storage, _ = opened(disk, kv)
    disk.sync_folder(Path("/"))
    disk.sync_folder(DATA)
    disk.trouble = at_call(len(disk.calls) + number, Crash())
    try:
        storage.create(SPECS)
    except Crash:
        return disk, kv, True
    return disk, kv, False


@pytest.mark.parametrize("power", list(Power))
@pytest.mark.parametrize("loss", [Loss.KILLED, Loss.NOTHING, Loss.SUFFIX, Loss.UNSYNCED])
def test_a_crash_leaves_whole_shards_or_none(power: Power, loss: Loss) -> None:
    for number in count():
        disk, kv, crashed = stopped_at(number)
        rng = Random(f"{power}{loss}{number}")
        found_disk, found_kv = disk.after_crash(power, rng), kv.after_crash(loss, rng)
        storage, found = opened(found_disk, found_kv)
        wanted = {one.name: one for one in SPECS}
        assert all(kept.spec == wanted[name] for name, kept in found.items())
        assert crashed or set(found) == set(wanted), "what was answered is there"
        for kept in found.values():
            kept.store.append(batches_from(kept.store.end_offset, (2,)))
            kept.store.sync()
            assert kept.store.end_offset == 2
        missing = [one for name, one in wanted.items() if name not in found]
        assert [store.end_offset for store in storage.create(missing)] == [0] * len(missing)
        if not crashed:
            return


def test_a_creation_that_the_disk_refuses_leaves_nothing() -> None:
    for number in count():
        disk, kv = SimDisk(), SimKV()
        storage, _ = opened(disk, kv)
        disk.trouble = at_call(len(disk.calls) + number, OSError(28, "No space left"))
        try:
            storage.create(SPECS)
        except DiskFull:
            pass
        else:
            return
        assert disk.names(DATA / "segments") == [], f"call {number}"
        again = storage.create(SPECS)
        again[1].append(batches_from(again[1].end_offset, (1,)))
        _, found = opened(disk, kv)
        assert set(found) == {one.name for one in SPECS}


def test_other_trouble_of_the_disk_is_a_storage_error() -> None:
    disk, kv = SimDisk(), SimKV()
    storage, _ = opened(disk, kv)
    disk.trouble = lambda call: OSError(5, "I/O error") if call.kind == "sync" else None
    with pytest.raises(StorageError):
        storage.create(SPECS)
