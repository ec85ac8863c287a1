"""The few changes a batch may see: its offset, its timestamp, its codec, records removed."""

from __future__ import annotations

from collections.abc import Collection

from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.batch import BatchHeader, read_header
from stratamq.wire.kafka.records.compression import Compression, compress
from stratamq.wire.kafka.records.decode import DECOMPRESSED_MAX, deltas_of, record_bytes
from stratamq.wire.kafka.records.encode import assemble
from stratamq.wire.kafka.records.layout import (
    CHECKED,
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    Buffer,
)

move_batch = _kernel.place
"""The batch at its final offset and epoch, and nothing else changed: see `place_batch`."""


def place_batch(
    header: BatchHeader,
    data: Buffer,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    append_time_ms: int | None = None,
    max_timestamp: int | None = None,
) -> tuple[BatchHeader, tuple[Buffer, ...]]:
    """The batch at its final offset and epoch, its bytes in one part or in two. Both lie outside
    the CRC, so a large batch is not even copied: its second part is a view of `data`.

    `append_time_ms` stamps the whole batch with the node's time (LogAppendTime). `max_timestamp`
    sets right what a producer got wrong. Only these two cost a CRC.
    """
    if append_time_ms is not None:
        attributes, stamp = header.attributes | LOG_APPEND_TIME_BIT, append_time_ms
    else:
        attributes = header.attributes
        stamp = header.max_timestamp if max_timestamp is None else max_timestamp
    if stamp != header.max_timestamp or attributes != header.attributes:
        changed = header._replace(attributes=attributes, max_timestamp=TimestampMs(stamp))
        body = memoryview(data)[HEADER_BYTES : header.size_bytes]
        batch = assemble(base_offset, leader_epoch, _checked(changed), body)
        return read_header(batch), (batch,)
    return move_batch(header, data, base_offset, leader_epoch)


def as_create_time(header: BatchHeader, data: Buffer) -> bytes:
    """The batch at the start of `data`, with the records' own timestamps instead of the one in its
    header."""
    changed = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME_BIT)
    body = memoryview(data)[HEADER_BYTES : header.size_bytes]
    return assemble(header.base_offset, header.leader_epoch, _checked(changed), body)


def _checked(header: BatchHeader) -> bytes:
    return CHECKED.pack(*header[5:])


def drop_records(
    header: BatchHeader,
    data: Buffer,
    offsets: Collection[int],
    decompressed_max: int = DECOMPRESSED_MAX,
) -> bytes | None:
    """The batch without the records at `offsets`: None when none is left, `data` when none went.

    All else stays as it was, base and last offset too: the batch keeps its place in the log. Only
    the largest timestamp is that of the records that are left, as in Kafka.
    """
    deltas = deltas_of(header, offsets)
    if not deltas:
        return _whole(header, data)
    body = record_bytes(header, data, decompressed_max)
    kept, count = _kernel.drop_deltas(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        deltas,
    )
    if count == header.record_count:
        return _whole(header, data)
    if not count:
        return None
    stamp = header.max_timestamp
    if not header.uses_log_append_time:
        last, base = header.last_offset_delta, header.base_timestamp
        scan = _kernel.scan_records(kept, 0, len(kept), count, last, base, False, False, False)
        stamp = TimestampMs(scan[2])
    checked = _checked(header._replace(record_count=count, max_timestamp=stamp))
    packed = compress(header.compression, kept)
    return assemble(header.base_offset, header.leader_epoch, checked, packed)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without any record: what is left is its producer's sequence, and its offsets."""
    attributes = header.attributes & ~CODEC_MASK
    checked = _checked(header._replace(attributes=attributes, record_count=0))
    return assemble(header.base_offset, header.leader_epoch, checked, b"")


def _whole(header: BatchHeader, data: Buffer) -> bytes:
    if isinstance(data, bytes) and len(data) == header.size_bytes:
        return data
    return bytes(memoryview(data)[: header.size_bytes])


def recompress(
    header: BatchHeader, data: Buffer, codec: Compression, decompressed_max: int
) -> bytes:
    """The batch at the start of `data`, packed by another codec. All else stays as it was.

    It gets a new CRC: the caller has checked the old one.
    """
    body = record_bytes(header, data, decompressed_max)
    records = memoryview(body.data)[body.start : body.stop]
    changed = header._replace(attributes=header.attributes & ~CODEC_MASK | codec)
    packed = compress(codec, records) if codec else records
    return assemble(header.base_offset, header.leader_epoch, _checked(changed), packed)
