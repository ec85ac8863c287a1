"""What replication needs of every engine: raw batches, epochs, truncation, the high watermark."""

from __future__ import annotations

import asyncio

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.engine.shard import Shard
from stratamq.model.clock import ManualClock
from stratamq.model.errors import (
    CorruptBatch,
    NotLeader,
    OffsetNotConsecutive,
    OffsetOutOfRange,
    StorageError,
)
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    decoded,
    fetch_all,
    fill_segments,
    headers,
    offsets,
    read_all,
    record,
    spec,
    values,
    write_all,
)
from tests.waiting import until

# -- the high watermark ----------------------------------------------------------------------------


async def test_only_the_replicas_move_the_high_watermark(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"%d" % n) for n in range(4)])
    assert engine.offsets(S) == (0, 0, 4)
    assert await read_all(engine) == []
    with pytest.raises(OffsetOutOfRange):
        await engine.read_by_offset(S, Offset(1))
    with pytest.raises(OffsetOutOfRange):
        await engine.fetch_batches(S, Offset(1))
    await engine.advance_high_watermark(S, Offset(3))
    assert offsets(await read_all(engine)) == [0, 1, 2]
    assert offsets(decoded(await fetch_all(engine))) == [0, 1, 2]
    assert values(decoded(await engine.read_raw(S, Offset(0)))) == [b"0", b"1", b"2", b"3"]


async def test_the_high_watermark_never_goes_back_nor_past_the_end(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"v")] * 3)
    await engine.advance_high_watermark(S, Offset(2))
    await engine.advance_high_watermark(S, Offset(1))
    assert engine.offsets(S).high_watermark == 2
    await engine.advance_high_watermark(S, Offset(99))
    assert engine.offsets(S).high_watermark == 3
    await engine.write(S, record(b"later"))
    assert engine.offsets(S) == (0, 3, 4), "a promise about the future is none"


async def test_alone_whatever_is_acknowledged_is_committed(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"v"))
    await engine.advance_high_watermark(S, Offset(0))
    assert engine.offsets(S) == (0, 1, 1)


async def test_a_batch_is_seen_when_all_of_it_is_committed(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await engine.batch_write(S, [record(b"v", b"k", b"t")] * 3)
    await engine.advance_high_watermark(S, Offset(2))
    assert await read_all(engine) == []
    assert await engine.read_by_key(S, b"k") == []
    assert await engine.read_by_tag(S, b"t") == []
    fetched = await engine.fetch_batches(S, Offset(0))
    assert fetched[:2] == (b"", 0), "a consumer must not be led past it"
    await engine.advance_high_watermark(S, Offset(3))
    assert len(await read_all(engine)) == 3


# -- a leader's batches ----------------------------------------------------------------------------


async def test_a_replica_is_equal_to_its_leader(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S))
    await engine.create_shard(spec(T, replicated=True))
    await engine.append_batch(S, batch(record(b"0", b"k", b"t"), record(b"1")), LeaderEpoch(1))
    await engine.append_batch(S, batch(record(b"2", b"k", b"t")), LeaderEpoch(4))
    data = await engine.read_raw(S, Offset(0))
    assert await engine.append_replica(T, data) == 3
    assert await engine.read_raw(T, Offset(0)) == data
    assert engine.epochs(T) == engine.epochs(S) == ((1, 0), (4, 2))
    assert engine.offsets(T) == (0, 0, 3)
    await engine.advance_high_watermark(T, Offset(3))
    assert await read_all(engine, T) == await read_all(engine, S)
    assert offsets(await engine.read_by_key(T, b"k", history=True)) == [2, 0]
    assert offsets(await engine.read_by_tag(T, b"t")) == [0, 2]


async def test_replica_batches_must_continue_the_log(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_replica(S, batch(b"0", b"1", base=0))
    for base in (0, 1):
        with pytest.raises(OffsetNotConsecutive):
            await engine.append_replica(S, batch(b"x", base=base))
    with pytest.raises(OffsetNotConsecutive):
        await engine.append_replica(S, batch(b"2", base=2) + batch(b"2", base=2))
    assert engine.offsets(S).end == 2, "all of a request or nothing"
    assert await engine.append_replica(S, batch(b"2", base=2) + batch(b"3", base=3)) == 4
    assert await engine.append_replica(S, b"") == 4


async def test_a_follower_has_the_gaps_of_its_leader(engine: StorageEngine) -> None:
    """All of a batch was deleted, and compacted away, on a topic that does not compact by key."""
    await engine.create_shard(spec(S, cleanup_policy="delete"))
    await fill_segments(engine, [record(b"0"), record(b"1"), record(b"2")], [record(b"3")])
    await engine.delete_by_offset(S, Offset(1))
    assert await engine.compact(S) > 0
    await engine.create_shard(spec(T, cleanup_policy="delete", replicated=True))
    for offset in (0, 2):
        await engine.append_replica(T, await engine.read_raw(S, Offset(offset), 1))
    await engine.append_replica(T, await engine.read_raw(S, Offset(3)))
    await engine.advance_high_watermark(T, Offset(4))
    assert offsets(await read_all(engine, T)) == offsets(await read_all(engine, S)) == [0, 2, 3]


async def test_replica_batches_of_an_earlier_leader_are_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_replica(S, batch(b"0", base=0, epoch=2))
    for stale in (
        batch(b"1", base=1, epoch=1),
        batch(b"1", base=1, epoch=4) + batch(b"2", base=2, epoch=3),
    ):
        with pytest.raises(NotLeader):
            await engine.append_replica(S, stale)
    assert engine.offsets(S).end == 1
    await engine.append_replica(S, batch(b"1", base=1) + batch(b"2", base=2, epoch=2))
    assert engine.epochs(S) == ((2, 0),)
    await engine.truncate(S, Offset(0))
    await engine.append_replica(S, batch(b"0", base=0, epoch=1))
    assert engine.epochs(S) == ((1, 0),)


async def test_an_empty_log_may_begin_anywhere(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    assert await engine.append_replica(S, batch(record(b"a", b"k", b"t"), base=100, epoch=3)) == 101
    assert engine.offsets(S) == (100, 101, 101)
    assert engine.epochs(S) == ((3, 100),)
    assert await engine.write(S, record(b"b")) == 101
    assert values(await read_all(engine)) == [b"a", b"b"]
    assert offsets(await engine.read_by_key(S, b"k")) == [100]
    with pytest.raises(OffsetOutOfRange):
        await engine.read_by_offset(S, Offset(99))


async def test_an_emptied_log_may_begin_anywhere_too(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_replica(S, batch(b"a", base=50, epoch=3))
    await engine.truncate(S, Offset(50))
    assert await engine.append_replica(S, batch(b"b", base=20, epoch=1)) == 21
    assert engine.offsets(S) == (20, 21, 21)
    assert engine.epochs(S) == ((1, 20),)
    await engine.trim(S, Offset(21))
    assert await engine.append_replica(S, batch(b"c", base=70, epoch=5)) == 71
    assert engine.offsets(S) == (70, 71, 71)
    assert engine.epochs(S) == ((5, 70),)
    assert values(await read_all(engine)) == [b"c"]
    await engine.trim(S, Offset(71))
    await engine.append_replica(S, batch(b"d", base=80))
    await engine.append_batch(S, batch(b"e"))
    assert engine.epochs(S) == ((0, 81),), "the old leaders went with the old log"


async def test_a_compacted_leader_can_be_followed(engine: StorageEngine) -> None:
    """It has holes, inside batches and between them."""
    for shard in (S, T):
        await engine.create_shard(spec(shard, cleanup_policy="compact"))
    await engine.batch_write(S, [record(b"v", key) for key in (b"a", b"b", b"a")])
    await fill_segments(engine, [record(b"v", b"c")], [record(b"w", b"c")], [record(b"x", b"d")])
    await engine.compact(S)
    data = await engine.read_raw(S, Offset(0))
    while (end := headers(data)[-1].next_offset) < engine.offsets(S).end:
        data += await engine.read_raw(S, end)
    assert offsets(decoded(data)) == [1, 2, 4, 5]
    assert await engine.append_replica(T, data) == 6
    assert await read_all(engine, T) == await read_all(engine, S)
    assert offsets(await engine.read_by_key(T, b"c", history=True)) == [4]


@pytest.mark.parametrize("position", [70, 21, 30])
async def test_damage_on_the_way_is_refused(engine: StorageEngine, position: int) -> None:
    await engine.create_shard(spec())
    good, bad = batch(b"first", base=0), bytearray(batch(b"second one", base=1))
    bad[position] ^= 1
    with pytest.raises(CorruptBatch):
        await engine.append_replica(S, good + bytes(bad))
    assert engine.offsets(S).end == 0


# -- epochs ----------------------------------------------------------------------------------------


async def test_epochs_are_remembered(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"a shard that nobody else has is in its first epoch"))
    assert engine.epochs(S) == ((0, 0),)
    for epoch in (0, 0, 2, 5):
        await engine.append_batch(S, batch(b"v", b"w"), LeaderEpoch(epoch))
    assert engine.epochs(S) == ((0, 0), (2, 5), (5, 7))


async def test_where_an_epoch_ends(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    assert engine.end_of_epoch(S, LeaderEpoch(3)) == (-1, -1)
    for epoch in (1, 1, 4):
        await engine.append_batch(S, batch(b"v", b"w"), LeaderEpoch(epoch))
    expected = {0: (-1, -1), 1: (1, 4), 2: (1, 4), 3: (1, 4), 4: (4, 6), 9: (4, 6)}
    for epoch, end in expected.items():
        assert engine.end_of_epoch(S, LeaderEpoch(epoch)) == end


async def test_trimming_forgets_old_epochs(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    for epoch in (1, 2, 3):
        await engine.append_batch(S, batch(b"v", b"w"), LeaderEpoch(epoch))
    await engine.trim(S, Offset(3))
    assert engine.epochs(S) == ((2, 3), (3, 4))
    await engine.trim(S, Offset(4))
    assert engine.epochs(S) == ((3, 4),)


# -- truncation ------------------------------------------------------------------------------------


async def test_truncation_takes_everything_back(engine: StorageEngine) -> None:
    """Records, keys, tags, times, deletion marks and epochs; in sealed segments too."""
    await engine.create_shard(spec())
    for number in range(6):
        if number in (2, 4):
            await engine.roll(S)
        data = batch(record(b"%d" % number, b"k", b"t", at=NOW + number))
        await engine.append_batch(S, data, LeaderEpoch(number))
    for offset in (0, 4, 5):
        await engine.delete_by_offset(S, Offset(offset))
    await engine.truncate(S, Offset(3))
    assert engine.offsets(S) == (0, 3, 3)
    assert [segment.base_offset for segment in engine.segments(S)] == [0, 2]
    assert engine.epochs(S) == ((0, 0), (1, 1), (2, 2))
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [2, 1]
    assert offsets(await engine.read_by_tag(S, b"t")) == [1, 2]
    assert await engine.offset_by_timestamp(S, TimestampMs(NOW + 3)) == 3
    await engine.append_batch(S, batch(record(b"x"), record(b"y"), record(b"z")), LeaderEpoch(2))
    assert values(await read_all(engine)) == [b"1", b"2", b"x", b"y", b"z"]
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [2, 1]
    assert offsets(await engine.read_by_tag(S, b"t")) == [1, 2]
    assert engine.epochs(S)[-1] == (2, 2)


async def test_a_batch_that_is_cut_goes_as_a_whole(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(b"0"), record(b"1")])
    await engine.batch_write(S, [record(b"2"), record(b"3"), record(b"4")])
    await engine.truncate(S, Offset(4))
    assert engine.offsets(S) == (0, 2, 2)
    assert await engine.write(S, record(b"new")) == 2


async def test_truncating_to_the_end_changes_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(b"v", b"k")] * 3)
    for end in (3, 4, 1000):
        await engine.truncate(S, Offset(end))
    assert engine.offsets(S) == (0, 3, 3)


async def test_truncating_below_the_start_is_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(b"v")] * 3)
    await engine.trim(S, Offset(2))
    with pytest.raises(OffsetOutOfRange):
        await engine.truncate(S, Offset(1))
    assert engine.offsets(S) == (2, 3, 3)


async def test_truncating_everything(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await fill_segments(engine, [record(b"0", b"k", b"t")], [record(b"1", b"k", b"t")])
    await engine.truncate(S, Offset(0))
    assert engine.offsets(S) == (0, 0, 0)
    assert await read_all(engine) == []
    assert await engine.read_by_key(S, b"k") == []
    assert await engine.write(S, record(b"again", b"k")) == 0
    assert values(await engine.read_by_key(S, b"k", history=True)) == [b"again"]


async def test_truncating_a_trimmed_batch_leaves_an_empty_log(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(b"v")] * 5)
    await engine.trim(S, Offset(2))
    await engine.truncate(S, Offset(3))
    start, committed, end = engine.offsets(S)
    assert start == committed == end
    assert await engine.write(S, record(b"next")) == end
    assert values(await read_all(engine)) == [b"next"]


async def test_the_high_watermark_follows_down(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"%d" % n) for n in range(5)])
    await engine.advance_high_watermark(S, Offset(4))
    await engine.truncate(S, Offset(2))
    assert engine.offsets(S) == (0, 2, 2)
    await write_all(engine, [record(b"x"), record(b"y"), record(b"z")])
    assert engine.offsets(S) == (0, 2, 5), "new records are not committed by old watermarks"
    assert values(await read_all(engine)) == [b"0", b"1"]


async def test_the_high_watermark_goes_down_first(engine: StorageEngine) -> None:
    """Nobody reads what is about to go."""
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"v")] * 200)
    await engine.advance_high_watermark(S, Offset(200))
    cut = asyncio.create_task(engine.truncate(S, Offset(2)))
    await asyncio.sleep(0)
    assert engine.offsets(S).high_watermark == 2
    await cut


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_truncation_goes_on_without_its_caller(engine: StorageEngine, turns: int) -> None:
    """What is written afterwards is not committed by the high watermark of before."""
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"old")] * 6)
    await engine.advance_high_watermark(S, Offset(6))
    truncation = asyncio.create_task(engine.truncate(S, Offset(2)))
    for _ in range(turns):
        await asyncio.sleep(0)
    truncation.cancel()
    await asyncio.wait([truncation])
    await until(lambda: engine.offsets(S).end == 2)
    await write_all(engine, [record(b"new")] * 6)
    assert engine.offsets(S) == (0, 2, 8)
    assert values(await read_all(engine)) == [b"old"] * 2


async def test_a_truncation_that_fails_after_the_cut_commits_nothing(
    engine: StorageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Shard) -> None:
        raise StorageError("the disk said no")

    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"old")] * 6)
    await engine.advance_high_watermark(S, Offset(6))
    with monkeypatch.context() as patched:
        patched.setattr(Shard, "learn_producers", unreadable)
        with pytest.raises(StorageError):
            await engine.truncate(S, Offset(2))
    await write_all(engine, [record(b"new")] * 6)
    assert engine.offsets(S) == (0, 2, 8)


async def test_a_truncation_that_was_not_begun_changes_nothing(
    engine: StorageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Shard) -> None:
        raise StorageError("the disk said no")

    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"old")] * 6)
    await engine.advance_high_watermark(S, Offset(6))
    with monkeypatch.context() as patched:
        patched.setattr(Shard, "check_writable", refused)
        with pytest.raises(StorageError):
            await engine.truncate(S, Offset(2))
    assert engine.offsets(S) == (0, 6, 6)


async def test_look_ups_find_what_came_after_a_truncation(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    marked = {0, 6, 8}
    for number in range(9):
        found = record(b"old", b"k", b"t") if number in marked else record(b"other")
        await engine.write(S, found)
    await engine.truncate(S, Offset(4))
    await write_all(engine, [record(b"other"), record(b"new", b"k", b"t")])
    assert offsets(await engine.read_by_tag(S, b"t", Offset(5))) == [5]
    assert offsets(await engine.read_by_tag(S, b"t")) == [0, 5]
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [5, 0]
    assert values(await engine.read_by_key(S, b"k")) == [b"new"]


async def test_after_truncation_an_older_epoch_may_lead(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, batch(b"a"), LeaderEpoch(1))
    await engine.append_batch(S, batch(b"b"), LeaderEpoch(7))
    await engine.truncate(S, Offset(1))
    await engine.append_batch(S, batch(b"c"), LeaderEpoch(3))
    assert engine.epochs(S) == ((1, 0), (3, 1))
