"""Some rights and not others: what is allowed is done, the rest is told, and nothing leaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.cluster import uuid_of
from stratamq.meta.access import DeleteAcl
from stratamq.model.access import OPERATIONS, Operation, PatternType, ResourceKind
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from stratamq.wire.kafka.protocol.messages.transactions import InitProducerIdRequest
from stratamq.wire.kafka.records import encode_batch
from tests.broker.security.requests import ANY_RULE
from tests.broker.security.support import (
    WITH_SASL,
    Client,
    Front,
    client,
    codes,
    front,
    log_in,
    rule,
    with_users,
)

TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_ASKED = -(1 << 31)


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path, authorizer="acl") as one:
        for name in ("mine", "theirs"):
            await one.core.topics.create(name, partitions=1, replicas=1)
        yield one


@pytest.fixture
async def peer(door: Front) -> AsyncIterator[Client]:
    async with client(door.port) as one:
        yield one


def topic_id(door: Front, name: str) -> bytes:
    return uuid_of(door.core.broker_cache.topic(name))


# -- data ------------------------------------------------------------------------------------------


def write(*names: str, acks: int = 1) -> ProduceRequest:
    batch = encode_batch([Record(key=b"k", value=b"v")], now_ms=time.time_ns() // 1_000_000)
    data = [PartitionProduceData(index=0, records=batch)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=name, partition_data=data) for name in names],
    )


async def test_one_topic_is_written_and_the_other_refused(door: Front, peer: Client) -> None:
    await door.allow(rule(Operation.WRITE, TOPIC, "mine"))
    answer = await peer.ask(write("mine", "theirs"), 9)
    told = {one.name: one.partition_responses[0].error_code for one in answer.responses}
    assert told == {"mine": 0, "theirs": NO_TOPIC}
    ends = [(await door.core.drivers.offsets(name, 0)).end for name in ("mine", "theirs")]
    assert ends == [1, 0]


async def test_a_refused_write_that_nobody_waits_for_closes(door: Front, peer: Client) -> None:
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await peer.ask(write("theirs", acks=0), 9)
    assert (await door.core.drivers.offsets("theirs", 0)).end == 0


def read(*ids: bytes, session: int = 0, epoch: int = -1, wait_ms: int = 0) -> FetchRequest:
    wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=one, partitions=wanted) for one in ids],
    )


def read_codes(answer: Any) -> dict[bytes, tuple[int, bool]]:
    return {
        one.topic_id: (one.partitions[0].error_code, bool(one.partitions[0].records))
        for one in answer.responses
    }


async def test_a_session_does_not_outlive_its_right(door: Front, peer: Client) -> None:
    granted = rule(Operation.READ, TOPIC, "mine")
    await door.allow(granted, rule(Operation.WRITE, TOPIC, "*"))
    await peer.ask(write("mine", "theirs"), 9)
    mine, theirs = topic_id(door, "mine"), topic_id(door, "theirs")
    # It does not wait for what it will not get: that would take longer than a test may.
    answer = await peer.ask(read(mine, theirs, epoch=0, wait_ms=600_000))
    assert read_codes(answer) == {mine: (0, True), theirs: (NO_TOPIC, False)}
    assert answer.session_id
    await door.submit(DeleteAcl(rule=granted))
    answer = await peer.ask(read(session=answer.session_id, epoch=1))
    assert set(read_codes(answer).values()) == {(NO_TOPIC, False)}


async def test_nobody_reads_by_anothers_session(tmp_path: Path) -> None:
    """For another user it does not exist, and its owner's goes on."""
    async with front(tmp_path, **WITH_SASL) as door:
        await door.core.topics.create("mine", partitions=1, replicas=1)
        await with_users(door, "alice", "bob")
        await door.allow(rule(Operation.ALL, TOPIC, "mine", principal="User:alice"))
        async with client(door.port) as alice, client(door.port) as bob:
            assert not codes(await log_in(alice, "alice"))
            assert not codes(await log_in(bob, "bob"))
            await alice.ask(write("mine"), 9)
            answer = await alice.ask(read(topic_id(door, "mine"), epoch=0))
            assert set(read_codes(answer).values()) == {(0, True)}
            for epoch in (1, 0, -1):
                stolen = await bob.ask(read(session=answer.session_id, epoch=epoch))
                assert not read_codes(stolen)
                not_found = ErrorCode.FETCH_SESSION_ID_NOT_FOUND if epoch > 0 else 0
                assert stolen.error_code == not_found
            assert (await alice.ask(read(session=answer.session_id, epoch=1))).error_code == 0
        refused = door.kafka.refusals.snapshot()
        assert refused == {("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND.name): 1}


# -- topics ----------------------------------------------------------------------------------------


def named(*names: str, **more: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in names], **more)


async def test_only_what_may_be_seen_is_listed(door: Front, peer: Client) -> None:
    await door.allow(rule(Operation.DESCRIBE, TOPIC, "mine"))
    for version in (0, 1, 9, 12):
        request = MetadataRequest(topics=[] if version == 0 else None)
        answer = await peer.ask(request, version)
        assert [one.name for one in answer.topics] == ["mine"], version
        answer = await peer.ask(named("theirs"), version)
        assert [(one.name, one.error_code) for one in answer.topics] == [("theirs", NO_TOPIC)]
        assert answer.brokers, "the cluster itself is no secret"


async def test_what_exists_looks_like_what_does_not(door: Front, peer: Client) -> None:
    answer = await peer.ask(named("theirs", "nowhere"))
    assert {(one.error_code, one.topic_id) for one in answer.topics} == {(NO_TOPIC, NO_UUID)}


async def test_asking_does_not_create_without_the_right(door: Front, peer: Client) -> None:
    await door.allow(rule(Operation.DESCRIBE, TOPIC, "new"))
    assert codes(await peer.ask(named("new"))) == {NO_TOPIC}
    assert not any(one.name == "new" for one in door.core.broker_cache.topics())
    await door.allow(rule(Operation.CREATE, TOPIC, "new"))
    assert not codes(await peer.ask(named("new")))


async def test_a_topic_that_may_not_be_deleted_is_not_named(door: Front, peer: Client) -> None:
    await door.allow(rule(Operation.DELETE, TOPIC, "mine"))
    states = [
        DeleteTopicState(name=None, topic_id=topic_id(door, one)) for one in ("mine", "theirs")
    ]
    unknown = DeleteTopicState(name=None, topic_id=b"\7" * 16)
    answer = await peer.ask(DeleteTopicsRequest(topics=[*states, unknown], timeout_ms=5000))
    told = {one.topic_id: (one.name, one.error_code) for one in answer.responses}
    assert told[states[0].topic_id] == ("mine", 0)
    assert told[states[1].topic_id] == (None, NO_TOPIC)
    assert told[unknown.topic_id][1] == ErrorCode.UNKNOWN_TOPIC_ID


# -- groups ----------------------------------------------------------------------------------------


def commit(group: str, *ids: bytes) -> OffsetCommitRequest:
    offset = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(topic_id=one, partitions=[offset]) for one in ids]
    return OffsetCommitRequest(group_id=group, member_id="", topics=topics)


async def test_offsets_of_hidden_topics_stay_hidden(door: Front, peer: Client) -> None:
    mine, theirs = topic_id(door, "mine"), topic_id(door, "theirs")
    everything = rule(Operation.READ, TOPIC, "theirs")
    await door.allow(
        rule(Operation.READ, GROUP, "g"), rule(Operation.READ, TOPIC, "mine"), everything
    )
    assert not codes(await peer.ask(commit("g", mine, theirs)))
    await door.submit(DeleteAcl(rule=everything))
    answer = await peer.ask(commit("g", mine, theirs))
    told = {one.topic_id: one.partitions[0].error_code for one in answer.topics}
    assert told == {mine: 0, theirs: NO_TOPIC}
    of_all = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    answer = await peer.ask(of_all)
    assert [one.topic_id for one in answer.groups[0].topics] == [mine]
    answer = await peer.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [one.name for one in answer.topics] == ["mine"]
    wanted = [
        OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (mine, theirs)
    ]
    by_topic = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=wanted),
            OffsetFetchRequestGroup(group_id="h", topics=wanted),
        ]
    )
    answer = await peer.ask(by_topic)
    told = {one.group_id: (one.error_code, codes(one.topics)) for one in answer.groups}
    assert told == {"g": (0, {NO_TOPIC}), "h": (ErrorCode.GROUP_AUTHORIZATION_FAILED, set())}


async def test_only_groups_that_may_be_seen_are_listed(door: Front, peer: Client) -> None:
    mine = topic_id(door, "mine")
    await door.allow(
        rule(Operation.READ, TOPIC, "mine"),
        rule(Operation.READ, GROUP, "team-", pattern=PatternType.PREFIXED),
        opened := rule(Operation.READ, GROUP, "other"),
    )
    for group in ("team-a", "team-b", "other"):
        assert not codes(await peer.ask(commit(group, mine)))
    await door.submit(DeleteAcl(rule=opened))
    listed = await peer.ask(ListGroupsRequest())
    assert [one.group_id for one in listed.groups] == ["team-a", "team-b"]
    await door.allow(rule(Operation.DESCRIBE, CLUSTER))
    assert len((await peer.ask(ListGroupsRequest())).groups) == 3


# -- being told one's rights -----------------------------------------------------------------------


def bits(*operations: Operation) -> int:
    return sum(1 << one for one in operations)


async def test_callers_are_told_what_they_may_do(door: Front, peer: Client) -> None:
    describe_cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await peer.ask(describe_cluster)).cluster_authorized_operations == 0
    await door.allow(
        rule(Operation.WRITE, TOPIC, "mine"),
        rule(Operation.DELETE, GROUP, "g"),
        rule(Operation.ALTER, CLUSTER),
    )
    asked = named("mine", include_topic_authorized_operations=True)
    (topic,) = (await peer.ask(asked)).topics
    expected = bits(Operation.WRITE, Operation.DESCRIBE)
    assert topic.topic_authorized_operations == expected
    (topic,) = (await peer.ask(named("mine"))).topics
    assert topic.topic_authorized_operations == NOT_ASKED
    groups = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = (await peer.ask(groups, 5)).groups
    assert group.authorized_operations == bits(Operation.DELETE, Operation.DESCRIBE)
    expected = bits(Operation.ALTER, Operation.DESCRIBE)
    assert (await peer.ask(describe_cluster)).cluster_authorized_operations == expected


async def test_without_an_authorizer_everybody_may_do_everything(tmp_path: Path) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        await door.core.topics.create("mine", partitions=1, replicas=1)
        asked = named("mine", include_topic_authorized_operations=True)
        (topic,) = (await peer.ask(asked)).topics
        assert topic.topic_authorized_operations == bits(*OPERATIONS[TOPIC])
        whole = DescribeClusterRequest(include_cluster_authorized_operations=True)
        told = (await peer.ask(whole)).cluster_authorized_operations
        assert told == bits(*OPERATIONS[CLUSTER])


async def test_idempotence_is_for_whoever_may_write_somewhere(door: Front, peer: Client) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert codes(await peer.ask(request, 4)) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    await door.allow(rule(Operation.WRITE, TOPIC, "anything"))
    assert not codes(await peer.ask(request, 4))


# -- rules over the wire ---------------------------------------------------------------------------


def creation(**change: Any) -> AclCreation:
    given = {
        "resource_type": 2,
        "resource_name": "mine",
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**{**given, **change})


async def test_rules_are_made_found_and_deleted(tmp_path: Path) -> None:
    settings = {"authorizer": "acl", "super_users": "User:root;User:ANONYMOUS"}
    async with front(tmp_path, **settings) as door, client(door.port) as peer:
        bad = [
            creation(resource_type=1),
            creation(operation=99),
            creation(resource_type=4, resource_name="other", operation=7),
            creation(principal="nobody"),
        ]
        answer = await peer.ask(CreateAclsRequest(creations=[creation(), *bad]))
        assert [one.error_code for one in answer.results] == [0, *[ErrorCode.INVALID_REQUEST] * 4]
    async with front(tmp_path, **settings) as door, client(door.port) as peer:
        found = await peer.ask(DescribeAclsRequest(**ANY_RULE))
        (resource,) = found.resources
        assert (resource.resource_name, resource.acls[0].operation) == ("mine", 3)
        none = DeleteAclsFilter(**{**ANY_RULE, "resource_name_filter": "other"})
        every = DeleteAclsFilter(**ANY_RULE)
        unknown = DeleteAclsFilter(**{**ANY_RULE, "operation": 0})
        deleted = await peer.ask(DeleteAclsRequest(filters=[none, every, unknown]))
        told = [(one.error_code, len(one.matching_acls)) for one in deleted.filter_results]
        assert told == [(0, 0), (0, 1), (ErrorCode.INVALID_REQUEST, 0)]
        assert not door.core.meta.state.acls


async def test_rules_that_nobody_enforces_are_not_taken(tmp_path: Path) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        disabled = {ErrorCode.SECURITY_DISABLED}
        assert codes(await peer.ask(CreateAclsRequest(creations=[creation()]))) == disabled
        assert codes(await peer.ask(DescribeAclsRequest(**ANY_RULE))) == disabled
        every = [DeleteAclsFilter(**ANY_RULE)]
        assert codes(await peer.ask(DeleteAclsRequest(filters=every))) == disabled


async def test_what_no_rule_speaks_of_may_be_left_open(tmp_path: Path) -> None:
    settings = {"authorizer": "acl", "allow_everyone_if_no_acl_found": True}
    async with front(tmp_path, **settings) as door, client(door.port) as peer:
        for name in ("mine", "theirs"):
            await door.core.topics.create(name, partitions=1, replicas=1)
        await door.allow(rule(Operation.WRITE, TOPIC, "theirs", principal="User:root"))
        answer = await peer.ask(write("mine", "theirs"), 9)
        told = {one.name: one.partition_responses[0].error_code for one in answer.responses}
        assert told == {"mine": 0, "theirs": NO_TOPIC}
