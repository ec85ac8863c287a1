"""One suite for both strategies, and what only the cached one must watch out for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.adapter.offset_cache import OffsetCacheLimits, OffsetCacheManager
from stratamq.adapter.offsets import OffsetManager, OffsetStorageManager
from stratamq.log.kv import KVBatch, KVStore, RocksKV
from stratamq.meta.groups import CommitOffset
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.service import MetaService
from stratamq.meta.store import RocksMetaStore
from stratamq.model.clock import ManualClock
from stratamq.model.errors import (
    CapacityExceeded,
    Closed,
    InvalidInput,
    InvalidName,
    NotFound,
    ShardNotFound,
    StorageError,
)
from stratamq.model.shard import shard_name
from stratamq.model.types import LeaderEpoch, Offset, ShardName
from tests.meta.support import ME, T1, creating, topic
from tests.waiting import let_run, until

A, B, UNKNOWN = (shard_name(T1, partition) for partition in (0, 1, 7))
NEVER_S = 3600.0


def at(shard: ShardName, offset: int, metadata: str = "") -> CommitOffset:
    return CommitOffset(shard=shard, offset=Offset(offset), metadata=metadata)


class HeldKV:
    """A real store whose writes can be held up and made to fail."""

    def __init__(self, path: Path) -> None:
        self._kv: KVStore = RocksKV(path)
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.failure: Exception | None = None
        self.writes = 0
        self.synced = True

    def get(self, key: bytes) -> bytes | None:
        return self._kv.get(key)

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._kv.scan(begin, end)

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._kv.scan_back(begin, end)

    def batch(self) -> KVBatch:
        return self._kv.batch()

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        self.writes += 1
        self.synced &= sync
        self.entered.set()
        assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        self._kv.write(batch, sync=sync)

    def close(self) -> None:
        self._kv.close()


class Cached:
    """Makes cached managers over one folder, as restarts of a node would."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.kv: HeldKV | None = None
        self.shards = {A, B}

    def connect(self) -> HeldKV:
        self.kv = HeldKV(self._path)
        return self.kv

    async def open(self, **limits: float) -> OffsetCacheManager:
        manager = OffsetCacheManager(
            self.connect,
            self.shards.__contains__,
            ManualClock(),
            OffsetCacheLimits(**{"flush_interval_s": NEVER_S, **limits}),  # type: ignore[arg-type]
        )
        await manager.open()
        return manager


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path / "offsets")


Reopen = Callable[[], "asyncio.Future[OffsetManager]"]


@pytest.fixture(params=["storage", "cache"])
async def reopen(
    request: pytest.FixtureRequest, tmp_path: Path, cached: Cached
) -> AsyncIterator[Callable[[], object]]:
    """Gives a manager; called again, closes it and gives one that has to remember."""
    service = MetaService(RocksMetaStore(tmp_path / "meta"))
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="x"), *creating(topic(partitions=2)))
    opened: list[OffsetManager] = []

    async def open_again() -> OffsetManager:
        if opened:
            await opened[-1].close()
        manager: OffsetManager
        if request.param == "cache":
            manager = await cached.open()
        else:
            manager = OffsetStorageManager(service, ManualClock())
            await manager.open()
        opened.append(manager)
        return manager

    yield open_again
    await opened[-1].close()
    await service.close()


async def test_what_was_committed_is_there_also_after_reopening(reopen: Reopen) -> None:
    manager = await reopen()
    entry = CommitOffset(shard=A, offset=Offset(5), metadata="m", leader_epoch=LeaderEpoch(3))
    await manager.commit("g", [entry, at(B, 0)])
    await manager.commit("g", [at(B, 9)])
    await manager.commit("ü\x00", [at(A, 1)])
    for again in (False, True):
        manager = await reopen() if again else manager
        kept = await manager.committed("g")
        assert {shard: one.offset for shard, one in kept.items()} == {A: 5, B: 9}
        assert (kept[A].metadata, kept[A].leader_epoch) == ("m", 3)
        assert kept[A].commit_ms == ManualClock().now_ms()
        assert await manager.groups() == ["g", "ü\x00"]


async def test_an_offset_may_go_back(reopen: Reopen) -> None:
    manager = await reopen()
    await manager.commit("g", [at(A, 5)])
    await manager.commit("g", [at(A, 2)])
    assert (await manager.committed("g"))[A].offset == 2


async def test_a_bad_entry_refuses_the_whole_commit(reopen: Reopen) -> None:
    manager = await reopen()
    for group, entry, error in [
        ("", at(B, 1), InvalidName),
        ("g", at(B, -1), InvalidInput),
        ("g", at(UNKNOWN, 1), ShardNotFound),
        ("g", at(B, 1, "x" * 5000), InvalidInput),
    ]:
        with pytest.raises(error):
            await manager.commit(group, [at(A, 1), entry])
    assert await manager.committed("g") == {}
    assert await manager.groups() == []


async def test_a_deleted_group_is_gone_for_good(reopen: Reopen) -> None:
    manager = await reopen()
    await manager.commit("g", [at(A, 1), at(B, 1)])
    await manager.commit("h", [at(A, 1)])
    await manager.delete_group("g")
    for again in (False, True):
        manager = await reopen() if again else manager
        assert await manager.groups() == ["h"]
        assert await manager.committed("g") == {}
        with pytest.raises(NotFound):
            await manager.delete_group("g")


async def test_single_offsets_of_a_group_can_be_deleted(reopen: Reopen) -> None:
    manager = await reopen()
    await manager.commit("g", [at(A, 1), at(B, 2)])
    await manager.commit("h", [at(A, 3)])
    await manager.delete("g", [A, UNKNOWN])
    await manager.delete("nobody", [A])
    manager = await reopen()
    assert set(await manager.committed("g")) == {B}
    assert set(await manager.committed("h")) == {A}


async def test_forgotten_shards_stay_forgotten(cached: Cached) -> None:
    manager = await cached.open()
    await manager.commit("g", [at(A, 1), at(B, 2)])
    await manager.forget({A})
    await manager.forget({A})
    assert set(await manager.committed("g")) == {B}
    await manager.close()
    manager = await cached.open()
    assert set(await manager.committed("g")) == {B}
    await manager.close()


async def test_offsets_of_shards_that_vanished_in_a_crash_are_dropped(cached: Cached) -> None:
    manager = await cached.open()
    await manager.commit("g", [at(A, 1), at(B, 2)])
    await manager.close()
    cached.shards.discard(A)
    manager = await cached.open()
    assert set(await manager.committed("g")) == {B}
    await manager.close()


# -- dirty until stored ---------------------------------------------------------------------------


async def test_an_offset_committed_while_its_old_value_is_stored_stays_dirty(
    cached: Cached,
) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.commit("g", [at(A, 1)])
    cached.kv.gate.clear()
    flushing = asyncio.create_task(manager.flush())
    await asyncio.to_thread(cached.kv.entered.wait, 5)
    await manager.commit("g", [at(A, 2)])
    cached.kv.gate.set()
    await flushing
    await manager.close()
    manager = await cached.open()
    assert (await manager.committed("g"))[A].offset == 2
    await manager.close()


async def test_a_failed_store_leaves_everything_dirty(cached: Cached) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.commit("g", [at(A, 1)])
    await manager.flush()
    await manager.commit("g", [at(A, 2)])
    cached.kv.failure = StorageError("no")
    with pytest.raises(StorageError):
        await manager.flush()
    cached.kv.failure = None
    await manager.flush()
    await manager.close()
    manager = await cached.open()
    assert (await manager.committed("g"))[A].offset == 2
    await manager.close()


async def test_a_flush_that_nobody_waits_for_does_not_overtake_a_later_one(cached: Cached) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.commit("g", [at(A, 1)])
    cached.kv.gate.clear()
    flushing = asyncio.create_task(manager.flush())
    await asyncio.to_thread(cached.kv.entered.wait, 5)
    flushing.cancel()
    await asyncio.wait([flushing])
    await manager.commit("g", [at(A, 2)])
    closing = asyncio.create_task(manager.close())
    await let_run()
    cached.kv.gate.set()
    await closing
    manager = await cached.open()
    assert (await manager.committed("g"))[A].offset == 2
    await manager.close()


async def test_offsets_are_stored_in_the_background_and_a_failure_does_not_stop_that(
    cached: Cached,
) -> None:
    manager = await cached.open(flush_interval_s=0.01)
    assert cached.kv is not None
    cached.kv.failure = StorageError("no")
    await manager.commit("g", [at(A, 1)])
    await asyncio.to_thread(cached.kv.entered.wait, 5)
    assert manager._dirty
    cached.kv.failure = None
    await until(lambda: not manager._dirty)
    assert [*cached.kv.scan(b"o", b"p")]
    await manager.close()


async def test_nothing_dirty_nothing_written(cached: Cached) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.flush()
    await manager.close()
    assert cached.kv.writes == 0


async def test_what_is_stored_survives_a_power_cut(cached: Cached) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.commit("g", [at(A, 1)])
    await manager.flush()
    await manager.close()
    assert cached.kv.writes == 1
    assert cached.kv.synced


async def test_a_deleted_group_does_not_come_back_after_a_crash(cached: Cached) -> None:
    manager = await cached.open()
    assert cached.kv is not None
    await manager.commit("g", [at(A, 1)])
    await manager.flush()
    await manager.delete_group("g")
    assert [*cached.kv.scan(b"o", b"p")] == [], "what a restart would find now"
    await manager.close()


# -- limits ---------------------------------------------------------------------------------------


async def test_a_flush_is_cut_into_bounded_writes(cached: Cached) -> None:
    manager = await cached.open(flush_offsets_max=10)
    assert cached.kv is not None
    for number in range(25):
        await manager.commit(f"g{number}", [at(A, number)])
    await manager.flush()
    assert cached.kv.writes == 3
    await manager.close()


async def test_too_many_dirty_offsets_make_commits_wait_for_the_disk(cached: Cached) -> None:
    manager = await cached.open(dirty_offsets_max=3)
    assert cached.kv is not None
    for number in range(3):
        await manager.commit(f"g{number}", [at(A, number)])
    assert cached.kv.writes == 0
    cached.kv.gate.clear()
    fourth = asyncio.create_task(manager.commit("g3", [at(A, 3)]))
    await asyncio.to_thread(cached.kv.entered.wait, 5)
    assert not fourth.done()
    cached.kv.gate.set()
    await fourth
    assert len(manager._dirty) == 1
    await manager.close()


async def test_too_many_offsets_are_refused_but_known_ones_may_move(cached: Cached) -> None:
    manager = await cached.open(offsets_max=2)
    await manager.commit("g", [at(A, 1), at(B, 1)])
    await manager.commit("g", [at(A, 2), at(B, 2)])
    with pytest.raises(CapacityExceeded):
        await manager.commit("h", [at(A, 1)])
    await manager.delete_group("g")
    await manager.commit("h", [at(A, 1)])
    await manager.close()


async def test_metadata_of_offsets_has_a_size_too(cached: Cached) -> None:
    manager = await cached.open(offset_bytes_max=1000)
    text = replace(at(A, 1), metadata="x" * 500)
    await manager.commit("g", [text])
    with pytest.raises(CapacityExceeded):
        await manager.commit("h", [at(A, 1)])
    await manager.commit("g", [at(A, 1)])
    await manager.commit("h", [at(A, 1)])
    await manager.close()


async def test_closed_is_closed(cached: Cached) -> None:
    manager = await cached.open()
    await manager.close()
    await manager.close()
    with pytest.raises(Closed):
        await manager.commit("g", [at(A, 1)])
    with pytest.raises(Closed):
        await manager.committed("g")
