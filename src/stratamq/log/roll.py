"""When a segment is full. Every store asks this one function, so they roll at the same batch."""

from __future__ import annotations

from stratamq.model.topic import TopicConfig


def must_roll(
    size_bytes: int,
    first_timestamp: int,
    batch_bytes: int,
    batch_timestamp: int,
    config: TopicConfig,
) -> bool:
    """Whether a segment must be sealed before a batch of `batch_bytes` goes in.

    An empty segment takes any batch: otherwise one that is larger than `segment.bytes` would never
    find a place. Age is what lies between the records' own timestamps, as in Kafka: by the wall
    clock, a backfill of old records would seal a segment with every batch. Timestamps of -1 say
    nothing about age.
    """
    if not size_bytes:
        return False
    if size_bytes + batch_bytes > config.number("segment.bytes"):
        return True
    return first_timestamp >= 0 and batch_timestamp - first_timestamp > config.number("segment.ms")
