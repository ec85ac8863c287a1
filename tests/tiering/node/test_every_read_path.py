"""Two topics live the same life, and one of them is moved to object storage again and again: every
way of reading gives the same from both.

What readers are told is compared record by record, with everything a record has; and where nothing
was deleted, batch by batch as well. What has left the node is compacted no more, so topics that are
compacted move once, at the end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name
from stratamq.model.transaction import TransactionMarker
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.tiering.service import TierService
from stratamq.wire.kafka.records import (
    Compression,
    decode_batch,
    encode_batch,
    is_skip,
    iter_batches,
)

KEYS = [None, b"", b"a", b"b", b"\xff\x00"]
TAGS = [b"t", b"t/u", b""]
FORMATS = ("parquet", "log", "both")
ALL = ReadLimit(10_000, 1 << 30)
MOVED_AT_ONCE = {"local.retention.bytes": 0}
NOW = 1_000_000
TIMES = (-5_001, -5_000, -4_999, -2, -1, 0, *range(1_000, 1_060, 7))
KEPT = {"retention.ms": -1, "segment.bytes": 1 << 20, "flush": "os"}


# -- what happens ----------------------------------------------------------------------------------


class Write(NamedTuple):
    records: list[Record]
    compression: Compression
    producer: int | None
    transactional: bool


class End(NamedTuple):
    producer: int
    commit: bool


class DeleteKey(NamedTuple):
    key: bytes


class DeleteOffset(NamedTuple):
    at: float


class Trim(NamedTuple):
    at: float


class Roll(NamedTuple):
    pass


class Compact(NamedTuple):
    pass


class Move(NamedTuple):
    """Of one of the two only."""


records = st.builds(
    Record,
    value=st.none() | st.binary(max_size=30),
    key=st.sampled_from(KEYS),
    headers=st.lists(
        st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2
    ).map(tuple),
    tags=st.lists(st.sampled_from(TAGS), max_size=2).map(tuple),
    timestamp=(st.integers(0, 50).map(lambda n: 1_000 + n) | st.sampled_from([-5_000, -2])).map(
        TimestampMs
    ),
)
writes = st.builds(
    Write,
    st.lists(records, min_size=1, max_size=6),
    st.sampled_from(Compression),
    st.none() | st.integers(0, 2),
    st.booleans(),
)
fractions = st.floats(0, 1)
steps = st.one_of(
    writes,
    writes,
    writes,
    st.builds(End, st.integers(0, 2), st.booleans()),
    st.builds(DeleteKey, st.sampled_from([key for key in KEYS if key is not None])),
    st.builds(DeleteOffset, fractions),
    st.builds(Trim, fractions),
    st.just(Roll()),
    st.just(Compact()),
    st.just(Move()),
    st.just(Move()),
)
lives = st.lists(steps, min_size=3, max_size=25)


# -- those to whom it happens ----------------------------------------------------------------------


@dataclass
class Producer:
    number: int
    sequence: int = 0
    open: bool = False


@dataclass
class Twins:
    """`plain` stays where it is, `moved` does not."""

    engine: StorageEngine
    service: TierService
    clock: ManualClock
    plain: ShardName
    moved: ShardName
    compacts: bool
    producers: dict[int, Producer] = field(default_factory=dict)
    lost_some: bool = False

    @property
    def shards(self) -> tuple[ShardName, ShardName]:
        return self.plain, self.moved

    async def take(self, step: Any) -> None:
        match step:
            case Write():
                await self._write(step)
            case End(number, commit):
                await self._end(number, commit)
            case DeleteKey(key):
                self.lost_some = True
                found = [await self.engine.delete_by_key(shard, key) for shard in self.shards]
                assert found[0] == found[1]
            case DeleteOffset(at):
                self.lost_some = True
                offset = self._offset(at)
                done = [await self.engine.delete_by_offset(one, offset) for one in self.shards]
                assert done[0] == done[1]
            case Trim(at):
                self.lost_some = True  # of the batch that holds the start, too
                offset = self._offset(at)
                for shard in self.shards:
                    await self.engine.trim(shard, offset)
            case Roll():
                for shard in self.shards:
                    await self.engine.roll(shard)
            case Compact():
                for shard in self.shards:
                    await self.engine.roll(shard)
                    await self.engine.compact(shard)
            case Move():
                await self._move()

    async def _write(self, write: Write) -> None:
        given = write.records
        if self.compacts:
            given = [one._replace(key=one.key or b"k") for one in given]
        known = None if write.producer is None else self._producer(write.producer)
        transactional = known is not None and (write.transactional or known.open)
        data = encode_batch(
            given,
            now_ms=1_000,
            compression=write.compression,
            producer_id=known.number if known else -1,
            producer_epoch=0 if known else -1,
            base_sequence=known.sequence if known else -1,
            transactional=transactional,
        )
        for shard in self.shards:
            await self.engine.append_batch(shard, data)
        if known:
            known.sequence += len(given)
            known.open = transactional

    def _producer(self, number: int) -> Producer:
        return self.producers.setdefault(number, Producer(1000 + number))

    async def _end(self, number: int, commit: bool) -> None:
        known = self._producer(number)
        if not known.open:
            return
        known.open = False
        marker = TransactionMarker(
            producer_id=known.number, producer_epoch=0, commit=commit, coordinator_epoch=0
        )
        for shard in self.shards:
            await self.engine.write_marker(shard, marker)

    async def _move(self) -> None:
        await self.engine.roll(self.moved)
        self.clock.advance(1)  # what was written this very moment is not old yet
        done = await self.service.mover.run_once()
        assert not done.failures, self.service.status()
        stable = self.engine.last_stable_offset(self.moved)
        here = [one for one in self.engine.segments(self.moved) if not one.active]
        left = [one for one in here if one.end_offset <= stable and one.size_bytes]
        assert not left, "all that is decided is moved"

    def _offset(self, at: float) -> Offset:
        start, committed, _ = self.engine.offsets(self.plain)
        return Offset(start + round(at * (committed - start)))

    # -- every way of reading --------------------------------------------------------------------

    async def check(self) -> None:
        plain, moved = [await self._told(shard) for shard in self.shards]
        for what, told in plain.items():
            assert moved[what] == told, what
        if not self.lost_some:
            assert await self._batches(self.moved) == await self._batches(self.plain)

    async def _told(self, shard: ShardName) -> dict[str, Any]:
        engine = self.engine
        start, committed, end = engine.offsets(shard)
        offsets = [Offset(offset) for offset in range(start, committed)]
        return {
            "ends": (start, committed, end),
            "stable": engine.last_stable_offset(shard),
            "aborted": [engine.aborted_transactions(shard, at, committed) for at in offsets],
            "producers": sorted(engine.producers(shard), key=lambda one: one.producer_id),
            "all": await engine.read_by_offset(shard, start, ALL),
            "one by one": [
                await engine.read_by_offset(shard, at, ReadLimit(1, 1)) for at in offsets
            ],
            "fetched": await self._fetched(shard, start, committed),
            "keys": [
                await engine.read_by_key(shard, key, history=history)
                for key, history in itertools.product(KEYS, (False, True))
                if key is not None
            ],
            "tags": [await engine.read_by_tag(shard, tag) for tag in TAGS],
            "times": [
                await engine.offset_by_timestamp(shard, TimestampMs(time), strategy)
                for time, strategy in itertools.product(TIMES, OffsetStrategy)
            ],
            "youngest": await engine.youngest_record(shard),
            "epochs": engine.epochs(shard),
        }

    async def _fetched(self, shard: ShardName, start: Offset, committed: Offset) -> list[Any]:
        """As a consumer does: from the start on, and on, with what batches say of themselves. What
        lies before the start in the first of them it leaves out."""
        found, offset = [], start
        while offset < committed:
            data = (await self.engine.fetch_batches(shard, offset, 200)).data
            assert data, "a consumer would not get on"
            for header, batch in iter_batches(data):
                offset = header.next_offset
                if is_skip(header):
                    continue
                about = (header.producer_id, header.producer_epoch, header.is_transactional)
                rows = [row for row in decode_batch(header, batch) if row.offset >= start]
                found += [(about, header.is_control, header.leader_epoch, row) for row in rows]
        return found

    async def _batches(self, shard: ShardName) -> list[Any]:
        """Every header but for the codec and what follows from it: cold batches come unpacked."""
        start, committed, _ = self.engine.offsets(shard)
        found, offset = [], start
        while offset < committed:
            data = (await self.engine.fetch_batches(shard, offset, 1 << 20)).data
            assert data, "a consumer would not get on"
            for header, _ in iter_batches(data):
                offset = header.next_offset
                if is_skip(header):
                    continue
                plain = header._replace(attributes=header.attributes & ~7, crc=0, batch_length=0)
                found.append(plain)
        return found


# -- a node for all of them ------------------------------------------------------------------------


class World:
    """A node, started again whenever a life wants to see what is left of it."""

    def __init__(self, folder: str, runner: asyncio.Runner) -> None:
        given = {"data.dir": folder, "tier.interval.ms": "3600000"}
        self.config = load(None, {}, given)
        self.runner = runner
        self.numbers = itertools.count()
        self.clock = ManualClock(NOW)
        self.core = NodeCore(self.config, doors=Doors(clock=self.clock))
        runner.run(self.core.start())

    def close(self) -> None:
        self.runner.run(self.core.stop())

    async def live(self, life: list[Any], tier_format: str, compacts: bool) -> None:
        number = next(self.numbers)
        config = {**KEPT, "cleanup.policy": "compact" if compacts else "delete"}
        moving = {**MOVED_AT_ONCE, "tier.format": tier_format}
        await self.core.topics.create(f"plain-{number}", config=config)
        await self.core.topics.create(f"moved-{number}", config={**config, **moving})
        twins = await self.twins(number, compacts)
        if compacts:
            life = [*(step for step in life if not isinstance(step, Move)), Compact()]
        for step in [*life, Move()]:
            await twins.take(step)
        await twins.check()
        await self.reopened()
        again = await self.twins(number, compacts)
        again.lost_some = twins.lost_some
        await again.check()
        for name in (f"plain-{number}", f"moved-{number}"):
            await self.core.topics.delete(name)

    async def twins(self, number: int, compacts: bool) -> Twins:
        await self.core.tiering._look()
        service = self.core.tiering._service
        assert isinstance(service, TierService)
        names = [f"{kind}-{number}" for kind in ("plain", "moved")]
        shards = [shard_name(self.core.broker_cache.topic(name).topic_id, 0) for name in names]
        return Twins(self.core.engines[StorageType.SEGMENT], service, self.clock, *shards, compacts)

    async def reopened(self) -> None:
        await self.core.stop()
        self.core = NodeCore(self.config, doors=Doors(clock=self.clock))
        await self.core.start()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as runner:
        one = World(str(tmp_path_factory.mktemp("world")), runner)
        yield one
        one.close()


def live(world: World, life: list[Any], tier_format: str, compacts: bool) -> None:
    world.runner.run(world.live(life, tier_format, compacts))


@settings(max_examples=12, deadline=None, phases=(Phase.generate,))
@given(life=lives, tier_format=st.sampled_from(FORMATS), compacts=st.booleans())
def test_cold_is_as_it_was(world: World, life: list[Any], tier_format: str, compacts: bool) -> None:
    live(world, life, tier_format, compacts)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(life=lives, tier_format=st.sampled_from(FORMATS), compacts=st.booleans())
def test_cold_is_as_it_was_at_length(
    world: World, life: list[Any], tier_format: str, compacts: bool
) -> None:
    live(world, life, tier_format, compacts)
