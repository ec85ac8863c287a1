"""A node's storage side from real parts, with a switch that stops the world at any call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.adapter.engine_adapter import EngineStorageAdapter
from stratamq.adapter.offsets import OffsetStorageManager
from stratamq.adapter.shards import ShardManager, TopicTimeouts
from stratamq.adapter.topics import TopicManager
from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.handler import StorageEngineHandler
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.meta.apply import Command
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.service import MetaService
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.clock import ManualClock
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import NodeId, ShardName
from tests.waiting import let_pass

T = TypeVar("T")
ME = NodeId(1)
TIMEOUTS = TopicTimeouts(topic_s=60, shard_s=60)
LATE_S = 100.0
"""More than these."""

ENGINES: dict[StorageType, type[StorageEngine]] = {
    StorageType.MEMORY: EngineMemory,
    StorageType.ROCKSDB: EngineRocksDB,
    StorageType.SEGMENT: EngineSegment,
}


class Crash(BaseException):
    """The process is dead: no call has any effect from here on."""


class Faults:
    """Every call that leaves a mark passes here. What happens at call number `at` is chosen.

    `crash_before`, `crash_after`: the world ends around the call. `fail_before`, `fail_after`: the
    call raises, without or with its effect. `hang`: it never answers, and has no effect; with
    `too_long` it is late at once.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.at = -1
        self.how = ""
        self.error: Exception = RuntimeError("no failure was chosen")
        self.dead = False
        self.reached = asyncio.Event()

    def choose(self, at: int, how: str, error: Exception | None = None) -> None:
        self.calls.clear()
        self.reached.clear()
        self.at, self.how = at, how
        self.error = error or self.error

    async def around(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        if self.dead:
            raise Crash
        number = len(self.calls)
        self.calls.append(name)
        how = self.how if number == self.at else ""
        if number == self.at:
            self.reached.set()
        if how == "too_long":
            let_pass(LATE_S)
        if how in ("hang", "too_long"):
            await asyncio.get_running_loop().create_future()
        if how == "fail_before":
            raise self.error
        if how == "crash_before":
            self.dead = True
            raise Crash
        answer = await call()
        if how == "fail_after":
            raise self.error
        if how == "crash_after":
            self.dead = True
            raise Crash
        return answer


class FaultyMeta(MetaService):
    faults: Faults

    async def submit(self, *commands: Command) -> int:
        name = "+".join(sorted({type(command).__name__ for command in commands}))
        return await self.faults.around(name, lambda: super(FaultyMeta, self).submit(*commands))


class FaultyAdapter(EngineStorageAdapter):
    faults: Faults

    async def create_shard(self, spec: ShardSpec) -> None:
        create = super().create_shard
        await self.faults.around("create_shard", lambda: create(spec))

    async def delete_shard(self, shard: ShardName) -> None:
        delete = super().delete_shard
        await self.faults.around("delete_shard", lambda: delete(shard))


class World:
    """Open it, use it, close it; open another one on the same folder to see what remained."""

    def __init__(self, path: Path, *, timeouts: TopicTimeouts | None = None) -> None:
        self.path = path
        self.faults = Faults()
        self.clock = ManualClock()
        self.meta = FaultyMeta(RocksMetaStore(path / "meta"))
        self.meta.faults = Faults()  # registering the node is not what tests want to stop
        self.topics = BrokerCacheManager(self.meta)
        self.storage = StorageCacheManager(self.meta)
        self.groups = OffsetStorageManager(self.meta, self.clock)
        self.engines: dict[StorageType, StorageEngine] = {}
        self.handler = StorageEngineHandler(self.engines)
        self.drivers = StorageDriverManager(self.topics)
        for kind in ENGINES:
            self.drivers.register(kind.value, self._factory(kind))
        timeouts = timeouts or TIMEOUTS
        self.shards = ShardManager(self.meta, self.storage, self.drivers, self.groups, timeouts)
        self.manager = TopicManager(
            ME, self.meta, self.topics, self.drivers, self.shards, timeouts=timeouts
        )

    def _factory(self, kind: StorageType) -> Callable[[], FaultyAdapter]:
        def make() -> FaultyAdapter:
            limits = EngineLimits(workers=1, reader_threads=1)
            folder = self.path / kind.value
            engine = ENGINES[kind](folder, clock=self.clock, limits=limits)  # type: ignore[call-arg]
            self.engines[kind] = engine
            adapter = FaultyAdapter(self.handler, kind, engine, self.groups)
            adapter.faults = self.faults
            return adapter

        return make

    async def __aenter__(self) -> World:
        await self.meta.open()
        await self.meta.submit(RegisterNode(node_id=ME, address="me"))
        self.meta.faults = self.faults
        await self.topics.start()
        await self.storage.start()
        await self.manager.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drivers.close()
        await self.storage.stop()
        await self.topics.stop()
        await self.meta.close()

    # -- looking -------------------------------------------------------------------------------

    async def stored(self, kind: StorageType = StorageType.SEGMENT) -> set[ShardName]:
        driver = await self.drivers.driver(kind.value)
        return set(await driver.list_shard())

    async def check_whole(self, kind: StorageType = StorageType.SEGMENT) -> Mapping[str, int]:
        """Metadata, caches and storage tell the same story; partitions by topic name."""
        state = await self.meta.snapshot()
        seen = {topic.name: topic.partitions for topic in self.topics.topics()}
        assert {meta.topic.name for meta in state.topics.values()} == set(seen), "half-made topics"
        assert len(state.shards) == sum(seen.values()), "shards that nobody uses"
        assert set(state.segments) == set(state.shards)
        assert set(self.storage.shards()) == set(state.shards)
        assert await self.stored(kind) == set(state.shards), "storage and metadata disagree"
        return seen
