"""Creating, growing and deleting topics, and deleting records."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.meta.topics import TopicPhase
from stratamq.model.errors import TopicNotFound
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteSelectedRecordsRequest,
    SelectedRecords,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.broker.admin.conftest import Rig, Starter

TIMEOUT_MS = 30_000


def topic(name: str = "t", partitions: int = 1, replicas: int = 1, **more: Any) -> CreatableTopic:
    configs = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in more.pop("configs", {}).items()
    ]
    placed = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=nodes)
        for number, nodes in more.pop("placed", [])
    ]
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=placed,
        configs=configs,
    )


async def create(rig: Rig, *topics: CreatableTopic, version: int | None = None, **more: Any) -> Any:
    more = {"timeout_ms": TIMEOUT_MS, **more}
    answer = await rig.ask(CreateTopicsRequest(topics=topics, **more), version)
    return answer.topics


# -- create ----------------------------------------------------------------------------------------


async def test_a_topic_is_made_as_asked_for_and_told_in_full(rig: Rig) -> None:
    (made,) = await create(rig, topic("t", 3, configs={"retention_ms": "60000"}))
    there = rig.services.broker_cache.topic("t")
    assert (made.error_code, made.error_message) == (0, None)
    assert made.topic_id == bytes.fromhex(there.topic_id)
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    told = {one.name: (one.value, one.config_source) for one in made.configs}
    assert told["retention.ms"] == ("60000", 1)
    assert told["flush"] == ("os", 4)
    assert told["segment.bytes"] == (str(1 << 30), 5)
    assert there.partitions == 3
    assert there.config["retention.ms"] == 60000


async def test_minus_one_is_what_the_node_gives(rig: Rig) -> None:
    (made,) = await create(rig, topic("t", -1, -1), version=4)
    assert made.error_code == 0
    assert rig.services.broker_cache.topic("t").partitions == 2


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version(rig: Rig, version: int) -> None:
    (made,) = await create(rig, topic("t"), version=version)
    assert made.error_code == 0
    assert (made.topic_id != NO_UUID) == (version >= 7)
    assert bool(made.configs) == (version >= 5)


REFUSED = {
    "no partitions": (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
    "fewer than none": (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    "too many": (topic(partitions=10_001), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "more than nodes": (topic(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "a bad name": (topic("no such name!"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "an unknown config": (topic(configs={"retention_m": "1"}), ErrorCode.INVALID_CONFIG),
    "a bad value": (topic(configs={"retention_ms": "x"}), ErrorCode.INVALID_CONFIG),
    "no value": (topic(configs={"retention_ms": None}), ErrorCode.INVALID_CONFIG),
    "a taken name": (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "a like name": (topic("like_this"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "placed and counted": (topic(placed=[(0, [1])]), ErrorCode.INVALID_REQUEST),
    "a hole": (topic("t", -1, -1, placed=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a stranger": (topic("t", -1, -1, placed=[(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a node twice": (
        topic("t", -1, -1, placed=[(0, [1, 1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "nowhere": (topic("t", -1, -1, placed=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_is_refused_leaves_nothing(rig: Rig, case: str, validate_only: bool) -> None:
    asked, code = REFUSED[case]
    await create(rig, topic("there"), topic("like.this"))
    (answer,) = await create(rig, asked, validate_only=validate_only)
    assert ErrorCode(answer.error_code) is code
    assert answer.error_message
    assert {one.name for one in rig.services.broker_cache.topics()} == {"there", "like.this"}


async def test_a_refused_config_names_the_nearest(rig: Rig) -> None:
    (answer,) = await create(rig, topic(configs={"retention_m": "1"}))
    assert "retention.ms" in answer.error_message


async def test_validate_only_makes_nothing_and_tells_the_same(rig: Rig) -> None:
    (checked,) = await create(rig, topic("t", 3), validate_only=True)
    assert (checked.error_code, checked.topic_id, checked.num_partitions) == (0, NO_UUID, 3)
    with pytest.raises(TopicNotFound):
        rig.services.broker_cache.topic("t")
    (made,) = await create(rig, topic("t", 3))
    assert made.configs == checked.configs


async def test_replicas_placed_by_hand(rig: Rig) -> None:
    (made,) = await create(rig, topic("t", -1, -1, placed=[(1, [1]), (0, [1])]))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)


async def test_a_name_twice_in_one_request_is_nobodys(rig: Rig) -> None:
    answers = await create(rig, topic("t"), topic("u"), topic("t", 2))
    assert {one.name: ErrorCode(one.error_code) for one in answers} == {
        "t": ErrorCode.INVALID_REQUEST,
        "u": ErrorCode.NONE,
    }


async def test_who_cannot_wait_is_told_and_the_topic_still_comes(rig: Rig) -> None:
    (answer,) = await create(rig, topic("t"), timeout_ms=0)
    assert ErrorCode(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
    await rig.services.broker_cache.wait_for_topic(
        "t", 10, until=lambda meta: meta.phase is TopicPhase.READY
    )


async def test_creation_that_is_cut_short_by_a_stop_leaves_all_or_nothing(started: Starter) -> None:
    async with started() as rig:
        await create(rig, *(topic(f"t{n}", 20) for n in range(10)), timeout_ms=0)
    async with started() as rig:
        state = rig.services.meta.state
        for one in rig.services.broker_cache.topics():
            await rig.services.drivers.offsets(one.name, 19)
        assert len(state.topics) == len(rig.services.broker_cache.topics())


# -- delete ----------------------------------------------------------------------------------------


async def delete(rig: Rig, *topics: DeleteTopicState, **more: Any) -> Any:
    more = {"timeout_ms": TIMEOUT_MS, **more}
    answer = await rig.ask(DeleteTopicsRequest(topics=topics, **more))
    return answer.responses


def by_name(name: str | None, topic_id: bytes = NO_UUID) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)


async def test_topics_go_by_name_and_by_id(rig: Rig) -> None:
    first, second = await create(rig, topic("a"), topic("b"))
    answers = await delete(rig, by_name("a"), by_name(None, second.topic_id))
    assert [(one.name, one.topic_id, one.error_code) for one in answers] == [
        ("a", first.topic_id, 0),
        ("b", second.topic_id, 0),
    ]
    assert not list(rig.services.broker_cache.topics())


@pytest.mark.parametrize("version", range(1, 6))
async def test_names_up_to_version_5(rig: Rig, version: int) -> None:
    await create(rig, topic("t"))
    request = DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=TIMEOUT_MS)
    answer = await rig.ask(request, version)
    assert [(one.name, ErrorCode(one.error_code)) for one in answer.responses] == [
        ("t", ErrorCode.NONE),
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_what_cannot_be_deleted(rig: Rig) -> None:
    (made,) = await create(rig, topic("t"))
    nobody = b"\7" * 16
    answers = await delete(
        rig,
        by_name("u"),
        by_name(None, nobody),
        by_name("t", made.topic_id),
        by_name(None),
        by_name("v"),
        by_name("v"),
    )
    assert [ErrorCode(one.error_code) for one in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert rig.services.broker_cache.topic("t")


async def test_deletion_may_be_forbidden(started: Starter) -> None:
    async with started(delete_topic_enable=False) as rig:
        await create(rig, topic("t"))
        (answer,) = await delete(rig, by_name("t"))
        assert ErrorCode(answer.error_code) is ErrorCode.TOPIC_DELETION_DISABLED
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=TIMEOUT_MS)
        (answer,) = (await rig.ask(request, 2)).responses
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST


async def test_a_deletion_by_id_spares_a_later_topic_of_the_name(rig: Rig) -> None:
    await create(rig, topic("t"))
    old = rig.services.broker_cache.topic("t")
    await delete(rig, by_name("t"))
    await create(rig, topic("t"))
    with pytest.raises(TopicNotFound):
        await rig.core.topics.delete("t", old.topic_id)
    assert rig.services.broker_cache.topic("t").topic_id != old.topic_id


# -- grow ------------------------------------------------------------------------------------------


async def grow(
    rig: Rig, name: str, count: int, placed: list[list[int]] | None = None, **more: Any
) -> ErrorCode:
    wanted = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if placed is None
        else [CreatePartitionsAssignment(broker_ids=nodes) for nodes in placed],
    )
    more = {"timeout_ms": TIMEOUT_MS, "validate_only": False, **more}
    answer = await rig.ask(CreatePartitionsRequest(topics=[wanted], **more))
    (result,) = answer.results
    assert bool(result.error_message) == bool(result.error_code)
    return ErrorCode(result.error_code)


async def test_a_topic_grows_and_stays_so(started: Starter) -> None:
    async with started() as rig:
        await create(rig, topic("t"))
        assert await grow(rig, "t", 3) is ErrorCode.NONE
        await rig.services.drivers.write("t", Record(value=b"v"), partition=2)
        assert await grow(rig, "t", 4, [[1]]) is ErrorCode.NONE
    async with started() as rig:
        assert rig.services.broker_cache.topic("t").partitions == 4
        assert (await rig.services.drivers.offsets("t", 2)).end == 1


@pytest.mark.parametrize("validate_only", [False, True])
async def test_growth_that_is_refused(rig: Rig, validate_only: bool) -> None:
    await create(rig, topic("t", 2))
    for count in (0, 1, 2, -1, 10_001):
        code = await grow(rig, "t", count, validate_only=validate_only)
        assert code is ErrorCode.INVALID_PARTITIONS
    for placed in ([], [[1], [1]], [[9]], [[1, 1]], [[]]):
        code = await grow(rig, "t", 3, placed, validate_only=validate_only)
        assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    code = await grow(rig, "u", 3, validate_only=validate_only)
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.services.broker_cache.topic("t").partitions == 2


async def test_growth_is_only_checked_when_so_asked(rig: Rig) -> None:
    await create(rig, topic("t", 2))
    assert await grow(rig, "t", 5, validate_only=True) is ErrorCode.NONE
    assert rig.services.broker_cache.topic("t").partitions == 2


# -- records ---------------------------------------------------------------------------------------


async def trim(
    rig: Rig, *partitions: tuple[int, int], name: str = "t"
) -> list[tuple[int, ErrorCode]]:
    wanted = [DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in partitions]
    topics = [DeleteRecordsTopic(name=name, partitions=wanted)]
    answer = await rig.ask(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
    return [(one.low_watermark, ErrorCode(one.error_code)) for one in answer.topics[0].partitions]


async def test_records_before_an_offset_go(rig: Rig) -> None:
    await create(rig, topic("t", 2))
    for partition in (0, 1):
        for _ in range(5):
            await rig.services.drivers.write("t", Record(value=b"v"), partition=partition)
    assert await trim(rig, (0, 3), (1, -1)) == [(3, ErrorCode.NONE), (5, ErrorCode.NONE)]
    assert (await rig.services.drivers.offsets("t", 0)).start == 3
    found = await rig.services.drivers.read_by_offset("t", 0, Offset(3))
    assert [one.offset for one in found] == [3, 4]
    assert await trim(rig, (0, 1)) == [(3, ErrorCode.NONE)]


async def test_deleting_records_without_patience_is_no_failure(rig: Rig) -> None:
    """The time-out is for replicas that lag; the leader's own part is done when it answers."""
    await create(rig, topic("t"))
    for _ in range(5):
        await rig.services.drivers.write("t", Record(value=b"v"))
    wanted = [DeleteRecordsPartition(partition_index=0, offset=3)]
    topics = [DeleteRecordsTopic(name="t", partitions=wanted)]
    (deleted,) = (await rig.ask(DeleteRecordsRequest(topics=topics, timeout_ms=0))).topics
    (told,) = deleted.partitions
    assert (told.low_watermark, told.error_code) == (3, ErrorCode.NONE)


async def test_records_that_cannot_be_deleted(rig: Rig) -> None:
    await create(rig, topic("t"), topic("c", configs={"cleanup_policy": "compact"}))
    await create(rig, topic("none", configs={"cleanup_policy": ""}))
    assert await trim(rig, (0, 1), (1, 0)) == [
        (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await trim(rig, (0, -2)) == [(-1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert await trim(rig, (0, 0), name="c") == [(-1, ErrorCode.POLICY_VIOLATION)]
    assert await trim(rig, (0, 0), name="none") == [(0, ErrorCode.NONE)]
    assert await trim(rig, (0, 0), name="u") == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


# -- single records --------------------------------------------------------------------------------


async def select(rig: Rig, **more: Any) -> tuple[int, ErrorCode]:
    asked = SelectedRecords(**{"name": "t", "partition_index": 0, **more})
    (done,) = (await rig.ask(DeleteSelectedRecordsRequest(topics=[asked]))).topics
    assert (done.name, done.partition_index) == (asked.name, asked.partition_index)
    return done.deleted, ErrorCode(done.error_code)


async def test_records_are_deleted_by_key_and_by_offset(rig: Rig) -> None:
    await create(rig, topic("t"))
    for key in (b"a", b"b", b"a", b"", None):
        await rig.services.drivers.write("t", Record(key=key, value=b"v"), partition=0)
    assert await select(rig, key=b"a") == (2, ErrorCode.NONE)
    assert await select(rig, key=b"a") == (0, ErrorCode.NONE)
    assert await select(rig, key=b"") == (1, ErrorCode.NONE)
    assert await select(rig, offset=4) == (1, ErrorCode.NONE)
    assert await select(rig, offset=4) == (0, ErrorCode.NONE)
    found = await rig.services.drivers.read_by_offset("t", 0, Offset(0))
    assert [one.key for one in found] == [b"b"]


async def test_selections_that_are_refused(rig: Rig) -> None:
    await create(rig, topic("t"))
    assert await select(rig) == (0, ErrorCode.INVALID_REQUEST)
    assert await select(rig, key=b"a", offset=1) == (0, ErrorCode.INVALID_REQUEST)
    unknown = (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert await select(rig, key=b"a", partition_index=7) == unknown
    assert await select(rig, key=b"a", name="u") == unknown


async def test_more_deletions_than_the_limit_are_refused_as_a_policy(started: Starter) -> None:
    async with started(**{"deletions.per.shard.max": 2}) as rig:
        await create(rig, topic("t"))
        for _ in range(3):
            await rig.services.drivers.write("t", Record(key=b"a", value=b"v"), partition=0)
        assert await select(rig, key=b"a") == (0, ErrorCode.POLICY_VIOLATION)
