"""More connections than the process has descriptors for: those over their share are closed at once,
files go on, and all is as before when the others have left."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.node import Node, running
from tests.clients.test_hostile_basic import API_VERSIONS, answered, connected
from tests.waiting import wait_until

DESCRIPTORS = 256
FEW_DESCRIPTORS = 128
SHARDS = 300
FLOOD = 400
TOPICS = 120
SECONDS_MAX = 60


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    flags = ("--topic-flush", "os", "--log-level", "info")
    with running(tmp_path / "data", *flags, descriptors_max=DESCRIPTORS) as node:
        yield node
        assert "Traceback" not in node.logged(), node.logged()
        assert node.end() == 0


def is_served(peer: socket.socket) -> bool:
    """Whether the connection is not closed by the node."""
    readable, _, _ = select.select([peer], [], [], 0)
    return not readable


def written(producer: Producer, begin: int, end: int) -> int:
    """How many of as many new topics took a record."""
    stored = 0

    def reported(error: object, message: object) -> None:
        nonlocal stored
        stored += error is None

    for number in range(begin, end):
        producer.produce(f"topic-{number}", b"a", on_delivery=reported)
    assert producer.flush(SECONDS_MAX) == 0
    return stored


def open_segments(node: Node) -> list[str]:
    found = []
    for entry in Path(f"/proc/{node.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return [name for name in found if name.startswith(f"{node.data}/segments/")]


def test_connections_leave_descriptors_for_files(node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.address, "message.timeout.ms": 30_000})
    assert written(producer, 0, 1) == 1
    with contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(FLOOD)]
        wait_until(lambda: "connections are refused" in node.logged(), "a line about it")
        wait_until(lambda: not is_served(peers[-1]), "the last is closed")
        served = [peer for peer in peers if is_served(peer)]
        assert 20 < len(served) < DESCRIPTORS // 2
        served[0].sendall(API_VERSIONS)
        assert answered(served[0])
        assert written(producer, 1, TOPICS) == TOPICS - 1
        descriptors = len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))
        assert descriptors < DESCRIPTORS
    wait_until(lambda: "connections are accepted again" in node.logged(), "a line about that")
    with connected(node) as peer:
        peer.sendall(API_VERSIONS)
        assert answered(peer)
    assert written(producer, 0, TOPICS) == TOPICS
    assert node.logged().count("connections are refused") == 1, node.logged()


def test_files_that_are_never_synced_leave_descriptors(tmp_path: Path) -> None:
    """Many more shards than descriptors, each with writes that only the system will sync."""
    flags = ("--topic-flush", "os", "--log-level", "info")
    with running(tmp_path / "data", *flags, descriptors_max=FEW_DESCRIPTORS) as node:
        admin = AdminClient({"bootstrap.servers": node.address})
        names = [f"topic-{number}" for number in range(SHARDS)]
        for created in admin.create_topics([NewTopic(name, 1) for name in names]).values():
            created.result(SECONDS_MAX)
        producer = Producer({"bootstrap.servers": node.address, "message.timeout.ms": 30_000})
        for _ in range(2):
            assert written(producer, 0, SHARDS) == SHARDS
        assert len(open_segments(node)) <= FEW_DESCRIPTORS // 2
        with connected(node) as peer:
            peer.sendall(API_VERSIONS)
            assert answered(peer)
        consumer = Consumer({"bootstrap.servers": node.address, "group.id": "a"})
        consumer.assign([TopicPartition(name, 0, 0) for name in names])
        read: list[str] = []
        wait_until(
            lambda: (
                len(read) == 2 * SHARDS
                or read.extend(str(one.topic()) for one in consumer.consume(SHARDS, 1))
            ),
            "all are read",
        )
        consumer.close()
        assert sorted(read) == sorted([*names, *names])
        assert "Too many open files" not in node.logged(), node.logged()
        assert node.end() == 0
