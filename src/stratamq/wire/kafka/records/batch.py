"""A batch from outside: reading its header, checking it, and the tuples in which kernels describe
it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratamq.model.errors import BatchTooLarge, CorruptBatch, UnsupportedFormat
from stratamq.model.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records.compression import EXPANSION_MAX, Compression, codec_of
from stratamq.wire.kafka.records.layout import (
    BATCH_LENGTH_MIN,
    CHECKED_AT,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    Buffer,
)

ENTRY_BYTES = 12
"""A packed entry: FNV-1a 64 of the key or tag, then the offset delta (u32), both big-endian."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order."""

    base_offset: Offset
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: TimestampMs
    max_timestamp: TimestampMs
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def size_bytes(self) -> int:
        """The whole batch, with the 12 bytes that its own length does not count."""
        return self.batch_length + LENGTH_END

    @property
    def compression(self) -> Compression:
        return codec_of(self.attributes)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def uses_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)


class BatchSpan(NamedTuple):
    """Where one whole batch lies in a buffer, and which offsets it covers."""

    position: int
    size: int
    base_offset: Offset
    last_offset: Offset
    max_timestamp: TimestampMs


class BatchScan(NamedTuple):
    """`keys` and `tags` are packed entries in record order; `max_timestamp` is the true one."""

    keys: bytes
    tags: bytes
    max_timestamp: TimestampMs
    null_keys: bool


EMPTY_SCAN = BatchScan(b"", b"", NO_TIMESTAMP, False)


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Neither the CRC nor the presence of the records is checked."""
    if not 0 <= position <= len(data) - HEADER_BYTES:
        # Old messages may be shorter than our header; their senders deserve the right error.
        if 0 <= position < len(data) - MAGIC_AT and data[position + MAGIC_AT] in (0, 1):
            raise UnsupportedFormat(f"message format {data[position + MAGIC_AT]} is not served")
        raise CorruptBatch(f"{len(data) - position} bytes are too few for a batch header")
    header = BatchHeader._make(HEADER.unpack_from(data, position))
    if header.magic != MAGIC:
        raise UnsupportedFormat(f"message format {header.magic} is not served, only {MAGIC}")
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatch(f"a batch length of {header.batch_length} is less than its header")
    return header


def check_crc(data: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch at `position` is there as a whole and carries the CRC of its bytes."""
    end = position + header.batch_length + LENGTH_END
    if end > len(data):
        return False
    return crc32c(memoryview(data)[position + CHECKED_AT : end]) == header.crc


def check_batch(data: Buffer, max_bytes: int) -> BatchHeader:
    """Check everything about a producer's batch that shows without walking its records.

    `data` must be exactly one batch.
    """
    if len(data) > max_bytes:
        raise BatchTooLarge(f"a batch of {len(data)} bytes is over the limit of {max_bytes}")
    header = read_header(data)
    if header.batch_length + LENGTH_END != len(data):
        raise CorruptBatch(
            f"a batch that says it has {header.size_bytes} bytes came with {len(data)}"
        )
    if crc32c(memoryview(data)[CHECKED_AT:]) != header.crc:
        raise CorruptBatch("the batch does not match its CRC")
    count = header.record_count
    if count <= 0:
        raise CorruptBatch(f"a batch of {count} records")
    if header.last_offset_delta != count - 1:
        raise CorruptBatch(f"{count} records cannot end at offset delta {header.last_offset_delta}")
    payload = header.batch_length - BATCH_LENGTH_MIN
    if count * RECORD_BYTES_MIN > payload * EXPANSION_MAX[codec_of(header.attributes)]:
        raise CorruptBatch(f"{count} records cannot lie in {payload} bytes")
    return header


def iter_batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch with its bytes. CorruptBatch when something else lies between or after them."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = read_header(view, position)
        end = position + header.size_bytes
        if end > len(view):
            raise CorruptBatch(f"the batch at byte {position} is cut off")
        yield header, view[position:end]
        position = end
