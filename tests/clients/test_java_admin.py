"""Apache Kafka's Admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.remote import Remote, RemoteError

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]
Admin = Callable[..., Any]


@pytest.fixture
def admin(java: Remote, kafka: str) -> Admin:
    def call(what: str, **arguments: object) -> Any:
        return java.call(what, config={"bootstrap.servers": kafka}, **arguments)

    return call


def test_a_topic_from_beginning_to_end(admin: Admin, topic: str) -> None:
    admin("create-topic", topic=topic, partitions=2, configs={"retention.ms": "7200000"})
    first = admin("describe-topic", topic=topic)
    assert first["partitions"] == 2
    assert admin("configs", topic=topic)["retention.ms"] == "7200000"
    admin("set-config", topic=topic, key="max.message.bytes", value="2000")
    assert admin("configs", topic=topic)["max.message.bytes"] == "2000"
    admin("add-partitions", topic=topic, partitions=4)
    assert admin("describe-topic", topic=topic) == first | {"partitions": 4}
    assert topic in admin("list-topics")
    admin("delete-topic", topic=topic)
    assert topic not in admin("list-topics")


def test_a_topic_made_again_has_another_id(admin: Admin, topic: str) -> None:
    ids = set()
    for _ in range(2):
        admin("create-topic", topic=topic, partitions=1)
        ids.add(admin("describe-topic", topic=topic)["id"])
        admin("delete-topic", topic=topic)
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("what", "arguments", "kind"),
    [
        ("create-topic", {"partitions": 0}, "InvalidPartitionsException"),
        (
            "create-topic",
            {"partitions": 1, "configs": {"retention.ms": "soon"}},
            "InvalidConfigurationException",
        ),
        ("delete-topic", {}, "UnknownTopicOrPartitionException"),
        ("describe-topic", {}, "UnknownTopicOrPartitionException"),
    ],
)
def test_refusals_have_kafkas_names(
    admin: Admin, topic: str, what: str, arguments: dict[str, object], kind: str
) -> None:
    with pytest.raises(RemoteError) as refused:
        admin(what, topic=topic, **arguments)
    assert refused.value.kind == kind


def test_a_smaller_number_of_partitions_is_refused(admin: Admin, topic: str) -> None:
    admin("create-topic", topic=topic, partitions=3)
    with pytest.raises(RemoteError) as refused:
        admin("add-partitions", topic=topic, partitions=2)
    assert refused.value.kind == "InvalidPartitionsException"


def test_the_cluster_is_this_node(admin: Admin, kafka: str) -> None:
    assert admin("cluster") == [[1, kafka]]
