"""Clients that keep a node busy, and remember what was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.waiting import wait_until

SECONDS_MAX = 60


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Load:
    """Everything of it runs until it is stopped. After that, what was sent is acknowledged."""

    def __init__(self, address: str) -> None:
        self._settings = {"bootstrap.servers": address, "acks": "all", "linger.ms": 1}
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []
        self.acknowledged: dict[Place, bytes] = {}
        self.transactions: list[bytes] = []
        self.committed: list[int] = []
        self.failures: list[str] = []

    def start(self, *works: Callable[[], None]) -> None:
        for work in works:
            self._threads.append(threading.Thread(target=self._until_the_end, args=(work,)))
            self._threads[-1].start()

    def _until_the_end(self, work: Callable[[], None]) -> None:
        try:
            work()
        except KafkaException as error:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def producing(self, topic: str) -> Callable[[], None]:
        """At full speed, with an id: batches are checked against what was stored before."""

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is None:
                place = Place(topic, int(message.partition() or 0), int(message.offset() or 0))
                self.acknowledged[place] = message.value() or b""

        def work() -> None:
            producer = Producer({**self._settings, "enable.idempotence": True})
            number = 0
            while not self._ends.is_set():
                try:
                    producer.produce(
                        topic, b"%s %d" % (topic.encode(), number) * 20, on_delivery=stored
                    )
                    number += 1
                except BufferError:
                    producer.poll(0.01)
                producer.poll(0)
            producer.flush(SECONDS_MAX)

        return work

    def transacting(self, topic: str, group: str) -> Callable[[], None]:
        """Each transaction writes to both partitions, and commits their number for a group."""

        def work() -> None:
            producer = Producer({**self._settings, "transactional.id": "t"})
            producer.init_transactions(SECONDS_MAX)
            consumer = Consumer({**self._settings, "group.id": group})
            number = 0
            while not self._ends.is_set():
                number += 1
                producer.begin_transaction()
                for partition in range(2):
                    producer.produce(topic, b"%d" % number, partition=partition)
                offsets = [TopicPartition(topic, 0, number)]
                metadata = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(offsets, metadata, SECONDS_MAX)
                producer.commit_transaction(SECONDS_MAX)
                self.transactions.append(b"%d" % number)
            consumer.close()

        return work

    def committing(self, topic: str, group: str) -> Callable[[], None]:
        """A group that keeps up with one partition, and commits after each step."""

        def work() -> None:
            consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            while not self._ends.is_set():
                found = [one for one in consumer.consume(1000, 0.1) if one.error() is None]
                if found:
                    at = int(found[-1].offset() or 0) + 1
                    consumer.commit(offsets=[TopicPartition(topic, 0, at)], asynchronous=False)
                    self.committed.append(at)
            consumer.close()

        return work


def records(
    address: str, topic: str, partitions: int, *, committed: bool = False
) -> dict[Place, bytes]:
    """Everything that a consumer gets, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in range(partitions)])
    found: dict[Place, bytes] = {}
    ended: set[int] = set()

    def is_at_end() -> bool:
        for message in consumer.consume(10_000, 1):
            partition = int(message.partition() or 0)
            error = message.error()
            if error is None:
                place = Place(topic, partition, int(message.offset() or 0))
                found[place] = message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
            else:
                raise KafkaException(error)
        return len(ended) == partitions

    try:
        wait_until(is_at_end, f"the end of {topic}")
    finally:
        consumer.close()
    return found
