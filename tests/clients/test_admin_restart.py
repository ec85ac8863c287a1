"""What administrators did is there after `kill -9`, whole."""

from __future__ import annotations

import contextlib
import signal
import socket
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
API_VERSIONS = bytes.fromhex("0000000a0012000000000001ffff")
"""A request in version 0, without a client id."""


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


def test_a_brokers_configs_hold_at_once_and_after_a_crash(tmp_path: Path) -> None:
    given = {"max.connections.per.ip": "3", "log.level": "info"}
    with running(tmp_path, "--log-level", "warning") as node:
        with AdminClient({"bootstrap.servers": node.address}) as admin:
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in given.items()
            ]
            one = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
            done(admin.incremental_alter_configs([one]))
        while served_at_once(node) < 3:  # the administrator's connection may not be gone yet
            pass
        assert served_at_once(node) <= 3
        node = node.restarted(signal.SIGKILL)
        try:
            assert served_at_once(node) == 3
            assert "started" in node.logged(), "the level was raised before the node was ready"
        finally:
            assert node.end() == 0, node.logged()


def served_at_once(node: Node) -> int:
    """How many of five connections are answered while the others are open."""
    with contextlib.ExitStack() as opened:
        sockets = [
            opened.enter_context(socket.create_connection((node.host, node.port), SECONDS_MAX))
            for _ in range(5)
        ]
        for one in sockets:
            with contextlib.suppress(OSError):
                one.sendall(API_VERSIONS)
        return sum(_is_answered(one) for one in sockets)


def _is_answered(one: socket.socket) -> bool:
    try:
        return bool(one.recv(4))
    except ConnectionResetError:
        return False
