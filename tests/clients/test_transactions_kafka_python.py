"""kafka-python: transactions in flexible versions, and a consumer that filters by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from tests.clients.node import Node, running
from tests.clients.transactional import FLAGS, SECONDS_MAX, values


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("transactions"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


def producer_of(kafka: str, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    producer.init_transactions()
    return producer


def consumer_of(kafka: str, **config: object) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=kafka,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS_MAX * 1000,
        **config,
    )


def test_what_is_committed_is_read_and_what_is_aborted_is_not(kafka: str, topic: str) -> None:
    producer = producer_of(kafka, topic)
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number).get(SECONDS_MAX)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close(SECONDS_MAX)
    consumer = consumer_of(kafka, group_id=None, isolation_level="read_committed")
    consumer.assign([TopicPartition(topic, 0)])
    assert [next(consumer).value for _ in range(3)] == [b"0", b"2", b"4"]
    consumer.close()
    assert values(kafka, topic, committed=False) == [b"%d" % number for number in range(6)]


def test_a_zombie_is_fenced(kafka: str, topic: str) -> None:
    zombie = producer_of(kafka, topic)
    zombie.begin_transaction()
    zombie.send(topic, b"zombie").get(SECONDS_MAX)
    successor = producer_of(kafka, topic)
    with pytest.raises(KafkaError):
        zombie.commit_transaction()
    successor.begin_transaction()
    successor.send(topic, b"successor").get(SECONDS_MAX)
    successor.commit_transaction()
    for producer in (zombie, successor):
        producer.close(SECONDS_MAX)
    assert values(kafka, topic) == [b"successor"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_go_with_the_transaction(kafka: str, topic: str, commit: bool) -> None:
    place = TopicPartition(topic, 0)
    producer = producer_of(kafka, topic)
    producer.begin_transaction()
    producer.send(topic, b"0").get(SECONDS_MAX)
    group = ConsumerGroupMetadata(topic, -1, "", None)
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(1, "", -1)}, group)
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    producer.close(SECONDS_MAX)
    consumer = consumer_of(kafka, group_id=topic)
    assert consumer.committed(place) == (1 if commit else None)
    consumer.close()
