"""Producers that number their batches, on the node that all tests share."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.clients.node import Node
from tests.clients.transactional import FLAGS, SECONDS_MAX, values

COUNT = 2000
NUMBERS = [b"%d" % number for number in range(COUNT)]


def test_librdkafka(kafka: str, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka, "enable.idempotence": True, "batch.num.messages": 50}
    )
    for value in NUMBERS:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0
    assert values(kafka, topic) == NUMBERS


def test_kafka_python(kafka: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, enable_idempotence=True, batch_size=500)
    sent = [producer.send(topic, value) for value in NUMBERS]
    producer.flush(SECONDS_MAX)
    assert [one.get(SECONDS_MAX).offset for one in sent] == list(range(COUNT))
    producer.close(SECONDS_MAX)
    assert values(kafka, topic) == NUMBERS


async def test_aiokafka(kafka: str, topic: str) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=kafka, enable_idempotence=True, max_batch_size=500
    ) as producer:
        sent = [await producer.send(topic, value) for value in NUMBERS]
        told = await asyncio.wait_for(asyncio.gather(*sent), SECONDS_MAX)
    assert [one.offset for one in told] == list(range(COUNT))
    assert await asyncio.to_thread(values, kafka, topic) == NUMBERS


def test_nothing_is_lost_or_doubled_when_the_node_is_killed(tmp_path: Path) -> None:
    node = Node(tmp_path, *FLAGS)
    try:
        producer = Producer(
            {
                "bootstrap.servers": node.address,
                "enable.idempotence": True,
                "batch.num.messages": 5,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )
        for number, value in enumerate(NUMBERS):
            producer.produce("t", value)
            producer.poll(0)
            if number in (COUNT // 3, 2 * COUNT // 3):
                node = node.restarted(signal.SIGKILL)  # with a few batches on their way
        assert producer.flush(SECONDS_MAX) == 0
        assert values(node.address, "t") == NUMBERS
    finally:
        if node.process.poll() is None:
            node.end(signal.SIGKILL)
