"""Records out of a batch: where they lie, unpacked, and as values."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.batch import BatchHeader
from stratamq.wire.kafka.records.compression import Scratch, decompress
from stratamq.wire.kafka.records.layout import CODEC_MASK, HEADER_BYTES, LENGTH_END, Buffer

DECOMPRESSED_MAX = 1 << 26
"""Where no config says otherwise: 64 times the largest batch that is accepted by default."""


class UnpackedRecords(NamedTuple):
    """The records lie in data[start:stop]."""

    data: Buffer
    start: int
    stop: int


def record_bytes(
    header: BatchHeader, data: Buffer, decompressed_max: int, scratch: Scratch | None = None
) -> UnpackedRecords:
    """The records of the batch at the start of `data`, in place when they are not compressed."""
    size = header.batch_length + LENGTH_END
    if size > len(data):
        raise CorruptBatch(f"a batch of {size} bytes is cut off at {len(data)}")
    if not header.attributes & CODEC_MASK:
        return UnpackedRecords(data, HEADER_BYTES, size)
    packed = memoryview(data)[HEADER_BYTES:size]
    unpacked = decompress(header.compression, packed, decompressed_max, scratch)
    return UnpackedRecords(unpacked, 0, len(unpacked))


def decode_batch(
    header: BatchHeader, data: Buffer, decompressed_max: int = DECOMPRESSED_MAX
) -> list[Record]:
    """All records, with their offsets. CorruptBatch or BatchTooLarge when that cannot be."""
    return _decode(header, data, decompressed_max, None)


def decode_some(
    header: BatchHeader,
    data: Buffer,
    offsets: Collection[int],
    decompressed_max: int = DECOMPRESSED_MAX,
) -> list[Record]:
    """Those records of the batch whose offsets are given, in order; the others are hopped over.

    An offset that the batch does not hold is passed over in silence.
    """
    return _decode(header, data, decompressed_max, deltas_of(header, offsets))


def deltas_of(header: BatchHeader, offsets: Collection[int]) -> list[int]:
    """Those of `offsets` that can lie in the batch, as ascending deltas."""
    base, last = header.base_offset, header.last_offset
    return sorted({offset - base for offset in offsets if base <= offset <= last})


def _decode(
    header: BatchHeader, data: Buffer, decompressed_max: int, wanted: list[int] | None
) -> list[Record]:
    body = record_bytes(header, data, decompressed_max)
    return _kernel.decode_records(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.uses_log_append_time else None,
        wanted,
    )
