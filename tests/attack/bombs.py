"""Batches that cost more than they weigh."""

from __future__ import annotations

from functools import cache

from stratamq.model.record import Record
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.records import Compression, encode_batch

MIB = 1 << 20


@cache
def bomb(unpacked_bytes: int, codec: Compression = Compression.ZSTD) -> bytes:
    """A few bytes that unpack to one large value."""
    return encode_batch([Record(value=bytes(unpacked_bytes))], now_ms=1000, compression=codec)


@cache
def swarm(records: int, codec: Compression = Compression.ZSTD, keyed: bool = True) -> bytes:
    """As many records as possible in few bytes."""
    one = Record(value=b"", key=b"k" if keyed else None)
    return encode_batch([one] * records, now_ms=1000, compression=codec)


def small(value: bytes) -> bytes:
    return encode_batch([Record(value=value)], now_ms=1000)


def produce(*batches: bytes | tuple[int, bytes], topic: str = "t", acks: int = 1) -> ProduceRequest:
    """To partition 0, or to the one that is said."""
    placed = [one if isinstance(one, tuple) else (0, one) for one in batches]
    parts = [PartitionProduceData(index=index, records=data) for index, data in placed]
    data = [TopicProduceData(name=topic, partition_data=parts)]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=data)
