"""kafkajs's Admin client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.node import Node, running
from tests.clients.remote import Remote, RemoteError

pytestmark = [pytest.mark.needs("node", "npm"), pytest.mark.timeout(900)]

TOPIC_RESOURCE = 2
Admin = Callable[..., Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = ("--group-initial-rebalance-delay-ms", "0", "--topic-flush", "os")
    with running(tmp_path_factory.mktemp("kafkajs"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def admin(kafkajs: Remote, kafka: str) -> Admin:
    """One of its methods, by name."""

    def call(method: str, *arguments: object) -> Any:
        return kafkajs.call("admin", kafka=kafka, method=method, arguments=arguments)

    return call


def create(admin: Admin, topic: str, **settings: object) -> bool:
    return bool(admin("createTopics", {"topics": [{"topic": topic, **settings}]}))


def produce(kafkajs: Remote, kafka: str, topic: str, count: int) -> None:
    kafkajs.call("producer", name="p", kafka=kafka)
    kafkajs.call("send", name="p", topic=topic, records=[{"value": "v"}] * count)
    kafkajs.call("close", name="p")


def test_a_topic_from_beginning_to_end(admin: Admin, topic: str) -> None:
    entries = [{"name": "retention.ms", "value": "7200000"}]
    assert create(admin, topic, numPartitions=2, configEntries=entries)
    assert not create(admin, topic), "it is there"
    assert topic in admin("listTopics")
    (found,) = admin("fetchTopicMetadata", {"topics": [topic]})["topics"]
    assert len(found["partitions"]) == 2
    admin("createPartitions", {"topicPartitions": [{"topic": topic, "count": 4}]})
    assert [one["high"] for one in admin("fetchTopicOffsets", topic)] == ["0"] * 4
    admin("deleteTopics", {"topics": [topic]})
    assert topic not in admin("listTopics")


def test_configs_are_told_and_set(admin: Admin, topic: str) -> None:
    create(admin, topic)
    resource = {"type": TOPIC_RESOURCE, "name": topic}
    changes = [{"name": "max.message.bytes", "value": "2000"}]
    admin("alterConfigs", {"resources": [resource | {"configEntries": changes}]})
    names = {"configNames": ["max.message.bytes"]}
    (told,) = admin("describeConfigs", {"resources": [resource | names]})["resources"]
    assert [(one["configName"], one["configValue"]) for one in told["configEntries"]] == [
        ("max.message.bytes", "2000")
    ]


def test_a_groups_offsets_are_set_told_and_deleted(
    kafkajs: Remote, kafka: str, admin: Admin, topic: str
) -> None:
    produce(kafkajs, kafka, topic, 1)  # setting them waits for a first fetch
    group, places = f"g-{topic}", [{"partition": 0, "offset": "7"}]
    admin("setOffsets", {"groupId": group, "topic": topic, "partitions": places})
    (told,) = admin("fetchOffsets", {"groupId": group, "topics": [topic]})
    assert [one["offset"] for one in told["partitions"]] == ["7"]
    assert group in {one["groupId"] for one in admin("listGroups")["groups"]}
    admin("deleteGroups", [group])
    assert group not in {one["groupId"] for one in admin("listGroups")["groups"]}


def test_records_are_deleted(kafkajs: Remote, kafka: str, admin: Admin, topic: str) -> None:
    produce(kafkajs, kafka, topic, 3)
    (told,) = admin("fetchTopicOffsets", topic)
    assert (told["low"], told["high"]) == ("0", "3")
    admin("deleteTopicRecords", {"topic": topic, "partitions": [{"partition": 0, "offset": "2"}]})
    (told,) = admin("fetchTopicOffsets", topic)
    assert (told["low"], told["high"]) == ("2", "3")


def test_the_cluster_is_this_node(admin: Admin, kafka: str) -> None:
    told = admin("describeCluster")
    assert [f"{one['host']}:{one['port']}" for one in told["brokers"]] == [kafka]


def test_refusals_have_kafkas_names(admin: Admin, topic: str) -> None:
    with pytest.raises(RemoteError) as refused:
        create(admin, topic, numPartitions=0)
    assert refused.value.kind == "INVALID_PARTITIONS"
