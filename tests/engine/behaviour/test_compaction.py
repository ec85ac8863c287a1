"""Compaction: the newest record of each key stays, what was deleted goes, reads do not change."""

from __future__ import annotations

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.records import Compression
from tests.engine.support import (
    S,
    batch,
    decoded,
    fetch_all,
    fill_segments,
    headers,
    offsets,
    read_all,
    record,
    spec,
    stored,
    values,
    write_all,
    write_mark,
)


def size(engine: StorageEngine) -> int:
    return sum(segment.size_bytes for segment in engine.segments(S))


@pytest.mark.parametrize("codec", list(Compression))
async def test_superseded_records_go(engine: StorageEngine, codec: Compression) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    keys = [b"a", b"b", b"a", b"c"]
    await engine.append_batch(
        S, batch(*(record(b"v" * 100, key, b"t") for key in keys), compression=codec)
    )
    await engine.roll(S)
    await write_all(engine, [record(b"w", b"a", b"t"), record(b"w", b"d", b"t")])
    await engine.roll(S)
    await engine.write(S, record(b"x", b"b", b"t"))
    before = size(engine)
    freed = await engine.compact(S)
    assert freed == before - size(engine) > 0
    assert await stored(engine) == [1, 3, 4, 5, 6], "the active segment supersedes nothing"
    assert offsets(await read_all(engine)) == [1, 3, 4, 5, 6]
    assert offsets(decoded(await fetch_all(engine))) == [1, 3, 4, 5, 6]
    assert offsets(await engine.read_by_key(S, b"a", history=True)) == [4]
    assert offsets(await engine.read_by_key(S, b"b", history=True)) == [6, 1]
    assert offsets(await engine.read_by_tag(S, b"t")) == [1, 3, 4, 5, 6]
    assert headers(await fetch_all(engine))[0].compression is codec
    assert await engine.compact(S) == 0, "once is enough"


async def test_offsets_and_ends_stay(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await fill_segments(engine, *[[record(b"%d" % n, b"k")] for n in range(4)])
    await engine.compact(S)
    assert engine.offsets(S) == (0, 4, 4)
    assert await stored(engine) == [2, 3]
    for start in range(3):
        assert offsets(await engine.read_by_offset(S, Offset(start))) == [2, 3]
    assert offsets(decoded((await engine.fetch_batches(S, Offset(0))).data)) in ([2], [2, 3])
    assert await engine.write(S, record(b"4", b"k")) == 4


async def test_the_last_batches_may_all_be_gone(engine: StorageEngine) -> None:
    """A consumer then goes on at the high watermark."""
    await engine.create_shard(spec())
    await write_all(engine, [record(b"v") for _ in range(3)])
    for offset in (1, 2):
        await engine.delete_by_offset(S, Offset(offset))
    await engine.roll(S)
    await engine.compact(S)
    assert (await engine.fetch_batches(S, Offset(1))).next_offset == 3
    assert offsets(decoded(await fetch_all(engine))) == [0]
    await engine.delete_by_offset(S, Offset(0))
    await engine.compact(S)
    assert engine.offsets(S) == (0, 3, 3)
    assert (await engine.fetch_batches(S, Offset(0))).next_offset == 3
    assert decoded(await fetch_all(engine)) == []
    assert await read_all(engine) == []
    assert await engine.write(S, record(b"next")) == 3
    assert offsets(await read_all(engine)) == [3]


async def test_deleted_records_go_whatever_the_policy(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(b"%d" % n, b"k") for n in range(5)])
    await engine.delete_by_offset(S, Offset(1))
    assert await engine.compact(S) == 0, "nothing is sealed yet"
    await engine.roll(S)
    await engine.delete_by_offset(S, Offset(3))
    assert await engine.compact(S) > 0
    assert await stored(engine) == [0, 2, 4]
    assert offsets(await read_all(engine)) == [0, 2, 4]
    assert await engine.delete_by_offset(S, Offset(1)) is False
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [4, 2, 0]


async def test_marks_in_other_segments_stay(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await fill_segments(engine, [record(b"0"), record(b"1")], [record(b"2"), record(b"3")])
    await engine.delete_by_offset(S, Offset(0))
    await engine.delete_by_offset(S, Offset(2))
    await engine.compact(S)
    assert await stored(engine) == [1, 2, 3]
    assert offsets(await read_all(engine)) == [1, 3]


async def test_deletion_marks_stay_for_a_while(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(cleanup_policy="compact", delete_retention_ms=1000))
    await fill_segments(engine, [record(b"v", b"a"), record(b"v", b"b")], [record(None, b"a")], [])
    await engine.compact(S)
    assert await stored(engine) == [1, 2]
    clock.advance(1000)
    await engine.compact(S)
    assert await stored(engine) == [1, 2]
    clock.advance(1)
    await engine.compact(S)
    assert await stored(engine) == [1]


async def test_what_was_deleted_supersedes_nothing(engine: StorageEngine) -> None:
    """A compaction does not change what is found under a key."""
    await engine.create_shard(spec(cleanup_policy="compact"))
    await fill_segments(engine, [record(b"old", b"k"), record(b"new", b"k")], [])
    await engine.delete_by_offset(S, Offset(1))
    assert values(await engine.read_by_key(S, b"k")) == [b"old"]
    await engine.compact(S)
    assert values(await engine.read_by_key(S, b"k")) == [b"old"]
    assert await stored(engine) == [0]


async def test_only_committed_segments_are_compacted(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact", replicated=True))
    await fill_segments(engine, *[[record(b"%d" % n, b"k")] for n in range(4)])
    await engine.advance_high_watermark(S, Offset(2))
    await engine.compact(S)
    assert await stored(engine) == [1, 2, 3], "offset 2 might still be truncated away"


async def test_young_segments_are_left_alone(engine: StorageEngine, clock: ManualClock) -> None:
    now = clock.now_ms()
    config = {"cleanup_policy": "compact", "min_compaction_lag_ms": 1000}
    await engine.create_shard(spec(**config))
    ages = (5000, 4000, 500, 3000)
    await fill_segments(
        engine, *[[record(b"%d" % age, b"k", at=now - age)] for age in ages], [record(b"x", b"y")]
    )
    await engine.compact(S)
    assert await stored(engine) == [1, 2, 3, 4], "from the first young one on nothing counts"
    clock.advance(600)
    await engine.compact(S)
    assert await stored(engine) == [3, 4]


async def test_control_batches_are_kept(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.write(S, record(b"v", b"k"))
    await write_mark(engine)
    await write_mark(engine)
    await engine.write(S, record(b"w", b"k"))
    await engine.roll(S)
    await engine.compact(S)
    kept = headers(await engine.read_raw(S, Offset(0)))
    assert [(h.base_offset, h.is_control) for h in kept] == [(1, True), (2, True), (3, False)]


async def test_epochs_and_producers_are_kept(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.append_batch(S, batch(record(b"v", b"a"), record(b"v", b"b")), LeaderEpoch(1))
    await engine.append_batch(S, batch(record(b"w", b"a")), LeaderEpoch(2))
    await engine.roll(S)
    await engine.compact(S)
    assert engine.epochs(S) == ((1, 0), (2, 2))
    assert [
        (h.base_offset, h.last_offset, h.leader_epoch) for h in headers(await fetch_all(engine))
    ] == [
        (0, 1, 1),
        (2, 2, 2),
    ]


async def test_segments_adjoin_where_one_is_gone(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await fill_segments(
        engine, *[[record(b"v", key)] for key in (b"a", b"k", b"k", b"b")], [record(b"v", b"c")]
    )
    await engine.compact(S)
    found = engine.segments(S)
    assert [segment.base_offset for segment in found] == [0, 2, 3, 4]
    assert [segment.end_offset for segment in found] == [2, 3, 4, 5]


async def test_compacting_nothing_gives_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    assert await engine.compact(S) == 0
    await engine.write(S, record(b"v", b"k"))
    assert await engine.compact(S) == 0


async def test_truncating_where_compaction_left_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await fill_segments(engine, [record(b"v")] * 3, [record(b"v", b"k", b"t")] * 2, [])
    for offset in range(3):
        await engine.delete_by_offset(S, Offset(offset))
    await engine.compact(S)
    assert await stored(engine) == [3, 4]
    await engine.truncate(S, Offset(2))
    assert engine.offsets(S) == (0, 2, 2)
    assert [segment.base_offset for segment in engine.segments(S)] == [2]
    assert await engine.batch_write(S, [record(b"w", b"k", b"t")] * 3) == range(2, 5)
    assert offsets(await read_all(engine)) == [2, 3, 4]
    assert offsets(await engine.read_by_key(S, b"k", history=True)) == [4, 3, 2]
    assert offsets(await engine.read_by_tag(S, b"t")) == [2, 3, 4]
