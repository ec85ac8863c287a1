"""A mover with everything it stands on, over one folder: engine, Meta Service, store."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.meta.apply import Command
from stratamq.meta.service import MetaService
from stratamq.meta.shards import CreateShard
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.tier.cache import TierCache
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.meta.topics import CreateTopic, DeleteTopic, RemoveTopic
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import NodeId, Offset, ShardName, TopicId
from stratamq.tiering import keys
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.reads import ColdReads
from stratamq.tiering.mover.contract import MoverLimits, Surroundings
from stratamq.tiering.mover.mover import Mover
from stratamq.tiering.mover.steps import OnStep
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.wire.kafka.records import decode_batch, iter_batches
from tests.waiting import let_run

OWNER = keys.owner_mark("the cluster of these tests")
ENGINES: dict[str, Callable[..., StorageEngine]] = {
    "segment": EngineSegment,
    "rocksdb": EngineRocksDB,
    "memory": EngineMemory,
}
LIMITS = EngineLimits(workers=1, reader_threads=2, cold_reader_threads=1)
TOPIC_ID = TopicId("0123456789abcdef" * 2)
SHARD = shard_name(TOPIC_ID, 0)
QUICK = MoverLimits(interval_ms=10, orphan_grace_ms=0, backoff_ms=1, backoff_ms_max=2)
TIERED: Mapping[str, object] = {
    "segment.bytes": 4096,
    "local.retention.bytes": 0,
    "flush": "os",
}

Rows = dict[int, tuple[bytes | None, bytes | None]]
"""Keys and values by offset."""


Interference = Callable[[], Awaitable[None]]


class Interrupted:
    """The Meta Service, when somebody else always comes first."""

    def __init__(self, meta: MetaService, before: Interference) -> None:
        self._meta, self._before = meta, before
        self.revision = meta.revision

    async def submit(self, *commands: Command) -> int:
        await self._before()
        return await self._meta.submit(*commands)


async def nothing() -> None:
    pass


@dataclass
class Rig:
    folder: Path
    options: StoreOptions
    kind: str = "segment"
    limits: MoverLimits = QUICK
    clock: Clock = field(default_factory=SystemClock)
    on_step: OnStep = lambda shard, step: None
    before_submit: Interference = nothing
    topics: list[Topic] = field(default_factory=list)

    async def __aenter__(self) -> Rig:
        self.meta = MetaService(RocksMetaStore(self.folder / "meta"))
        await self.meta.open()
        self.cache = TierCache(self.meta)
        await self.cache.start()
        self.engine = ENGINES[self.kind](self.folder / "data", clock=self.clock, limits=LIMITS)
        await self.engine.open()
        self.store: Store = await open_store(self.options)
        self.cold = await ColdReads.open(self.store, self.folder, ColdLimits())
        self.histories: dict[ShardName, ShardHistory] = {}
        self.topics = [meta.topic for meta in self.meta.state.topics.values()]
        for shard in self.engine.list_shards():
            self.attach(shard)
        self.mover = self.new_mover()
        await self.mover.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.mover.stop()
        await self.cold.close()
        await self.engine.close()
        await self.cache.stop()
        await self.meta.close()
        await self.store.close()

    def new_mover(self) -> Mover:
        around = Surroundings(
            meta=Interrupted(self.meta, self.before_submit),
            files=self.cache,
            topics=lambda: self.topics,
            engine_of=self.engine_of,
            attach=self.attach,
            store=self.store,
            clock=self.clock,
            work_folder=self.folder / "tiering",
            owner=OWNER,
        )
        return Mover(around, self.limits, on_step=self.on_step)

    def engine_of(self, shard: ShardName) -> StorageEngine | None:
        return self.engine if shard in self.engine.list_shards() else None

    def attach(self, shard: ShardName) -> None:
        if shard in self.engine.list_shards():
            history = self.histories.setdefault(shard, self.cold.history(shard))
            history.replace(self.cache.files(shard))
            self.engine.attach_history(shard, history)

    # -- topics and records ------------------------------------------------------------------------

    async def create(
        self,
        given: Mapping[str, object] = TIERED,
        *,
        name: str = "orders",
        topic_id: TopicId = TOPIC_ID,
        partitions: int = 1,
    ) -> Topic:
        config = TopicConfig.of(given)
        topic = Topic(topic_id=topic_id, name=name, partitions=partitions, config=config)
        shards = [CreateShard(topic_id=topic_id, partition=p) for p in range(partitions)]
        await self.meta.submit(CreateTopic(topic=topic, creator=NodeId(0)), *shards)
        for partition in range(partitions):
            spec = ShardSpec(name=shard_name(topic_id, partition), config=config)
            await self.engine.create_shard(spec)
        self.topics.append(topic)
        return topic

    async def delete(self, topic: Topic) -> None:
        await self.meta.submit(DeleteTopic(topic_id=topic.topic_id))
        self.topics.remove(topic)
        for partition in range(topic.partitions):
            await self.engine.delete_shard(shard_name(topic.topic_id, partition))
        await self.meta.submit(RemoveTopic(topic_id=topic.topic_id))

    async def fill(
        self, count: int, *, shard: ShardName = SHARD, seed: int = 0, size: int = 300
    ) -> Rows:
        """Records that say where they are; what they are, by offset."""
        rows: Rows = {}
        bits = random.Random(seed)
        while len(rows) < count:
            some = [
                Record(key=b"k%d" % bits.randrange(50), value=bits.randbytes(size))
                for _ in range(min(5, count - len(rows)))
            ]
            offsets = await self.engine.batch_write(shard, some)
            rows |= {at: (one.key, one.value) for at, one in zip(offsets, some, strict=True)}
        return rows

    # -- what there is now -------------------------------------------------------------------------

    def files(self, shard: ShardName = SHARD) -> tuple[TierFile, ...]:
        return self.meta.state.files_of(shard)

    async def objects(self) -> set[str]:
        return {listed.key async for listed in self.store.list()}

    async def content(self, stored: TierObject) -> bytes:
        return b"".join([piece async for piece in self.store.stream(stored.key)])

    async def cold_rows(self, shard: ShardName = SHARD) -> Rows:
        """What the final files hold, by what the store gives back. Nothing is in two of them."""
        found: Rows = {}
        for file in self.files(shard):
            if not file.final:
                continue
            rows = await self._rows_of(file)
            assert not found.keys() & rows.keys(), "a record is there twice"
            assert all(file.base_offset <= offset < file.end_offset for offset in rows)
            assert file.rows == len(rows)
            found |= rows
        return found

    async def _rows_of(self, file: TierFile) -> Rows:
        formats = []
        if file.parquet:
            path = self.folder / "read-back.parquet"
            path.write_bytes(await self.content(file.parquet))
            table = pq.read_table(path, columns=["offset", "key", "value"]).to_pydict()
            pairs = zip(table["key"], table["value"], strict=True)
            formats.append(dict(zip(table["offset"], pairs, strict=True)))
        if file.log:
            formats.append(raw_rows(await self.content(file.log)))
        assert all(one == formats[0] for one in formats)
        return formats[0]

    async def read_rows(self, shard: ShardName, offset: Offset) -> Rows:
        """As a consumer reads them."""
        found: Rows = {}
        while records := await self.engine.read_by_offset(shard, offset):
            found |= {record.offset: (record.key, record.value) for record in records}
            offset = Offset(records[-1].offset + 1)
        return found

    async def all_rows(self, shard: ShardName = SHARD) -> Rows:
        """Everything from the start on, cold and local, as a consumer sees it. The same is in the
        files and behind them."""
        await self.engine.compact(shard)  # the writer has done what was asked of it before
        start, local = self.engine.offsets(shard).start, self.engine.local_start(shard)
        cold = await self.cold_rows(shard)
        marked = set(await self.engine.deleted(shard, start, local))
        below = {at: row for at, row in cold.items() if start <= at < local and at not in marked}
        seen = await self.read_rows(shard, start)
        assert seen == below | await self.read_rows(shard, max(start, local))
        return seen

    async def settled(self, shard: ShardName = SHARD) -> None:
        """Run until nothing is left to do, and see that it stays so."""
        for _ in range(5):
            done = await self.mover.run_once()
            idle = not (done.segments or done.freed_bytes or done.removed or done.failures)
            if idle and not self.mover.status().troubled:
                break
            await let_run(0.005)  # the pause after a failure
        else:
            raise AssertionError(f"it goes on: {self.mover.status()}")
        named = {one.key for file in self.files(shard) for one in file.objects}
        assert await self.objects() == named, "objects that nothing names, or files without"
        assert not self.meta.state.retired
        assert not list(self.mover.around.moving_folder.iterdir())
        sealed = [one for one in self.engine.segments(shard) if not one.active]
        assert not sealed, "what is due is not here any more"


def raw_rows(data: bytes) -> Rows:
    return {
        record.offset: (record.key, record.value)
        for header, batch in iter_batches(data)
        if not header.is_control
        for record in decode_batch(header, bytes(batch), 1 << 24)
    }
