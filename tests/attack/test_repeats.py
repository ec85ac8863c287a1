"""Every API that takes a list is asked with one that repeats its element 64 KB long: the answer is
little longer than that to the element alone, and memory stays within bounds.

The requests come from the wire schemas, so an API that is added is attacked as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratamq.wire.kafka.protocol import APIS, Api
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.attack.raw import connected
from tests.attack.repeating import OTHERS, Requests
from tests.clients.node import Node, running
from tests.waiting import every

MIB = 1 << 20
FRAME_BYTES = 64 << 10
ADDED_BYTES_MAX = 16 * FRAME_BYTES
"""What repetitions may add to an answer: where each is answered, by a few bytes and a message."""

GROWN_BYTES_MAX = 48 * MIB
TOPIC, PARTITIONS, GROUP = "wide", 1000, "group"

ASKED = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    for version in sorted({api.versions.first, api.versions.last})
    if Requests(api, version, TOPIC, bytes(16)).lists()
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Everything is allowed, what concerns access rules too."""
    flags = (
        *("--topic-flush", "os", "--log-level", "warning"),
        *("--authorizer", "acl", "--super-users", "User:ANONYMOUS"),
        *("--group-initial-rebalance-delay-ms", "0"),
    )
    with running(tmp_path_factory.mktemp("repeats"), *flags) as node:
        yield node
        assert "Traceback" not in node.logged(), node.logged()
        assert node.end() == 0


@pytest.fixture(scope="module")
def topic_id(node: Node) -> bytes:
    """Of a topic that takes long to describe, with a group that has committed offsets in it."""
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=PARTITIONS,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name="storage.type", value="EngineMemory")],
    )
    offsets = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=0, committed_metadata="x" * 100
        )
        for number in range(PARTITIONS)
    ]
    committed = OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)
    with connected(node.host, node.port) as client:
        (made,) = client.asked(CreateTopicsRequest(topics=[topic])).topics
        commit = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[committed])
        (answer,) = client.asked(commit, 9).topics
    assert {one.error_code for one in answer.partitions} == {made.error_code} == {0}
    return bytes(made.topic_id)


def test_exceptions_are_of_apis() -> None:
    assert set(OTHERS) < {api.name for api in APIS.values()}


@pytest.mark.parametrize(("api", "version"), ASKED)
def test_repetitions_cost_little(node: Node, topic_id: bytes, api: Api, version: int) -> None:
    requests = Requests(api, version, TOPIC, topic_id)
    for path in every(requests.lists()):
        with connected(node.host, node.port) as client:
            alone = len(client.ask(requests.once(path), version))
            with node.grows_by_less_than(GROWN_BYTES_MAX):
                answer = len(client.ask(requests.repeated(path, FRAME_BYTES), version))
        assert answer <= alone + ADDED_BYTES_MAX, path
