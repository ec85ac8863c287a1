"""What tests of transactions share: a node that looks at the clock often, and readers."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.waiting import wait_until

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

    def is_at_end() -> bool:
        message = consumer.poll(1)
        if message is None:
            return False
        error = message.error()
        if error is None:
            found.append(message.value() or b"")
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        return True

    try:
        wait_until(is_at_end, f"the end of {topic}")
    finally:
        consumer.close()
    return found
