"""Apache Kafka's Java client, without groups: produce, consume by assignment, look at offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.clients.remote import Remote, RemoteError, as_text

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
POLLS_MAX = 100
YESTERDAY_MS = (int(time.time()) - 86_400) * 1000
"""The producer's own time, but no older than retention: that would delete the records."""


def produced(
    java: Remote, kafka: str, topic: str, records: Sequence[dict[str, object]], **config: str
) -> list[list[int]]:
    """Partition, offset and timestamp of each, as they were acknowledged. Idempotent by default."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    java.call(
        "producer",
        name="p",
        config={"bootstrap.servers": kafka, **settings},
    )
    try:
        return list(java.call("send", name="p", topic=topic, records=records))
    finally:
        java.call("close-producer", name="p")


def consumed(
    java: Remote, kafka: str, topic: str, count: int, **config: str
) -> list[dict[str, Any]]:
    """The first so many records of partition 0, and what else came with them."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    java.call("consumer", name="c", config={"bootstrap.servers": kafka, **settings})
    try:
        java.call("assign", name="c", topic=topic, partitions=[0])
        found: list[dict[str, Any]] = []
        for _ in range(POLLS_MAX):
            if len(found) >= count:
                break
            found += java.call("poll", name="c")
        return found
    finally:
        java.call("close-consumer", name="c")


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out(java: Remote, kafka: str, topic: str, codec: str) -> None:
    values = [f"value {number} " * 10 for number in range(500)]
    places = produced(
        java, kafka, topic, [{"value": value} for value in values], compression_type=codec
    )
    assert [offset for _, offset, _ in places] == list(range(500))
    found = consumed(java, kafka, topic, 500)
    assert [one["value"] for one in found] == values
    assert [one["offset"] for one in found] == list(range(500))


def test_keys_headers_nulls_and_timestamps_survive(java: Remote, kafka: str, topic: str) -> None:
    every_byte = as_text(bytes(range(256)))
    records: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "headers": [["h", "1"], ["h", None], ["e", ""]]},
        {"key": None, "value": "", "headers": []},
        {"key": "", "value": None, "headers": []},
        {"key": every_byte, "value": every_byte, "headers": []},
    ]
    for number, record in enumerate(records):
        record["timestamp"] = YESTERDAY_MS + number
    produced(java, kafka, topic, records)
    found = consumed(java, kafka, topic, len(records))
    assert [{name: one[name] for name in records[0]} for one in found] == records


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(java: Remote, kafka: str, topic: str, acks: str) -> None:
    produced(java, kafka, topic, [{"value": "first"}])
    produced(java, kafka, topic, [{"value": str(number)} for number in range(100)], acks=acks)
    found = consumed(java, kafka, topic, 101)
    assert [one["value"] for one in found] == ["first", *map(str, range(100))]


def test_more_than_a_topic_takes_is_refused(java: Remote, kafka: str, topic: str) -> None:
    with pytest.raises(RemoteError) as refused:
        produced(java, kafka, topic, [{"value": "x" * 2_000_000}], max_request_size="4000000")
    assert refused.value.kind == "RecordTooLargeException"


def test_a_batch_larger_than_the_consumers_limits_still_comes(
    java: Remote, kafka: str, topic: str
) -> None:
    produced(java, kafka, topic, [{"value": "x" * 500_000}])
    produced(java, kafka, topic, [{"value": "y"}])
    limits = {"fetch_max_bytes": "1000", "max_partition_fetch_bytes": "1000"}
    found = consumed(java, kafka, topic, 2, **limits)
    assert [len(one["value"]) for one in found] == [500_000, 1]


def test_offsets_by_time_and_at_both_ends(java: Remote, kafka: str, topic: str) -> None:
    produced(
        java,
        kafka,
        topic,
        [{"value": "v", "timestamp": YESTERDAY_MS + 1000 * number} for number in range(10)],
    )
    java.call("consumer", name="c", config={"bootstrap.servers": kafka})
    asked = {YESTERDAY_MS: 0, YESTERDAY_MS + 1: 1, YESTERDAY_MS + 9001: None}
    for stamp, offset in asked.items():
        found = java.call("offsets", name="c", topic=topic, partitions=[0], timestamp=stamp)
        assert found == [0, 10, offset]
    java.call("close-consumer", name="c")


def test_a_bad_name_is_refused(java: Remote, kafka: str, new_topic: Callable[[], str]) -> None:
    with pytest.raises(RemoteError) as refused:
        produced(java, kafka, f"{new_topic()} no!", [{"value": "v"}], max_block_ms="5000")
    assert refused.value.kind == "InvalidTopicException"
