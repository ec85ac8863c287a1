"""What users of the embedded node are promised, by both faces, over every engine."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import stratamq
from stratamq.model.errors import (
    AlreadyExists,
    BatchTooLarge,
    InvalidConfig,
    InvalidName,
    InvalidRecord,
    NotFound,
    OffsetOutOfRange,
    ShardNotFound,
    TopicNotFound,
)
from tests.embedded.conftest import Reopen
from tests.waiting import let_run, until

STORAGES = ["segment", "rocksdb", "memory"]


@pytest.fixture(params=STORAGES)
async def topic(request: pytest.FixtureRequest, node: Any) -> Any:
    config = {} if request.param == "memory" else {"flush": "os"}
    return await node.create_topic("orders", 3, storage=request.param, config=config)


# -- topics --------------------------------------------------------------------------------------


async def test_topics_are_made_listed_and_deleted(node: Any) -> None:
    for name, storage in zip("cab", STORAGES, strict=True):
        await node.create_topic(name, storage=storage)
    assert [topic.name for topic in await node.topics()] == ["a", "b", "c"]
    assert (await node.topic("c")).storage == "EngineSegment"
    assert (await node.topic("b")).storage == "EngineMemory"
    await node.delete_topic("a")
    assert [topic.name for topic in await node.topics()] == ["b", "c"]
    with pytest.raises(TopicNotFound):
        await node.topic("a")
    with pytest.raises(TopicNotFound):
        await node.delete_topic("a")


async def test_files_are_the_default(node: Any) -> None:
    topic = await node.create_topic("t")
    assert (topic.storage, topic.partitions) == ("EngineSegment", 1)
    assert topic.config["flush"] == "sync"


async def test_a_name_is_taken_once_unless_that_is_fine(node: Any) -> None:
    await node.create_topic("t", 2)
    with pytest.raises(AlreadyExists):
        await node.create_topic("t")
    assert (await node.create_topic("t", 5, exist_ok=True)).partitions == 2


async def test_refusals(node: Any) -> None:
    for arguments, error in [
        (("a b",), InvalidName),
        (("a", 0), InvalidConfig),
    ]:
        with pytest.raises(error):
            await node.create_topic(*arguments)
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        await node.create_topic("t", config={"retention.m": 1})
    with pytest.raises(InvalidConfig, match="tape"):
        await node.create_topic("t", storage="tape")
    assert await node.topics() == []


async def test_a_topic_can_grow_and_change(topic: Any) -> None:
    await topic.produce("v", partition=2)
    await topic.add_partitions(5)
    assert topic.partitions == 5
    assert await topic.produce("w", partition=4) == (4, 0)
    await topic.alter_config({"retention.ms": 1000})
    assert topic.config["retention.ms"] == 1000
    await topic.alter_config(reset=["retention.ms"])
    assert topic.config["retention.ms"] == 168 * 3_600_000
    assert [one.text for one in await topic.read(partition=2)] == ["v"]


# -- writing and reading -------------------------------------------------------------------------


async def test_everything_of_a_message_comes_back(topic: Any) -> None:
    placed = await topic.produce(
        "2 coffees ☕",
        key="alice",
        headers={"trace": b"\xff", "empty": None},
        tags=["hot", b"\x00"],
        timestamp=1234,
        partition=1,
    )
    assert placed == (1, 0)
    (message,) = await topic.read(partition=1)
    assert message == stratamq.Message(
        partition=1,
        offset=0,  # type: ignore[arg-type]
        timestamp=1234,  # type: ignore[arg-type]
        key=b"alice",
        value="2 coffees ☕".encode(),
        headers=((b"trace", b"\xff"), (b"empty", None)),
        tags=(b"hot", b"\x00"),
    )
    assert message.text == "2 coffees ☕"


async def test_nothing_is_not_an_empty_string(topic: Any) -> None:
    await topic.produce(None, partition=0)
    await topic.produce(b"", key="", partition=0)
    first, second = await topic.read()
    assert (first.value, first.key, first.text) == (None, None, None)
    assert (second.value, second.key, second.text) == (b"", b"", "")


async def test_other_things_than_bytes_and_text_are_refused(topic: Any) -> None:
    with pytest.raises(InvalidRecord, match="int"):
        await topic.produce(5)
    with pytest.raises(InvalidRecord, match="dict"):
        await topic.produce("v", key={})
    with pytest.raises(InvalidRecord):
        await topic.produce_many(["fine", {"valeu": "v"}])
    with pytest.raises(InvalidRecord):
        await topic.read_by_key(None)
    assert await topic.read() == []


async def test_keys_stay_together_and_keyless_messages_take_turns(topic: Any) -> None:
    assert len({(await topic.produce("v", key="k")).partition for _ in range(5)}) == 1
    assert {(await topic.produce("v")).partition for _ in range(3)} == {0, 1, 2}


async def test_many_at_once(topic: Any) -> None:
    records = [
        "text",
        b"bytes",
        {"value": "v", "key": "k", "tags": "t"},
        stratamq.Record(b"record", b"k"),
        {"key": "deleted"},
    ]
    placed = await topic.produce_many(records, partition=0)
    assert placed == [(0, offset) for offset in range(5)]
    messages = await topic.read()
    assert [one.value for one in messages] == [b"text", b"bytes", b"v", b"record", None]
    assert messages[2].tags == (b"t",)


async def test_more_than_a_batch_may_hold(node: Any) -> None:
    topic = await node.create_topic("t", storage="memory", config={"max.message.bytes": 20_000})
    placed = await topic.produce_many(b"%05d" % n * 20 for n in range(1000))
    assert placed == [(0, offset) for offset in range(1000)]
    messages = await topic.read(limit=2000)
    assert [one.value[:5] for one in messages] == [b"%05d" % n for n in range(1000)]


async def test_a_failure_among_many_says_what_was_stored(node: Any) -> None:
    topic = await node.create_topic("t", storage="memory", config={"max.message.bytes": 20_000})
    with pytest.raises(stratamq.PartialWrite) as caught:
        await topic.produce_many(["small", "x" * 30_000, "never tried"])
    assert caught.value.placed == ((0, 0), None)
    assert isinstance(caught.value.__cause__, BatchTooLarge)
    with pytest.raises(BatchTooLarge):
        await topic.produce_many(["x" * 30_000])
    assert (await topic.offsets()).end == 1


async def test_reading_by_offset(topic: Any) -> None:
    await topic.produce_many((b"%d" % n for n in range(10)), partition=1)
    assert [one.text for one in await topic.read(7, partition=1)] == ["7", "8", "9"]
    assert [one.text for one in await topic.read(partition=1, limit=2)] == ["0", "1"]
    assert await topic.read(10, partition=1) == []
    with pytest.raises(OffsetOutOfRange):
        await topic.read(11, partition=1)
    with pytest.raises(ShardNotFound):
        await topic.read(partition=3)
    assert await topic.trim(4, partition=1) == 4
    assert (await topic.read(partition=1))[0].offset == 4, "without an offset, from the oldest"
    assert await topic.offsets(1) == (4, 10, 10)


async def test_reading_by_key(topic: Any) -> None:
    for number in range(4):
        await topic.produce(f"a{number}", key="a")
        await topic.produce(f"b{number}", key="b")
    assert [one.text for one in await topic.read_by_key("a")] == ["a3"]
    history = await topic.read_by_key(b"a", history=True)
    assert [one.text for one in history] == ["a3", "a2", "a1", "a0"]
    assert await topic.read_by_key("c") == []


async def test_reading_by_tag(topic: Any) -> None:
    for number in range(4):
        await topic.produce(f"{number}", tags=["even"] if number % 2 == 0 else ["odd", "even/not"])
    assert sorted(one.text for one in await topic.read_by_tag("even")) == ["0", "2"]
    assert len(await topic.read_by_tag("odd", limit=1)) == 1


async def test_reading_by_time(topic: Any) -> None:
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    for minute in range(5):
        at = noon + dt.timedelta(minutes=minute)
        await topic.produce(f"{minute}", timestamp=at, partition=0)
    two = noon + dt.timedelta(minutes=1, seconds=30)
    assert await topic.offset_at(two) == 2
    assert [one.text for one in await topic.read_from_time(two)] == ["2", "3", "4"]
    assert await topic.offset_at(round(noon.timestamp() * 1000) + 999_999_999) == 5
    assert (await topic.read())[0].timestamp == round(noon.timestamp() * 1000)


async def test_deleting(topic: Any) -> None:
    for number in range(4):
        await topic.produce(f"{number}", key="a" if number % 2 else "b", partition=0)
    assert await topic.delete_by_key("a") == 2
    assert await topic.delete_by_offset(0) is True
    assert await topic.delete_by_offset(0) is False
    assert [one.text for one in await topic.read()] == ["2"]


# -- groups and following ------------------------------------------------------------------------


async def test_groups_remember(topic: Any, node: Any) -> None:
    await topic.produce_many(["v"] * 5, partition=2)
    assert await topic.committed("g") == {}
    await topic.commit("g", 2, 3)
    await topic.commit("h", 0, 0)
    assert await topic.committed("g") == {2: 3}
    assert await node.groups() == ["g", "h"]
    await node.delete_group("h")
    assert await node.groups() == ["g"]
    with pytest.raises(NotFound):
        await node.delete_group("h")
    with pytest.raises(ShardNotFound):
        await topic.commit("g", 9, 1)


async def test_following_shows_what_is_there_in_order(topic: Any) -> None:
    for number in range(30):
        await topic.produce(f"{number}", partition=number % 3)
    seen = [message async for message in topic.follow(stop_after=0)]
    assert sorted(int(one.text) for one in seen) == list(range(30))
    for partition in range(3):
        offsets = [one.offset for one in seen if one.partition == partition]
        assert offsets == list(range(10))
    only = [one async for one in topic.follow(partitions=[1], stop_after=0)]
    assert {one.partition for one in only} == {1}


async def test_a_group_goes_on_where_it_was(topic: Any) -> None:
    for number in range(6):
        await topic.produce(f"{number}", partition=0)
    seen = []
    async for message in topic.follow("g", stop_after=0):
        seen.append(message.text)
    assert seen == ["0", "1", "2", "3", "4", "5"]
    assert await topic.committed("g") == {0: 6}
    await topic.produce("6", partition=0)
    assert [one.text async for one in topic.follow("g", stop_after=0)] == ["6"]
    assert [one.text async for one in topic.follow("g", stop_after=0)] == []
    assert len([one async for one in topic.follow("other", stop_after=0)]) == 7


async def test_a_message_is_committed_when_its_reader_came_back_for_the_next(topic: Any) -> None:
    for number in range(6):
        await topic.produce(f"{number}", partition=0)
    messages = topic.follow("g", stop_after=0)
    async for message in messages:
        if message.text == "3":
            break
    await messages.aclose()
    assert await topic.committed("g") == {0: 3}, "3 was in work, and comes again"


async def test_a_group_that_waits_has_committed_what_it_did(topic: Any) -> None:
    await topic.produce_many(["0", "1"], partition=0)
    messages = topic.follow("g", stop_after=5)
    assert [(await messages.__anext__()).text for _ in range(2)] == ["0", "1"]
    waiting = asyncio.ensure_future(messages.__anext__())
    await until(lambda: topic.committed("g"))
    assert await topic.committed("g") == {0: 2}
    await topic.produce("2", partition=0)
    assert (await waiting).text == "2"
    await messages.aclose()


async def test_a_reader_that_fails_sees_its_message_again(topic: Any) -> None:
    await topic.produce_many(["0", "1", "2"], partition=0)
    messages = topic.follow("g", stop_after=0)

    async def work() -> None:
        async for message in messages:
            1 / (1 - int(message.text))

    with pytest.raises(ZeroDivisionError):
        await work()
    await messages.aclose()
    assert [one.text async for one in topic.follow("g", stop_after=0)] == ["1", "2"]


async def test_followers_of_one_group_divide_the_partitions(topic: Any) -> None:
    for number in range(30):
        await topic.produce(f"{number}", partition=number % 3)
    seen: list[list[Any]] = [[], []]

    async def work(mine: list[Any]) -> None:
        async for message in topic.follow("g", stop_after=1):
            mine.append(message)

    await asyncio.gather(*map(work, seen))
    numbers = [int(one.text) for mine in seen for one in mine]
    assert sorted(numbers) == list(range(30)), "each message once"
    assert await topic.committed("g") == {0: 10, 1: 10, 2: 10}


async def test_a_partition_changes_hands_between_two_messages(tmp_path: Path) -> None:
    """The first follower has both. The second gets its share when the first comes back, and the
    first gets it again when the second has left."""
    async with stratamq.aopen(tmp_path) as node:
        topic = await node.create_topic("t", partitions=2, config={"flush": "os"})
        for partition in (0, 1):
            await topic.produce_many([f"{partition}.0", f"{partition}.1"], partition=partition)
        first, second = topic.follower("g"), topic.follower("g")
        peers = node.core.follow_groups.peers("t", "g")
        batch = await first.next_batch()
        assert [one.text for one in batch] == ["0.0", "0.1"]
        waits = asyncio.ensure_future(second.next_batch())
        await until(lambda: len(peers) == 2)
        for message in batch:
            first.done(message)
        comes_back = asyncio.ensure_future(first.next_batch())
        batch = await waits
        assert [one.text for one in batch] == ["1.0", "1.1"]
        second.done(batch[0])
        await second.leave()
        assert [one.text for one in await comes_back] == ["1.1"], "it was in work at the end"
        assert await topic.committed("g") == {0: 2, 1: 1}


async def test_more_followers_than_partitions_wait_for_one_that_leaves(node: Any) -> None:
    topic = await node.create_topic("narrow", config={"flush": "os"})
    await topic.produce_many(["0", "1"])
    first, second = topic.follow("g", stop_after=5), topic.follow("g", stop_after=5)
    assert (await first.__anext__()).text == "0"
    waits = asyncio.ensure_future(second.__anext__())
    await let_run(0.1)
    assert not waits.done()
    await first.aclose()
    assert (await waits).text == "0", "not finished by the first"
    await second.aclose()


async def test_following_only_what_is_new(topic: Any) -> None:
    await topic.produce("old", partition=0)
    messages = topic.follow(latest=True, stop_after=5)
    waiting = asyncio.ensure_future(messages.__anext__())
    while not waiting.done():  # nobody says when it has begun
        await topic.produce("new", partition=0)
        await let_run()
    assert (await waiting).text == "new"
    await messages.aclose()


async def test_following_steps_over_what_was_deleted_or_trimmed(topic: Any) -> None:
    await topic.produce_many((f"{n}" for n in range(10)), partition=0)
    await topic.trim(3, partition=0)
    for offset in (4, 9):
        await topic.delete_by_offset(offset)
    seen = [one.text async for one in topic.follow(stop_after=0)]
    assert seen == ["3", "5", "6", "7", "8"]
    await topic.commit("g", 0, 1)
    assert len([one async for one in topic.follow("g", stop_after=0)]) == 5
    await topic.commit("far", 0, 99)
    assert len([one async for one in topic.follow("far", stop_after=0)]) == 5


async def test_a_group_that_has_read_everything_has_no_lag(topic: Any) -> None:
    """Whatever of the newest messages is deleted, as long as no message before is unfinished."""
    await topic.produce_many(["0", "1", "2", "3"], partition=0)
    for offset in (2, 3):
        await topic.delete_by_offset(offset, partition=0)
    assert [one.text async for one in topic.follow("g", partitions=[0], stop_after=0)] == ["0", "1"]
    assert (await topic.committed("g"))[0] == (await topic.offsets(0)).high_watermark == 4
    await topic.produce_many(["4", "5"], partition=0)
    await topic.trim(5, partition=0)
    await topic.delete_by_offset(5, partition=0)
    assert [one async for one in topic.follow("g", partitions=[0], stop_after=0)] == []
    assert (await topic.committed("g"))[0] == 6


async def test_an_unfinished_message_is_not_passed(topic: Any) -> None:
    await topic.produce_many(["0", "1", "2"], partition=0)
    await topic.delete_by_offset(2, partition=0)
    messages = topic.follow("g", partitions=[0], stop_after=5)
    assert [(await anext(messages)).text for _ in range(2)] == ["0", "1"]
    await messages.aclose()
    assert (await topic.committed("g"))[0] == 1


async def test_following_notices_that_the_topic_grew(topic: Any) -> None:
    await topic.produce("0", partition=0)
    seen = []
    async for message in topic.follow(stop_after=1):
        seen.append(message.text)
        if message.text == "0":
            await topic.add_partitions(4)
            await topic.produce("1", partition=3)
        else:
            break
    assert seen == ["0", "1"]


# -- closing and opening -------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["segment", "rocksdb"])
async def test_everything_is_there_after_reopening(reopen: Reopen, storage: str) -> None:
    node = await reopen()
    topic = await node.create_topic("t", 2, storage=storage, config={"retention.ms": 99_999_999})
    await topic.produce("v", key="k", tags="x", partition=1)
    await topic.commit("g", 1, 1)
    node = await reopen()
    topic = await node.topic("t")
    assert (topic.partitions, topic.config["retention.ms"]) == (2, 99_999_999)
    assert [one.text for one in await topic.read_by_key("k")] == ["v"]
    assert [one.text for one in await topic.read_by_tag("x")] == ["v"]
    assert await topic.committed("g") == {1: 1}
    assert await topic.produce("w", partition=1) == (1, 1)


async def test_memory_is_empty_after_reopening_and_groups_start_anew(reopen: Reopen) -> None:
    topic = await (await reopen()).create_topic("t", storage="memory")
    await topic.produce_many(["a", "b"])
    await topic.commit("g", 0, 2)
    topic = await (await reopen()).topic("t")
    assert (await topic.offsets()).end == 0
    await topic.produce("c")
    assert [one.text async for one in topic.follow("g", stop_after=0)] == ["c"]


@pytest.mark.parametrize("store", ["meta", "cache"])
async def test_both_ways_to_keep_offsets(reopen: Reopen, store: str) -> None:
    topic = await (await reopen(offset_store=store)).create_topic("t")
    await topic.commit("g", 0, 7)
    node = await reopen(offset_store=store)
    assert await (await node.topic("t")).committed("g") == {0: 7}
    await node.delete_topic("t")
    await node.create_topic("t")
    assert await (await node.topic("t")).committed("g") == {}
    assert await node.groups() == []


async def test_a_topic_made_anew_is_empty(node: Any) -> None:
    topic = await node.create_topic("t")
    await topic.produce("old")
    await topic.commit("g", 0, 1)
    await node.delete_topic("t")
    with pytest.raises(TopicNotFound):
        await topic.produce("v")
    await node.create_topic("t")
    assert await topic.read() == []
    assert await topic.committed("g") == {}
