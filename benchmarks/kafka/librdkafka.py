"""Load by librdkafka, through confluent-kafka."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Place

SECONDS_MAX = 300
CHUNK = 500
LETTERS = string.ascii_uppercase.encode()
"""What ProducerPerformance fills its records with."""


def payloads(size: int, count: int = 1000) -> list[bytes]:
    rng = random.Random(size)
    return [bytes(rng.choices(LETTERS, k=size)) for _ in range(count)]


class Failures:
    """Counts the messages that were not acknowledged."""

    def __init__(self) -> None:
        self.first: KafkaError | None = None
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.first = self.first or error
            self.count += 1

    def check(self) -> None:
        if self.count:
            raise RuntimeError(f"{self.count} messages failed: {self.first}")


def producer(address: str, settings: Mapping[str, str], failures: Failures) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": failures,
            **settings,
        }
    )


def produce(
    address: str, topic: str, *, records: int, size: int, settings: Mapping[str, str]
) -> float:
    """Records per second, from the first hand-over to the last acknowledgement."""
    failures = Failures()
    client = producer(address, settings, failures)
    client.list_topics(topic, SECONDS_MAX)
    values = payloads(size)
    began = time.perf_counter()
    for number in range(records):
        while True:
            try:
                client.produce(topic, values[number % len(values)])
                break
            except BufferError:
                client.poll(0.01)
        if number % CHUNK == 0:
            client.poll(0)
    if client.flush(SECONDS_MAX):
        raise RuntimeError("not everything was acknowledged in time")
    took = time.perf_counter() - began
    failures.check()
    return records / took


def consume(address: str, topic: str, *, records: int, partitions: int) -> float:
    """Records per second, from the first message on, with partitions assigned by hand."""
    client = Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    )
    client.assign([Place(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    deadline = time.monotonic() + SECONDS_MAX
    first = client.poll(SECONDS_MAX)
    if first is None or first.error():
        raise RuntimeError(f"the first message did not come: {first and first.error()}")
    began, seen = time.perf_counter(), 1
    while seen < records and time.monotonic() < deadline:
        seen += sum(message.error() is None for message in client.consume(CHUNK, 1))
    took = time.perf_counter() - began
    client.close()
    if seen < records:
        raise RuntimeError(f"{seen} of {records} records came")
    return (seen - 1) / took
