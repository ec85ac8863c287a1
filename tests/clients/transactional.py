"""What tests of transactions share: a node that looks at the clock often, and readers."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

SECONDS_MAX = 30
FLAGS = (
    *("--transaction-abort-timed-out-transaction-cleanup-interval-ms", "100"),
    *("--group-initial-rebalance-delay-ms", "0", "--group-min-session-timeout-ms", "500"),
    *("--topic-flush", "os", "--log-level", "warning"),
)


def values(kafka: str, topic: str, *, committed: bool = True, partition: int = 0) -> list[bytes]:
    """Everything a consumer gets to see, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    raise AssertionError(f"no end of {topic} within {SECONDS_MAX} s")
