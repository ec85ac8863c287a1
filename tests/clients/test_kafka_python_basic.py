"""kafka-python, without groups. It uses fetch sessions and the newest Metadata."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

SECONDS_MAX = 20
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def consumed(kafka: str, topic: str, count: int, **config: object) -> list[object]:
    consumer = KafkaConsumer(
        bootstrap_servers=kafka,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS_MAX * 1000,
        **config,
    )
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = []
    for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out(kafka: str, topic: str, codec: str | None) -> None:
    values = [f"value {number}".encode() * 10 for number in range(300)]
    producer = KafkaProducer(
        bootstrap_servers=kafka, compression_type=codec, linger_ms=5, enable_idempotence=False
    )
    sent = [producer.send(topic, value, key=b"k", headers=[("h", b"1")]) for value in values]
    producer.flush(SECONDS_MAX)
    assert [future.get(SECONDS_MAX).offset for future in sent] == list(range(300))
    producer.close(SECONDS_MAX)
    found = consumed(kafka, topic, 300)
    assert [message.value for message in found] == values
    assert {(message.key, tuple(message.headers)) for message in found} == {(b"k", (("h", b"1"),))}


def test_a_session_goes_on_while_records_come(kafka: str, topic: str) -> None:
    """Incremental fetches: after the first answer the client says only what changed."""
    producer = KafkaProducer(bootstrap_servers=kafka, enable_idempotence=False)
    producer.send(topic, b"0").get(SECONDS_MAX)
    consumer = KafkaConsumer(
        bootstrap_servers=kafka, group_id=None, consumer_timeout_ms=SECONDS_MAX * 1000
    )
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    for number in range(20):
        assert next(consumer).value == b"%d" % number
        producer.send(topic, b"%d" % (number + 1)).get(SECONDS_MAX)
    consumer.close()
    producer.close(SECONDS_MAX)


def test_offsets_at_both_ends_and_by_time(kafka: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, enable_idempotence=False)
    for stamp in (1000, 2000, 3000):
        producer.send(topic, b"v", timestamp_ms=stamp).get(SECONDS_MAX)
    producer.close(SECONDS_MAX)
    consumer = KafkaConsumer(bootstrap_servers=kafka, group_id=None)
    place = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 3}
    found = consumer.offsets_for_times({place: 1500})[place]
    assert (found.offset, found.timestamp) == (1, 2000)
    assert consumer.offsets_for_times({place: 3001})[place] is None
    consumer.close()
