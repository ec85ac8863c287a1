"""Fetch: limits, waiting, epochs, sessions end to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.fetch import api
from stratamq.engine.engine_shard import EngineShard
from stratamq.engine.handle import ShardPosition
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from stratamq.wire.kafka.records import check_crc, decode_batch, iter_batches, walk
from tests.broker.data.conftest import Rig
from tests.waiting import let_run, until

MIB = 1 << 20


def part(number: int = 0, offset: int = 0, **more: Any) -> FetchPartition:
    return FetchPartition(
        partition=number,
        fetch_offset=offset,
        partition_max_bytes=more.pop("bytes_max", MIB),
        **more,
    )


def request(*parts: FetchPartition, topic: str = "t", **more: Any) -> FetchRequest:
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 * MIB, **more}
    topics = [FetchTopic(topic=topic, partitions=list(parts))] if parts else []
    return FetchRequest(topics=topics, **settings)


@pytest.fixture(autouse=True, params=["a task", "at once"])
def way(request: pytest.FixtureRequest, rig: Rig) -> None:
    """Both ways of a request come to the same."""
    rig.begins = request.param == "at once"


async def fetched(rig: Rig, asked: FetchRequest, version: int = 12) -> list[Any]:
    response: Any = await rig.ask(asked, version)
    return [one for topic in response.responses for one in topic.partitions]


async def write(rig: Rig, *values: bytes, partition: int = 0, topic: str = "t") -> None:
    """Each in a batch of its own."""
    for value in values:
        await rig.services.drivers.write(topic, Record(value=value), partition=partition)


def values(answer: Any) -> list[bytes | None]:
    return [
        record.value
        for header, data in iter_batches(answer.records)
        for record in decode_batch(header, data)
    ]


async def test_from_an_offset_on(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b", b"c")
    (answer,) = await fetched(rig, request(part(offset=1)))
    assert values(answer) == [b"b", b"c"]
    ends = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
    assert ends == (3, 3, 0)
    assert answer.preferred_read_replica == -1


async def test_old_clients_are_told_that_they_cannot_read_zstd(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"compression.type": "zstd"})
    await write(rig, b"packed")
    (old,) = await fetched(rig, request(part()), version=9)
    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert not old.records
    (new,) = await fetched(rig, request(part()), version=10)
    assert values(new) == [b"packed"]


async def test_old_clients_read_everything_else(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"compression.type": "lz4"})
    await write(rig, b"packed")
    (old,) = await fetched(rig, request(part()), version=4)
    assert values(old) == [b"packed"]


async def test_errors_are_per_partition(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a")
    asked = request(
        part(offset=2),
        part(7),
        part(current_leader_epoch=5),
        part(current_leader_epoch=0),
    )
    assert [one.error_code for one in await fetched(rig, asked)] == [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        0,
    ]
    (answer,) = await fetched(rig, request(part(), topic="none"))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.high_watermark == -1


async def test_the_first_batch_comes_whatever_its_size_and_no_other(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=3)
    for partition in range(3):
        await write(rig, bytes(1000), bytes(1000), partition=partition)
    first, *others = await fetched(rig, request(part(0), part(1), part(2), max_bytes=10))
    assert len(values(first)) == 1
    assert [bytes(one.records) for one in others] == [b"", b""]
    asked = request(part(0, bytes_max=10), part(1, bytes_max=10), part(2))
    assert [len(values(one)) for one in await fetched(rig, asked)] == [1, 0, 2]


async def test_all_partitions_share_the_limit_of_bytes(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=2)
    for partition in range(2):
        await write(rig, *([bytes(1000)] * 5), partition=partition)
    both = await fetched(rig, request(part(0), part(1), max_bytes=7600))
    assert [len(values(one)) for one in both] == [5, 2]


async def test_a_record_ends_the_wait(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=2)
    waiting = asyncio.create_task(fetched(rig, request(part(0), part(1), max_wait_ms=20_000)))
    await let_run()
    assert not waiting.done()
    await write(rig, b"a", partition=1)
    _, second = await asyncio.wait_for(waiting, 5)
    assert values(second) == [b"a"]
    shards = [one for engine in rig.core.engines.values() for one in _shards(engine)]
    assert shards
    assert not any(one.watchers for one in shards), "nobody waits any more"


def _shards(engine: Any) -> list[Any]:
    return list(engine._registry._shards.values())


async def test_without_a_record_the_wait_ends_in_time(rig: Rig) -> None:
    await rig.core.topics.create("t")
    began = time.monotonic()
    (answer,) = await fetched(rig, request(part(), max_wait_ms=150))
    assert time.monotonic() - began > 0.14
    assert (answer.error_code, bytes(answer.records)) == (0, b"")


async def test_enough_bytes_end_the_wait_and_fewer_do_not(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, bytes(500))
    asked = request(part(), max_wait_ms=20_000, min_bytes=1200)
    waiting = asyncio.create_task(fetched(rig, asked))
    await let_run(0.1)
    assert not waiting.done()
    await write(rig, bytes(500), bytes(500))
    (answer,) = await asyncio.wait_for(waiting, 5)
    assert len(answer.records) >= 1200


async def test_a_fetch_that_gathers_reads_again_only_when_something_came(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once at first and once at the end: what comes between is counted, not read."""
    await rig.core.topics.create("t")
    await write(rig, b"a")
    reads = 0

    def counted(fetch: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal reads
            reads += 1
            return fetch(*args, **more)

        return call

    for way in ("fetch", "fetch_at_once"):
        monkeypatch.setattr(EngineShard, way, counted(getattr(EngineShard, way)))
    waiting = asyncio.create_task(fetched(rig, request(part(), max_wait_ms=500, min_bytes=MIB)))
    await until(lambda: reads == 1)
    await write(rig, b"b")
    (answer,) = await waiting
    assert values(answer) == [b"a", b"b"]
    assert reads == 2


async def test_a_limit_below_what_is_wanted_at_least_is_enough(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, bytes(1000), bytes(1000))
    asked = request(part(), max_wait_ms=600_000, min_bytes=MIB, max_bytes=1500)
    (answer,) = await fetched(rig, asked)
    assert len(values(answer)) == 1


async def test_deletion_of_the_topic_ends_the_wait(rig: Rig) -> None:
    await rig.core.topics.create("t")
    waiting = asyncio.create_task(fetched(rig, request(part(), max_wait_ms=20_000)))
    await let_run()
    await rig.core.topics.delete("t")
    (answer,) = await asyncio.wait_for(waiting, 5)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_stop_ends_the_wait(rig: Rig) -> None:
    await rig.core.topics.create("t")
    waiting = asyncio.create_task(fetched(rig, request(part(), max_wait_ms=20_000)))
    await let_run()
    rig.fetch.wake_all()
    (answer,) = await asyncio.wait_for(waiting, 5)
    assert answer.error_code == 0


async def test_without_room_nothing_is_read_until_there_is_some(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "TURN_S", 0.05)
    await rig.core.topics.create("t")
    await write(rig, b"a")
    rig.budget.take(rig.budget.left_bytes)
    (answer,) = await fetched(rig, request(part(), max_wait_ms=50))
    assert bytes(answer.records) == b""
    waiting = asyncio.create_task(fetched(rig, request(part(), max_wait_ms=20_000)))
    await let_run()
    assert not waiting.done()
    rig.budget.give(rig.budget.used_bytes)
    (answer,) = await asyncio.wait_for(waiting, 5)
    assert values(answer) == [b"a"]
    assert rig.budget.used_bytes == 0


async def test_topics_by_id(rig: Rig) -> None:
    topic = await rig.core.topics.create("t")
    await write(rig, b"a")
    asked = request(part(), topic="")
    asked.topics[0].topic_id = uuid_of(topic)
    assert values((await fetched(rig, asked, 18))[0]) == [b"a"]
    asked.topics[0].topic_id = b"\1" * 16
    assert (await fetched(rig, asked, 18))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_session_tells_only_what_changed(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=2)
    await write(rig, b"a", partition=0)
    first: Any = await rig.ask(request(part(0), part(1), session_epoch=0), 12)
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 2

    def go_on(epoch: int, *parts: FetchPartition, **more: Any) -> FetchRequest:
        return request(*parts, session_id=first.session_id, session_epoch=epoch, **more)

    assert await fetched(rig, go_on(1, part(0, offset=1))) == []
    await write(rig, b"b", partition=1)
    (told,) = await fetched(rig, go_on(2))
    assert (told.partition_index, values(told)) == (1, [b"b"])
    gone = [ForgottenTopic(topic="t", partitions=[1])]
    assert await fetched(rig, go_on(3, forgotten_topics_data=gone)) == []
    stale: Any = await rig.ask(go_on(3), 12)
    assert stale.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    closed: Any = await rig.ask(go_on(-1, part(0)), 12)
    assert closed.session_id == 0
    unknown: Any = await rig.ask(go_on(4), 12)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def undecided(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A transaction is open from `at` on, another was aborted."""

    def aborted(shard: EngineShard, start: Offset, end: Offset) -> list[AbortedTxn]:
        return [AbortedTxn(producer_id=end, first_offset=start, last_offset=end)]

    real = EngineShard.position

    def position(shard: EngineShard) -> ShardPosition:
        return real(shard)._replace(last_stable=Offset(at))

    monkeypatch.setattr(EngineShard, "position", position)
    monkeypatch.setattr(EngineShard, "last_stable", lambda shard: Offset(at))
    monkeypatch.setattr(EngineShard, "aborted", aborted)


async def test_read_committed_ends_at_the_last_stable_offset(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b", b"c")
    undecided(monkeypatch, 2)
    fetch = rig.fetch
    response = await fetch.fetch(request(part(), isolation_level=1), Caller(version=12))
    (answer,) = response.responses[0].partitions
    assert values(answer) == [b"a", b"b"]
    assert (answer.last_stable_offset, answer.high_watermark) == (2, 3)
    aborted = answer.aborted_transactions
    assert aborted is not None
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(2, 0)]
    response = await fetch.fetch(request(part()), Caller(version=12))
    assert values(response.responses[0].partitions[0]) == [b"a", b"b", b"c"]
    assert response.responses[0].partitions[0].aborted_transactions is None


async def delete(rig: Rig, *offsets: int) -> None:
    for offset in offsets:
        assert await rig.services.drivers.delete_by_offset("t", 0, Offset(offset))


async def test_an_answer_leads_over_deleted_records_at_once(rig: Rig) -> None:
    """Whatever the client wants to wait for: more bytes do not come from where it is."""
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b", b"c")
    await delete(rig, 1, 2)
    async with asyncio.timeout(10):
        (answer,) = await fetched(rig, request(part(0, 1), max_wait_ms=60_000, min_bytes=MIB))
    ((header, data),) = iter_batches(answer.records)
    assert check_crc(data, header)
    assert (header.is_control, header.base_offset, header.last_offset) == (True, 1, 2)
    (answer,) = await fetched(rig, request(part()))
    assert [one.last_offset for one in walk(answer.records)] == [0, 2]


async def test_read_committed_is_led_to_the_last_stable_offset(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b", b"c", b"d")
    await delete(rig, 1, 2)
    undecided(monkeypatch, 2)
    fetch = rig.fetch
    for isolation, ends in ((1, [1]), (0, [3])):
        asked = request(part(0, 1), isolation_level=isolation)
        response = await fetch.fetch(asked, Caller(version=12))
        records = response.responses[0].partitions[0].records
        assert [one.last_offset for one in walk(records)] == ends


async def test_a_session_has_no_more_to_tell_where_it_was_led(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b")
    await delete(rig, 1)
    first: Any = await rig.ask(request(part(0, 1), session_epoch=0), 12)
    assert walk(first.responses[0].partitions[0].records)
    following = request(part(0, 2), session_id=first.session_id, session_epoch=1)
    second: Any = await rig.ask(following, 12)
    assert not second.responses


@pytest.mark.parametrize("version", [12, 13])
async def test_a_topic_made_again_during_a_fetch_is_not_taken_for_the_one_asked_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"old", b"old")
    asked = request(part())
    if version == 13:
        asked.topics[0].topic_id = uuid_of(rig.services.broker_cache.topic("t"))
    fetch = EngineShard.fetch

    async def made_again(*args: Any) -> Any:
        """The last step before the records are read."""
        await rig.core.topics.delete("t")
        await rig.core.topics.create("t")
        await write(rig, b"new", b"new")
        return await fetch(*args)

    monkeypatch.setattr(EngineShard, "fetch_at_once", lambda *args, **more: None)
    monkeypatch.setattr(EngineShard, "fetch", made_again)
    (answer,) = await fetched(rig, asked, version)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not answer.records
