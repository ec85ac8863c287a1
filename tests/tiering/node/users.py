"""What users of a node do: create, produce, consume, ask where things are."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratamq.client import BlockingClient, options_of
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake
from tests.clients.node import ROOT, Node
from tests.waiting import wait_until

RECORDS = 1500
SEGMENT_BYTES = 5000
SCHEMA = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
ORDERS = {
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.ms": "0",
    "retention.ms": "-1",
    "lake.value.format": "json",
    "lake.value.schema": json.dumps(SCHEMA),
}
FLAGS = (
    *("--tier-interval-ms", "100", "--tier-orphan-grace-ms", "0"),
    *("--topic-flush", "os", "--store-retry-ms-max", "100"),
)
SECONDS_MAX = 60


def create(node: Node, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result()


def produce(node: Node, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": node.address, "batch.num.messages": 50})
    for number in numbers:
        value = json.dumps({"id": number}) if number % 100 else "not json"
        producer.produce(topic, value, key=f"k{number % 10}", timestamp=1000 + number)
    assert not producer.flush(SECONDS_MAX)


def consumed(node: Node, topic: str, start: int, count: int) -> list[tuple[int, bytes, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[tuple[int, bytes, bytes]] = []

    def has_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key(), message.value()))
        return len(found) >= count

    wait_until(has_all, lambda: f"{len(found)} of {count}\n{node.logged()}")
    consumer.close()
    return found


def expected(numbers: range) -> list[tuple[int, bytes, bytes]]:
    return [
        (
            number,
            f"k{number % 10}".encode(),
            (json.dumps({"id": number}) if number % 100 else "not json").encode(),
        )
        for number in numbers
    ]


def lake(node: Node, topic: str) -> DescribedLake:
    with BlockingClient(options_of(node.address, {})) as client:
        return client.call(client.asyncio.describe_lake(topic))


def local_start(node: Node, topic: str) -> int:
    return lake(node, topic).partitions[0].local_start_offset


def local_bytes(node: Node, topic: str) -> int:
    return lake(node, topic).partitions[0].local_bytes


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stratamq.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(node: Node) -> None:
    """All of the topic's past is on object storage alone; what is left here is being written."""
    create(node, "orders", ORDERS)
    produce(node, "orders", range(RECORDS))
    wait_until(lambda: local_bytes(node, "orders") < SEGMENT_BYTES, node.logged)
