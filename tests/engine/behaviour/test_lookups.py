"""Reading by key, by tag and by time, with and without the indexes."""

from __future__ import annotations

import pytest

from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import Compression
from tests.engine.support import (
    NOW,
    S,
    batch,
    fill_segments,
    offsets,
    record,
    spec,
    values,
    write_all,
)

INDEXED = pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "scanned"])


async def filled(engine: StorageEngine, indexed: bool) -> None:
    """Keys and tags over three segments, in batches of every kind."""
    await engine.create_shard(spec(index_key=indexed, index_tag=indexed))
    await engine.batch_write(
        S, [record(b"0", b"a", b"x"), record(b"1", b"b", b"x", b"y"), record(b"2", b"a")]
    )
    await engine.roll(S)
    compressed = batch(
        record(b"3", b"a", b"y"), record(b"4", None, b"x"), compression=Compression.ZSTD
    )
    await engine.append_batch(S, compressed)
    await engine.write(S, record(b"5", b"b", b"x"))
    await engine.roll(S)
    await engine.write(S, record(b"6", b"a", b"x", b"x"))


@INDEXED
async def test_the_newest_of_a_key(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, indexed)
    assert values(await engine.read_by_key(S, b"a")) == [b"6"]
    assert values(await engine.read_by_key(S, b"b")) == [b"5"]
    assert await engine.read_by_key(S, b"c") == []


@INDEXED
async def test_the_history_of_a_key(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, indexed)
    history = await engine.read_by_key(S, b"a", history=True)
    assert values(history) == [b"6", b"3", b"2", b"0"]
    assert offsets(history) == [6, 3, 2, 0]
    for count in range(1, 5):
        some = await engine.read_by_key(S, b"a", Offset(0), ReadLimit(count), history=True)
        assert some == history[:count]


@INDEXED
async def test_a_key_from_an_offset_on(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, indexed)
    assert offsets(await engine.read_by_key(S, b"a", Offset(1), history=True)) == [6, 3, 2]
    assert offsets(await engine.read_by_key(S, b"a", Offset(3), history=True)) == [6, 3]
    assert offsets(await engine.read_by_key(S, b"a", Offset(6))) == [6]
    assert await engine.read_by_key(S, b"a", Offset(7)) == []
    assert await engine.read_by_key(S, b"b", Offset(6), history=True) == []


@INDEXED
async def test_records_of_a_tag(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, indexed)
    assert offsets(await engine.read_by_tag(S, b"x")) == [0, 1, 4, 5, 6]
    assert offsets(await engine.read_by_tag(S, b"y")) == [1, 3]
    assert offsets(await engine.read_by_tag(S, b"x", Offset(1))) == [1, 4, 5, 6]
    assert offsets(await engine.read_by_tag(S, b"x", Offset(5))) == [5, 6]
    assert offsets(await engine.read_by_tag(S, b"x", Offset(0), ReadLimit(2))) == [0, 1]
    assert await engine.read_by_tag(S, b"x", Offset(7)) == []
    assert await engine.read_by_tag(S, b"z") == []


@INDEXED
async def test_matches_are_exact(engine: StorageEngine, indexed: bool) -> None:
    """Tags put into index keys as they are would make `a` match `a/b`."""
    await engine.create_shard(spec(index_key=indexed, index_tag=indexed))
    names = [b"a", b"a/b", b"a/", b"ab", b"", b"\0", b"a\0", b"\xff", b"\xff\xff", b"A"]
    await engine.batch_write(S, [record(name, name, name) for name in names])
    for number, name in enumerate(names):
        assert offsets(await engine.read_by_tag(S, name)) == [number]
        assert offsets(await engine.read_by_key(S, name, history=True)) == [number]


@INDEXED
async def test_no_key_is_not_an_empty_key(engine: StorageEngine, indexed: bool) -> None:
    await engine.create_shard(spec(index_key=indexed, index_tag=indexed))
    await engine.batch_write(S, [record(b"null", None), record(b"empty", b"")])
    assert values(await engine.read_by_key(S, b"", history=True)) == [b"empty"]


@INDEXED
async def test_a_key_is_no_tag_and_a_tag_no_key(engine: StorageEngine, indexed: bool) -> None:
    await engine.create_shard(spec(index_key=indexed, index_tag=indexed))
    await engine.batch_write(S, [record(b"k", b"name"), record(b"t", None, b"name")])
    assert values(await engine.read_by_key(S, b"name", history=True)) == [b"k"]
    assert values(await engine.read_by_tag(S, b"name")) == [b"t"]


@INDEXED
async def test_many_of_one_key_and_tag(engine: StorageEngine, indexed: bool) -> None:
    """In batches larger than any window that is decoded at once."""
    await engine.create_shard(spec(index_key=indexed, index_tag=indexed))
    for _ in range(3):
        await engine.batch_write(
            S, [record(b"v", b"k%d" % (n % 2), b"t%d" % (n % 3)) for n in range(300)]
        )
    assert offsets(await engine.read_by_key(S, b"k1", history=True)) == list(range(899, 0, -2))
    assert offsets(await engine.read_by_tag(S, b"t2")) == list(range(2, 900, 3))
    few = await engine.read_by_key(S, b"k0", Offset(100), ReadLimit(7), history=True)
    assert offsets(few) == list(range(898, 884, -2))


@INDEXED
async def test_look_ups_stop_at_the_high_watermark(engine: StorageEngine, indexed: bool) -> None:
    await engine.create_shard(spec(replicated=True, index_key=indexed, index_tag=indexed))
    await write_all(engine, [record(b"%d" % n, b"k", b"t", at=NOW + n) for n in range(4)])
    await engine.advance_high_watermark(S, Offset(2))
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [1, 0]
    assert offsets(await engine.read_by_key(S, b"k")) == [1]
    assert offsets(await engine.read_by_tag(S, b"t")) == [0, 1]
    assert await engine.offset_by_timestamp(S, TimestampMs(NOW + 3)) == 2
    assert await engine.offset_by_timestamp(S, TimestampMs(NOW + 1)) == 1


@INDEXED
async def test_look_ups_begin_at_the_start(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, indexed)
    await engine.trim(S, Offset(2))
    assert offsets(await engine.read_by_key(S, b"a", history=True)) == [6, 3, 2]
    assert offsets(await engine.read_by_tag(S, b"x")) == [4, 5, 6]
    await engine.trim(S, Offset(4))
    assert offsets(await engine.read_by_key(S, b"a", history=True)) == [6]
    assert offsets(await engine.read_by_tag(S, b"y")) == []


# -- by time ---------------------------------------------------------------------------------------


async def test_the_first_record_not_older(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await fill_segments(
        engine,
        [record(b"0", at=100), record(b"1", at=200)],
        [record(b"2", at=300), record(b"3", at=400)],
        [record(b"4", at=500)],
    )
    for timestamp, expected in ((0, 0), (100, 0), (101, 1), (200, 1), (250, 2), (401, 4), (500, 4)):
        assert await engine.offset_by_timestamp(S, TimestampMs(timestamp)) == expected


async def test_when_no_record_is_that_young_the_strategy_decides(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    late = TimestampMs(10**15)
    assert await engine.offset_by_timestamp(S, late) == 0
    await write_all(engine, [record(b"v", at=n) for n in range(4)])
    await engine.trim(S, Offset(1))
    assert await engine.offset_by_timestamp(S, late) == 4
    assert await engine.offset_by_timestamp(S, late, OffsetStrategy.LATEST) == 4
    assert await engine.offset_by_timestamp(S, late, OffsetStrategy.EARLIEST) == 1


async def test_timestamps_out_of_order(engine: StorageEngine) -> None:
    """The first by offset, not the nearest by time; also inside a batch."""
    await engine.create_shard(spec())
    await fill_segments(
        engine,
        [record(b"0", at=500), record(b"1", at=100)],
        [record(b"2", at=50), record(b"3", at=900), record(b"4", at=10)],
        [record(b"5", at=600)],
    )
    for timestamp, expected in ((1, 0), (100, 0), (500, 0), (501, 3), (900, 3), (901, 6)):
        assert await engine.offset_by_timestamp(S, TimestampMs(timestamp)) == expected
    await engine.batch_write(S, [record(b"6", at=1000), record(b"7", at=2), record(b"8", at=2000)])
    assert await engine.offset_by_timestamp(S, TimestampMs(950)) == 6
    assert await engine.offset_by_timestamp(S, TimestampMs(1500)) == 8


async def test_time_in_a_long_segment(engine: StorageEngine) -> None:
    """Long enough for several points of the sparse index, with and without sealing."""
    await engine.create_shard(spec())
    for start in range(0, 5000, 250):
        await engine.batch_write(S, [record(b"", at=10 * n) for n in range(start, start + 250)])
    for _ in range(2):
        for number in (0, 1, 999, 1000, 2500, 4999):
            assert await engine.offset_by_timestamp(S, TimestampMs(10 * number - 5)) == number
        await engine.roll(S)


async def test_time_passes_over_what_cannot_be_seen(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(b"%d" % n, at=100 * n) for n in range(5)])
    await engine.delete_by_offset(S, Offset(2))
    assert await engine.offset_by_timestamp(S, TimestampMs(200)) == 3
    await engine.trim(S, Offset(4))
    assert await engine.offset_by_timestamp(S, TimestampMs(0)) == 4
