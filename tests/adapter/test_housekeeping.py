"""Retention, expiry and compaction happen by themselves, and one sick shard does not stop them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from stratamq.adapter.engine_adapter import EngineStorageAdapter
from stratamq.adapter.housekeeping import Housekeeper
from stratamq.model.errors import StorageError
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, ShardName
from tests.adapter.support import World
from tests.waiting import until

HOUR_MS = 3_600_000


@pytest.fixture(params=list(StorageType), ids=str)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as world:
        world.manager._defaults = {"storage.type": request.param.value, "flush": "os"}
        yield world


@pytest.fixture
async def keeper(world: World) -> AsyncIterator[Housekeeper]:
    keeper = Housekeeper(world.topics, world.drivers, world.manager, interval_s=0.01)
    yield keeper
    await keeper.stop()


async def test_old_segments_go(world: World, keeper: Housekeeper) -> None:
    await world.manager.create("t", partitions=2, config={"retention.ms": HOUR_MS})
    for partition in (0, 1):
        await world.drivers.write("t", Record(b"old"), partition=partition)
    world.clock.advance(2 * HOUR_MS)
    await world.drivers.write("t", Record(b"new"), partition=1)
    done = await keeper.run_once()
    assert (done.shards, done.failures) == (2, 0)
    assert done.segments_deleted >= 1
    assert (await world.drivers.offsets("t", 0)).start == 1


async def test_superseded_keys_go(world: World, keeper: Housekeeper) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": 1024}
    await world.manager.create("t", config=config)
    for number in range(60):
        await world.drivers.write("t", Record(b"%d" % number, b"k%d" % (number % 3)))
    done = await keeper.run_once()
    assert done.bytes_freed > 0
    left = await world.drivers.read_by_offset("t", 0, Offset(0))
    assert len(left) < 60
    newest = await world.drivers.read_by_key("t", b"k2")
    assert newest[0].record.value == b"59"


async def test_it_works_in_the_background(world: World, keeper: Housekeeper) -> None:
    await world.manager.create("t", config={"retention.ms": HOUR_MS})
    await world.drivers.write("t", Record(b"old"))
    keeper.start()
    world.clock.advance(2 * HOUR_MS)

    async def is_gone() -> bool:
        return (await world.drivers.offsets("t", 0)).start == 1

    await until(is_gone)


async def test_a_sick_shard_is_reported_and_the_others_are_served(
    world: World, keeper: Housekeeper, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await world.manager.create("t", partitions=3, config={"retention.ms": HOUR_MS})
    for partition in range(3):
        await world.drivers.write("t", Record(b"old"), partition=partition)
    world.clock.advance(2 * HOUR_MS)
    driver = await world.drivers.driver(str(topic.config["storage.type"]))
    sick, inner = shard_name(topic.topic_id, 1), driver.apply_retention

    async def retain(shard: object) -> int:
        if shard == sick:
            raise StorageError("bad sector")
        return await inner(shard)  # type: ignore[arg-type]

    driver.apply_retention = retain  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        done = await keeper.run_once()
    assert (done.shards, done.failures, done.segments_deleted) == (3, 1, 2)
    assert sick in caplog.text
    assert "bad sector" in caplog.text
    driver.apply_retention = inner  # type: ignore[method-assign]
    assert (await keeper.run_once()).segments_deleted == 1, "it is tried again"


async def test_a_topic_deleted_under_its_feet_is_no_failure(
    world: World, keeper: Housekeeper
) -> None:
    topic = await world.manager.create("t")
    driver = await world.drivers.driver(str(topic.config["storage.type"]))
    inner = driver.apply_retention

    async def retain(shard: object) -> int:
        await world.manager.delete("t")
        return await inner(shard)  # type: ignore[arg-type]

    driver.apply_retention = retain  # type: ignore[method-assign]
    assert (await keeper.run_once()).failures == 0


async def test_a_round_that_breaks_is_not_the_last(
    world: World, keeper: Housekeeper, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = 0
    inner = keeper.run_once

    async def run_once() -> object:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise RuntimeError("a bug")
        return await inner()

    keeper.run_once = run_once  # type: ignore[method-assign,assignment]
    keeper.start()
    await until(lambda: rounds > 2)
    assert "a bug" in caplog.text


async def test_it_finishes_what_was_interrupted(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.manager.create("t", partitions=2)
        world.faults.choose(1, "fail_before", StorageError("no"))
        with pytest.raises(StorageError):
            await world.manager.delete("t")
        keeper = Housekeeper(world.topics, world.drivers, world.manager)
        await keeper.run_once()
        assert await world.check_whole() == {}


async def test_others_run_while_it_works(tmp_path: Path) -> None:
    """Memory shards never wait for a disk, so a round must give way by itself."""
    async with World(tmp_path) as world:
        config = {"storage.type": StorageType.MEMORY.value}
        await world.manager.create("t", partitions=300, config=config)
        keeper = Housekeeper(world.topics, world.drivers, world.manager)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await keeper.run_once()
        counting.cancel()
        assert turns >= 300


async def test_stopping_in_the_middle_is_fine(world: World, keeper: Housekeeper) -> None:
    await world.manager.create("t")
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    world.manager.sweep = hang  # type: ignore[method-assign]
    keeper.start()
    await entered.wait()
    await keeper.stop()
    await keeper.stop()


async def test_shards_that_are_fine_cost_one_question_per_storage(
    world: World, keeper: Housekeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await world.manager.create(f"t{number}", partitions=3)
    asked: list[object] = []
    real = EngineStorageAdapter.unavailable_shards

    def unavailable(adapter: EngineStorageAdapter) -> Mapping[ShardName, str]:
        asked.append(adapter)
        return real(adapter)

    monkeypatch.setattr(EngineStorageAdapter, "unavailable_shards", unavailable)
    await world.manager.retry_shards()
    assert asked == list(world.drivers.open_drivers.values())


async def test_a_shard_that_takes_no_writes_is_recovered(world: World, keeper: Housekeeper) -> None:
    topic = await world.manager.create("t", partitions=3)
    engine = next(iter(world.engines.values()))
    sick = engine._registry.get(shard_name(topic.topic_id, 1))  # type: ignore[attr-defined]
    sick.poison = "an fsync failed"
    assert list(engine.unavailable_shards()) == [sick.name]
    await keeper.run_once()
    assert not engine.unavailable_shards()
    await world.drivers.write("t", Record(b"v"), partition=1)
