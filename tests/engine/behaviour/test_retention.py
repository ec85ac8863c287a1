"""Trimming, rolling, and what time and size limits delete."""

from __future__ import annotations

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset, TimestampMs
from tests.engine.support import (
    NOW,
    S,
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


def bases(engine: StorageEngine) -> list[int]:
    return [segment.base_offset for segment in engine.segments(S)]


async def test_trim_inside_a_batch(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(b"%d" % n, b"k", b"t") for n in range(5)])
    assert await engine.trim(S, Offset(3)) == 3
    assert engine.offsets(S) == (3, 5, 5)
    assert offsets(await read_all(engine)) == [3, 4]
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [4, 3]
    assert offsets(await engine.read_by_tag(S, b"t")) == [3, 4]
    assert await engine.offset_by_timestamp(S, TimestampMs(0)) == 3


async def test_trim_drops_whole_segments(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await fill_segments(engine, [record(b"0"), record(b"1")], [record(b"2")], [record(b"3")])
    assert bases(engine) == [0, 2, 3]
    await engine.trim(S, Offset(1))
    assert bases(engine) == [0, 2, 3]
    await engine.trim(S, Offset(2))
    assert bases(engine) == [2, 3]
    assert values(decoded(await fetch_all(engine))) == [b"2", b"3"]


async def test_trim_never_goes_back_or_past_the_high_watermark(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"%d" % n) for n in range(5)])
    await engine.advance_high_watermark(S, Offset(3))
    assert await engine.trim(S, Offset(2)) == 2
    assert await engine.trim(S, Offset(1)) == 2
    with pytest.raises(OffsetOutOfRange):
        await engine.trim(S, Offset(4))
    assert engine.offsets(S) == (2, 3, 5)


async def test_a_log_trimmed_to_its_end_goes_on(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(b"v", b"k", b"t") for _ in range(3)])
    assert await engine.trim(S, Offset(3)) == 3
    assert engine.offsets(S) == (3, 3, 3)
    assert await read_all(engine) == []
    assert sum(segment.size_bytes for segment in engine.segments(S)) == 0
    assert await engine.write(S, record(b"next", b"k", b"t")) == 3
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [3]
    assert offsets(await engine.read_by_tag(S, b"t")) == [3]


async def test_rolling_an_empty_segment_does_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.roll(S)
    assert bases(engine) == [0]
    await engine.write(S, record(b"v"))
    await engine.roll(S)
    await engine.roll(S)
    assert bases(engine) == [0, 1]


async def test_segments_roll_by_age_at_the_next_write(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(segment_ms=1000))
    await engine.write(S, record(b"a"))
    clock.advance(1000)
    await engine.write(S, record(b"b"))
    assert bases(engine) == [0]
    clock.advance(1)
    await engine.write(S, record(b"c"))
    assert bases(engine) == [0, 2]


async def test_retention_by_time(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(retention_ms=1000))
    await fill_segments(engine, [record(b"0"), record(b"1")])
    clock.advance(600)
    await fill_segments(engine, [], [record(b"2")])
    clock.advance(400)
    await fill_segments(engine, [], [record(b"3")])
    assert await engine.apply_retention(S) == 0
    clock.advance(1)
    assert await engine.apply_retention(S) == 1
    assert engine.offsets(S) == (2, 4, 4)
    assert values(await read_all(engine)) == [b"2", b"3"]
    with pytest.raises(OffsetOutOfRange):
        await engine.read_by_offset(S, Offset(1))


async def test_an_old_active_segment_goes_too(engine: StorageEngine, clock: ManualClock) -> None:
    """A quiet topic must not keep its last records for ever."""
    await engine.create_shard(spec(retention_ms=1000))
    await fill_segments(engine, [record(b"0")], [record(b"1")])
    clock.advance(1001)
    assert await engine.apply_retention(S) == 2
    assert engine.offsets(S) == (2, 2, 2)
    assert await engine.apply_retention(S) == 0
    assert await engine.write(S, record(b"2")) == 2


async def test_one_young_record_keeps_its_segment_and_those_after(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(retention_ms=1000))
    await fill_segments(
        engine,
        [record(b"0", at=NOW)],
        [record(b"1", at=NOW + 10**6), record(b"2", at=NOW)],
        [record(b"3", at=NOW)],
    )
    clock.advance(2000)
    assert await engine.apply_retention(S) == 1
    assert engine.offsets(S).start == 1


async def test_retention_by_size(engine: StorageEngine) -> None:
    await engine.create_shard(spec(retention_bytes=2500, retention_ms=-1))
    await fill_segments(engine, *[[record(b"v" * 900)]] * 5)
    assert await engine.apply_retention(S) == 3
    assert bases(engine) == [3, 4]
    assert await engine.apply_retention(S) == 0


async def test_the_active_segment_does_not_go_by_size(engine: StorageEngine) -> None:
    await engine.create_shard(spec(retention_bytes=10, retention_ms=-1))
    await write_all(engine, [record(b"v" * 100)] * 3)
    assert await engine.apply_retention(S) == 0
    assert engine.offsets(S).start == 0


async def test_compacted_topics_keep_everything(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(cleanup_policy="compact", retention_ms=1, retention_bytes=1))
    await fill_segments(engine, [record(b"0", b"k")], [record(b"1", b"k")])
    clock.advance(10**6)
    assert await engine.apply_retention(S) == 0


async def test_what_is_not_committed_is_not_deleted(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(replicated=True, retention_ms=1000, retention_bytes=1))
    await fill_segments(engine, [record(b"0")], [record(b"1")], [record(b"2")])
    clock.advance(2000)
    assert await engine.apply_retention(S) == 0
    await engine.advance_high_watermark(S, Offset(1))
    assert await engine.apply_retention(S) == 1
    assert engine.offsets(S) == (1, 1, 3)


async def test_retention_forgets_marks_and_indexes(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(retention_ms=1000))
    await fill_segments(engine, [record(b"0", b"k", b"t"), record(b"1", b"k", b"t")])
    await engine.delete_by_offset(S, Offset(0))
    clock.advance(1001)
    await engine.apply_retention(S)
    await engine.write(S, record(b"2", b"k", b"t"))
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [2]
    assert offsets(await engine.read_by_tag(S, b"t")) == [2]
