"""A shard whose older part is on object storage reads as it did before."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.clock import ManualClock
from stratamq.model.errors import NotFound, OffsetOutOfRange, StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.types import Offset, ShardName, TimestampMs
from tests.engine.conftest import House
from tests.engine.memory_history import MemoryHistory, copy_out, tier
from tests.engine.support import (
    EVERYTHING,
    NOW,
    S,
    T,
    fetch_all,
    fill_segments,
    offsets,
    produced,
    read_all,
    record,
    spec,
    stored,
    write_all,
    write_mark,
)
from tests.waiting import every, let_run, until


def some(first: int, count: int = 4) -> list[Record]:
    """Keys k0..k2, tags t0 and t1, a millisecond apart."""
    return [
        record(b"v%d" % at, b"k%d" % (at % 3), b"t%d" % (at % 2), at=NOW + at)
        for at in range(first, first + count)
    ]


async def three_segments(engine: StorageEngine, **config: object) -> None:
    """0..3, 4..7 and, active, 8..11."""
    await engine.create_shard(spec(**config))
    await fill_segments(engine, some(0), some(4), some(8))


async def answers(engine: StorageEngine) -> list[object]:
    """All that can be asked."""
    start, committed, _ = engine.offsets(S)
    found: list[object] = [engine.offsets(S), engine.epochs(S), await fetch_all(engine)]
    for at in range(start, committed):
        found.append(await engine.read_by_offset(S, Offset(at), ReadLimit(3)))
        found.append(await engine.read_raw(S, Offset(at), 1))
        for strategy in OffsetStrategy:
            found.append(await engine.offset_by_timestamp(S, TimestampMs(NOW + at), strategy))
    for number in range(3):
        key, tag = b"k%d" % number, b"t%d" % number
        for at in (0, 3, 5, 9):
            found.append(await engine.read_by_key(S, key, Offset(at)))
            found.append(await engine.read_by_key(S, key, Offset(at), EVERYTHING, history=True))
            found.append(await engine.read_by_tag(S, tag, Offset(at), EVERYTHING))
    return found


@pytest.mark.parametrize("end", [3, 4, 7, 8, 100])
async def test_every_answer_stays_what_it_was(engine: StorageEngine, end: int) -> None:
    await three_segments(engine)
    before = await answers(engine)
    history = MemoryHistory()
    freed = await tier(engine, history, end)
    assert engine.local_start(S) == (0 if end < 4 else 4 if end < 8 else 8)
    assert (freed > 0) == (end >= 4)
    assert sum(one.size_bytes for one in history.segments()) == freed
    assert [*engine.cold_segments(S), *engine.segments(S)][0].base_offset == 0
    assert await answers(engine) == before
    assert await engine.offload(S, Offset(end)) == 0


async def test_the_tail_needs_no_history(engine: StorageEngine) -> None:
    await three_segments(engine)
    history = MemoryHistory()
    await tier(engine, history)
    history.down = True
    assert offsets(await engine.read_by_offset(S, Offset(8))) == [8, 9, 10, 11]
    assert (await engine.fetch_batches(S, Offset(9))).data
    assert await engine.write(S, some(12)[0]) == 12
    assert offsets(await engine.read_by_key(S, b"k1")) == [10], "its only one that is here"
    assert history.reads == 0
    for cold in (
        engine.read_by_offset(S, Offset(7)),
        engine.fetch_batches(S, Offset(0)),
        engine.read_raw(S, Offset(0)),
        engine.read_by_key(S, b"nobody"),
        engine.read_by_tag(S, b"t0"),
        engine.offset_by_timestamp(S, TimestampMs(NOW)),
        engine.delete_by_offset(S, Offset(1)),
        engine.delete_by_key(S, b"k0"),
    ):
        with pytest.raises(StoreUnavailable):
            await cold
    history.down = False
    assert offsets(await read_all(engine)) == list(range(13))


async def test_a_history_that_is_not_known_is_no_gap(engine: StorageEngine) -> None:
    await three_segments(engine)
    history = MemoryHistory()
    await tier(engine, history)
    for missing in (None, MemoryHistory()):
        engine.attach_history(S, missing)
        with pytest.raises(StoreUnavailable):
            await engine.read_by_offset(S, Offset(0))
        assert offsets(await engine.read_by_offset(S, Offset(8))) == [8, 9, 10, 11]
    engine.attach_history(S, history)
    assert offsets(await read_all(engine)) == list(range(12))


async def test_reads_that_wait_for_the_store_hold_up_nobody(engine: StorageEngine) -> None:
    await three_segments(engine)
    history = MemoryHistory()
    await tier(engine, history)
    history.gate.clear()
    stuck = [asyncio.create_task(engine.read_by_offset(S, Offset(0))) for _ in range(9)]
    stuck.append(asyncio.create_task(engine.delete_by_key(S, b"k0")))  # type: ignore[arg-type]
    await let_run(0.01)
    async with asyncio.timeout(5):
        assert await engine.write(S, record(b"without a key")) == 12
        assert offsets(await engine.read_by_offset(S, Offset(8), ReadLimit(1))) == [8]
        await engine.roll(S)
    history.gate.set()
    *_, deleted = await asyncio.gather(*stuck)
    assert deleted == 4
    assert all("cold" in name for name in every(history.threads))


async def test_readers_see_no_gap_while_segments_go(engine: StorageEngine) -> None:
    count = 60
    await engine.create_shard(spec())
    for first in range(0, count, 2):
        await write_all(engine, some(first, 2))
        await engine.roll(S)
    history = MemoryHistory()
    await copy_out(engine, history)
    engine.attach_history(S, history)
    tagged = list(range(1, count, 2))
    keyed = list(range(count - 3, -1, -3))
    going = True

    async def read() -> None:
        while going:
            assert offsets(await read_all(engine)) == list(range(count))
            by_tag = await engine.read_by_tag(S, b"t1", Offset(0), EVERYTHING)
            assert offsets(by_tag) == tagged
            by_key = await engine.read_by_key(S, b"k0", Offset(0), EVERYTHING, history=True)
            assert offsets(by_key) == keyed
            since = TimestampMs(NOW + count // 2)
            assert await engine.offset_by_timestamp(S, since) == count // 2

    readers = [asyncio.create_task(read()) for _ in range(3)]
    for end in range(2, count + 2, 2):
        assert await engine.offload(S, Offset(end)) > 0
        await asyncio.sleep(0)
    going = False
    await asyncio.gather(*readers)


async def test_a_look_up_goes_on_where_segments_went(engine: StorageEngine) -> None:
    await three_segments(engine)
    assert isinstance(engine, StorageEngine)
    history = MemoryHistory()
    await copy_out(engine, history)
    engine.attach_history(S, history)
    reads = engine._shard(S).reads(waits=True)
    by_tag = reads.offsets_by_tag(b"t0", Offset(0), Offset(12))
    by_key = reads.offsets_by_key(b"k0", Offset(12))
    assert by_tag is not None
    assert by_key is not None
    assert [next(by_tag), next(by_key)] == [0, 9]
    assert await engine.offload(S, Offset(8)) > 0
    assert list(by_tag) == [2, 4, 6, 8, 10]
    assert list(by_key) == [6, 3, 0]


async def test_only_what_the_history_has_goes(engine: StorageEngine) -> None:
    await three_segments(engine)
    history = MemoryHistory()
    await copy_out(engine, history, 4)
    assert await engine.offload(S, Offset(8)) == 0, "no history is attached"
    engine.attach_history(S, history)
    assert await engine.offload(S, Offset(8)) > 0
    assert engine.local_start(S) == 4
    hole = MemoryHistory()
    await engine.roll(S)
    await copy_out(engine, hole)
    hole._segments = hole.segments()[1:]
    engine.attach_history(S, hole)
    assert await engine.offload(S, Offset(100)) == 0
    assert engine.local_start(S) == 4


async def test_what_is_not_committed_or_decided_stays(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await fill_segments(engine, some(0), some(4), some(8))
    history = MemoryHistory()
    with pytest.raises(NotFound):
        await engine.export_segment(S, Offset(0), Path("/nowhere"))
    await engine.advance_high_watermark(S, Offset(7))
    await tier(engine, history)
    assert engine.local_start(S) == 4
    early = MemoryHistory()
    early._segments = engine.segments(S)[:-1]
    for claims in ((*history.segments(), *early.segments()), early.segments()):
        early._segments = claims
        engine.attach_history(S, early)
        assert await engine.offload(S, Offset(100)) == 0, "whatever object storage may have"
    await engine.advance_high_watermark(S, Offset(8))
    await tier(engine, history)
    assert engine.local_start(S) == 8


async def test_an_open_transaction_stays(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"plain", pid=3))
    await engine.roll(S)
    await engine.append_batch(S, produced(b"open", transactional=True))
    await engine.roll(S)
    await tier(engine, MemoryHistory())
    assert engine.local_start(S) == 1


async def test_truncation_stops_at_what_object_storage_has(engine: StorageEngine) -> None:
    await three_segments(engine)
    history = MemoryHistory()
    await tier(engine, history, 4)
    await copy_out(engine, history)
    for end in (0, 3, 5, 7):
        with pytest.raises(OffsetOutOfRange):
            await engine.truncate(S, Offset(end))
    await engine.truncate(S, Offset(8))
    assert offsets(await read_all(engine)) == list(range(8))
    assert await engine.write(S, record(b"on")) == 8


async def test_records_on_object_storage_can_be_deleted(engine: StorageEngine) -> None:
    await three_segments(engine)
    await engine.delete_by_offset(S, Offset(4))
    await tier(engine, MemoryHistory())
    assert await engine.deleted(S, Offset(0), Offset(8)) == [4]
    assert await engine.delete_by_offset(S, Offset(1))
    assert not await engine.delete_by_offset(S, Offset(1))
    assert await engine.delete_by_key(S, b"k0") == 4
    await engine.compact(S)
    left = [1, 0, 3, 6, 9, 4]
    assert offsets(await read_all(engine)) == [at for at in range(12) if at not in left]
    assert await engine.read_by_key(S, b"k0") == []
    assert await engine.deleted(S, Offset(0), Offset(8)) == [0, 1, 3, 4, 6]


async def test_compaction_leaves_alone_what_was_handed_out(
    engine: StorageEngine, tmp_path: Path
) -> None:
    """Or a record that is deleted in the copy would be forgotten here, and come back there."""
    await three_segments(engine)
    await engine.export_segment(S, Offset(0), tmp_path)
    await engine.delete_by_offset(S, Offset(2))
    await engine.delete_by_offset(S, Offset(5))
    await engine.compact(S)
    assert 2 in await stored(engine)
    assert 5 not in await stored(engine)
    assert await engine.deleted(S, Offset(0), Offset(100)) == [2]


async def test_a_null_outlives_compaction_while_there_is_history(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(cleanup_policy="compact", delete_retention_ms=0))
    await fill_segments(engine, [record(b"old", b"k")], [record(None, b"k"), record(b"", b"j")], [])
    await tier(engine, MemoryHistory(), 1)
    clock.advance(1000)
    await engine.compact(S)
    assert [found.value for found in await engine.read_by_key(S, b"k")] == [None]


async def test_retention_counts_both_parts(engine: StorageEngine, clock: ManualClock) -> None:
    await three_segments(engine, retention_ms=1000)
    history = MemoryHistory()
    await tier(engine, history, 4)
    clock.advance(1002 + 5)
    assert await engine.apply_retention(S) == 1
    assert (engine.offsets(S).start, engine.local_start(S)) == (4, 4)
    assert engine.cold_segments(S) == ()
    with pytest.raises(OffsetOutOfRange):
        await engine.read_by_offset(S, Offset(3))
    clock.advance(3)
    assert await engine.apply_retention(S) == 1
    assert offsets(await read_all(engine)) == [8, 9, 10, 11]


async def test_retention_by_size_counts_both_parts(engine: StorageEngine) -> None:
    await three_segments(engine, retention_bytes=1)
    await tier(engine, MemoryHistory(), 4)
    assert await engine.apply_retention(S) == 2
    assert engine.offsets(S).start == 8


async def test_a_trim_may_end_in_either_part(engine: StorageEngine) -> None:
    await three_segments(engine)
    await tier(engine, MemoryHistory())
    assert await engine.trim(S, Offset(2)) == 2
    assert (engine.offsets(S).start, engine.local_start(S)) == (2, 8)
    assert offsets(await read_all(engine)) == list(range(2, 12))
    assert await engine.trim(S, Offset(9)) == 9
    assert (engine.offsets(S).start, engine.local_start(S)) == (9, 9)
    assert offsets(await read_all(engine)) == [9, 10, 11]


async def test_a_copy_is_the_segment(engine: StorageEngine, tmp_path: Path) -> None:
    await three_segments(engine)
    raw = await engine.read_raw(S, Offset(0), 1 << 20)
    exported = await engine.export_segment(S, Offset(0), tmp_path / "a")
    assert raw.startswith(exported.log.read_bytes())
    assert exported.segment == engine.segments(S)[0]
    again = await engine.export_segment(S, Offset(0), tmp_path / "a")
    assert again.log.stat().st_size == exported.segment.size_bytes
    for base in (8, 1, 77):
        with pytest.raises(NotFound):
            await engine.export_segment(S, Offset(base), tmp_path)
    await engine.trim(S, Offset(5))
    with pytest.raises(NotFound):
        await engine.export_segment(S, Offset(0), tmp_path)
    assert raw.startswith(again.log.read_bytes()), "the copy is nobody else's"


async def test_aborted_transactions_are_known_after_a_restart(house: House) -> None:
    engine = house.engine
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"a", b"b", transactional=True))
    await write_mark(engine, commit=False)
    await engine.roll(S)
    await engine.append_batch(S, produced(b"c", sequence=2, transactional=True))
    await write_mark(engine)
    history = MemoryHistory()
    await tier(engine, history)
    before = engine.aborted_transactions(S, Offset(0), Offset(5)), engine.producers(S)
    assert before[0]
    history.down = True
    engine = await house.reopen()
    assert (engine.offsets(S).start, engine.local_start(S)) == (0, 3)
    after = engine.aborted_transactions(S, Offset(0), Offset(5)), engine.producers(S)
    assert after == before
    engine.attach_history(S, history)
    history.down = False
    assert len(await read_all(engine)) == 3
    await engine.truncate(S, Offset(3))
    assert engine.aborted_transactions(S, Offset(0), Offset(3)) == before[0]


async def test_a_killed_process_has_left_a_snapshot(house: House, tmp_path: Path) -> None:
    if house.kind != "segment":
        pytest.skip("an open RocksDB is not to be copied")
    engine = house.engine
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"a", transactional=True))
    await write_mark(engine, commit=False)
    await engine.roll(S)
    await tier(engine, MemoryHistory())
    before = engine.aborted_transactions(S, Offset(0), Offset(2)), engine.producers(S)
    shutil.copytree(house.data_dir / "segments", tmp_path / "killed" / "segments")
    found = EngineSegment(tmp_path / "killed", clock=house.clock)
    await found.open()
    assert found.local_start(S) == 2
    assert before[0]
    assert (found.aborted_transactions(S, Offset(0), Offset(2)), found.producers(S)) == before
    await found.close()


async def test_without_a_snapshot_opening_says_so_and_goes_on(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    if house.kind != "segment":
        pytest.skip("snapshots are rows there, which go with the shard")
    engine = house.engine
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"a"))
    await engine.roll(S)
    await engine.append_batch(S, produced(b"b", sequence=1))
    await tier(engine, MemoryHistory())
    await engine.close()
    for path in (house.data_dir / "segments" / S).glob("*.producers"):
        path.unlink()
    house.engine = engine = EngineSegment(house.data_dir, clock=house.clock)
    await engine.open()
    assert "no snapshot" in caplog.text
    assert [one.last_sequence for one in engine.producers(S)] == [1]


async def test_files_are_linked_not_copied(house: House, tmp_path: Path) -> None:
    if house.kind != "segment":
        pytest.skip("there are no files")
    await three_segments(house.engine)
    exported = await house.engine.export_segment(S, Offset(4), tmp_path / "work")
    assert exported.log.stat().st_nlink == 2
    assert exported.index is not None
    assert exported.timeindex is not None
    assert exported.timeindex.stat().st_size > 0


async def test_persisted_memory_offloads_what_is_on_disk(
    engine: StorageEngine, tmp_path: Path, clock: ManualClock
) -> None:
    await engine.create_shard(spec(T, memory_persist=True))
    for first in (0, 4, 8):
        await write_all(engine, some(first), T)
        await engine.roll(T)
    before = await read_all(engine, T)
    history = MemoryHistory()
    freed = 0

    async def has_moved() -> bool:
        nonlocal freed
        freed += await tier(engine, history, shard=T)
        return engine.local_start(ShardName(T)) == 12

    await until(has_moved)
    assert freed == sum(one.size_bytes for one in history.segments())
    assert await read_all(engine, T) == before
