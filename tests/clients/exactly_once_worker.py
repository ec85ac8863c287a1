"""A process that reads, works and writes in transactions, until it is killed.

    python -m tests.clients.exactly_once_worker ADDRESS INPUT OUTPUT

It ends at the first error that is not for it to retry; whoever watches it starts another.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.waiting import let_run_here

SECONDS_MAX = 60
AT_ONCE = 5
WORK_S = 0.05
"""Long enough to be killed in the middle of a transaction more often than between two."""


def common(address: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": address,
        "reconnect.backoff.max.ms": 200,
        # When its only node is gone, librdkafka 2.16 forgets it and begins anew, but a commit of
        # offsets in a transaction is then sent to what it forgot, and hangs until its time is over.
        "metadata.recovery.strategy": "none",
    }


def consumer_of(address: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            **common(address),
            "group.id": "workers",
            "group.instance.id": "the one",  # its successor takes its place at once
            "session.timeout.ms": 6000,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([topic])
    return consumer


def producer_of(address: str) -> Producer:
    producer = Producer(
        {
            **common(address),
            "transactional.id": "worker",
            "linger.ms": 0,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    return producer


def work(consumer: Consumer, producer: Producer, found: list[Message], output: str) -> None:
    """What was read, what was made of it and how far we are: all of it counts, or nothing."""
    producer.begin_transaction()
    ends: dict[tuple[str, int], int] = {}
    for message in found:
        producer.produce(output, message.value(), partition=message.partition())
        ends[message.topic(), message.partition()] = message.offset() + 1
    producer.flush(SECONDS_MAX)
    let_run_here(WORK_S)
    at = [TopicPartition(*place, end) for place, end in ends.items()]
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)


def main(address: str, topic: str, output: str) -> int:
    producer = producer_of(address)  # fences whoever was before us; only then do we read on
    consumer = consumer_of(address, topic)
    try:
        while True:
            found = [one for one in consumer.consume(AT_ONCE, 0.1) if one.error() is None]
            if found:
                work(consumer, producer, found, output)
    except KafkaException as error:
        print(f"another has to go on: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
