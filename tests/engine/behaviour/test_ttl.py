"""Expiry: a record older than its time to live is no longer returned."""

from __future__ import annotations

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.types import Offset, TimestampMs
from tests.engine.support import (
    NOW,
    S,
    decoded,
    fetch_all,
    headers,
    offsets,
    read_all,
    record,
    spec,
    write_all,
    write_mark,
)


def living(ms: bytes | None, value: bytes = b"v") -> Record:
    return Record(value=value, key=b"k", tags=(b"t",), headers=((TTL_HEADER, ms),))


async def seen(engine: StorageEngine) -> list[int]:
    """What every read path shows; they must agree."""
    found = offsets(await read_all(engine))
    history = await engine.read_by_key(S, b"k", history=True)
    assert sorted(offsets(history)) == found
    assert offsets(await engine.read_by_tag(S, b"t")) == found
    assert offsets(decoded(await fetch_all(engine))) == found
    first = found[0] if found else engine.offsets(S).high_watermark
    assert await engine.offset_by_timestamp(S, TimestampMs(0)) == first
    return found


async def test_the_topics_time_to_live(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(record_ttl_ms=1000))
    await write_all(engine, [record(b"old", b"k", b"t")])
    clock.advance(500)
    await engine.batch_write(S, [record(b"a", b"k", b"t"), record(b"b", b"k", b"t")])
    clock.advance(500)
    assert await seen(engine) == [0, 1, 2], "at its age it is still there"
    clock.advance(1)
    assert await seen(engine) == [1, 2]
    clock.advance(500)
    assert await seen(engine) == []


async def test_a_records_own_time_to_live_wins(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(record_ttl_ms=1000))
    await engine.batch_write(S, [living(b"10"), living(b"5000"), record(b"v", b"k", b"t")])
    clock.advance(11)
    assert await seen(engine) == [1, 2]
    clock.advance(1000)
    assert await seen(engine) == [1]
    clock.advance(5000)
    assert await seen(engine) == []


async def test_zero_means_only_records_that_say_so(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(record_ttl_ms=0))
    await engine.batch_write(S, [living(b"10"), record(b"v", b"k", b"t")])
    clock.advance(10**9)
    assert await seen(engine) == [1]


async def test_without_the_config_nothing_expires(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec())
    await engine.write(S, living(b"10"))
    clock.advance(10**9)
    assert await seen(engine) == [0]


@pytest.mark.parametrize("ms", [None, b"", b"-1", b"soon", b"1.5", b"9" * 5000, b"\xd9\xa1"])
async def test_a_header_that_is_no_number_is_none(
    engine: StorageEngine, clock: ManualClock, ms: bytes | None
) -> None:
    await engine.create_shard(spec(record_ttl_ms=1000))
    await engine.write(S, living(ms))
    clock.advance(1000)
    assert await seen(engine) == [0]
    clock.advance(1)
    assert await seen(engine) == []


async def test_replicas_get_expired_records(engine: StorageEngine, clock: ManualClock) -> None:
    """A replica that misses what has expired diverges."""
    await engine.create_shard(spec(record_ttl_ms=1000))
    await engine.batch_write(S, [record(b"v", b"k", b"t")] * 3)
    before = await engine.read_raw(S, Offset(0))
    clock.advance(2000)
    assert await engine.read_raw(S, Offset(0)) == before


async def test_the_nodes_stamp_counts_where_it_stamps(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(record_ttl_ms=1000, message_timestamp_type="LogAppendTime"))
    await engine.write(S, record(b"v", b"k", b"t", at=NOW - 10**6))
    assert await seen(engine) == [0]


async def test_compaction_gives_the_space_back(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(record_ttl_ms=1000))
    await engine.batch_write(S, [living(b"10", b"x" * 500), record(b"v", b"k", b"t")])
    await engine.roll(S)
    assert await engine.compact(S) == 0
    clock.advance(11)
    assert await engine.compact(S) > 500
    assert await seen(engine) == [1]
    assert offsets(decoded(await engine.read_raw(S, Offset(0)))) == [1]


async def test_control_batches_do_not_expire(engine: StorageEngine, clock: ManualClock) -> None:
    """Without them a consumer could not tell a transaction that was committed."""
    await engine.create_shard(spec(record_ttl_ms=10))
    await engine.write(S, record(b"v", b"k", b"t"))
    await write_mark(engine)
    clock.advance(1000)
    await engine.roll(S)
    for _ in range(2):
        assert [header.is_control for header in headers(await fetch_all(engine))] == [True]
        await engine.compact(S)
