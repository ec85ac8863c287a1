"""EngineMemory alone: how much it may hold, what gives way, and what it writes to disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.log.shard_log import FileShardLog
from stratamq.model.clock import ManualClock
from stratamq.model.errors import CapacityExceeded, DiskFull, OffsetOutOfRange
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    decoded,
    fetch_all,
    offsets,
    read_all,
    record,
    spec,
    stored,
    values,
    write_all,
)
from tests.waiting import let_run, until

KIB = 1024


@asynccontextmanager
async def memory(
    folder: Path, clock: ManualClock | None = None, **limits: object
) -> AsyncIterator[EngineMemory]:
    engine = EngineMemory(
        folder,
        clock=clock or ManualClock(NOW),
        limits=EngineLimits(**limits),  # type: ignore[arg-type]
    )
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def big(size: int = 900) -> bytes:
    return b"x" * size


async def fill(engine: EngineMemory) -> None:
    """Write until nothing more is taken."""
    with pytest.raises(CapacityExceeded):
        await write_all(engine, [record(big())] * 100)


# -- capacity --------------------------------------------------------------------------------------


async def test_the_oldest_segments_of_all_shards_give_way(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with memory(tmp_path, clock, memory_bytes_max=20 * KIB) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard, segment_bytes=1024))
        await write_all(engine, [record(big()) for _ in range(5)])
        clock.advance(1)
        for _ in range(12):
            await engine.write(T, record(big()))
            clock.advance(1)
        assert engine.used_bytes <= 20 * KIB
        assert engine.offsets(S)[0] > 0, "the older ones went first"
        assert engine.offsets(T) == (0, 12, 12)
        for _ in range(30):
            await engine.write(T, record(big()))
        assert engine.used_bytes <= 20 * KIB
        start, _, end = engine.offsets(T)
        assert 0 < start < end == 42
        assert offsets(await read_all(engine, T)) == list(range(start, end))
        with pytest.raises(OffsetOutOfRange):
            await engine.read_by_offset(T, Offset(0))


async def test_an_active_segment_gives_way_when_nothing_else_is_left(tmp_path: Path) -> None:
    async with memory(tmp_path, memory_bytes_max=10 * KIB) as engine:
        await engine.create_shard(spec(S))
        for number in range(50):
            assert await engine.write(S, record(big(), b"k", b"t")) == number
        start, _, end = engine.offsets(S)
        assert 0 < start < end == 50
        assert engine.used_bytes <= 10 * KIB
        assert offsets(await engine.read_by_tag(S, b"t")) == list(range(start, end))
        assert len(await engine.read_by_key(S, b"k", history=True)) == end - start


async def test_those_who_watch_hear_of_an_eviction(tmp_path: Path) -> None:
    async with memory(tmp_path, memory_bytes_max=10 * KIB) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard))
        await write_all(engine, [record(big()) for _ in range(5)])
        starts: list[int] = []
        engine.subscribe(S, lambda: starts.append(engine.offsets(S).start))
        await engine.write(T, record(big(6000)))
        assert starts == [5]


async def test_refusing_is_the_other_policy(tmp_path: Path) -> None:
    async with memory(tmp_path, memory_bytes_max=10 * KIB, memory_full="refuse") as engine:
        await engine.create_shard(spec(S))
        await engine.create_shard(spec(T))
        await fill(engine)
        start, _, end = engine.offsets(S)
        assert start == 0
        assert values(await read_all(engine)) == [big()] * end, "what was taken is kept"
        with pytest.raises(CapacityExceeded):
            await engine.write(T, record(big()))
        await engine.trim(S, end)
        assert await engine.write(T, record(big())) == 0, "room again"


async def test_what_never_fits_is_refused_and_evicts_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path, memory_bytes_max=10 * KIB) as engine:
        await engine.create_shard(spec(S))
        await engine.write(S, record(b"kept"))
        with pytest.raises(CapacityExceeded):
            await engine.write(S, record(big(11 * KIB)))
        assert values(await read_all(engine)) == [b"kept"]


async def test_memory_is_given_back(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard, segment_bytes=1024))
            for _ in range(10):
                await engine.write(shard, record(big(200), b"k", b"t"))
        full = engine.used_bytes
        await engine.truncate(S, Offset(5))
        assert engine.used_bytes == pytest.approx(full * 3 / 4, rel=0.05)
        await engine.delete_by_offset(S, Offset(0))
        await engine.compact(S)
        await engine.trim(S, Offset(5))
        assert engine.used_bytes == full / 2
        await engine.delete_shard(T)
        assert engine.used_bytes == 0


async def test_old_segments_are_evicted(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with memory(tmp_path, clock, memory_age_ms_max=1000) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard))
        await engine.write(S, record(b"old"))
        clock.advance(1000)
        await engine.write(T, record(b"at the limit"))
        assert engine.offsets(S).start == 0
        clock.advance(101)
        await engine.write(T, record(b"over it"))
        assert engine.offsets(S) == (1, 1, 1)
        assert engine.offsets(T) == (0, 2, 2)


async def test_retention_evicts_old_segments_too(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with memory(tmp_path, clock, memory_age_ms_max=1000) as engine:
        await engine.create_shard(spec(S, retention_ms=-1))
        await engine.write(S, record(b"old"))
        clock.advance(1001)
        await engine.apply_retention(S)
        assert engine.offsets(S) == (1, 1, 1)


async def test_without_persistence_there_is_nothing_on_disk(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S))
        await engine.write(S, record(b"v"))
    assert list(tmp_path.glob("*")) == []  # noqa: ASYNC240
    async with memory(tmp_path) as engine:
        assert engine.list_shards() == {}


# -- persistence -----------------------------------------------------------------------------------


def store_of(engine: EngineMemory) -> PersistedShardStore:
    store = engine._shard(S).store
    assert isinstance(store, PersistedShardStore)
    return store


async def until_moved(engine: EngineMemory, boundary: int) -> None:
    """Until everything below `boundary` is on disk and nowhere else."""
    await until(lambda: store_of(engine).memory.snapshot()[0].base >= boundary)


async def test_sealed_segments_move_to_disk_and_stay_readable(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True, segment_bytes=1024))
        await write_all(
            engine, [record(big(400), b"k%d" % (n % 3), b"t", at=NOW + n) for n in range(20)]
        )
        await until_moved(engine, 18)
        assert store_of(engine).disk.end_offset == 18
        assert len(store_of(engine).memory.snapshot()) == 1
        assert engine.offsets(S) == (0, 20, 20)
        assert offsets(await read_all(engine)) == list(range(20))
        assert offsets(decoded(await fetch_all(engine))) == list(range(20))
        assert offsets(await engine.read_by_key(S, b"k1", history=True)) == [
            19,
            16,
            13,
            10,
            7,
            4,
            1,
        ]
        assert offsets(await engine.read_by_tag(S, b"t")) == list(range(20))
        for number in (0, 7, 19):
            assert await engine.offset_by_timestamp(S, TimestampMs(NOW + number)) == number


async def test_after_a_restart_the_persisted_part_is_there(tmp_path: Path) -> None:
    """After a crash, that is: what was not sealed is lost, and offsets go on after the rest."""
    lost = EngineMemory(tmp_path, clock=ManualClock(NOW))
    await lost.open()
    await lost.create_shard(spec(S, memory_persist=True))
    await write_all(lost, [record(b"%d" % n, b"k", b"t") for n in range(3)])
    await lost.delete_by_offset(S, Offset(1))
    await lost.roll(S)
    await until_moved(lost, 3)
    await write_all(lost, [record(b"lost"), record(b"lost too")])
    lost._memory_storage._disk.close()  # the process ends here, and takes its lock along
    async with memory(tmp_path) as engine:
        assert engine.list_shards() == {S: spec(S, memory_persist=True)}
        assert engine.offsets(S) == (0, 3, 3)
        assert values(await read_all(engine)) == [b"0", b"2"]
        assert await engine.write(S, record(b"next", b"k")) == 3
        assert offsets(await engine.read_by_key(S, b"k", history=True)) == [3, 2, 0]


async def test_a_clean_stop_loses_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await engine.append_batch(S, batch(record(b"a", b"k")), LeaderEpoch(3))
        await engine.write(S, record(b"b", b"k"))
    async with memory(tmp_path) as engine:
        assert values(await read_all(engine)) == [b"a", b"b"]
        assert engine.epochs(S) == ((3, 0),)
        await engine.write(S, record(b"c", b"k"))
        assert engine.epochs(S) == ((3, 0),)
        assert values(await engine.read_by_key(S, b"k", history=True)) == [b"c", b"b", b"a"]


async def test_a_deleted_persisted_shard_leaves_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await engine.write(S, record(b"a"))
        await engine.roll(S)
        await until_moved(engine, 1)
        await engine.delete_shard(S)
    async with memory(tmp_path) as engine:
        assert engine.list_shards() == {}
        await engine.create_shard(spec(S, memory_persist=True))
        assert engine.offsets(S) == (0, 0, 0)


async def test_writers_wait_for_the_disk_when_memory_is_full(tmp_path: Path) -> None:
    async with memory(tmp_path, memory_bytes_max=20 * KIB) as engine:
        await engine.create_shard(spec(S, memory_persist=True, segment_bytes=4096))
        for number in range(100):
            assert await engine.write(S, record(big())) == number
            assert engine.used_bytes <= 20 * KIB
        assert engine.offsets(S) == (0, 100, 100), "nothing was evicted"
        assert len(await read_all(engine)) == 100


async def test_what_cannot_be_persisted_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path, memory_bytes_max=20 * KIB) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        store = store_of(engine)
        full = DiskFull("no room")

        def refuse(*args: object, **more: object) -> None:
            raise full

        with monkeypatch.context() as broken:
            broken.setattr(type(store.disk), "append", refuse)
            await fill(engine)
        assert "no room" in caplog.text
        end = engine.offsets(S).end
        assert engine.offsets(S).start == 0
        assert len(await read_all(engine)) == end
        assert await engine.write(S, record(big())) == end, "room on disk makes room in memory"
        assert len(await read_all(engine)) == end + 1


async def test_deletion_follows_a_segment_to_disk(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await write_all(engine, [record(b"%d" % n, b"k") for n in range(4)])
        await engine.delete_by_offset(S, Offset(1))
        await engine.roll(S)
        await until_moved(engine, 4)
        assert set(store_of(engine).disk.deleted()) == {1}
        await engine.delete_by_offset(S, Offset(2))
        await engine.write(S, record(b"4", b"k"))
        assert offsets(await read_all(engine)) == [0, 3, 4]
        assert await engine.compact(S) > 0
        assert await stored(engine) == [0, 3, 4]
        assert await engine.delete_by_key(S, b"k") == 3
        assert await read_all(engine) == []


async def test_what_was_compacted_on_disk_can_be_cut(tmp_path: Path) -> None:
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await write_all(engine, [record(b"%d" % n, b"k%d" % n) for n in range(4)])
        await engine.delete_by_offset(S, Offset(1))
        await engine.roll(S)
        await until_moved(engine, 4)
        assert await engine.compact(S) > 0
        await engine.truncate(S, Offset(3))
        assert offsets(await read_all(engine)) == [0, 2]


class Slow:
    """Holds the copying of a segment until it is let go."""

    def __init__(self, store: PersistedShardStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        append = type(store.disk).append

        def held(*args: object, **more: object) -> None:
            self.entered.set()
            assert self.open.wait(10)
            append(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(type(store.disk), "append", held)


async def test_writers_go_on_while_a_segment_is_copied_and_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes the past would change it under the copier's hands."""
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await write_all(engine, [record(b"%d" % n, b"k") for n in range(4)])
        slow = Slow(store_of(engine), monkeypatch)
        await engine.roll(S)
        await asyncio.to_thread(slow.entered.wait, 10)
        assert await engine.write(S, record(b"4", b"k")) == 4
        assert offsets(await read_all(engine)) == [0, 1, 2, 3, 4]
        deletion = asyncio.create_task(engine.delete_by_key(S, b"k"))
        trimming = asyncio.create_task(engine.trim(S, Offset(2)))
        await let_run()
        assert not deletion.done()
        assert not trimming.done()
        slow.open.set()
        assert await deletion == 5
        assert await trimming == 2
        assert await read_all(engine) == []
        assert await engine.write(S, record(b"5")) == 5
        assert offsets(await read_all(engine)) == [5]


async def test_a_reader_finds_a_segment_that_moves_under_its_hands(tmp_path: Path) -> None:
    """Between looking on disk and looking in memory it went from one to the other."""
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await write_all(engine, [record(b"0"), record(b"1")])
        store = store_of(engine)
        store.roll()
        await write_all(engine, [record(b"2")])  # in the next segment
        segment = store.oldest_sealed()
        assert segment is not None

        class Moving(MemoryShardStore):
            def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
                if self.snapshot()[0] is segment:
                    store.copy(segment)
                    store.release(segment)
                return super().read(offset, max_bytes, end)

        moving = Moving(store.memory.config)
        moving._segments = store.memory.snapshot()
        store.memory = moving
        assert values(decoded(store.read(Offset(0), 1, Offset(3)))) == [b"0"]


async def test_a_segment_goes_to_disk_as_one(tmp_path: Path) -> None:
    """What compaction left of it would not have been put together: its first record is older than
    the one that went, and the last too young for it."""
    async with memory(tmp_path) as engine:
        await engine.create_shard(
            spec(S, memory_persist=True, segment_ms=100, cleanup_policy="compact")
        )
        store = store_of(engine)
        stamps = {b"a": 200, b"b": 0, b"c": 150}
        for key, at in stamps.items():
            await engine.write(S, record(b"v", key, at=NOW + at))
        store.memory.roll()
        store.memory.rewrite(Offset(0), lambda header, data: without(0, header, data))
        before = [one.size_bytes for one in engine.segments(S)]
        await engine.persist()
        assert store.disk.end_offset == 3
        assert [one.size_bytes for one in engine.segments(S)] == before
        assert offsets(await read_all(engine)) == [1, 2]


async def test_an_epoch_whose_first_batch_was_compacted_away_is_persisted(tmp_path: Path) -> None:
    """No batch on disk tells where it began; followers that must be cut there would not be."""
    for opened in ("first", "again"):
        async with memory(tmp_path) as engine:
            if opened == "first":
                await engine.create_shard(spec(S, memory_persist=True, segment_bytes=1 << 20))
                store = store_of(engine)
                for number, epoch in enumerate((0, 1, 1)):
                    data = batch(record(b"%d" % number), base=number, epoch=epoch)
                    await engine.append_replica(S, data)
                store.memory.roll()
                store.memory.rewrite(Offset(0), lambda header, data: without(1, header, data))
                await engine.write(S, record(b"3"))
                await engine.persist()
            assert engine.epochs(S) == ((0, 0), (1, 1))
            assert offsets(await read_all(engine)) == [0, 2, 3]


def without(base: int, header: BatchHeader, data: memoryview) -> bytes | None:
    return None if header.base_offset == base else bytes(data)


async def test_closing_waits_for_a_reader_whose_caller_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads from files that closing would take away under its hands."""
    entered, go_on = threading.Event(), threading.Event()
    read = PersistedShardStore.read

    def held(store: PersistedShardStore, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        entered.set()
        assert go_on.wait(10)
        return read(store, offset, max_bytes, end)

    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(S, memory_persist=True))
        await engine.write(S, record(b"0"))
        monkeypatch.setattr(PersistedShardStore, "read", held)
        reading = asyncio.create_task(read_all(engine))
        assert await asyncio.to_thread(entered.wait, 10)
        reading.cancel()
        closing = asyncio.create_task(engine.close())
        done, _ = await asyncio.wait([closing], timeout=0.2)
        assert not done
        go_on.set()
        await asyncio.wait_for(closing, 10)


async def test_a_deleted_record_stays_deleted_when_its_segment_is_copied_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first copy fails after the records are on disk; then memory compacts its own."""
    async with memory(tmp_path) as engine:
        await engine.create_shard(spec(memory_persist=True))
        await write_all(engine, [record(b"a"), record(b"b"), record(b"c")])
        await engine.delete_by_offset(S, Offset(1))
        with monkeypatch.context() as patched:

            def full(_: FileShardLog, at: Offset | None = None) -> None:
                raise DiskFull("no space left")

            patched.setattr(FileShardLog, "roll", full)
            await engine.roll(S)
            await engine.persist()
            assert store_of(engine).disk.end_offset == 3
            await engine.compact(S)
            assert values(await read_all(engine)) == [b"a", b"c"]
        await engine.persist()
        assert store_of(engine).oldest_sealed() is None
        assert values(await read_all(engine)) == [b"a", b"c"]
        await engine.compact(S)
        assert await stored(engine) == [0, 2]
