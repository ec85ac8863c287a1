"""Messages into topics, by librdkafka: as any service does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from demo.shops import Message
from demo.topics import DemoTopic

REPORT_EVERY = 2000
WAIT_S = 60


def create(servers: str, topics: Iterable[DemoTopic]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [NewTopic(one.name, one.partitions, 1, config=one.configs) for one in topics]
    for made in admin.create_topics(wanted).values():
        made.result(WAIT_S)


def publish(servers: str, messages: Iterable[Message], on_sent: Callable[[int], None]) -> int:
    """How many were acknowledged; all of them, or it raises."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    failures: list[str] = []
    count = 0
    for count, one in enumerate(messages, 1):
        _send(producer, one, failures)
        if count % REPORT_EVERY == 0:
            producer.poll(0)
            on_sent(count)
    producer.flush(WAIT_S)
    if failures:
        raise SystemExit(f"{len(failures)} messages were refused: {failures[0]}")
    on_sent(count)
    return count


def _send(producer: Producer, one: Message, failures: list[str]) -> None:
    def told(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    while True:
        try:
            producer.produce(
                one.topic, one.value, one.key, timestamp=one.timestamp, on_delivery=told
            )
            return
        except BufferError:  # the queue is full: let it drain
            producer.poll(0.05)
