"""Batches whose headers say about timestamps what a producer likes."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.model.record import TAG_HEADER, Record
from stratamq.wire.kafka.records import Compression, compress
from stratamq.wire.kafka.records.encode import assemble
from stratamq.wire.kafka.records.layout import CHECKED, LOG_APPEND_TIME_BIT
from tests.wire.oracle import PlainRecord, encode_record


def lying_batch(
    records: Sequence[Record],
    *,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    log_append_time: bool = False,
    compression: Compression = Compression.NONE,
) -> bytes:
    """Records with just their timestamps, -1 too, and a header with these. Its CRC is right."""
    body = b"".join(
        encode_record(
            PlainRecord(
                one.key,
                one.value,
                [*one.headers, *((TAG_HEADER, tag) for tag in one.tags)],
                one.timestamp,
                offset,
            ),
            0,
            base_timestamp,
        )
        for offset, one in enumerate(records)
    )
    checked = CHECKED.pack(
        compression | (LOG_APPEND_TIME_BIT if log_append_time else 0),
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        *(-1, -1, -1),
        len(records),
    )
    return assemble(0, -1, checked, compress(compression, body) if compression else body)
