"""NodeCore: what comes up in order goes down in reverse, also when the start fails half-way."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.log.kv import RocksKV
from stratamq.meta.limits import MetaLimits
from stratamq.meta.rows import dump
from stratamq.meta.store import FORMAT_KEY
from stratamq.meta.topics import DeleteTopic
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.model.errors import ShardUnavailable, StorageError
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.node import composition
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.layout import META_FOLDER
from tests.embedded.threads import left_by
from tests.waiting import until


def core_at(path: Path, clock: ManualClock | None = None, **settings: object) -> NodeCore:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    given = {"data.dir": str(path), "io.workers": 1, "reader.threads": 1, **names}
    doors = Doors() if clock is None else Doors(clock=clock)
    return NodeCore(load(flags=given), doors=doors)


def test_without_settings_the_parts_have_their_own_defaults(tmp_path: Path) -> None:
    """The numbers stand in two tables, and must not drift apart."""
    config = load(flags={"data.dir": str(tmp_path)})
    assert composition.engine_limits(config) == EngineLimits()
    assert composition.meta_limits(config) == MetaLimits()
    timeouts = composition.topic_timeouts(config)
    assert (timeouts.topic_s, timeouts.shard_s) == (30, 3)


def test_settings_reach_the_parts(tmp_path: Path) -> None:
    config = load(
        flags={
            "data.dir": str(tmp_path),
            "io.workers": 3,
            "io.drain.bytes.max": 77,
            "memory.full": "refuse",
            "meta.topics.max": 5,
            "create.topic.timeout.ms": 1500,
        }
    )
    limits = composition.engine_limits(config)
    assert (limits.workers, limits.drain_bytes_max, limits.memory_full) == (3, 77, "refuse")
    assert composition.meta_limits(config).topics_max == 5
    assert composition.topic_timeouts(config).topic_s == 1.5


async def test_engines_start_when_a_topic_needs_them(tmp_path: Path) -> None:
    core = core_at(tmp_path)
    await core.start()
    assert core.engines == {}
    await core.topics.create("t", config={"storage.type": "EngineMemory"})
    assert [*core.engines] == ["EngineMemory"]
    await core.stop()
    assert not (tmp_path / "segments").exists()
    core = core_at(tmp_path)
    await core.start()
    assert [*core.engines] == ["EngineMemory"], "and again for the topics there are"
    await core.stop()


async def test_a_start_that_fails_takes_everything_down_again(tmp_path: Path) -> None:
    before = threading.enumerate()
    kv = RocksKV(tmp_path / META_FOLDER)
    batch = kv.batch()
    batch.put(FORMAT_KEY, dump({}).replace(b'"v":1', b'"v":9'))
    kv.write(batch)
    kv.close()
    tasks = len(asyncio.all_tasks())
    with pytest.raises(StorageError, match="version 9"):
        await core_at(tmp_path).start()
    assert left_by(before, "stratamq") == []
    assert len(asyncio.all_tasks()) == tasks
    kv = RocksKV(tmp_path / META_FOLDER)  # neither the lock nor RocksDB's is held
    batch = kv.batch()
    batch.put(FORMAT_KEY, dump({}))
    kv.write(batch)
    kv.close()
    core = core_at(tmp_path)
    await core.start()
    await core.stop()


async def test_a_stop_leaves_no_thread_and_no_task(tmp_path: Path) -> None:
    before = threading.enumerate()
    tasks = len(asyncio.all_tasks())
    core = core_at(tmp_path, offset_store="cache")
    await core.start()
    for storage in ("EngineMemory", "EngineRocksDB", "EngineSegment"):
        await core.topics.create(storage, config={"storage.type": storage})
        await core.drivers.write(storage, Record(b"v"))
    await core.stop()
    await core.stop()
    assert left_by(before, "stratamq") == []
    assert len(asyncio.all_tasks()) == tasks


async def test_housekeeping_runs_by_itself(tmp_path: Path) -> None:
    clock = ManualClock()
    core = core_at(tmp_path, clock, housekeeping_interval_ms=10)
    await core.start()
    config = {"retention.ms": 1000, "storage.type": "EngineMemory"}
    await core.topics.create("t", config=config)
    await core.drivers.write("t", Record(b"v"))
    clock.advance(5000)

    async def is_gone() -> bool:
        return (await core.drivers.offsets("t", 0)).start == 1

    await until(is_gone)
    await core.stop()


async def test_an_interrupted_deletion_is_finished_at_the_start(tmp_path: Path) -> None:
    core = core_at(tmp_path)
    await core.start()
    topic = await core.topics.create("t", partitions=2)
    await core.drivers.write("t", Record(b"v"), partition=0)
    await core.meta.submit(DeleteTopic(topic_id=topic.topic_id))
    await core.stop()
    core = core_at(tmp_path)
    await core.start()
    state = await core.meta.snapshot()
    assert (dict(state.topics), dict(state.shards)) == ({}, {})
    assert await (await core.drivers.driver("EngineSegment")).list_shard() == {}
    await core.topics.create("t")
    assert await core.drivers.write("t", Record(b"new")) == (0, Offset(0))
    await core.stop()


async def test_a_topic_whose_data_was_taken_away_is_reported_and_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = core_at(tmp_path)
    await core.start()
    await core.topics.create("t")
    await core.drivers.write("t", Record(b"v"))
    await core.stop()
    shutil.rmtree(tmp_path / "segments")
    core = core_at(tmp_path)
    await core.start()
    assert "its files are missing" in caplog.text
    with pytest.raises(ShardUnavailable):
        await core.drivers.offsets("t", 0)
    await core.stop()
