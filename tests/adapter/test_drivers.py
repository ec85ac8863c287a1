"""StorageDriverManager over every engine: routing, partitions, and each call by topic name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stratamq.adapter.contract import StorageAdapter
from stratamq.adapter.drivers import REOPEN_WAIT_S, StorageDriverManager
from stratamq.adapter.engine_adapter import EngineStorageAdapter
from stratamq.adapter.partitions import FoundRecord, PartialWrite, Placed, cut
from stratamq.engine.contract import Acks, OffsetStrategy, ReadLimit
from stratamq.engine.handler import Remote, StorageEngineHandler
from stratamq.model.errors import (
    AlreadyExists,
    BatchTooLarge,
    Closed,
    InvalidConfig,
    NotLeader,
    OffsetOutOfRange,
    ShardNotFound,
    StorageError,
    TopicNotFound,
)
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import NodeId, Offset, ShardName, TimestampMs
from stratamq.wire.kafka.partitioner import partition_for_key
from stratamq.wire.kafka.records import decode_batch, encode_batch, iter_batches
from tests.adapter.support import LATE_S, World
from tests.waiting import let_pass, let_run, until


@pytest.fixture(params=list(StorageType), ids=str)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """With the topics `one` (one partition) and `three`, kept by the engine under test."""
    async with World(tmp_path) as world:
        config = {"storage.type": request.param.value, "flush": "os"}
        await world.manager.create("one", config=config)
        await world.manager.create("three", partitions=3, config=config)
        yield world


@pytest.fixture
async def memory_world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as world:
        config = {"storage.type": StorageType.MEMORY.value}
        await world.manager.create("three", partitions=3, config=config)
        yield world


# -- choosing a partition ------------------------------------------------------------------------


async def test_keys_go_where_kafkas_clients_would_put_them(world: World) -> None:
    for number in range(20):
        key = b"key-%d" % number
        placed = await world.drivers.write("three", Record(b"v", key))
        assert placed.partition == partition_for_key(key, 3)


async def test_an_empty_key_is_a_key(world: World) -> None:
    partitions = {(await world.drivers.write("three", Record(b"v", b""))).partition for _ in "abc"}
    assert partitions == {partition_for_key(b"", 3)}
    for _ in range(3):
        placed = await world.drivers.batch_write("three", [Record(b"v", b"")] * 2)
        assert {one.partition for one in placed} == partitions


async def test_records_without_a_key_take_turns(world: World) -> None:
    turns = [(await world.drivers.write("three", Record(b"v"))).partition for _ in range(7)]
    assert turns == [(turns[0] + n) % 3 for n in range(7)]


async def test_turns_are_counted_over_all_topics(world: World) -> None:
    await world.manager.create("other", partitions=3, config={"storage.type": "EngineMemory"})
    first = (await world.drivers.write("three", Record(b"v"))).partition
    second = (await world.drivers.write("other", Record(b"v"))).partition
    assert second == (first + 1) % 3


async def test_many_at_once_are_spread_evenly(world: World) -> None:
    writes = [world.drivers.write("three", Record(b"v")) for _ in range(60)]
    placed = await asyncio.gather(*writes)
    assert Counter(one.partition for one in placed) == {0: 20, 1: 20, 2: 20}
    assert len(set(placed)) == 60


async def test_a_named_partition_wins_over_the_key(world: World) -> None:
    key = b"k"
    other = (partition_for_key(key, 3) + 1) % 3
    assert await world.drivers.write("three", Record(b"v", key), partition=other) == (other, 0)


@pytest.mark.parametrize("partition", [-1, 3])
async def test_a_partition_that_is_not_there_is_refused(world: World, partition: int) -> None:
    with pytest.raises(ShardNotFound):
        await world.drivers.write("three", Record(b"v"), partition=partition)
    with pytest.raises(ShardNotFound):
        await world.drivers.batch_write("three", [Record(b"v")], partition=partition)
    with pytest.raises(ShardNotFound):
        await world.drivers.read_by_offset("three", partition, Offset(0))


# -- batches over partitions ---------------------------------------------------------------------


async def test_a_batch_is_shared_out_and_answered_in_its_own_order(world: World) -> None:
    records = [Record(b"%d" % n, b"key-%d" % (n % 5)) for n in range(40)]
    placed = await world.drivers.batch_write("three", records)
    for record, (partition, offset) in zip(records, placed, strict=True):
        assert partition == partition_for_key(record.key or b"", 3)
        found = await world.drivers.read_by_offset("three", partition, offset, ReadLimit(1))
        assert (found[0].value, found[0].offset) == (record.value, offset)
    assert len({one.partition for one in placed}) > 1


async def test_the_keyless_records_of_a_call_stay_together(world: World) -> None:
    first = await world.drivers.batch_write("three", [Record(b"v")] * 5)
    second = await world.drivers.batch_write("three", [Record(b"v")] * 5)
    for placed in (first, second):
        assert len({one.partition for one in placed}) == 1
        assert [one.offset for one in placed] == list(range(5))
    assert first[0].partition != second[0].partition


async def test_an_empty_batch_is_nothing(world: World) -> None:
    for topic, partition in (("one", None), ("three", None), ("three", 2)):
        assert await world.drivers.batch_write(topic, [], partition=partition) == []


async def test_a_batch_for_one_named_partition(world: World) -> None:
    records = [Record(b"v", b"%d" % n) for n in range(6)]
    placed = await world.drivers.batch_write("three", records, partition=2)
    assert placed == [(2, offset) for offset in range(6)]


async def test_when_some_partitions_refuse_the_caller_learns_which(world: World) -> None:
    big = Record(b"x" * 2_000_000, b"big")
    away = partition_for_key(b"big", 3)
    small = next(b"%d" % n for n in range(99) if partition_for_key(b"%d" % n, 3) != away)
    with pytest.raises(PartialWrite) as caught:
        await world.drivers.batch_write("three", [Record(b"a", small), big, Record(b"b", small)])
    stored = partition_for_key(small, 3)
    assert caught.value.placed == (Placed(stored, Offset(0)), None, Placed(stored, Offset(1)))
    assert [*caught.value.errors] == [away]
    assert isinstance(caught.value.__cause__, BatchTooLarge)
    assert (await world.drivers.offsets("three", stored)).end == 2
    assert (await world.drivers.offsets("three", away)).end == 0


async def test_when_all_refuse_the_error_is_plain(world: World) -> None:
    with pytest.raises(BatchTooLarge):
        await world.drivers.batch_write("three", [Record(b"x" * 2_000_000)])


# -- every other call ----------------------------------------------------------------------------


async def test_reading_by_key_looks_in_all_partitions(world: World) -> None:
    now = world.clock.now_ms()
    for step, partition in enumerate((2, 0, 1, 0)):
        stamped = Record(b"%d" % step, b"k", timestamp=TimestampMs(now + step))
        await world.drivers.write("three", stamped, partition=partition)
    newest = await world.drivers.read_by_key("three", b"k")
    assert [(one.partition, one.record.value) for one in newest] == [(0, b"3")]
    history = await world.drivers.read_by_key("three", b"k", history=True)
    assert [one.record.value for one in history] == [b"3", b"2", b"1", b"0"]
    only = await world.drivers.read_by_key("three", b"k", partition=2, history=True)
    assert [one.record.value for one in only] == [b"0"]
    few = await world.drivers.read_by_key("three", b"k", history=True, limit=ReadLimit(2))
    assert [one.record.value for one in few] == [b"3", b"2"]


async def test_reading_by_tag_is_exact_and_in_order(world: World) -> None:
    for number in range(6):
        tags = (b"a/b",) if number % 2 else (b"a", b"x")
        await world.drivers.write("three", Record(b"%d" % number, tags=tags), partition=number // 2)
    found = await world.drivers.read_by_tag("three", b"a")
    assert [(one.partition, one.record.value) for one in found] == [(0, b"0"), (1, b"2"), (2, b"4")]
    assert await world.drivers.read_by_tag("three", b"") == []
    assert len(await world.drivers.read_by_tag("three", b"a", partition=1)) == 1
    assert len(await world.drivers.read_by_tag("three", b"a", limit=ReadLimit(2))) == 2


async def test_deleting_by_key_and_by_offset(world: World) -> None:
    for partition in (0, 1, 2):
        await world.drivers.write("three", Record(b"v", b"k"), partition=partition)
        await world.drivers.write("three", Record(b"w", b"other"), partition=partition)
    assert await world.drivers.delete_by_key("three", b"k", partition=1) == 1
    assert await world.drivers.delete_by_key("three", b"k") == 2
    assert await world.drivers.read_by_key("three", b"k") == []
    assert await world.drivers.delete_by_offset("three", 0, Offset(1)) is True
    assert await world.drivers.delete_by_offset("three", 0, Offset(1)) is False
    assert await world.drivers.read_by_offset("three", 0, Offset(0)) == []
    assert (await world.drivers.offsets("three", 0)).end == 2


async def test_offsets_by_time(world: World) -> None:
    for stamp in (100, 200, 300):
        await world.drivers.write("one", Record(b"v", timestamp=TimestampMs(stamp)))
    at = world.drivers.get_offset_by_timestamp
    assert await at("one", 0, TimestampMs(150)) == 1
    assert await at("one", 0, TimestampMs(301)) == 3
    assert await at("one", 0, TimestampMs(301), OffsetStrategy.EARLIEST) == 0


async def test_offsets_by_group(world: World) -> None:
    await world.drivers.batch_write("three", [Record(b"v")] * 4, partition=1)
    by_group = world.drivers.get_offset_by_group
    assert await by_group("three", 1, "g") == 0
    assert await by_group("three", 1, "g", OffsetStrategy.LATEST) == 4
    await world.drivers.commit_offset("three", "g", {1: Offset(3), 0: Offset(0)})
    assert await by_group("three", 1, "g", OffsetStrategy.LATEST) == 3
    assert await by_group("three", 1, "other") == 0
    with pytest.raises(ShardNotFound):
        await world.drivers.commit_offset("three", "g", {1: Offset(4), 3: Offset(0)})
    assert await by_group("three", 1, "g") == 3, "a commit is whole or not at all"


async def test_batches_pass_without_being_opened(world: World) -> None:
    batch = encode_batch([Record(b"a"), Record(b"b")], now_ms=5)
    result = await world.drivers.append_batch("three", 2, batch, acks=Acks.ALL)
    assert (result.base_offset, result.last_offset) == (0, 1)
    fetched = await world.drivers.fetch_batches("three", 2, Offset(0))
    assert fetched.next_offset == 2
    records = [
        record
        for header, data in iter_batches(fetched.data)
        for record in decode_batch(header, data)
    ]
    assert [record.value for record in records] == [b"a", b"b"]


async def test_trimming(world: World) -> None:
    await world.drivers.batch_write("one", [Record(b"v")] * 5)
    assert await world.drivers.trim("one", 0, Offset(3)) == 3
    with pytest.raises(OffsetOutOfRange):
        await world.drivers.read_by_offset("one", 0, Offset(2))


async def test_a_topic_that_is_not_there(world: World) -> None:
    drivers = world.drivers
    for call in (
        drivers.write("nope", Record(b"v")),
        drivers.read_by_key("nope", b"k"),
        drivers.offsets("nope", 0),
        drivers.commit_offset("nope", "g", {0: Offset(0)}),
    ):
        with pytest.raises(TopicNotFound):
            await call


# -- drivers -------------------------------------------------------------------------------------


class Shouting(EngineStorageAdapter):
    """Somebody's own storage: a real one that changes what is written, so that it can be told."""

    opened = 0
    closed = 0

    async def open(self) -> None:
        self.opened += 1
        await let_run(0.01)
        await super().open()

    async def close(self) -> None:
        await let_run(0.01)
        await super().close()
        self.closed += 1

    async def batch_write(
        self, shard: ShardName, records: Sequence[Record], *, acks: Acks | None = None
    ) -> range:
        loud = [record._replace(value=(record.value or b"").upper()) for record in records]
        return await super().batch_write(shard, loud, acks=acks)

    async def write(self, shard: ShardName, record: Record, *, acks: Acks | None = None) -> Offset:
        return Offset((await self.batch_write(shard, [record], acks=acks)).start)


def own_storage(world: World, kind: type[Shouting] = Shouting) -> list[Shouting]:
    from stratamq.engine.memory.engine import EngineMemory

    made: list[Shouting] = []

    def make() -> StorageAdapter:
        engine = EngineMemory(world.path / "own")
        handler = StorageEngineHandler({StorageType.MEMORY: engine})
        made.append(kind(handler, StorageType.MEMORY, engine, world.groups))
        return made[-1]

    world.drivers.register("Shouting", make)
    return made


async def test_a_storage_of_the_users_own(memory_world: World) -> None:
    made = own_storage(memory_world)
    assert made == [], "drivers are made when they are needed"
    await memory_world.manager.create("loud", partitions=2, config={"storage.type": "Shouting"})
    await memory_world.drivers.write("loud", Record(b"hello"), partition=1)
    found = await memory_world.drivers.read_by_offset("loud", 1, Offset(0))
    assert [record.value for record in found] == [b"HELLO"]
    assert len(made) == 1


async def test_topics_of_a_users_own_storage_come_back_with_it(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        own_storage(world)
        await world.manager.create("loud", config={"storage.type": "Shouting"})
    async with World(tmp_path) as world:  # not registered: the node starts, the topic waits
        with pytest.raises(InvalidConfig, match="Shouting"):
            await world.drivers.write("loud", Record(b"v"))
        own_storage(world)
        await world.manager.restore()
        await world.drivers.write("loud", Record(b"v"))


async def test_a_driver_is_opened_once_however_many_ask(memory_world: World) -> None:
    made = own_storage(memory_world)
    drivers = await asyncio.gather(*(memory_world.drivers.driver("Shouting") for _ in range(5)))
    assert len(set(map(id, drivers))) == len(made) == made[0].opened == 1
    await memory_world.drivers.close()
    assert made[0].closed == 1
    with pytest.raises(Closed):
        await memory_world.drivers.driver("Shouting")


async def test_a_driver_that_does_not_open_is_tried_again(
    memory_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while: until then callers hear why, and nothing is opened for them."""
    made = own_storage(memory_world)

    async def fail() -> None:
        raise StorageError("not yet")

    inner = Shouting.open
    Shouting.open = lambda self: fail()  # type: ignore[method-assign,assignment]
    try:
        for _ in range(2):
            with pytest.raises(StorageError, match="not yet"):
                await memory_world.drivers.driver("Shouting")
        assert len(made) == 1
        monkeypatch.setattr("stratamq.adapter.drivers.REOPEN_WAIT_S", 0.0)
        memory_world.drivers._failures.clear()
        with pytest.raises(StorageError, match="not yet"):
            await memory_world.drivers.driver("Shouting")
    finally:
        Shouting.open = inner  # type: ignore[method-assign]
    assert made[0].closed == 1
    let_pass(REOPEN_WAIT_S)
    await memory_world.drivers.driver("Shouting")
    assert len(made) == 3


async def test_opening_goes_on_when_its_caller_gives_up(memory_world: World) -> None:
    """Its thread would go on anyway, and a second try would find the storage locked."""
    made = own_storage(memory_world)
    caller = asyncio.create_task(memory_world.drivers.driver("Shouting"))
    await until(lambda: made and made[0].opened)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await memory_world.drivers.driver("Shouting") is made[0]
    assert len(made) == made[0].opened == 1


class Slow(Shouting):
    """Opening it takes longer than any time-out."""

    async def open(self) -> None:
        let_pass(LATE_S)
        await super().open()


async def test_a_start_waits_for_as_long_as_a_storage_takes_to_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with World(tmp_path) as world:
        own_storage(world)
        await world.manager.create("loud", config={"storage.type": "Shouting"})
    async with World(tmp_path) as world:
        caplog.clear()
        made = own_storage(world, Slow)
        await world.manager.restore()
        await world.drivers.write("loud", Record(b"v"))
        assert len(made) == 1
    assert "took longer" not in caplog.text


async def test_a_storage_that_is_being_opened_is_closed_with_the_others(
    memory_world: World,
) -> None:
    made = own_storage(memory_world)
    caller = asyncio.create_task(memory_world.drivers.driver("Shouting"))
    await until(lambda: made and made[0].opened)
    await memory_world.drivers.close()
    assert await caller is made[0]
    assert made[0].closed == 1


async def test_one_driver_that_fails_to_close_does_not_keep_the_others_open(
    memory_world: World,
) -> None:
    made = own_storage(memory_world)
    await memory_world.drivers.driver("Shouting")
    engine = await memory_world.drivers.driver("EngineMemory")

    async def fail() -> None:
        raise StorageError("stuck")

    engine.close = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="stuck"):
        await memory_world.drivers.close()
    assert made[0].closed == 1


async def test_a_name_is_registered_once(memory_world: World) -> None:
    own_storage(memory_world)
    with pytest.raises(AlreadyExists):
        own_storage(memory_world)
    assert "Shouting" in memory_world.drivers.storage_types


async def test_writes_ask_who_leads(memory_world: World) -> None:
    """Reads do not: whoever has the data serves them."""

    class Elsewhere:
        def leader_of(self, shard: ShardName) -> Remote:
            return Remote(NodeId(2))

    await memory_world.drivers.write("three", Record(b"v", b"k"), partition=0)
    memory_world.handler._leadership = Elsewhere()
    drivers: StorageDriverManager = memory_world.drivers
    batch = encode_batch([Record(b"a")], now_ms=5)
    for call in (
        drivers.write("three", Record(b"v")),
        drivers.batch_write("three", [Record(b"v")]),
        drivers.append_batch("three", 0, batch),
        drivers.delete_by_key("three", b"k"),
        drivers.delete_by_offset("three", 0, Offset(0)),
    ):
        with pytest.raises(NotLeader):
            await call
    assert len(await drivers.read_by_offset("three", 0, Offset(0))) == 1


def test_cutting_keeps_the_first_record_however_large() -> None:
    found = [FoundRecord(0, Record(b"x" * 100)), FoundRecord(1, Record(b"y"))]
    assert cut(found, ReadLimit(10, 5)) == found[:1]
    assert cut(found, ReadLimit(10, 101)) == found
    assert cut(found, ReadLimit(1, 1000)) == found[:1]
    assert cut([], ReadLimit()) == []


def test_an_adapter_has_every_method_of_the_design() -> None:
    assert StorageAdapter.__abstractmethods__ >= {
        "create_shard",
        "delete_shard",
        "list_shard",
        "write",
        "batch_write",
        "read_by_offset",
        "read_by_tag",
        "read_by_key",
        "delete_by_key",
        "delete_by_offset",
        "get_offset_by_timestamp",
        "get_offset_by_group",
        "commit_offset",
        "append_batch",
        "fetch_batches",
        "trim",
    }
