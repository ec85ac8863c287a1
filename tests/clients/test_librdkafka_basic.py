"""confluent-kafka (librdkafka), without groups: produce, consume by assignment, look at offsets."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.waiting import let_run_here, wait_until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SECONDS_MAX = 20

YESTERDAY_MS = (int(time.time()) - 86_400) * 1000
"""The producer's own time, but no older than retention: that would delete the records."""


def produced(kafka: str, messages: Sequence[dict[str, object]], **config: object) -> list[Message]:
    """Produce and wait; the messages as they were acknowledged."""
    done: list[Message] = []

    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        done.append(message)

    settings = {name.replace("_", "."): value for name, value in config.items()}
    with Producer({"bootstrap.servers": kafka, "linger.ms": 5, **settings}) as producer:
        for message in messages:
            producer.produce(**message, on_delivery=note)
        assert producer.flush(SECONDS_MAX) == 0
    return done


def consumer_of(kafka: str, **config: object) -> Consumer:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            **settings,
        }
    )


def consumed(
    kafka: str, places: Sequence[TopicPartition], count: int, **config: object
) -> list[Message]:
    consumer = consumer_of(kafka, **config)
    consumer.assign(list(places))
    found: list[Message] = []

    def has_all() -> bool:
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) >= count

    wait_until(has_all, lambda: f"{len(found)} of {count}")
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out(kafka: str, topic: str, codec: str) -> None:
    values = [f"value {number}".encode() * 10 for number in range(500)]
    sent = produced(
        kafka, [{"topic": topic, "value": value} for value in values], compression_type=codec
    )
    assert sorted(message.offset() for message in sent) == list(range(500))
    found = consumed(kafka, [TopicPartition(topic, 0, OFFSET_BEGINNING)], 500)
    assert [message.value() for message in found] == values
    assert [message.offset() for message in found] == list(range(500))


def test_keys_headers_nulls_and_timestamps_survive(kafka: str, topic: str) -> None:
    messages = [
        {"key": b"k", "value": b"v", "headers": [("h", b"1"), ("h", None), ("e", b"")]},
        {"key": None, "value": b""},
        {"key": b"", "value": None},
        {"key": bytes(range(256)), "value": bytes(range(256)), "headers": []},
    ]
    stamps = [YESTERDAY_MS + number for number in range(4)]
    produced(
        kafka,
        [
            {"topic": topic, "timestamp": stamp, **message}
            for stamp, message in zip(stamps, messages, strict=True)
        ],
    )
    found = consumed(kafka, [TopicPartition(topic, 0, OFFSET_BEGINNING)], 4)
    assert [message.key() for message in found] == [message["key"] for message in messages]
    assert [message.value() for message in found] == [message["value"] for message in messages]
    assert [message.headers() or [] for message in found] == [
        message.get("headers", []) for message in messages
    ]
    assert [message.timestamp() for message in found] == [
        (TIMESTAMP_CREATE_TIME, stamp) for stamp in stamps
    ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(kafka: str, topic: str, acks: str) -> None:
    consumed_before = produced(kafka, [{"topic": topic, "value": b"first"}])
    assert consumed_before[0].offset() == 0
    produced(kafka, [{"topic": topic, "value": b"%d" % n} for n in range(100)], acks=acks)
    found = consumed(kafka, [TopicPartition(topic, 0, 1)], 100)
    assert [message.value() for message in found] == [b"%d" % n for n in range(100)]


def test_a_megabyte_is_taken_and_more_is_refused(kafka: str, topic: str) -> None:
    big = b"x" * 900_000
    produced(kafka, [{"topic": topic, "value": big}])
    assert consumed(kafka, [TopicPartition(topic, 0, 0)], 1)[0].value() == big
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        produced(
            kafka, [{"topic": topic, "value": big + big}], message_max_bytes=4_000_000, retries=0
        )


def test_a_batch_larger_than_every_limit_of_the_consumer_still_comes(
    kafka: str, topic: str
) -> None:
    produced(kafka, [{"topic": topic, "value": b"x" * 500_000}, {"topic": topic, "value": b"y"}])
    limits = {"fetch_max_bytes": 1000, "max_partition_fetch_bytes": 1000, "message_max_bytes": 1000}
    found = consumed(kafka, [TopicPartition(topic, 0, 0)], 2, **limits)
    assert [len(message.value() or b"") for message in found] == [500_000, 1]


def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_there(kafka: str, topic: str) -> None:
    produced(kafka, [{"topic": topic, "value": b"0"}])
    consumer = consumer_of(kafka, fetch_wait_max_ms=200_000, socket_timeout_ms=300_000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(SECONDS_MAX) is not None
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    producer.list_topics(topic, SECONDS_MAX)
    let_run_here(0.3)  # the consumer is in its long poll now
    producer.produce(topic, b"1")
    producer.flush(SECONDS_MAX)
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    producer.close()
    assert message is not None, "it waited for the end of its poll"
    assert message.value() == b"1"


def test_offsets_by_time_and_at_both_ends(kafka: str, topic: str) -> None:
    start = YESTERDAY_MS
    produced(
        kafka,
        [{"topic": topic, "value": b"v", "timestamp": start + 1000 * n} for n in range(10)],
    )
    consumer = consumer_of(kafka)
    place = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(place, SECONDS_MAX) == (0, 10)
    asked = {start: 0, start + 1: 1, start + 9000: 9, start + 9001: -1, 0: 0}
    for stamp, offset in asked.items():
        found = consumer.offsets_for_times([TopicPartition(topic, 0, stamp)], SECONDS_MAX)
        assert found[0].offset == offset, stamp
    consumer.close()
    with AdminClient({"bootstrap.servers": kafka}) as admin:
        largest = admin.list_offsets({place: OffsetSpec.max_timestamp()})[place].result(SECONDS_MAX)
    assert (largest.offset, largest.timestamp) == (9, start + 9000)


def test_out_of_range_is_told(kafka: str, topic: str) -> None:
    produced(kafka, [{"topic": topic, "value": b"v"}])
    consumer = consumer_of(kafka, auto_offset_reset="error")
    consumer.assign([TopicPartition(topic, 0, 1000)])
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_metadata_names_the_node_and_refuses_bad_names(kafka: str, topic: str) -> None:
    produced(kafka, [{"topic": topic, "value": b"v"}])
    with AdminClient({"bootstrap.servers": kafka}) as admin:
        seen = admin.list_topics(timeout=SECONDS_MAX)
        bad = admin.list_topics("no such name!", SECONDS_MAX).topics["no such name!"]
    assert topic in seen.topics
    assert [f"{one.host}:{one.port}" for one in seen.brokers.values()] == [kafka]
    assert bad.error is not None
    assert bad.error.code() == KafkaError.TOPIC_EXCEPTION
