"""Every way to read, against a list of records and a few lines of Python.

Timestamps are what producers like, negative ones too, and headers lie about them. Records at the
end, or anywhere, are deleted, have expired, or are trimmed away; segments are sealed, compacted and
moved to object storage in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stratamq.engine.contract import OffsetStrategy
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.clock import ManualClock
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import Compression, check_crc, decode_batch, iter_batches
from tests.engine.lying import lying_batch
from tests.engine.memory_history import TieredSegments
from tests.engine.support import EVERYTHING, NOW, spec, write_mark

ENGINES: dict[str, Callable[..., StorageEngine]] = {
    "memory": EngineMemory,
    "rocksdb": EngineRocksDB,
    "segment": EngineSegment,
    "tiered": TieredSegments,
}
LIMITS = EngineLimits(workers=1, reader_threads=1, cold_reader_threads=1)
KEYS, TAGS = (b"a", b"b"), (b"x", b"y")
TTL_MS = 100
FAR = 1 << 45

stamps = st.sampled_from([-FAR, -1000, -2, -1, 0, 1, NOW - 200, NOW - 50, NOW, NOW + 50])
asked = [-FAR - 1, -FAR, -1500, -1000, -2, -1, 0, 1, 2, NOW - 200, NOW - 60, NOW, NOW + 50, FAR]


class Write(NamedTuple):
    records: list[Record]
    base: int
    largest: int
    by_node: bool
    codec: Compression


class Delete(NamedTuple):
    """So many of the newest records, but for those before them."""

    count: int
    spared: int


class DeleteKey(NamedTuple):
    key: bytes


class Do(NamedTuple):
    what: str


records = st.builds(
    lambda key, tags, stamp, ttl: Record(
        b"v",
        key,
        ((TTL_HEADER, ttl),) if ttl else (),
        tuple(tags),
        TimestampMs(stamp),
    ),
    st.none() | st.sampled_from(KEYS),
    st.lists(st.sampled_from(TAGS), max_size=2),
    stamps,
    st.none() | st.sampled_from([b"10", b"1000"]),
)
writes = st.builds(
    Write,
    st.lists(records, min_size=1, max_size=4),
    stamps,
    stamps | st.just(FAR),
    st.booleans(),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.ZSTD]),
)
steps = st.one_of(
    writes,
    writes,
    writes,
    st.builds(Delete, st.integers(1, 5), st.integers(0, 2)),
    st.builds(DeleteKey, st.sampled_from(KEYS)),
    st.sampled_from([Do("roll"), Do("roll"), Do("compact"), Do("trim"), Do("mark")]),
)
lives = st.lists(steps, min_size=1, max_size=12)


@dataclass
class Model:
    """The records that can be read, in order."""

    ttl_ms: int
    start: int = 0
    end: int = 0
    kept: list[Record] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    """Where batches end."""

    def visible(self) -> list[Record]:
        return [one for one in self.kept if one.offset >= self.start and not self._is_over(one)]

    def _is_over(self, record: Record) -> bool:
        if self.ttl_ms < 0 or record.timestamp < 0:
            return False
        own = [int(value or 0) for name, value in record.headers if name == TTL_HEADER]
        limit = own[0] if own else self.ttl_ms
        return NOW - record.timestamp > limit if own or self.ttl_ms else False


@dataclass
class Twin:
    """A shard, and what it must answer."""

    engine: StorageEngine
    shard: ShardName
    model: Model

    async def take(self, step: Any) -> None:
        model, engine, shard = self.model, self.engine, self.shard
        match step:
            case Write(found, base, largest, by_node, codec):
                data = lying_batch(
                    found,
                    base_timestamp=base,
                    max_timestamp=largest,
                    log_append_time=by_node,
                    compression=codec,
                )
                await engine.append_batch(shard, data)
                model.kept += [
                    one._replace(offset=Offset(model.end + at)) for at, one in enumerate(found)
                ]
                model.end += len(found)
                model.cuts.append(model.end)
            case Delete(count, spared):
                newest = range(max(model.end - spared - count, 0), max(model.end - spared, 0))
                there = {one.offset for one in model.kept if one.offset >= model.start}
                expired = there - {one.offset for one in model.visible()}  # perhaps compacted away
                for offset in newest:
                    deleted = await engine.delete_by_offset(shard, Offset(offset))
                    assert deleted is (offset in there) or offset in expired
                model.kept = [one for one in model.kept if one.offset not in newest]
            case DeleteKey(key):
                await engine.delete_by_key(shard, key)
                model.kept = [one for one in model.kept if one.key != key]
            case Do("roll"):
                await engine.roll(shard)
            case Do("compact"):
                await engine.compact(shard)
            case Do("trim"):
                model.start = (model.start + model.end) // 2
                await engine.trim(shard, Offset(model.start))
            case Do("mark"):  # a control batch: an offset without a record
                await write_mark(engine, shard=shard)
                model.end += 1
                model.cuts.append(model.end)
        assert engine.offsets(shard)[:2] == (model.start, model.end)

    async def check(self) -> None:
        engine, shard, model = self.engine, self.shard, self.model
        seen = model.visible()
        for start in range(model.start, model.end + 1):
            found = await engine.read_by_offset(shard, Offset(start), EVERYTHING)
            assert found == [one for one in seen if one.offset >= start]
            assert await self.fetched(start) == found
        for key in KEYS:
            found = await engine.read_by_key(shard, key, Offset(0), EVERYTHING, history=True)
            assert found == [one for one in reversed(seen) if one.key == key]
            assert await engine.read_by_key(shard, key) == found[:1]
        for tag in TAGS:
            found = await engine.read_by_tag(shard, tag, Offset(0), EVERYTHING)
            assert found == [one for one in seen if tag in one.tags]
        await self.check_times(seen)

    async def check_times(self, seen: list[Record]) -> None:
        engine, shard, model = self.engine, self.shard, self.model
        ends = {OffsetStrategy.EARLIEST: model.start, OffsetStrategy.LATEST: model.end}
        for stamp, (strategy, end) in itertools.product(asked, ends.items()):
            expected = next((one.offset for one in seen if one.timestamp >= stamp), end)
            assert await engine.offset_by_timestamp(shard, TimestampMs(stamp), strategy) == expected
        for cut in model.cuts:
            if cut < model.start:
                continue
            dated = [one for one in seen if one.timestamp >= 0 and one.offset < cut]
            youngest = max(dated, key=lambda one: (one.timestamp, -one.offset), default=None)
            assert await engine.youngest_record(shard, Offset(cut)) == youngest

    async def fetched(self, start: int) -> list[Record]:
        """As a client reads: batch by batch to the end."""
        found: list[Record] = []
        position = start
        while position < self.model.end:
            data = (await self.engine.fetch_batches(self.shard, Offset(position), 200)).data
            assert data, "a consumer would not get on"
            for header, batch in iter_batches(data):
                assert check_crc(batch, header)
                if not header.is_control:
                    records = decode_batch(header, batch)
                    found += [one for one in records if one.offset >= start]
                position = header.next_offset
        return found


@dataclass
class World:
    """One engine for all examples of a test: each has a shard of its own."""

    engine: StorageEngine
    runner: asyncio.Runner
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def live(self, life: list[Any], config: dict[str, Any]) -> None:
        shard = ShardName(f"{next(self.numbers):032x}_0")
        ttl_ms = config["record_ttl_ms"]
        await self.engine.create_shard(
            spec(shard, retention_ms=-1, message_timestamp_after_max_ms=FAR * 2, **config)
        )
        twin = Twin(self.engine, shard, Model(ttl_ms))
        for step in life:
            await twin.take(step)
        await twin.check()
        await self.engine.delete_shard(shard)


@pytest.fixture(params=list(ENGINES), scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("naive")
    with asyncio.Runner() as runner:
        engine = ENGINES[request.param](folder, clock=ManualClock(NOW), limits=LIMITS)
        runner.run(engine.open())
        yield World(engine, runner)
        runner.run(engine.close())


configs = st.fixed_dictionaries(
    {
        "record_ttl_ms": st.sampled_from([-1, -1, 0, TTL_MS]),
        "index_key": st.booleans(),
        "index_tag": st.booleans(),
        "segment_bytes": st.sampled_from([1024, 1 << 20]),
    }
)


@example(  # the record has expired, and compaction removes it before it is deleted
    life=[
        Write([Record(b"v", timestamp=TimestampMs(0))], 0, 0, False, Compression.NONE),
        Do("roll"),
        Do("compact"),
        Delete(1, 0),
    ],
    config={"record_ttl_ms": 100, "index_key": True, "index_tag": True, "segment_bytes": 1024},
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(life=lives, config=configs)
def test_what_is_read_is_what_a_list_would_give(
    world: World, life: list[Any], config: dict[str, Any]
) -> None:
    world.runner.run(world.live(life, config))
