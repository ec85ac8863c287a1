"""Records out of a batch."""

from __future__ import annotations

from collections.abc import Collection

from stratamq.model.record import Record
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.body import DECOMPRESSED_MAX, record_bytes
from stratamq.wire.kafka.records.header import BatchHeader
from stratamq.wire.kafka.records.layout import Buffer


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
