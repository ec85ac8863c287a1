"""confluent-kafka (librdkafka): transactions, offsets in them, fencing, time-outs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.node import Node, running
from tests.clients.transactional import FLAGS, SECONDS_MAX, values
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("transactions"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


def producer_of(kafka: str, name: str, **config: object) -> Producer:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name, **settings})
    producer.init_transactions(SECONDS_MAX)
    return producer


def test_what_is_committed_is_read_and_what_is_aborted_is_not(kafka: str, topic: str) -> None:
    producer = producer_of(kafka, topic)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        if number % 2:
            producer.flush(SECONDS_MAX)  # else librdkafka drops what it has not sent yet
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    assert values(kafka, topic) == [b"0", b"2", b"4"]
    assert values(kafka, topic, committed=False) == [b"%d" % number for number in range(6)]


def test_an_open_transaction_holds_back_what_comes_after_it(kafka: str, topic: str) -> None:
    plain = Producer({"bootstrap.servers": kafka})
    producer = producer_of(kafka, topic)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    assert producer.flush(SECONDS_MAX) == 0
    plain.produce(topic, b"b")
    assert plain.flush(SECONDS_MAX) == 0
    assert values(kafka, topic) == []
    assert values(kafka, topic, committed=False) == [b"a", b"b"]
    producer.commit_transaction(SECONDS_MAX)
    assert values(kafka, topic) == [b"a", b"b"]


def test_a_zombie_is_fenced(kafka: str, topic: str) -> None:
    zombie = producer_of(kafka, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    assert zombie.flush(SECONDS_MAX) == 0
    successor = producer_of(kafka, topic)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(SECONDS_MAX)
    assert caught.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    successor.produce(topic, b"successor")
    successor.commit_transaction(SECONDS_MAX)
    assert values(kafka, topic) == [b"successor"]


def test_a_transaction_past_its_time_is_aborted(kafka: str, topic: str) -> None:
    producer = producer_of(kafka, topic, transaction_timeout_ms=1000, message_timeout_ms=1000)
    producer.begin_transaction()
    producer.produce(topic, b"late")
    assert producer.flush(SECONDS_MAX) == 0
    plain = Producer({"bootstrap.servers": kafka})
    plain.produce(topic, b"behind")
    assert plain.flush(SECONDS_MAX) == 0
    wait_until(lambda: values(kafka, topic) == [b"behind"])
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS_MAX)


def test_a_time_that_is_too_long_is_refused(kafka: str, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": topic,
            "transaction.timeout.ms": 900_001,
        }
    )
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(SECONDS_MAX)
    assert caught.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_go_with_the_transaction(kafka: str, topic: str, commit: bool) -> None:
    producer = producer_of(kafka, topic)
    producer.begin_transaction()
    producer.produce(topic, b"0")
    producer.commit_transaction(SECONDS_MAX)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(SECONDS_MAX) is not None
    place = TopicPartition(topic, 0)
    producer.begin_transaction()
    at = consumer.position([place])
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), SECONDS_MAX)
    with pytest.raises(KafkaException):  # it asks again until its time is over
        consumer.committed([place], 0.5)
    if commit:
        producer.commit_transaction(SECONDS_MAX)
    else:
        producer.abort_transaction(SECONDS_MAX)
    (found,) = consumer.committed([place], SECONDS_MAX)
    assert found.offset == (1 if commit else -1001)
    consumer.close()
