"""What durable engines still know after they were closed and opened again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratamq.model.clock import ManualClock
from stratamq.model.errors import ShardNotFound
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import Compression
from tests.engine.conftest import ENGINES, LIMITS, House
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    decoded,
    fetch_all,
    fill_segments,
    offsets,
    read_all,
    record,
    spec,
    values,
    write_all,
)


async def test_everything_written_is_there(house: House) -> None:
    engine = house.engine
    await engine.create_shard(spec(S, segment_bytes=1024))
    await engine.create_shard(spec(T, compression_type="lz4"))
    for number in range(40):
        shard = (S, T)[number % 2]
        await engine.batch_write(
            shard, [record(b"%d" % number, b"k%d" % (number % 3), b"t", at=NOW + number)] * 2
        )
    before = [await read_all(engine, shard) for shard in (S, T)]
    segments = [engine.segments(shard) for shard in (S, T)]
    engine = await house.reopen()
    assert [await read_all(engine, shard) for shard in (S, T)] == before
    assert [engine.segments(shard) for shard in (S, T)] == segments
    assert engine.offsets(S) == (0, 40, 40)
    assert offsets(await engine.read_by_key(S, b"k0", history=True)) == [
        found.offset for found in reversed(before[0]) if found.key == b"k0"
    ]
    assert len(await engine.read_by_tag(S, b"t")) == 40
    assert await engine.offset_by_timestamp(S, TimestampMs(NOW + 20)) == 20
    assert await engine.write(S, record(b"next")) == 40


async def test_specs_come_back(house: House) -> None:
    specs = {
        S: spec(S, retention_ms=5, cleanup_policy="compact"),
        T: spec(T, replicated=True, index_tag=False),
    }
    for one in specs.values():
        await house.engine.create_shard(one)
    engine = await house.reopen()
    assert engine.list_shards() == specs
    await engine.create_shard(spec(S, retention_ms=6, cleanup_policy="compact"))
    engine = await house.reopen()
    assert engine.list_shards()[S].config.number("retention.ms") == 6


async def test_deleted_shards_stay_deleted(house: House) -> None:
    await house.engine.create_shard(spec(S))
    await house.engine.create_shard(spec(T))
    await house.engine.write(S, record(b"s", b"k", b"t"))
    await house.engine.write(T, record(b"t", b"k", b"t"))
    await house.engine.delete_shard(S)
    engine = await house.reopen()
    assert set(engine.list_shards()) == {T}
    with pytest.raises(ShardNotFound):
        await engine.read_by_offset(S, Offset(0))
    await engine.create_shard(spec(S))
    assert await read_all(engine) == []
    assert await engine.read_by_key(S, b"k") == []
    assert values(await engine.read_by_key(T, b"k")) == [b"t"]


async def test_deletions_come_back(house: House) -> None:
    await house.engine.create_shard(spec())
    await fill_segments(house.engine, [record(b"%d" % n, b"k", b"t") for n in range(3)], [])
    await house.engine.batch_write(S, [record(b"%d" % n, b"k", b"t") for n in range(3, 6)])
    for offset in (1, 4):
        await house.engine.delete_by_offset(S, Offset(offset))
    engine = await house.reopen()
    assert offsets(await read_all(engine)) == [0, 2, 3, 5]
    assert offsets(await engine.read_by_tag(S, b"t")) == [0, 2, 3, 5]
    assert await engine.delete_by_key(S, b"k") == 4
    engine = await house.reopen()
    assert await read_all(engine) == []
    await engine.compact(S)
    engine = await house.reopen()
    assert offsets(decoded(await engine.read_raw(S, Offset(0)))) == [3, 4, 5]
    assert await read_all(engine) == []


async def test_the_start_comes_back(house: House) -> None:
    await house.engine.create_shard(spec())
    await fill_segments(house.engine, [record(b"0"), record(b"1")], [record(b"2")], [record(b"3")])
    await house.engine.trim(S, Offset(1))
    engine = await house.reopen()
    assert engine.offsets(S) == (1, 4, 4)
    await engine.trim(S, Offset(4))
    engine = await house.reopen()
    assert engine.offsets(S) == (4, 4, 4)
    assert await engine.write(S, record(b"4")) == 4


async def test_epochs_come_back(house: House) -> None:
    await house.engine.create_shard(spec())
    for epoch in (1, 1, 5):
        await house.engine.append_batch(S, batch(b"v"), LeaderEpoch(epoch))
    engine = await house.reopen()
    assert engine.epochs(S) == ((1, 0), (5, 2))
    await engine.append_batch(S, batch(b"w"))
    assert engine.epochs(S) == ((1, 0), (5, 2)), "the last leader goes on"


async def test_truncation_lasts(house: House) -> None:
    await house.engine.create_shard(spec())
    for number in range(6):
        if number == 3:
            await house.engine.roll(S)
        data = batch(record(b"%d" % number, b"k", b"t"))
        await house.engine.append_batch(S, data, LeaderEpoch(number))
    await house.engine.delete_by_offset(S, Offset(4))
    await house.engine.truncate(S, Offset(2))
    engine = await house.reopen()
    assert engine.offsets(S) == (0, 2, 2)
    assert engine.epochs(S) == ((0, 0), (1, 1))
    await engine.batch_write(S, [record(b"new")] * 4)
    engine = await house.reopen()
    assert values(await read_all(engine)) == [b"0", b"1"] + [b"new"] * 4
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [1, 0]
    assert offsets(await engine.read_by_tag(S, b"t")) == [0, 1]


async def test_a_replicas_start_comes_back(house: House) -> None:
    await house.engine.create_shard(spec())
    await house.engine.append_replica(S, batch(b"a", base=100, epoch=3))
    engine = await house.reopen()
    assert engine.offsets(S) == (100, 101, 101)
    assert engine.epochs(S) == ((3, 100),)
    assert values(await read_all(engine)) == [b"a"]


async def test_the_high_watermark_of_a_replica_comes_back(house: House) -> None:
    await house.engine.create_shard(spec(replicated=True))
    await write_all(house.engine, [record(b"%d" % n) for n in range(5)])
    await house.engine.advance_high_watermark(S, Offset(3))
    engine = await house.reopen()
    assert engine.offsets(S) == (0, 3, 5)
    assert offsets(await read_all(engine)) == [0, 1, 2]
    await engine.truncate(S, Offset(1))
    engine = await house.reopen()
    assert engine.offsets(S) == (0, 1, 1)
    await write_all(engine, [record(b"not committed") for _ in range(5)])
    engine = await house.reopen()
    assert engine.offsets(S) == (0, 1, 6), "an old watermark says nothing about new records"


async def test_a_log_that_begins_anew_has_nothing_committed(house: House) -> None:
    await house.engine.create_shard(spec(replicated=True))
    await write_all(house.engine, [record(b"%d" % n) for n in range(5)])
    await house.engine.advance_high_watermark(S, Offset(5))
    engine = await house.reopen()
    await engine.truncate(S, Offset(0))
    await engine.append_replica(S, batch(b"a", b"b", b"c", base=3))
    assert engine.offsets(S) == (3, 3, 6)
    await engine.advance_high_watermark(S, Offset(6))
    await engine.trim(S, Offset(6))
    await engine.append_replica(S, batch(b"a", b"b", b"c", b"d", base=3))
    assert engine.offsets(S) == (3, 3, 7)
    engine = await house.reopen()
    assert engine.offsets(S) == (3, 3, 7)


async def test_compaction_lasts(house: House) -> None:
    await house.engine.create_shard(spec(cleanup_policy="compact"))
    keys = [b"a", b"b", b"a"]
    await house.engine.append_batch(
        S, batch(*(record(b"v", key, b"t") for key in keys), compression=Compression.SNAPPY)
    )
    await fill_segments(house.engine, [], [record(b"w", b"b", b"t")], [record(b"x", b"c", b"t")])
    await house.engine.compact(S)
    before = await read_all(house.engine)
    assert offsets(before) == [2, 3, 4]
    engine = await house.reopen()
    assert await read_all(engine) == before
    assert decoded(await fetch_all(engine)) == before
    assert offsets(await engine.read_by_key(S, b"b", history=True)) == [3]
    assert offsets(await engine.read_by_tag(S, b"t")) == [2, 3, 4]
    assert engine.offsets(S) == (0, 5, 5)


async def test_retention_lasts(house: House, clock: ManualClock) -> None:
    await house.engine.create_shard(spec(retention_ms=1000))
    await fill_segments(house.engine, [record(b"0", b"k")], [record(b"1", b"k")])
    clock.advance(1001)
    await house.engine.apply_retention(S)
    engine = await house.reopen()
    assert engine.offsets(S) == (2, 2, 2)
    assert await engine.read_by_key(S, b"k") == []


async def test_times_are_found_after_reopening(house: House) -> None:
    await house.engine.create_shard(spec())
    for start in range(0, 3000, 500):
        await house.engine.batch_write(
            S, [record(b"", at=10 * n) for n in range(start, start + 500)]
        )
        if start == 1500:
            await house.engine.roll(S)
    await house.engine.truncate(S, Offset(2500))
    engine = await house.reopen()
    for number in (0, 700, 1999, 2000, 2499):
        assert await engine.offset_by_timestamp(S, TimestampMs(10 * number - 5)) == number
    assert engine.segments(S)[-1].max_timestamp == 24_990


async def test_a_watermark_that_a_truncation_lowered_stays_low_after_a_crash(
    house: House, tmp_path: Path
) -> None:
    """What is written there next is not committed, and must not seem so."""
    engine = house.engine
    await engine.create_shard(spec(replicated=True))
    await engine.append_replica(S, batch(b"0", b"1", base=0) + batch(b"2", b"3", base=2))
    await engine.advance_high_watermark(S, Offset(4))
    engine = await house.reopen()  # which saves it
    await engine.truncate(S, Offset(2))
    await engine.append_replica(S, batch(b"new 2", b"new 3", base=2))
    crashed = tmp_path / "crashed"
    shutil.copytree(house.data_dir, crashed, ignore=shutil.ignore_patterns("crashed"))
    found = ENGINES[house.kind](crashed, clock=house.clock, limits=LIMITS)
    await found.open()
    assert found.offsets(S) == (0, 2, 4)
    await found.close()
