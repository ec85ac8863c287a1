"""Requests that name much: the event loop is not held, with access rules and without, and the
answers are right."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from stratamq.broker.kafka.contract import ANONYMOUS
from stratamq.meta.access import CreateAcl
from stratamq.model.access import (
    CLUSTER_NAME,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.wire.kafka.protocol import ErrorCode, decode_response
from stratamq.wire.kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratamq.wire.kafka.protocol.messages.groups_admin import DescribeGroupsRequest
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.attack.bombs import small
from tests.attack.conftest import Inside, Starter
from tests.attack.raw import RawClient, frame_of
from tests.attack.watching import watched_loop

HELD_S_MAX = 0.1
"""Of the loop's processor time in one turn: without turns it would be most of a second."""

NAMES = [f"none-{number}" for number in range(30_000)]
FEW = NAMES[:8_000]

REQUESTS: dict[str, tuple[object, int | None]] = {
    "Metadata": (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in NAMES],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        None,
    ),
    "CreateTopics": (
        CreateTopicsRequest(
            validate_only=True,
            topics=[
                CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in FEW
            ],
        ),
        None,
    ),
    "DeleteTopics": (
        DeleteTopicsRequest(
            timeout_ms=60_000,
            topics=[DeleteTopicState(name=name, topic_id=bytes(16)) for name in NAMES],
        ),
        None,
    ),
    "DescribeConfigs": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name=name, configuration_keys=None
                )
                for name in NAMES
            ]
        ),
        None,
    ),
    "DescribeGroups": (
        DescribeGroupsRequest(groups=NAMES, include_authorized_operations=True),
        None,
    ),
    "ListOffsets": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
                for name in NAMES
            ],
        ),
        None,
    ),
    "OffsetCommit": (
        OffsetCommitRequest(
            group_id="g",
            member_id="",
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_metadata=""
                        )
                    ],
                )
                for name in NAMES
            ],
        ),
        9,
    ),
    "Produce": (
        ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=name, partition_data=[PartitionProduceData(index=0, records=b"")]
                )
                for name in NAMES
            ],
        ),
        9,
    ),
    "Fetch": (
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=name,
                    partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
                )
                for name in NAMES
            ],
        ),
        12,
    ),
}


def rule(
    kind: ResourceKind, name: str, principal: str, operation: Operation, permission: Permission
) -> AclRule:
    prefixed = name.endswith(".")
    return AclRule(
        kind=kind,
        pattern=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        name=name,
        principal=principal,
        host="*",
        operation=operation,
        permission=permission,
    )


def rules(*, allow: bool) -> Iterator[AclRule]:
    """As many as a cluster of many teams has, and for the test's client everything or nothing."""
    for number in range(100):
        user = f"User:{number}"
        yield rule(ResourceKind.TOPIC, f"team-{number}.", user, Operation.ALL, Permission.ALLOW)
        yield rule(ResourceKind.TOPIC, "*", user, Operation.DELETE, Permission.DENY)
    names = {ResourceKind.CLUSTER: CLUSTER_NAME, ResourceKind.TOPIC: "*", ResourceKind.GROUP: "*"}
    for kind, name in names.items() if allow else ():
        yield rule(kind, name, ANONYMOUS, Operation.ALL, Permission.ALLOW)


@asynccontextmanager
async def without_collector(inside: Starter, **flags: object) -> Any:
    """Clients and their requests are in this process too. What the collector costs a node on its
    own is looked at in tests/embedded/test_garbage.py."""
    async with inside(**flags) as node:
        gc.disable()
        try:
            yield node
        finally:
            gc.enable()


@pytest.fixture(params=["no rules", "rules that allow", "rules that refuse"])
def guarded(inside: Starter, request: pytest.FixtureRequest) -> Callable[[], Any]:
    @asynccontextmanager
    async def start() -> Any:
        flags = {} if request.param == "no rules" else {"authorizer": "acl"}
        async with without_collector(inside, **flags) as node:
            if flags:
                allow = request.param == "rules that allow"
                await node.core.meta.submit(*(CreateAcl(rule=one) for one in rules(allow=allow)))
            yield node

    return start


@pytest.mark.parametrize("name", REQUESTS)
async def test_many_names_do_not_hold_the_loop(
    guarded: Callable[[], AbstractAsyncContextManager[Inside]], name: str
) -> None:
    asked, version = REQUESTS[name]
    frame = frame_of(asked, version)

    def ask(client: RawClient) -> int:
        client.send(frame)
        return len(client.answer())

    async with guarded() as node:
        with watched_loop() as watch:
            size = await node.client(ask)
        assert size > 8 * len(FEW), "each is answered"
        assert watch.held_s_max < HELD_S_MAX


async def test_metadata_of_ten_thousand_partitions(
    guarded: Callable[[], AbstractAsyncContextManager[Inside]],
) -> None:
    """Asked for by name, and with all topics; what the rules hide is left out."""

    def asked(topics: list[MetadataRequestTopic] | None) -> Any:
        request = MetadataRequest(topics=topics, include_topic_authorized_operations=True)
        return node.asked(request)

    async with guarded() as node:
        in_memory = {"storage.type": "EngineMemory"}
        await node.core.topics.create("wide", partitions=10_000, config=in_memory)
        for number in range(20):
            await node.core.topics.create(f"small-{number}", config=in_memory)
        with watched_loop() as watch:
            named = await asked([MetadataRequestTopic(name="wide")])
            everything = await asked(None)
        assert watch.held_s_max < HELD_S_MAX
        (wide,) = named.topics
        if wide.error_code:
            assert wide.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert not everything.topics
            return
        assert [one.partition_index for one in wide.partitions] == list(range(10_000))
        assert {(one.error_code, one.leader_id) for one in wide.partitions} == {(0, 1)}
        found = {one.name: len(one.partitions) for one in everything.topics}
        assert found == {"wide": 10_000} | {f"small-{number}": 1 for number in range(20)}
        assert all(one.topic_authorized_operations > 0 for one in everything.topics)


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_small_produce_does_not_overtake_one_that_is_judged_in_turns(
    inside: Starter, acks: int
) -> None:
    """The first writes one batch, after many topics that are not there."""
    unknown = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=b"")])
        for name in NAMES[:3000]
    ]

    def produced(*before: TopicProduceData, value: bytes) -> ProduceRequest:
        part = PartitionProduceData(index=0, records=small(value))
        topics = [*before, TopicProduceData(name="t", partition_data=[part])]
        return ProduceRequest(acks=acks if not before else 1, timeout_ms=1000, topic_data=topics)

    def act(client: RawClient) -> list[int]:
        client.send(frame_of(produced(*unknown, value=b"first"), 9, 0))
        client.send(frame_of(produced(value=b"second"), 9, 1))
        last = produced(*unknown[:1], value=b"third")
        client.send(frame_of(last, 9, 2))
        numbers = [0, 1, 2] if acks else [0, 2]
        answers = [decode_response(client.answer(), 0, 9) for _ in numbers]
        assert [one.correlation_id for one in answers] == numbers
        return [one.body.responses[-1].partition_responses[0].base_offset for one in answers]

    async with inside(authorizer="acl") as node:
        await node.core.topics.create("t")
        await node.core.meta.submit(*(CreateAcl(rule=one) for one in rules(allow=True)))
        assert await node.client(act) == ([0, 1, 2] if acks else [0, 2])
