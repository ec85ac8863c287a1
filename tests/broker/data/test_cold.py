"""Fetch and ListOffsets where some of a partition is on object storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stratamq.adapter.partitions import shard_of
from stratamq.broker.kafka import log_offsets
from stratamq.broker.kafka.fetch import cold
from stratamq.engine.engine import StorageEngine
from stratamq.model.record import Record
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stratamq.wire.kafka.records import iter_batches, walk
from tests.broker.data.conftest import Rig
from tests.broker.data.test_fetch import fetched, part, request, values
from tests.broker.data.test_offsets import asked, found
from tests.engine.memory_history import MemoryHistory, copy_out, tier
from tests.waiting import let_run, until

COLD, HOT = 0, 1


@pytest.fixture
async def history(rig: Rig) -> AsyncIterator[MemoryHistory]:
    """Of partition 0: offsets 0 and 1 on object storage alone, 2 in both places, 3 here."""
    await rig.core.topics.create("t", partitions=2)
    engine, shard = where(rig)
    past = MemoryHistory()
    for number in range(4):
        record = Record(value=b"%d" % number, timestamp=TimestampMs(1000 * (number + 1)))
        await rig.services.drivers.write("t", record, partition=COLD)
        if number:
            await engine.roll(shard)
    await tier(engine, past, 2, shard)
    await copy_out(engine, past, 3, shard)
    yield past
    past.down = False
    past.gate.set()


def where(rig: Rig) -> tuple[StorageEngine, ShardName]:
    topic = rig.services.broker_cache.topic("t")
    return next(iter(rig.core.engines.values())), shard_of(topic, COLD)


async def write_hot(rig: Rig, value: bytes) -> None:
    await rig.services.drivers.write("t", Record(value=value), partition=HOT)


async def fetch_both(rig: Rig, offset: int = 0, hot: int = 0, **more: Any) -> list[Any]:
    return await fetched(rig, request(part(COLD, offset), part(HOT, hot), **more))


async def test_a_consumer_reads_from_the_first_record_to_the_last(
    rig: Rig, history: MemoryHistory
) -> None:
    seen: list[bytes | None] = []
    for _ in range(20):
        answer = (await fetched(rig, request(part(COLD, len(seen)), max_wait_ms=500)))[0]
        assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (0, 4, 0)
        seen += values(answer)
        if len(seen) == 4:
            break
    assert seen == [b"0", b"1", b"2", b"3"]


async def test_what_is_here_does_not_wait_for_what_is_not(rig: Rig, history: MemoryHistory) -> None:
    await write_hot(rig, b"hot")
    history.gate.clear()
    async with asyncio.timeout(2):
        cold, hot = await fetch_both(rig, max_wait_ms=30_000)
    assert (cold.error_code, values(cold), values(hot)) == (0, [], [b"hot"])
    history.gate.set()
    async with asyncio.timeout(5):
        cold, _ = await fetch_both(rig, hot=1, max_wait_ms=30_000)
    assert values(cold)[0] == b"0"


async def test_a_read_goes_on_and_is_picked_up(rig: Rig, history: MemoryHistory) -> None:
    history.gate.clear()
    for _ in range(3):
        assert values((await fetched(rig, request(part(COLD), max_wait_ms=10)))[0]) == []
    history.gate.set()
    found: list[bytes | None] = []

    async def is_there() -> bool:
        found.extend(values((await fetched(rig, request(part(COLD), max_wait_ms=0)))[0]))
        return bool(found)

    await until(is_there)
    assert found[0] == b"0"
    assert history.reads == 1, "nobody asked twice"
    assert rig.budget.used_bytes == 0


async def test_a_new_record_wakes_a_fetch_that_waits_for_the_store(
    rig: Rig, history: MemoryHistory
) -> None:
    history.gate.clear()
    waiting = asyncio.create_task(fetch_both(rig, max_wait_ms=30_000))
    await until(lambda: history.reads == 1)
    await write_hot(rig, b"new")
    async with asyncio.timeout(5):
        _, hot = await waiting
    assert values(hot) == [b"new"]


async def test_a_store_that_is_down_fails_its_own_partitions(
    rig: Rig, history: MemoryHistory
) -> None:
    await write_hot(rig, b"hot")
    history.down = True
    codes = []

    async def has_failed() -> bool:
        cold, hot = await fetch_both(rig, max_wait_ms=100)
        assert (hot.error_code, values(hot)) == (0, [b"hot"])
        codes.append(cold.error_code)
        return bool(cold.error_code)

    await until(has_failed)
    assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
    assert values((await fetched(rig, request(part(COLD, 2))))[0]) == [b"2"]
    history.down = False
    assert values((await fetched(rig, request(part(COLD), max_wait_ms=5000)))[0])[0] == b"0"


async def test_answers_that_nobody_picks_up_are_forgotten(
    rig: Rig, history: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "READS_MAX", 1)
    await fetched(rig, request(part(COLD), max_wait_ms=0))
    await until(lambda: rig.budget.used_bytes > 0)
    held = rig.budget.used_bytes
    await fetched(rig, request(part(COLD, 1), max_wait_ms=0))
    await until(lambda: rig.budget.used_bytes == held // 2)
    monkeypatch.setattr(cold, "READS_MAX", 64)
    monkeypatch.setattr(cold, "KEPT_S", 0.0)
    await let_run(0.01)
    history.gate.clear()
    await fetched(rig, request(part(COLD, 0), max_wait_ms=0))
    assert rig.budget.used_bytes == 0
    monkeypatch.setattr(cold, "READS_MAX", 1)
    await until(lambda: history.reads == 3)
    blocked = (await fetched(rig, request(part(COLD, 1), max_wait_ms=0)))[0]
    assert (blocked.error_code, values(blocked)) == (0, [])
    await let_run()
    assert history.reads == 3, "the one that is under way keeps its place"


async def test_stopping_ends_reads_under_way(rig: Rig, history: MemoryHistory) -> None:
    history.gate.clear()
    await fetched(rig, request(part(COLD), max_wait_ms=0))
    async with asyncio.timeout(5):
        await rig.fetch.stop()


# -- ListOffsets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "offset", "stamp"),
    [
        (-1, 4, -1),
        (-2, 0, -1),
        (-3, 3, 4000),
        (-4, 2, -1),
        (-5, 2, -1),
        (-6, 3, -1),
        (500, 0, 1000),
        (1500, 1, 2000),
        (2500, 2, 3000),
        (3500, 3, 4000),
        (4001, -1, -1),
    ],
)
async def test_every_kind_of_time(
    rig: Rig, history: MemoryHistory, timestamp: int, offset: int, stamp: int
) -> None:
    answer = await found(rig, asked(timestamp))
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, stamp)


async def test_the_largest_time_may_be_on_object_storage(rig: Rig, history: MemoryHistory) -> None:
    engine, shard = where(rig)
    old = Record(value=b"old", timestamp=TimestampMs(9000))
    await rig.services.drivers.write("t", old, partition=COLD)
    await engine.roll(shard)
    await tier(engine, history, shard=shard)
    assert engine.local_start(shard) == 5
    answer = await found(rig, asked(-3))
    assert (answer.offset, answer.timestamp) == (4, 9000)


async def test_a_trim_over_everything_leaves_nothing_tiered(
    rig: Rig, history: MemoryHistory
) -> None:
    await rig.services.drivers.trim("t", COLD, Offset(3))
    for timestamp in (-5, -6):
        assert (await found(rig, asked(timestamp))).offset == -1


async def test_a_search_that_fails_or_takes_too_long_can_be_repeated(
    rig: Rig, history: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.down = True
    assert (await found(rig, asked(500))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await found(rig, asked(-1))).offset == 4
    history.down = False
    history.gate.clear()
    monkeypatch.setattr(log_offsets, "PATIENCE_S", 0.05)
    wanted = [ListOffsetsPartition(partition_index=one, timestamp=500) for one in (COLD, HOT)]
    both = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    response: Any = await rig.ask(both)
    cold, hot = response.topics[0].partitions
    assert cold.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (hot.error_code, hot.offset) == (0, -1)
    history.gate.set()
    monkeypatch.setattr(log_offsets, "PATIENCE_S", 15.0)
    assert (await found(rig, asked(500))).offset == 0


async def test_deleted_records_on_object_storage_are_passed(
    rig: Rig, history: MemoryHistory
) -> None:
    """Offsets 0 and 1 are there alone, 2 in both places, 3 here."""
    for offset in range(4):
        assert await rig.services.drivers.delete_by_offset("t", COLD, Offset(offset))
    position = 0
    for isolation in (0, 1):
        position = 0
        for _ in range(20):
            asked = request(part(COLD, position), max_wait_ms=500, isolation_level=isolation)
            (answer,) = await fetched(rig, asked)
            assert answer.error_code == 0
            assert all(header.is_control for header, _ in iter_batches(answer.records))
            if spans := walk(answer.records):
                position = spans[-1].last_offset + 1
            if position == 4:
                break
        assert position == 4
    assert rig.budget.used_bytes == 0
