"""What a backup holds: the node as it was at one moment, whatever happens while it is copied."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from stratamq.adapter.housekeeping import HousekeepingRound
from stratamq.log.index import IndexStore
from stratamq.log.kv import RocksKV
from stratamq.model.errors import StorageError, TopicNotFound
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, ShardName
from stratamq.node.data_dir import read_damage
from stratamq.node.embedded import AsyncNode
from tests.backup.embedded import SMALL, fill, numbers, restored
from tests.waiting import every, let_run, until

STORAGES = ("segment", "rocksdb", "memory")


def config(storage: str) -> dict[str, object]:
    return {**SMALL, "memory.persist": True} if storage == "memory" else dict(SMALL)


@pytest.mark.parametrize("storage", STORAGES)
async def test_records_after_the_moment_are_not_in_it(tmp_path: Path, storage: str) -> None:
    """They roll segments, and the one that holds the end is sealed when it is copied."""
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", storage=storage, config=config(storage))
        await fill(topic, 0, 50)
        await topic.commit("g", 0, 50)

        async def meanwhile() -> None:
            await fill(topic, 50, 100)
            await topic.commit("g", 0, 150)

        _, data = await restored(node, tmp_path, meanwhile)
        assert await numbers(topic) == list(range(150))
    async with AsyncNode(data) as node:
        topic = await node.topic("t")
        assert await numbers(topic) == list(range(50))
        assert await topic.committed("g") == {0: 50}
        assert {int(one.text) for one in await topic.read_by_tag("1", limit=1000)} == set(
            range(1, 50, 3)
        )
        assert int((await topic.read_by_key("3"))[0].text) == 45
        assert (await topic.produce("next")).offset == 50
    assert read_damage(data) == []


async def test_the_index_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is not ahead of the logs, and what it lacks is read from them."""
    caplog.set_level(logging.WARNING)
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config=SMALL)
        await fill(topic, 0, 100)
        _, data = await restored(node, tmp_path, lambda: fill(topic, 100, 50))
    kv = RocksKV(data / "index")
    index = IndexStore(kv)
    [name] = index.names()
    state = index.known_state(name)
    kv.close()
    assert state is not None
    assert state.indexed_end == 100
    assert caplog.records == []


async def test_without_the_index_it_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("it cannot be copied")

    monkeypatch.setattr(RocksKV, "copy_to", fail)
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 100)
        _, data = await restored(node, tmp_path)
    assert not (data / "index").exists()
    async with AsyncNode(data) as node:
        found = await (await node.topic("t")).read_by_key("3", history=True)
        assert [int(one.text) for one in found] == list(range(94, 0, -7))
    assert read_damage(data) == []


async def test_a_log_that_is_rolled_at_the_moment_goes_on_there(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config=SMALL)
        await fill(topic, 0, 30)
        [engine] = node.core.engines.values()
        [shard] = engine.list_shards()
        _, data = await restored(node, tmp_path, lambda: engine.roll(shard))
    async with AsyncNode(data) as node:
        topic = await node.topic("t")
        assert await numbers(topic) == list(range(30))
        assert (await topic.produce("next")).offset == 30
    assert read_damage(data) == []


async def test_a_log_that_is_trimmed_meanwhile_is_trimmed(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config=SMALL)
        await fill(topic, 0, 30)
        [engine] = node.core.engines.values()
        [shard] = engine.list_shards()

        async def meanwhile() -> None:
            await fill(topic, 30, 100)
            await engine.trim(shard, (await topic.offsets()).end)

        _, data = await restored(node, tmp_path, meanwhile)
    async with AsyncNode(data) as node:
        topic = await node.topic("t")
        assert await numbers(topic) == []
        assert (await topic.produce("next")).offset == 130
    assert read_damage(data) == []


COMPACTED = {**SMALL, "cleanup.policy": "compact"}


async def check_newest(data: Path) -> None:
    """The newest record of each key is one of the first fifty."""
    async with AsyncNode(data) as node:
        topic = await node.topic("t")
        newest = [int(one.text) for key in range(7) for one in await topic.read_by_key(f"{key}")]
        assert sorted(newest) == list(range(43, 50))


async def test_no_compaction_begins_during_the_copy(tmp_path: Path) -> None:
    """It would take out records whose successors are not in the backup."""
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config=COMPACTED)
        await fill(topic, 0, 50)
        [engine] = node.core.engines.values()
        [shard] = engine.list_shards()

        async def meanwhile() -> None:
            await fill(topic, 50, 100)
            assert await engine.compact(shard) == 0

        _, data = await restored(node, tmp_path, meanwhile)
        assert await engine.compact(shard) > 0
    await check_newest(data)


async def test_a_compaction_that_waits_for_its_writer_at_the_moment_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked for before the moment, and sees the log only after it, with newer records."""
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config=COMPACTED)
        await fill(topic, 0, 50)
        [engine] = node.core.engines.values()
        [name] = engine.list_shards()
        shard, released = engine.opened_shards()[name], threading.Event()
        copy_index, waiting = engine.copy_index, list[asyncio.Future[Any]]()

        async def last_step_before_the_moment(target: Path) -> None:
            await copy_index(target)
            waiting.append(asyncio.ensure_future(engine.executor.run(shard, released.wait)))
            newer = [Record(value=b"%d" % one, key=b"%d" % (one % 7)) for one in range(50, 150)]
            waiting.append(asyncio.ensure_future(engine.batch_write(name, newer)))
            waiting.append(asyncio.ensure_future(engine.compact(name)))
            await let_run(0)  # each is asked for now

        async def meanwhile() -> None:
            released.set()
            assert (await asyncio.gather(*waiting))[-1] == 0

        monkeypatch.setattr(engine, "copy_index", last_step_before_the_moment)
        try:
            _, data = await restored(node, tmp_path, meanwhile)
        finally:
            released.set()
    await check_newest(data)


async def test_housekeeping_goes_on(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", config={**SMALL, "retention.bytes": 1}), 0, 50)
        compacted = await node.create_topic("compacted", config=COMPACTED)
        await fill(compacted, 0, 50)
        rounds: list[HousekeepingRound] = []

        async def meanwhile() -> None:
            rounds.append(await node.core.housekeeper.run_once())

        _, data = await restored(node, tmp_path, meanwhile)
        assert rounds[0].segments_deleted > 0
        assert (rounds[0].shards, rounds[0].bytes_freed, rounds[0].failures) == (2, 0, 0)
        assert (await node.core.housekeeper.run_once()).bytes_freed > 0
    async with AsyncNode(data) as node:
        assert await numbers(await node.topic("compacted")) == list(range(50))
    assert read_damage(data) == []


@pytest.mark.parametrize("storage", STORAGES)
async def test_a_topic_that_is_deleted_meanwhile_is_deleted(tmp_path: Path, storage: str) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        kept = await node.create_topic("kept", config=SMALL)
        gone = await node.create_topic("gone", 2, storage=storage, config=config(storage))
        await fill(kept, 0, 10)
        await fill(gone, 0, 10)

        async def meanwhile() -> None:
            await node.delete_topic("gone")
            again = await node.create_topic("gone", storage=storage)
            await fill(again, 0, 5)
            await node.create_topic("new", storage=storage)

        _, data = await restored(node, tmp_path, meanwhile)
    async with AsyncNode(data) as node:
        assert [topic.name for topic in await node.topics()] == ["kept"]
        assert await numbers(await node.topic("kept")) == list(range(10))
        with pytest.raises(TopicNotFound):
            await node.topic("gone")
        assert len(node.core.meta.state.shards) == 1
    assert read_damage(data) == []


async def test_topics_in_memory_are_named(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("volatile", storage="memory")
        await fill(topic, 0, 10)
        manifest, data = await restored(node, tmp_path)
    assert manifest.without_records == ["volatile"]
    async with AsyncNode(data) as node:
        assert await numbers(await node.topic("volatile")) == []


async def test_group_offsets_of_the_cache_are_there(tmp_path: Path) -> None:
    settings = {"offset_store": "cache", "offset_flush_interval_ms": 3_600_000}
    async with AsyncNode(tmp_path / "data", **settings) as node:
        topic = await node.create_topic("t", config=SMALL)
        await fill(topic, 0, 10)
        await topic.commit("g", 0, 7)
        _, data = await restored(node, tmp_path)
    async with AsyncNode(data, **settings) as node:
        assert await (await node.topic("t")).committed("g") == {0: 7}


async def test_a_shard_that_is_unavailable_is_there_as_it_is(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("broken", config=SMALL), 0, 30)
        await fill(await node.create_topic("whole", config=SMALL), 0, 30)
        broken = f"{node.core.broker_cache.topic('broken').topic_id}_0"
    spec = tmp_path / "data" / "segments" / broken / "shard.json"
    content = spec.read_bytes()
    spec.write_bytes(b"{}")
    async with AsyncNode(tmp_path / "data") as node:
        manifest, data = await restored(node, tmp_path)
    assert manifest.unavailable == [broken]
    (data / "segments" / broken / "shard.json").write_bytes(content)
    async with AsyncNode(data) as node:
        for name in every(["broken", "whole"]):
            assert await numbers(await node.topic(name)) == list(range(30))


async def test_shards_that_a_start_left_closed_are_there(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", 5, config=SMALL), 0, 30)
    async with AsyncNode(tmp_path / "data", shards_opened_first_max=1) as node:
        _, data = await restored(node, tmp_path)
    async with AsyncNode(data) as node:
        topic = await node.topic("t")
        found = [one for part in range(5) for one in await numbers(topic, part)]
        assert sorted(found) == list(range(30))


async def test_full_segments_are_links_and_the_node_goes_on_without_touching_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.create_topic("t", config={**SMALL, "cleanup.policy": "compact"})
        await fill(topic, 0, 100)
        await restored(node, tmp_path)
        backup = tmp_path / "monday" / "data" / "segments"
        logs = sorted(backup.rglob("*.log"))
        assert [path.stat().st_nlink for path in logs] == [2] * (len(logs) - 1) + [1]
        content = {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()}
        await fill(topic, 100, 100)
        [engine] = node.core.engines.values()
        [shard] = engine.list_shards()
        await engine.delete_by_key(shard, b"3")
        assert await engine.compact(shard) > 0
        await engine.trim(shard, (await topic.offsets()).end)
    assert {path: path.read_bytes() for path in content} == content
    assert caplog.records == []


TIERED = {**SMALL, "local.retention.ms": 0, "retention.ms": -1}


async def tiered(node: AsyncNode) -> None:
    """A topic whose history is in the store alone."""
    topic = await node.create_topic("t", config=TIERED)
    await fill(topic, 0, 100)
    await node.core.tiering.run(node.core.broker_cache.topic("t"))
    engine = node.core.engines[StorageType.SEGMENT]
    await until(lambda: engine.local_start(shard_of(node)) > 0)


def shard_of(node: AsyncNode) -> ShardName:
    return shard_name(node.core.broker_cache.topic("t").topic_id, 0)


async def test_a_store_inside_the_data_folder_is_in_it(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        await tiered(node)
        manifest, data = await restored(node, tmp_path)
    assert (manifest.objects, manifest.store) == (0, "")
    async with AsyncNode(data) as node:
        assert await numbers(await node.topic("t")) == list(range(100))
    assert read_damage(data) == []


async def test_objects_elsewhere_stay_there(tmp_path: Path) -> None:
    store = (tmp_path / "store").as_uri()
    async with AsyncNode(tmp_path / "data", store_url=store) as node:
        await tiered(node)
        manifest, data = await restored(node, tmp_path)
        files = node.core.meta.state.files_of(shard_of(node))
    assert (manifest.objects, manifest.store) == (len(files), store)
    assert not (data / "cold").exists()
    async with AsyncNode(data, store_url=store) as node:
        assert await numbers(await node.topic("t")) == list(range(100))


async def test_no_segment_leaves_for_the_store_meanwhile(tmp_path: Path) -> None:
    """The metadata of the backup would not know that the store has it."""
    async with AsyncNode(tmp_path / "data") as node:
        await tiered(node)
        engine = node.core.engines[StorageType.SEGMENT]
        leaving: list[asyncio.Task[int]] = []

        async def meanwhile() -> None:
            leaving.append(asyncio.create_task(engine.offload(shard_of(node), Offset(100))))
            await let_run(0.2)
            assert not leaving[0].done()

        await restored(node, tmp_path, meanwhile)
        await leaving[0]
