"""Where a batch's records are, unpacked."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.errors import CorruptBatch
from stratamq.wire.kafka.records.compression import Scratch, decompress
from stratamq.wire.kafka.records.header import BatchHeader
from stratamq.wire.kafka.records.layout import CODEC_MASK, HEADER_BYTES, LENGTH_END, Buffer

DECOMPRESSED_MAX = 1 << 26
"""Where no config speaks: 64 times the largest batch that is accepted by default."""


class Body(NamedTuple):
    """The records lie in data[start:stop]."""

    data: Buffer
    start: int
    stop: int


def record_bytes(
    header: BatchHeader, data: Buffer, decompressed_max: int, scratch: Scratch | None = None
) -> Body:
    """The records of the batch at the start of `data`, in place when they are not compressed."""
    size = header.batch_length + LENGTH_END
    if size > len(data):
        raise CorruptBatch(f"a batch of {size} bytes is cut off at {len(data)}")
    if not header.attributes & CODEC_MASK:
        return Body(data, HEADER_BYTES, size)
    packed = memoryview(data)[HEADER_BYTES:size]
    unpacked = decompress(header.compression, packed, decompressed_max, scratch)
    return Body(unpacked, 0, len(unpacked))
