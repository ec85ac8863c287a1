"""What administrators did is there after `kill -9`, whole."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.node import Node, running

SECONDS_MAX = 20


def done(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def administered(node: Node) -> None:
    """Make two topics; grow, change and shorten one, delete the other."""
    with AdminClient({"bootstrap.servers": node.address}) as admin:
        done(admin.create_topics([NewTopic("kept", 1, config={"retention.ms": "60000"})]))
        done(admin.create_topics([NewTopic("gone", 1)]))
        with Producer({"bootstrap.servers": node.address}) as producer:
            for _ in range(5):
                producer.produce("kept", b"v", partition=0)
            assert producer.flush(SECONDS_MAX) == 0
        done(admin.create_partitions([NewPartitions("kept", 3)]))
        entry = ConfigEntry("segment.bytes", "4096", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, "kept", incremental_configs=[entry])
        done(admin.incremental_alter_configs([change]))
        done(admin.delete_records([TopicPartition("kept", 0, 2)]))
        done(admin.delete_topics(["gone"], operation_timeout=SECONDS_MAX))


def test_it_is_all_there_after_a_crash(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        administered(node)
        node = node.restarted(signal.SIGKILL)
        try:
            with AdminClient({"bootstrap.servers": node.address}) as admin:
                topics = admin.list_topics(timeout=SECONDS_MAX).topics
                configs = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "kept")]))
                place = TopicPartition("kept", 0)
                start = done(admin.list_offsets({place: OffsetSpec.earliest()})).offset
                end = done(admin.list_offsets({place: OffsetSpec.latest()})).offset
        finally:
            assert node.end() == 0, node.logged()
    assert {name: len(one.partitions) for name, one in topics.items()} == {"kept": 3}
    assert (configs["retention.ms"].value, configs["segment.bytes"].value) == ("60000", "4096")
    assert (start, end) == (2, 5)
