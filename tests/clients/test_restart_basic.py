"""What clients rely on over a restart: ids, records, TLS from the same files; and a quick stop."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.node import Node, running
from tests.net.conftest import Certificates, certificates
from tests.waiting import let_run_here, wait_until

__all__ = ["certificates"]

SECONDS_MAX = 20
FLAGS = ("--topic-flush", "os", "--log-level", "warning")


def put(kafka: str, *values: bytes, topic: str = "t", **config: object) -> None:
    producer = Producer({"bootstrap.servers": kafka, "acks": "all", **config})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0


def got(kafka: str, count: int, *, topic: str = "t", **config: object) -> list[bytes | None]:
    settings = {"group.id": "g", "enable.auto.commit": False, **config}
    consumer = Consumer({"bootstrap.servers": kafka, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []

    def has_all() -> bool:
        found.extend(message.value() for message in consumer.consume(count, 0.2))
        return len(found) >= count

    wait_until(has_all, lambda: f"{len(found)} of {count}")
    consumer.close()
    return found


def cluster_id(kafka: str) -> str | None:
    return AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=SECONDS_MAX).cluster_id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_producer_and_a_consumer_go_on_after_a_restart(
    tmp_path: Path, number: signal.Signals
) -> None:
    node = Node(tmp_path, *FLAGS)
    again = None
    try:
        put(node.address, b"before")
        before = cluster_id(node.address)
        assert before
        assert len(before) == 22
        producer = Producer({"bootstrap.servers": node.address, "acks": "all"})
        producer.list_topics("t", SECONDS_MAX)
        again = node.restarted(number)
        producer.produce("t", b"after")
        assert producer.flush(SECONDS_MAX) == 0
        assert got(again.address, 2) == [b"before", b"after"]
        assert cluster_id(again.address) == before
    finally:
        for one in (node, again):
            if one is not None and one.process.poll() is None:
                one.end(signal.SIGKILL)


def test_shards_that_a_start_leaves_closed_are_served(tmp_path: Path) -> None:
    """The first one is opened by a Produce, the second by a Fetch, the third by ListOffsets."""
    flags = ("--topic-flush", "sync", "--shards-opened-first-max", "0", "--log-level", "info")
    node = Node(tmp_path, *flags)
    try:
        put(node.address, b"before")
        put(node.address, b"before", topic="u")
        put(node.address, b"before", topic="v")
        node = node.restarted(signal.SIGKILL)
        assert "3 shards are opened when they are used, or later" in node.logged()
        put(node.address, b"after")
        assert got(node.address, 2) == [b"before", b"after"]
        assert got(node.address, 1, topic="u") == [b"before"]
        seen = Consumer({"bootstrap.servers": node.address, "group.id": "g"})
        assert seen.get_watermark_offsets(TopicPartition("v", 0), SECONDS_MAX) == (0, 1)
        seen.close()
    finally:
        node.end(signal.SIGKILL)


def test_a_stop_does_not_wait_for_those_who_wait(tmp_path: Path) -> None:
    """A stop that waited would take longer than `Node.end` does."""
    with running(tmp_path, *FLAGS, "--shutdown-grace-ms", "600000") as node:
        put(node.address, b"a")
        consumer = Consumer(
            {
                "bootstrap.servers": node.address,
                "group.id": "g",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 200_000,
                "socket.timeout.ms": 300_000,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        assert consumer.poll(SECONDS_MAX) is not None
        let_run_here(0.3)  # it is in its long poll now
        assert node.end(signal.SIGTERM) == 0
        consumer.close()


@pytest.mark.needs("openssl")
def test_mutual_tls_and_an_advertised_name(tmp_path: Path, certificates: Certificates) -> None:
    tls = (
        *("--kafka-tls-certificate", str(certificates.server)),
        *("--kafka-tls-client-authorities", str(certificates.authority)),
        *("--kafka-tls-client-auth", "required", "--kafka-advertised-host", "localhost"),
    )
    with running(tmp_path, *FLAGS, *tls) as node:
        secure = {"security.protocol": "ssl", "ssl.ca.location": str(certificates.authority)}
        shown = {
            "ssl.certificate.location": str(certificates.client),
            "ssl.key.location": str(certificates.client),
        }
        put(node.address, b"a", **secure, **shown)
        assert got(node.address, 1, **secure, **shown) == [b"a"]
        seen = AdminClient({"bootstrap.servers": node.address, **secure, **shown})
        brokers = seen.list_topics(timeout=SECONDS_MAX).brokers
        assert [(one.host, one.port) for one in brokers.values()] == [("localhost", node.port)]
        stranger = AdminClient({"bootstrap.servers": node.address, **secure})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)
        assert node.end() == 0
