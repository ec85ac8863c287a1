"""What the indexes need of a batch's records, without making them."""

from __future__ import annotations

from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.body import record_bytes
from stratamq.wire.kafka.records.compression import Scratch
from stratamq.wire.kafka.records.entries import BatchScan
from stratamq.wire.kafka.records.header import BatchHeader
from stratamq.wire.kafka.records.layout import Buffer

key_hash = _kernel.key_hash
"""FNV-1a 64 of a key or tag: what its entries are found by."""


def scan_batch(
    header: BatchHeader,
    data: Buffer,
    *,
    keys: bool,
    tags: bool,
    decompressed_max: int,
    consecutive: bool = False,
    scratch: Scratch | None = None,
) -> BatchScan:
    """Walk every record. Anything that does not add up raises CorruptBatch.

    With `consecutive` (a batch from a producer) offset deltas must be 0, 1, 2, ...; without it they
    may have holes, as compaction leaves them.
    """
    body = record_bytes(header, data, decompressed_max, scratch)
    packed_keys, packed_tags, max_timestamp, null_keys = _kernel.scan_records(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
        consecutive,
        keys,
        tags,
    )
    if header.uses_log_append_time or not header.record_count:
        max_timestamp = header.max_timestamp
    return BatchScan(packed_keys, packed_tags, TimestampMs(max_timestamp), null_keys)
