"""Topics are there whole or not at all, whatever fails, hangs or dies on the way."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from stratamq.adapter.shards import SHARDS_AT_ONCE, TopicTimeouts
from stratamq.engine.contract import OffsetStrategy
from stratamq.log.disk import RealDisk
from stratamq.meta.groups import CommitOffset
from stratamq.meta.tier.files import CommitFiles, TierFile, TierObject
from stratamq.meta.topics import CreateTopic, TopicPhase
from stratamq.model.errors import (
    AlreadyExists,
    CapacityExceeded,
    InvalidConfig,
    InvalidName,
    StorageError,
    TimedOut,
    TopicNotFound,
)
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import NodeId, Offset, TimestampMs, TopicId
from tests.adapter.support import LATE_S, ME, Crash, World
from tests.waiting import every, let_pass, let_run, until

Operation = Callable[[World], Awaitable[object]]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as world:
        yield world


async def create(world: World) -> object:
    return await world.manager.create("new", partitions=3)


async def delete(world: World) -> object:
    return await world.manager.delete("old")


async def grow(world: World) -> object:
    return await world.manager.add_partitions("old", 4)


OPERATIONS: dict[str, tuple[Operation, dict[str, int]]] = {
    "create": (create, {"old": 2, "new": 3}),
    "delete": (delete, {}),
    "grow": (grow, {"old": 4}),
}
BEFORE = {"old": 2}


async def calls_of(operation: Operation, path: Path) -> list[str]:
    async with World(path) as world:
        await world.manager.create("old", partitions=2)
        world.faults.calls.clear()
        await operation(world)
        return list(world.faults.calls)


# -- what should work -----------------------------------------------------------------------------


async def test_the_steps_come_in_their_order(tmp_path: Path) -> None:
    assert await calls_of(create, tmp_path) == [
        "CreateTopic",
        "CreateSegment+CreateShard",
        *["create_shard"] * 3,
        "ConfirmTopic",
    ]


IN_MEMORY = {"storage.type": "EngineMemory"}
MANY = 2 * SHARDS_AT_ONCE + 1


async def test_many_shards_are_registered_some_at_a_time(world: World) -> None:
    """Commands, events and tasks of all of them at once would hold up the event loop."""
    nodes = [(ME,)] * MANY
    world.faults.calls.clear()
    await world.manager.create("big", partitions=MANY, config=IN_MEMORY, placement=nodes)
    assert world.faults.calls.count("CreateSegment+CreateShard") == 3
    assert await world.check_whole(StorageType.MEMORY) == {"big": MANY}
    await world.manager.add_partitions("big", MANY + SHARDS_AT_ONCE + 1)
    assert await world.check_whole(StorageType.MEMORY) == {"big": MANY + SHARDS_AT_ONCE + 1}


@pytest.mark.parametrize("part", [1, 2, 3])
async def test_what_was_registered_before_a_failure_is_taken_back(world: World, part: int) -> None:
    world.faults.choose(part, "fail_before", StorageError("no more"))
    with pytest.raises(StorageError, match="no more"):
        await world.manager.create("big", partitions=MANY, config=IN_MEMORY)
    assert await world.check_whole(StorageType.MEMORY) == {}


async def test_a_topic_can_be_used_when_create_returns(world: World) -> None:
    topic = await world.manager.create("orders", partitions=2, config={"retention.ms": 5})
    assert world.topics.topic("orders") == topic
    assert len(topic.topic_id) == 32
    assert topic.config.number("retention.ms") == 5
    placed = await world.drivers.write("orders", Record(b"v"), partition=1)
    assert placed == (1, 0)
    assert await world.check_whole() == {"orders": 2}


async def test_the_same_name_twice_is_refused_and_harms_nobody(world: World) -> None:
    await world.manager.create("orders")
    await world.drivers.write("orders", Record(b"v"))
    with pytest.raises(AlreadyExists):
        await world.manager.create("orders", partitions=4)
    assert (await world.drivers.offsets("orders", 0)).end == 1
    assert await world.check_whole() == {"orders": 1}


async def test_two_at_once_get_one_topic(world: World) -> None:
    calls = [world.manager.create("orders", partitions=n) for n in (1, 2, 3, 4)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 3
    assert list(await world.check_whole()) == ["orders"]


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("a b", {}, InvalidName),
        ("a", {"partitions": 0}, InvalidConfig),
        ("a", {"replicas": 2}, InvalidConfig),
        ("a", {"config": {"retention.msec": 1}}, InvalidConfig),
        ("a", {"config": {"storage.type": "Nowhere"}}, InvalidConfig),
        ("a", {"partitions": 10_001}, CapacityExceeded),
        ("o.l_d", {}, InvalidName),
    ],
)
async def test_bad_requests_leave_nothing(
    world: World, name: str, options: dict[str, object], error: type[Exception]
) -> None:
    await world.manager.create("o_l.d")
    with pytest.raises(error):
        await world.manager.create(name, **options)  # type: ignore[arg-type]
    assert await world.check_whole() == {"o_l.d": 1}


async def test_defaults_of_the_node_reach_topics_that_do_not_say_otherwise(world: World) -> None:
    world.manager.defaults = {"flush": "os", "retention.ms": 9}
    topic = await world.manager.create("orders", config={"retention.ms": 5})
    assert (topic.config["flush"], topic.config["retention.ms"]) == ("os", 5)


async def test_a_deleted_topic_takes_data_and_group_offsets_with_it(world: World) -> None:
    topic = await world.manager.create("orders", partitions=2)
    await world.drivers.write("orders", Record(b"v"), partition=0)
    await world.drivers.commit_offset("orders", "g", {0: Offset(1)})
    await world.manager.delete("orders")
    with pytest.raises(TopicNotFound):
        await world.drivers.write("orders", Record(b"v"))
    with pytest.raises(TopicNotFound):
        await world.manager.delete("orders")
    assert await world.groups.committed("g") == {}
    again = await world.manager.create("orders")
    assert again.topic_id != topic.topic_id
    assert (await world.drivers.offsets("orders", 0)).end == 0


async def test_a_topic_grows_and_its_records_stay(world: World) -> None:
    await world.manager.create("orders", partitions=2)
    await world.drivers.write("orders", Record(b"v"), partition=1)
    topic = await world.manager.add_partitions("orders", 4)
    assert topic.partitions == 4
    assert (await world.drivers.read_by_offset("orders", 1, Offset(0)))[0].value == b"v"
    assert await world.drivers.write("orders", Record(b"v"), partition=3) == (3, 0)
    for partitions in (4, 1, -1):
        with pytest.raises(InvalidConfig):
            await world.manager.add_partitions("orders", partitions)
    assert await world.check_whole() == {"orders": 4}


async def test_changed_configs_reach_the_storage(world: World) -> None:
    await world.manager.create("orders", partitions=2)
    topic = await world.manager.alter_config("orders", {"retention.ms": 7, "flush": "os"})
    assert topic.config.number("retention.ms") == 7
    driver = await world.drivers.driver("EngineSegment")
    for spec in every((await driver.list_shard()).values()):
        assert dict(spec.config.given) == {"retention.ms": 7, "flush": "os"}
    topic = await world.manager.alter_config("orders", reset=["flush"])
    assert dict(topic.config.given) == {"retention.ms": 7}
    with pytest.raises(InvalidConfig):
        await world.manager.alter_config("orders", {"storage.type": "EngineMemory"})


async def test_a_change_of_configs_the_storage_missed_is_made_up_for(world: World) -> None:
    await world.manager.create("orders", partitions=2)
    world.faults.choose(2, "fail_before", StorageError("busy"))
    with pytest.raises(StorageError):
        await world.manager.alter_config("orders", {"flush": "os"})
    await world.manager.sweep()
    driver = await world.drivers.driver("EngineSegment")
    assert {str(spec.config["flush"]) for spec in (await driver.list_shard()).values()} == {"os"}
    world.faults.calls.clear()
    await world.manager.sweep()
    assert world.faults.calls == [], "once is enough"


async def test_a_change_of_configs_that_a_crash_cut_short_is_finished(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.manager.create("orders", partitions=2)
        world.faults.choose(1, "crash_before")
        with pytest.raises(Crash):
            await world.manager.alter_config("orders", {"flush": "os"})
    async with World(tmp_path) as world:
        driver = await world.drivers.driver("EngineSegment")
        specs = await driver.list_shard()
        assert {str(spec.config["flush"]) for spec in specs.values()} == {"os"}


async def test_memory_topics_come_back_empty(tmp_path: Path) -> None:
    memory = {"storage.type": StorageType.MEMORY.value}
    async with World(tmp_path) as world:
        await world.manager.create("orders", partitions=2, config=memory)
        await world.drivers.write("orders", Record(b"v"), partition=0)
    async with World(tmp_path) as world:
        assert (await world.drivers.offsets("orders", 0)).end == 0
        await world.drivers.write("orders", Record(b"v"), partition=1)
        assert await world.check_whole(StorageType.MEMORY) == {"orders": 2}


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail_before", "fail_after"])
@pytest.mark.parametrize("name", ["create", "grow"])
async def test_a_failure_at_any_step_leaves_nothing(tmp_path: Path, name: str, how: str) -> None:
    operation, _ = OPERATIONS[name]
    steps = await calls_of(operation, tmp_path / "count")
    for at in every(range(len(steps))):
        async with World(tmp_path / str(at)) as world:
            await world.manager.create("old", partitions=2)
            world.faults.choose(at, how, StorageError("the disk said no"))
            with pytest.raises(StorageError, match="the disk said no"):
                await operation(world)
            if name == "grow" and how == "fail_after" and at == len(steps) - 1:
                continue  # only the answer was lost; see the next test
            assert await world.check_whole() == BEFORE, f"after {steps[at]}"


async def test_a_growth_whose_last_answer_was_lost_is_a_growth(tmp_path: Path) -> None:
    """The partitions are in use: taking them back would lose what others write to them by now."""
    steps = await calls_of(grow, tmp_path / "count")
    async with World(tmp_path / "x") as world:
        await world.manager.create("old", partitions=2)
        world.faults.choose(len(steps) - 1, "fail_after", StorageError("lost"))
        with pytest.raises(StorageError):
            await grow(world)
        assert await world.check_whole() == {"old": 4}


@pytest.mark.parametrize("name", ["create", "grow"])
async def test_a_step_that_hangs_times_out_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    operation, _ = OPERATIONS[name]
    steps = await calls_of(operation, tmp_path / "count")
    for at, step in every(enumerate(steps)):
        if step == "create_shard":
            continue  # a creation that never ends cannot be undone: see the next test
        async with World(tmp_path / str(at)) as world:
            await world.manager.create("old", partitions=2)
            world.faults.choose(at, "too_long")
            with pytest.raises(TimedOut):
                await operation(world)
            assert await world.check_whole() == BEFORE, f"after {step}"


async def test_each_wait_has_the_time_out_of_its_own(tmp_path: Path) -> None:
    timeouts = TopicTimeouts(topic_s=10 * LATE_S, shard_s=60)
    async with World(tmp_path, timeouts=timeouts) as world:
        world.faults.choose(1, "too_long")
        with pytest.raises(TimedOut, match=r"registering the shards.* 60 s"):
            await create(world)
    timeouts = TopicTimeouts(topic_s=60, shard_s=10 * LATE_S)
    async with World(tmp_path, timeouts=timeouts) as world:
        world.faults.choose(0, "too_long")
        with pytest.raises(TimedOut, match=r"creating topic 'new'.* 60 s"):
            await create(world)


@pytest.mark.parametrize(
    ("cache", "step"), [("topics", "CreateTopic"), ("storage", "CreateSegment+CreateShard")]
)
async def test_a_cache_that_never_hears_of_it_times_out(
    tmp_path: Path, cache: str, step: str
) -> None:
    async with World(tmp_path) as world:
        await getattr(world, cache).stop()
        creation = asyncio.create_task(create(world))
        await until(lambda: step in world.faults.calls)
        while not creation.done():  # undoing it waits for the cache as well
            await let_run(0.1)
            let_pass(LATE_S)
        with pytest.raises(TimedOut):
            await creation
        await getattr(world, cache).start()
        await world.manager.sweep()
        assert await world.check_whole() == {}


async def test_a_shard_that_comes_late_does_not_outlive_its_topic(tmp_path: Path) -> None:
    """The caller's time is up while the storage still works on a shard. It ends after the undoing
    began, and must be deleted all the same."""
    async with World(tmp_path) as world:
        driver = await world.drivers.driver("EngineSegment")
        inner = driver.create_shard
        begun, ended, go_on = [], [], asyncio.Event()

        async def slow(spec: object) -> None:
            begun.append(spec)
            await go_on.wait()
            await inner(spec)  # type: ignore[arg-type]
            ended.append(spec)

        driver.create_shard = slow  # type: ignore[method-assign]
        creation = asyncio.create_task(world.manager.create("new", partitions=3))
        await until(lambda: len(begun) == 3)
        let_pass(LATE_S)
        await until(lambda: "DeleteTopic" in world.faults.calls)
        assert not ended
        go_on.set()
        with pytest.raises(TimedOut):
            await creation
        assert len(ended) == 3
        assert await world.check_whole() == {}


async def test_a_cancelled_caller_leaves_nothing(world: World) -> None:
    for at in range(6):
        world.faults.choose(at, "hang" if at not in (2, 3, 4) else "")
        call = asyncio.create_task(world.manager.create("new", partitions=3))
        await world.faults.reached.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        world.faults.choose(-1, "")
        assert await world.check_whole() == {}


async def test_what_could_not_be_undone_is_undone_by_the_sweep(world: World) -> None:
    steps = 6
    for at in range(2, steps):
        world.faults.choose(at, "fail_before", StorageError("first"))
        inner, world.faults.around = world.faults.around, _failing_after(world, at)  # type: ignore[method-assign]
        with pytest.raises(StorageError):
            await create(world)
        world.faults.around = inner  # type: ignore[method-assign]
        state = await world.meta.snapshot()
        assert [meta.phase for meta in state.topics.values()] == [TopicPhase.CREATING]
        with pytest.raises(AlreadyExists):
            await create(world)
        world.faults.choose(-1, "")
        await world.manager.sweep()
        assert await world.check_whole() == {}


def _failing_after(world: World, at: int) -> Callable[..., Awaitable[object]]:
    """From call `at` on, nothing works."""
    inner = world.faults.around

    async def around(name: str, call: Callable[[], Awaitable[object]]) -> object:
        if len(world.faults.calls) > at:
            raise StorageError("away")
        return await inner(name, call)

    return around


async def test_a_sweep_leaves_alone_what_somebody_is_at_work_on(world: World) -> None:
    world.faults.choose(5, "hang")
    call = asyncio.create_task(create(world))
    await world.faults.reached.wait()
    await world.manager.sweep()
    state = await world.meta.snapshot()
    assert [meta.phase for meta in state.topics.values()] == [TopicPhase.CREATING]
    call.cancel()
    await asyncio.wait([call])


async def test_a_sweep_leaves_alone_what_another_node_is_making(world: World) -> None:
    other = Topic(topic_id=TopicId("f" * 32), name="theirs", partitions=1)
    await world.meta.submit(CreateTopic(topic=other, creator=NodeId(2)))
    await world.manager.sweep()
    assert other.topic_id in (await world.meta.snapshot()).topics


async def test_a_sweep_goes_by_the_state_and_not_by_a_stale_cache(world: World) -> None:
    """A cache that missed the confirmation still shows a topic in the making."""
    await world.topics.stop()
    world.topics._topics = {}
    await world.topics.start()
    call = asyncio.create_task(create(world))
    await call
    meta = world.topics._topics["new"]
    stale = {"new": type(meta)(topic=meta.topic, phase=TopicPhase.CREATING, creator=meta.creator)}
    fresh, world.topics._topics = world.topics._topics, stale
    await world.manager.sweep()
    world.topics._topics = fresh
    assert await world.check_whole() == {"new": 3}


async def test_a_deletion_that_failed_half_way_is_finished_by_the_sweep(tmp_path: Path) -> None:
    steps = await calls_of(delete, tmp_path / "count")
    assert steps == ["DeleteTopic", "delete_shard", "delete_shard", "RemoveTopic"]
    for at in range(1, len(steps)):
        async with World(tmp_path / str(at)) as world:
            await world.manager.create("old", partitions=2)
            world.faults.choose(at, "fail_before", StorageError("no"))
            with pytest.raises(StorageError):
                await delete(world)
            assert world.topics.topics() == [], "gone for users from the first step on"
            await world.manager.sweep()
            assert await world.check_whole() == {}


@pytest.mark.parametrize("call", ["rename", "remove_folder"])
async def test_a_deletion_that_failed_on_disk_is_finished_by_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Before the folder has its last name, and after."""

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "the disk said no")

    async with World(tmp_path) as world:
        await world.manager.create("old", partitions=2)
        with monkeypatch.context() as patched:
            patched.setattr(RealDisk, call, broken)
            with pytest.raises(StorageError):
                await delete(world)
            await world.manager.sweep()
        assert world.topics.topics() == []
        assert await world.stored(), "the disk is not back yet"
        await world.manager.sweep()
        assert await world.check_whole() == {}
    assert not list(tmp_path.glob("segment/segments/*_*"))  # noqa: ASYNC240 - after it was closed


# -- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["crash_before", "crash_after"])
@pytest.mark.parametrize("name", list(OPERATIONS))
async def test_a_crash_at_any_step_leaves_all_or_nothing(
    tmp_path: Path, name: str, how: str
) -> None:
    operation, after = OPERATIONS[name]
    steps = await calls_of(operation, tmp_path / "count")
    for at in every(range(len(steps))):
        async with World(tmp_path / str(at)) as world:
            await world.manager.create("old", partitions=2)
            await world.drivers.write("old", Record(b"v"), partition=0)
            world.faults.choose(at, how)
            with pytest.raises(Crash):
                await operation(world)
        async with World(tmp_path / str(at)) as world:
            seen = await world.check_whole()
            assert seen in (BEFORE, after), f"after {steps[at]}"
            if how == "crash_after" and at == len(steps) - 1:
                assert seen == after, "the last step was done"
            if "old" in seen:
                assert (await world.drivers.read_by_offset("old", 0, Offset(0)))[0].value == b"v"
            await operation(world) if seen == BEFORE else None
            assert await world.check_whole() == after


async def test_a_crash_forgets_offsets_with_the_topic(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        topic = await world.manager.create("old", partitions=2)
        entry = CommitOffset(shard=shard_name(topic.topic_id, 0), offset=Offset(3))
        await world.groups.commit("g", [entry])
        assert await world.drivers.get_offset_by_group("old", 0, "g") == 3
        assert await world.drivers.get_offset_by_group("old", 1, "g", OffsetStrategy.LATEST) == 0
        world.faults.choose(1, "crash_before")
        with pytest.raises(Crash):
            await delete(world)
    async with World(tmp_path) as world:
        assert await world.groups.groups() == []


# -- what a topic's values are ---------------------------------------------------------------------

SCHEMA = '{"type":"record","name":"r","fields":[{"name":"id","type":"long"}%s]}'
NARROW = {"lake.value.format": "json", "lake.value.schema": SCHEMA % ""}
WIDE = {"lake.value.schema": SCHEMA % ',{"name":"city","type":["null","string"]}'}
OTHER = {"lake.value.schema": SCHEMA.replace("long", "string") % ""}


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"lake.value.format": "avro"}, "avro values need one"),
        ({"lake.value.format": "json", "lake.value.schema": "{"}, "lake.value.schema"),
        ({"lake.value.format": "xml"}, "not one of none, json, avro"),
    ],
)
async def test_values_are_declared_with_a_schema_that_can_be_read(
    world: World, config: dict[str, str], wrong: str
) -> None:
    with pytest.raises(InvalidConfig, match=wrong):
        await world.manager.create("orders", config=config)


async def test_a_schema_grows_and_does_not_change(world: World) -> None:
    await world.manager.create("orders", config=NARROW)
    topic = await world.manager.alter_config("orders", WIDE)
    for refused in (NARROW, OTHER):
        with pytest.raises(InvalidConfig, match=r"lake\.value\.schema"):
            await world.manager.alter_config("orders", refused)
        with pytest.raises(InvalidConfig, match=r"lake\.value\.schema"):
            world.manager.check_alteration(topic, lambda _, put=refused: (put, ()))


async def test_a_column_of_an_old_file_keeps_its_type(world: World) -> None:
    """Also when the topic has declared nothing since."""
    topic = await world.manager.create("orders", config=NARROW)
    file = TierFile(
        shard=shard_name(topic.topic_id, 0),
        base_offset=Offset(0),
        end_offset=Offset(5),
        final=True,
        log=TierObject("k", 1, 2),
        columns='[["id","long"]]',
    )
    await world.meta.submit(CommitFiles(shard=file.shard, add=(file,), now_ms=TimestampMs(1)))
    await world.manager.alter_config("orders", reset=["lake.value.format", "lake.value.schema"])
    with pytest.raises(InvalidConfig, match="id is long and cannot become string"):
        await world.manager.alter_config("orders", {"lake.value.format": "json", **OTHER})
    await world.manager.alter_config("orders", NARROW)
