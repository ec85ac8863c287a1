"""Fetches that threads have to read: how much of the budget for answers each takes, and one view
for records and watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stratamq.broker.kafka.fetch.reading import FetchPass
from stratamq.broker.kafka.fetch.sessions import PartitionKey
from stratamq.engine.engine_shard import EngineShard
from stratamq.wire.kafka.records import walk
from tests.broker.data.conftest import Rig
from tests.broker.data.test_cold import COLD, where
from tests.broker.data.test_fetch import MIB, fetched, part, request, values, write
from tests.engine.memory_history import MemoryHistory, tier
from tests.waiting import let_run, until

ENGINES = ["EngineSegment", "EngineMemory", "EngineRocksDB"]
RECORDS = 20


@pytest.fixture(autouse=True, params=["a task", "at once"])
def way(request: pytest.FixtureRequest, rig: Rig) -> None:
    rig.begins = request.param == "at once"


async def written(rig: Rig, engine: str = "EngineSegment") -> None:
    await rig.core.topics.create("t", config={"storage.type": engine})
    await write(rig, *(b"%d" % number for number in range(RECORDS)))


def by_threads(monkeypatch: pytest.MonkeyPatch, before: Callable[[], Any]) -> None:
    """Nothing is in memory, and this happens before a thread reads."""
    real = EngineShard.fetch

    async def fetch(*arguments: Any) -> Any:
        await before()
        return await real(*arguments)

    monkeypatch.setattr(EngineShard, "fetch_at_once", lambda *args, **more: None)
    monkeypatch.setattr(EngineShard, "fetch", fetch)


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_more_is_reserved_than_is_stored(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    await written(rig, engine)
    go_on, begun = asyncio.Event(), []

    async def gated() -> None:
        begun.append(rig.budget.used_bytes)
        await go_on.wait()

    by_threads(monkeypatch, gated)
    asked = request(part(0, 0, bytes_max=50 * MIB), max_bytes=50 * MIB)
    reading = [asyncio.create_task(fetched(rig, asked)) for _ in range(40)]
    await until(lambda: len(begun) == 40, "all read at the same time")
    reserved = rig.budget.used_bytes
    go_on.set()
    for (answer,) in await asyncio.gather(*reading):
        assert len(values(answer)) == RECORDS
        assert reserved == 40 * len(answer.records)
    assert rig.budget.used_bytes == 0


async def test_no_more_is_reserved_than_its_partitions_may_bring(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(rig)
    reserved: list[int] = []

    async def note() -> None:
        reserved.append(rig.budget.used_bytes)

    by_threads(monkeypatch, note)
    await fetched(rig, request(part(0, 3, bytes_max=100), max_bytes=50 * MIB))
    await fetched(rig, request(part(0, 3, bytes_max=100), max_bytes=10))
    assert reserved == [100, 10]


@pytest.mark.parametrize("offset", [3, RECORDS - 1], ids=["read by a thread", "in memory"])
async def test_without_a_wait_it_waits_for_its_turn_and_is_not_answered_empty(
    rig: Rig, offset: int
) -> None:
    await written(rig)
    rig.budget.take(rig.budget.bytes_max)
    waiting = [asyncio.create_task(fetched(rig, request(part(0, offset)))) for _ in range(10)]
    await let_run()
    assert not any(task.done() for task in waiting)
    rig.budget.give(rig.budget.bytes_max)
    for (answer,) in await asyncio.gather(*waiting):
        assert values(answer)[-1] == b"%d" % (RECORDS - 1)
    assert rig.budget.used_bytes == 0


async def test_with_nothing_to_read_it_needs_no_turn(rig: Rig) -> None:
    await written(rig)
    rig.budget.take(rig.budget.bytes_max)
    async with asyncio.timeout(2):
        (answer,) = await fetched(rig, request(part(0, RECORDS)))
    assert (answer.error_code, values(answer)) == (0, [])


async def test_a_stop_ends_the_wait_for_a_turn(rig: Rig) -> None:
    await written(rig)
    rig.budget.take(rig.budget.bytes_max)
    waiting = asyncio.create_task(fetched(rig, request(part(), max_wait_ms=60_000)))
    await let_run()
    await rig.fetch.stop()
    async with asyncio.timeout(2):
        (answer,) = await waiting
    assert values(answer) == []


async def test_a_fetch_that_waited_for_records_is_counted_until_it_is_answered(rig: Rig) -> None:
    """Its answer comes from another task, which has given its reservation back by then."""
    await written(rig)
    asked = request(part(0, 3), min_bytes=MIB, max_wait_ms=50)
    (answer,) = await fetched(rig, asked)
    assert len(values(answer)) == RECORDS - 3
    assert rig.budget.used_bytes == 0


# -- one view --------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", [0, 1], ids=["uncommitted", "committed"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_no_record_is_past_the_watermark_of_its_answer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, engine: str, isolation: int
) -> None:
    await written(rig, engine)

    async def write_one() -> None:
        await write(rig, b"later")

    by_threads(monkeypatch, write_one)
    (answer,) = await fetched(rig, request(part(0, 3), isolation_level=isolation))
    assert walk(answer.records)[-1].last_offset == answer.high_watermark - 1
    assert answer.last_stable_offset == answer.high_watermark


@pytest.mark.parametrize("isolation", [0, 1], ids=["uncommitted", "committed"])
async def test_nor_where_object_storage_was_read_for_another_fetch(
    rig: Rig, isolation: int
) -> None:
    await written(rig)
    engine, shard = where(rig)
    history = MemoryHistory()

    async def offload() -> None:
        await engine.roll(shard)
        await tier(engine, history, engine.offsets(shard).end, shard)

    await offload()
    services, fetch = rig.services, rig.fetch
    asked = [(PartitionKey("t", bytes(16), COLD), part(COLD))]
    early = FetchPass(services.partitions, fetch._cold, asked, MIB, isolation)
    await early.look_all()
    await write(rig, b"later")
    await offload()
    later = FetchPass(services.partitions, fetch._cold, asked, MIB, isolation)
    await later.look_all()
    await later.read()
    await asyncio.wait(later.under_way)
    assert later.under_way[0].result().next_offset == RECORDS + 1
    await early.read()
    (answer,) = early.answers
    assert (answer.high_watermark, answer.records) == (RECORDS, b"")
    (answer,) = await fetched(rig, request(part(COLD), isolation_level=isolation))
    assert (answer.high_watermark, len(values(answer))) == (RECORDS + 1, RECORDS + 1)
